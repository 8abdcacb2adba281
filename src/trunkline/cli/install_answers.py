"""The answers that an installation needs: from the command line, the environment, kept secrets, or a person."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from trunkline.cli.ask import answer
from trunkline.cli.manifest import plain
from trunkline.cli.output import say
from trunkline.cli.secret import ask_secret, here
from trunkline.errors import ConfigError
from trunkline.install.manifests.environment import check
from trunkline.install.manifests.manifest import Variable
from trunkline.install.marketplace.install import Installer


@dataclass
class Answers:
    """What an installation knows."""

    given: dict[str, str | list[str]] = field(default_factory=dict[str, str | list[str]])
    typed: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets to keep once somebody agreed."""
    missing: list[str] = field(default_factory=list[str])
    """What must be done before it can start."""


def find_answers(installer: Installer, server: str, options: argparse.Namespace, *, asks: bool) -> Answers:
    """What was given, what the machine knows, and what a person says; secrets become references."""
    answers = Answers()
    wanted = installer.questions()
    arguments = installer.arguments()
    given = _given(options, [one for one in wanted if one.name in arguments], wanted)
    for variable in wanted:
        if variable.name in installer.entry.env_args:
            _take_env_argument(variable, given.get(variable.name), answers)
        elif variable.secret:
            _take_secret(variable, server, given.get(variable.name), answers, asks=asks)
        else:
            _take(variable, given.get(variable.name), answers, argument=variable.name in arguments, asks=asks)
    return answers


def _given(options: argparse.Namespace, arguments: list[Variable], wanted: list[Variable]) -> dict[str, list[str]]:
    """Values from the command line by the names of questions; arguments without a name are taken in order."""
    found: dict[str, list[str]] = {}
    names = {one.name.lstrip("-"): one for one in wanted}
    loose: list[str] = [*options.values]
    for pair in options.env:
        name, mark, value = pair.partition("=")
        if not mark or name not in names:
            known = ", ".join(names) or "nothing"
            raise ConfigError("--env wants NAME=VALUE of what it asks for.", hint=f"It asks for: {known}.")
        found.setdefault(names[name].name, []).append(value)
    for text in options.arg:
        name, mark, value = text.partition("=")
        if mark and name.lstrip("-") in names:
            found.setdefault(names[name.lstrip("-")].name, []).append(value)
        else:
            loose.append(text)
    for variable in arguments:
        if loose and variable.name not in found:
            found[variable.name], loose = (loose, []) if variable.repeated else (loose[:1], loose[1:])
    if loose:
        raise ConfigError("There are more values than it takes.", hint="See `trunkline registry info ID`.")
    return found


def _take_env_argument(variable: Variable, said: list[str] | None, answers: Answers) -> None:
    if said and _has_password(said[0]):
        raise ConfigError(
            f"{variable.name} holds a password, which would stand in the configuration.",
            hint=f"Leave it out, and set the variable {variable.name} where Trunkline runs.",
        )
    if not said and not os.environ.get(variable.name):
        answers.missing.append(f"Set the variable {variable.name} where Trunkline runs.")
    answers.given[variable.name] = said or f"${{env:{variable.name}}}"


def _has_password(text: str) -> bool:
    try:
        return urlsplit(text).password is not None or "password" in text.lower()
    except ValueError:
        return True  # what cannot be read may hold anything


def _take_secret(variable: Variable, server: str, said: list[str] | None, answers: Answers, *, asks: bool) -> None:
    secret = f"{server}.{variable.name}"
    if said and not said[0].startswith("${"):
        raise ConfigError(
            f"{variable.name} is secret, and everyone on the machine can read a command's arguments.",
            hint=f"Leave it out here, and run `trunkline secret set {secret}`.",
        )
    if said:
        answers.given[variable.name] = said
    elif secret in here().names():
        answers.given[variable.name] = f"${{secret:{secret}}}"
    elif os.environ.get(variable.name):
        answers.given[variable.name] = f"${{env:{variable.name}}}"
    elif variable.required:
        value = ask_secret(f"{_question(variable)} (it is not shown): ") if asks else ""
        if value:
            answers.typed[secret] = value
        else:
            answers.missing.append(f"Keep its secret: trunkline secret set {secret}")
        answers.given[variable.name] = f"${{secret:{secret}}}"


def _take(variable: Variable, said: list[str] | None, answers: Answers, *, argument: bool, asks: bool) -> None:
    if said is None and not argument and os.environ.get(variable.name):
        said = [f"${{env:{variable.name}}}"]
    if said is None and variable.required and asks:
        said = _typed(variable)
    if said is None and variable.default and variable.required:
        said = [variable.default]
    if said is None and variable.required:
        if argument:
            raise ConfigError(f"It needs {variable.name}: {variable.description}.", hint="Write it after the id.")
        answers.missing.append(f"Set the variable {variable.name} where Trunkline runs.")
        said = [f"${{env:{variable.name}}}"]
    if said is not None:
        texts = [_absolute(text) if variable.format == "filepath" else text for text in said]
        answers.given[variable.name] = texts[0] if len(texts) == 1 else texts


def _typed(variable: Variable) -> list[str] | None:
    """A person's answer, asked again until it fits; nothing takes the default."""
    default = _absolute(variable.default) if variable.format == "filepath" and variable.default else variable.default
    while True:
        text = answer(f"{_question(variable)}{f' [{plain(default)}]' if default else ''}: ")
        problem = check(variable, text) if text else ""
        if not problem:
            return [text] if text else None
        say(plain(problem))


def _question(variable: Variable) -> str:
    return f"{plain(variable.description) or plain(variable.name)}"


def _absolute(text: str) -> str:
    return text if "${" in text else os.path.abspath(os.path.expanduser(text))
