"""The parts of questions and answers: options, fields, files and secrets."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any, Literal

FieldType = Literal["text", "number", "integer", "boolean", "select", "multiselect", "date", "password"]
TextFormat = Literal["", "email", "uri", "date", "date-time"]


class Secret:
    """A text that shows itself only to those who ask for it by `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash(self._text)

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("A secret is not written to files.")


@dataclass(frozen=True, slots=True)
class SelectOption:
    """One of the answers to choose from."""

    value: str
    label: str = ""
    """What a person reads; empty shows the value."""
    description: str = ""
    disabled: bool = False
    """Shown, but not to be chosen."""

    @property
    def title(self) -> str:
        """What a person reads."""
        return self.label or self.value


@dataclass(frozen=True, slots=True)
class FieldValidation:
    """What a field's answer must be like."""

    min: int | float | None = None
    """The least number; of a text its least length, of a multiselect the fewest choices."""
    max: int | float | None = None
    """The greatest number; of a text its greatest length, of a multiselect the most choices."""
    pattern: str = ""
    """A regular expression that the text must match somewhere; no lookaround and no back references."""
    message: str = ""
    """What a person reads when the answer does not fit."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    name: str
    label: str = ""
    type: FieldType = "text"
    required: bool = False
    default_value: Any = field(default=None, repr=False)
    options: tuple[SelectOption, ...] = ()
    validation: FieldValidation = FieldValidation()
    placeholder: str = ""
    description: str = ""
    format: TextFormat = ""
    """What kind of text is wanted."""

    def __post_init__(self) -> None:
        check_bounds(self.validation.min, self.validation.max, f"Field {self.name!r}")
        if self.type in ("select", "multiselect"):
            check_options(self.options, f"Field {self.name!r}")

    @property
    def title(self) -> str:
        """What a person reads."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that a person named; its content is not carried along."""

    name: str
    path: str = ""
    uri: str = ""
    size: int | None = None
    """Bytes, where known."""
    media_type: str = ""


def check_options(options: tuple[SelectOption, ...], owner: str) -> None:
    """Some option can be chosen, and each is there once."""
    values = [option.value for option in options]
    check(len(values) == len(set(values)), f"{owner} has two options of one value.")
    check(any(not option.disabled for option in options), f"{owner} has no option to choose.")


def check_bounds(least: float | None, most: float | None, owner: str) -> None:
    """The least is not above the most."""
    check(least is None or most is None or least <= most, f"{owner} wants at least more than at most.")


def check(right: bool, problem: str) -> None:
    """A question that is made wrongly is not made."""
    if not right:
        raise ValueError(problem)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
