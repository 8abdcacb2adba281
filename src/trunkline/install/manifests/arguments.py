"""The arguments of a command, word by word: never through a shell, and never with a secret among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trunkline.errors import ManifestError
from trunkline.install.manifests.environment import Value
from trunkline.install.manifests.manifest import Argument, Variable, substitute

ENV_FLAGS = ("-e", "--env")
"""Flags of `docker run` that hand over a variable; ours does it by name, so that the value is in no argument."""


def asked(variable: Variable) -> tuple[Variable, ...]:
    """What must be known to write it down: itself, or what its fixed value names."""
    if variable.value:
        return variable.used
    return () if is_switch(variable) else (variable,)


def is_switch(variable: Variable) -> bool:
    """Whether it is a flag that stands alone: a named argument about which a manifest says nothing else."""
    plain = Variable(variable.name, variable.description, repeated=variable.repeated)
    return variable.name.startswith("-") and variable == plain


def written(variable: Variable, values: Mapping[str, Value]) -> list[str]:
    """A variable's texts; none when it, or something that its value names, was left open."""
    if not variable.value:
        value = values.get(variable.name, ())
        return [value] if isinstance(value, str) else list(value)
    parts = {inner.name: _several(values.get(inner.name, ())) for inner in variable.used}
    if not parts:
        return [variable.value]
    most = max(len(texts) for texts in parts.values())
    uneven = [name for name, texts in parts.items() if len(texts) not in (0, 1, most)]
    if uneven:
        raise ManifestError(f"{variable.name} needs as many values of {uneven[0]} as of the others.")
    if not all(parts.values()):
        return []
    return [
        substitute(variable.value, {name: texts[min(at, len(texts) - 1)] for name, texts in parts.items()})
        for at in range(most)
    ]


def write_arguments(arguments: Iterable[Argument], values: Mapping[str, Value]) -> list[str]:
    """The words of arguments. A named one is `--flag=value`, so that no value can pass for another flag."""
    words: list[str] = []
    for argument in arguments:
        refuse_secret(argument)
        words += _write(argument, values)
    return words


def split_environment(
    arguments: Iterable[Argument], values: Mapping[str, Value]
) -> tuple[list[Argument], dict[str, str], list[str]]:
    """Take `-e NAME=value` out of arguments of `docker run`: what is left, the variables, the names to hand over."""
    left: list[Argument] = []
    variables: dict[str, str] = {}
    names: list[str] = []
    for argument in arguments:
        name, given, _ = argument.input.value.partition("=")
        if argument.flag not in ENV_FLAGS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            left.append(argument)
            continue
        texts = [text.partition("=")[2] for text in written(argument.input, values)] if given else []
        if texts:
            variables[name] = texts[-1]
        if texts or not given:
            names.append(name)
    return left, variables, names


def refuse_secret(argument: Argument) -> None:
    """ManifestError for an argument that would hold a secret."""
    if argument.input.secret or any(variable.secret for variable in argument.input.used):
        raise _shows(argument.flag or argument.input.name)


def _write(argument: Argument, values: Mapping[str, Value]) -> list[str]:
    flag, given = argument.flag, argument.input
    if flag and is_switch(given):
        return [flag]
    if flag and given.format == "boolean" and not given.value:
        return [flag] if "true" in written(given, values) else []
    words: list[str] = []
    for text in written(given, values):
        if "${secret" in text:
            raise _shows(flag or given.name)
        if flag.startswith("--"):
            words.append(f"{flag}={text}")
            continue
        _refuse_option(given, text)
        words += [flag, text] if flag else [text]
    return words


def _refuse_option(given: Variable, text: str) -> None:
    """What the manifest itself fixes may be an option; what somebody answered may not."""
    if not text.startswith("-") or given.value.startswith("-"):
        return
    if given.format == "number" and not given.value:
        return
    raise ManifestError(
        f"The value of {given.name} begins with a dash, and would be taken for an option.",
        hint="For a file, write ./ before it.",
    )


def _shows(name: str) -> ManifestError:
    return ManifestError(
        f"The argument {name} would hold a secret, and everyone on the machine can read a program's arguments.",
        hint="Give it as an environment variable, if the program takes one.",
    )


def _several(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
