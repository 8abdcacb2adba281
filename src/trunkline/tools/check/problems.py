"""Says what is wrong with arguments: which one breaks which rule, never what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from jsonschema_rs import ValidationError, ValidationErrorKind

LONGEST = 60
_LIMITS = {
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be more than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "minLength": "is shorter than",
    "maxLength": "is longer than",
    "minItems": "has fewer items than",
    "maxItems": "has more items than",
    "minProperties": "has fewer members than",
    "maxProperties": "has more members than",
}
_PLAIN = {
    "anyOf": "fits none of the allowed forms",
    "oneOf": "does not fit exactly one of the allowed forms",
    "not": "has a form that is not allowed",
    "uniqueItems": "has the same item twice",
    "contains": "lacks an item of the required form",
    "propertyNames": "has a member whose name is not allowed",
    "falseSchema": "is not allowed",
}


def in_words(error: ValidationError) -> str:
    """One problem, told by the schema's words and the arguments' names."""
    kind = error.kind
    match kind:
        case ValidationErrorKind.Required(name):
            return f"{_place([*error.instance_path, name])} is missing"
        case ValidationErrorKind.AdditionalProperties(names) | ValidationErrorKind.UnevaluatedProperties(names):
            return f"{_place([*error.instance_path, names[0]])} is not taken" if names else "a member is not taken"
        case ValidationErrorKind.Type(types):
            rule = f"must be of type {' or '.join(sorted(types, key=lambda name: (name == 'null', name)))}"
        case ValidationErrorKind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            rule = "has members that are not taken"
        case ValidationErrorKind.Enum(options):
            rule = f"must be one of {_shown(options)}"
        case ValidationErrorKind.Constant(value):
            rule = f"must be {_shown(value)}"
        case ValidationErrorKind.Pattern(pattern):
            rule = f"does not match the pattern {_shown(pattern)}"
        case _:
            rule = _limit(kind)
    return f"{_place(error.instance_path)} {rule}"


def named(name: str) -> str:
    """The name of an argument, so that it fits into a sentence."""
    return repr(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")


def _limit(kind: ValidationErrorKind) -> str:
    if kind.name in _LIMITS:
        return f"{_LIMITS[kind.name]} {_shown(kind.value)}"
    return _PLAIN.get(kind.name, f"breaks the rule {named(kind.name)}")


def _place(path: Sequence[str | int]) -> str:
    if not path:
        return "the whole"
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return named(shown.removeprefix("."))


def _shown(value: Any) -> str:
    # From the schema, which everybody may read; but somebody else wrote it, and it may be long.
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 2 * LONGEST else text[: 2 * LONGEST - 1] + "…"
