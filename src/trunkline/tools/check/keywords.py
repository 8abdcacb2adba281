"""Where a JSON Schema holds other schemas, and to which part of a value each of them applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

IN_PLACE = ("not", "if", "then", "else")
IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
ANY_MEMBER = ("additionalProperties", "unevaluatedProperties")
DEFINITIONS = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

HERE = ""
ITEM = "[]"
ANY = "*"
NAME = "{}"


_HOLDERS = frozenset(
    (
        "properties",
        "patternProperties",
        "propertyNames",
        *IN_PLACE,
        *IN_PLACE_LISTS,
        *IN_PLACE_MAPS,
        *ITEMS,
        *ANY_MEMBER,
    )
)


def parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas inside, each with the step to what it applies to; a member of a value is `.` and its name."""
    for keyword in _HOLDERS & schema.keys():
        value = schema[keyword]
        if keyword == "properties":
            yield from ((f".{name}", part) for name, part in _map(value).items())
        elif keyword == "patternProperties":
            yield from ((ANY, part) for part in _map(value).values())
        elif keyword in IN_PLACE:
            yield HERE, value
        elif keyword in IN_PLACE_LISTS:
            yield from ((HERE, part) for part in _list(value))
        elif keyword in IN_PLACE_MAPS:
            yield from ((HERE, part) for part in _map(value).values())
        elif keyword in ITEMS:
            yield from ((ITEM, part) for part in (_list(value) if isinstance(value, list) else [value]))
        elif keyword in ANY_MEMBER:
            yield ANY, value
        else:
            yield NAME, value


def _map(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
