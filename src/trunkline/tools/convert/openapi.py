"""Gemini's part of OpenAPI: the keywords it shares with JSON Schema, and how it is read as such."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from trunkline.tools.convert.definition import as_object
from trunkline.tools.convert.loss import Ledger, Path
from trunkline.tools.convert.schemas import DEEPEST

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_FORMATS = {"date-time", "enum", "float", "double", "int32", "int64"}


def to_json_schema(schema: Any, ledger: Ledger, path: Path) -> dict[str, Any]:
    """A schema of Gemini's as JSON Schema."""
    if len(path) > DEEPEST:
        ledger.add(path, "dropped", "It is nested too deep.")
        return {}
    result: dict[str, Any] = {}
    for keyword, value in (as_object(schema) or {}).items():
        here = (*path, keyword)
        if keyword == "type" and isinstance(value, str) and value.lower() in TYPES:
            result[keyword] = value.lower()
        elif keyword == "properties":
            members = (as_object(value) or {}).items()
            result[keyword] = {name: to_json_schema(about, ledger, (*here, name)) for name, about in members}
        elif keyword == "items":
            result[keyword] = to_json_schema(value, ledger, here)
        elif keyword == "anyOf" and isinstance(value, list):
            branches = enumerate(cast(list[Any], value))
            result[keyword] = [to_json_schema(about, ledger, (*here, place)) for place, about in branches]
        elif keyword in ALIKE or keyword in ("enum", "required"):
            result[keyword] = value
        elif keyword != "nullable":
            ledger.add(here, "dropped", "It is no keyword of JSON Schema.")
    if (as_object(schema) or {}).get("nullable") is True:
        _admit_null(result)
    return result


def _admit_null(result: dict[str, Any]) -> None:
    if isinstance(result.get("enum"), list):
        result["enum"] = [*result["enum"], None]
    if isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    elif "anyOf" in result:
        result["anyOf"] = [*result["anyOf"], {"type": "null"}]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """A whole number, 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast(list[Any], value))


def _is_anything(value: Any) -> bool:
    return True


# Keywords that both sides write alike, and what their values look like.
ALIKE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "pattern"), _is_text),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), is_count),
    **dict.fromkeys(("default", "example"), _is_anything),
    "propertyOrdering": _is_list_of_texts,
    "format": lambda value: isinstance(value, str) and value in _FORMATS,
}
