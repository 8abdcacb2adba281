"""Where the values of a server's variables come from, and whether they are good; values show nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from trunkline.errors import ManifestError
from trunkline.install.manifests.manifest import Variable

Value = str | tuple[str, ...]
"""One value, or those of a variable that may be given several times."""
Origin = Literal["override", "secret", "configuration", "system", "default"]
Given = Mapping[str, Any]
"""Texts by name; numbers and booleans are taken as people write them."""

MASK = "***"


@dataclass(frozen=True)
class Resolved:
    """The values that were found, and what is wrong; who prints it sees no value."""

    values: Mapping[str, Value] = field(repr=False)
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    missing: tuple[str, ...] = ()
    """Required variables that have no value; an empty one is none."""
    wrong: tuple[str, ...] = ()
    """Sentences about values that do not fit; they do not repeat the value."""
    extra: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What was configured or overridden although nobody asked for it."""
    secret: frozenset[str] = frozenset()

    @property
    def problem(self) -> str:
        """Everything that is missing or wrong; empty when nothing is."""
        return " ".join([*([f"It needs {', '.join(self.missing)}."] if self.missing else ()), *self.wrong])

    def checked(self) -> Mapping[str, Value]:
        """The values; ManifestError that names everything that is missing or wrong."""
        if self.problem:
            raise ManifestError(self.problem, hint="Give it a value for each." if self.missing else "")
        return self.values

    def masked(self) -> dict[str, Value]:
        """The values for people to read; secrets are masked."""
        return {name: MASK if name in self.secret else value for name, value in self.values.items()}


def resolve(
    variables: Iterable[Variable],
    *,
    overrides: Given | None = None,
    secrets: Callable[[str], str | None] | None = None,
    configuration: Given | None = None,
    system: Mapping[str, str] | None = None,
) -> Resolved:
    """Find a value for each variable: an override, else a secret, else the configuration, else the system, if allowed.

    The manifest's own default comes last. Secrets and the system's variables are looked up by name, and only for
    variables that were asked for.
    """
    wanted = list(variables)
    values: dict[str, Value] = {}
    origins: dict[str, Origin] = {}
    missing: list[str] = []
    wrong: list[str] = []
    for variable in wanted:
        for origin, value in _candidates(variable, overrides or {}, secrets, configuration or {}, system):
            value = _texts(value)
            if value is None:
                wrong.append(f"{variable.name} must be a text, a number, true or false.")
                break
            if not value:
                continue
            problem = check(variable, value)
            if problem:
                wrong.append(problem)
            else:
                values[variable.name], origins[variable.name] = _normal(variable, value), origin
            break
        else:
            if variable.required:
                missing.append(variable.name)
    asked = {variable.name for variable in wanted}
    extra = {
        name: text
        for given in (configuration or {}, overrides or {})
        for name, value in given.items()
        if name not in asked and isinstance(text := _texts(value), str)
    }
    secret = frozenset(variable.name for variable in wanted if variable.secret)
    return Resolved(values, origins, tuple(missing), tuple(wrong), extra, secret)


def check(variable: Variable, value: Value) -> str:
    """What is wrong with a value, without repeating it; empty when nothing is."""
    texts = (value,) if isinstance(value, str) else value
    if len(texts) > 1 and not variable.repeated:
        return f"{variable.name} takes one value."
    for text in texts:
        if "\0" in text:
            return f"{variable.name} holds a zero byte."
        if "${" in text:
            continue  # a reference, whose value is known later
        if variable.choices and text not in variable.choices:
            return f"{variable.name} must be one of: {', '.join(variable.choices)}."
        if variable.format == "number" and not _is_number(text):
            return f"{variable.name} must be a number."
        if variable.format == "boolean" and text.lower() not in ("true", "false"):
            return f"{variable.name} must be true or false."
    return ""


def _candidates(
    variable: Variable,
    overrides: Given,
    secrets: Callable[[str], str | None] | None,
    configuration: Given,
    system: Mapping[str, str] | None,
) -> Iterable[tuple[Origin, Any]]:
    yield "override", overrides.get(variable.name)
    if secrets is not None:
        yield "secret", secrets(variable.name)
    yield "configuration", configuration.get(variable.name)
    if system is not None:
        yield "system", system.get(variable.name)
    yield "default", variable.default


def _texts(value: object) -> Value | None:
    """A value as text; `None` when it cannot be one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        texts = [_texts(one) for one in cast("Sequence[object]", value)]
        if all(isinstance(text, str) for text in texts):
            return tuple(cast("list[str]", [text for text in texts if text]))
    return None


def _normal(variable: Variable, value: Value) -> Value:
    """Booleans in lower case; several values only where several may be."""
    texts = (value,) if isinstance(value, str) else value
    if variable.format == "boolean":
        texts = tuple(text if "${" in text else text.lower() for text in texts)
    return texts[0] if len(texts) == 1 else texts


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text and text == text.strip()
    except ValueError:
        return False
