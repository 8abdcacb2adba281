"""Takes out of a schema what cannot be checked in bounded time, so that the rest of it still counts.

What is left accepts everything that the whole accepts, and more: it never refuses a right value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from trunkline.tools.check.keywords import (
    ANY_MEMBER,
    DEFINITIONS,
    IN_PLACE,
    IN_PLACE_LISTS,
    IN_PLACE_MAPS,
    REFERENCES,
)

MAX_LENGTH = 1_000
_BACKTRACKS = re.compile(r"\(\?<?[=!]|\\[1-9k]")
_SCHEMAS = (*IN_PLACE, "items", "additionalItems", "contains", "propertyNames", *ANY_MEMBER)
_LISTS = (*IN_PLACE_LISTS, "prefixItems", "items")
_MAPS = ("properties", "patternProperties", *IN_PLACE_MAPS, *DEFINITIONS)
_REFUSE_BY_ACCEPTING = ("not", "if", "contains")
_DEPENDENT = {"if": ("then", "else"), "contains": ("minContains", "maxContains")}


def backtracks(pattern: str) -> bool:
    """Whether a pattern looks around or back, which no engine does in linear time; or is of an absurd length."""
    return len(pattern) > MAX_LENGTH or _BACKTRACKS.search(pattern) is not None


def relaxed(schema: dict[str, Any], unwanted: Callable[[str], bool]) -> dict[str, Any]:
    """The schema without the unwanted patterns, and without rules for what other rules left over."""
    return _relax(schema, unwanted)[0]


def _relax(schema: Any, unwanted: Callable[[str], bool]) -> tuple[Any, bool]:
    """The relaxed schema, and whether it may accept more than before: it may wherever it refers to another part."""
    if not isinstance(schema, dict):
        return schema, False
    kept: dict[str, Any] = {}
    dropped: set[str] = set()
    wider = False
    for keyword, value in cast("dict[str, Any]", schema).items():
        found, more = _relax_one(keyword, value, unwanted)
        wider = wider or more
        if more and keyword == "oneOf":
            kept["allOf"] = [*kept.get("allOf", ()), {"anyOf": found}]
        elif more and (keyword in _REFUSE_BY_ACCEPTING or found is None):
            dropped |= {keyword, *_DEPENDENT.get(keyword, ())}
        elif keyword == "allOf":
            kept["allOf"] = [*found, *kept.get("allOf", ())]
        else:
            kept[keyword] = found
    if "patternProperties" in dropped:
        dropped.add("additionalProperties")  # it would now refuse what a pattern allowed
    return {keyword: value for keyword, value in kept.items() if keyword not in dropped}, wider


def _relax_one(keyword: str, value: Any, unwanted: Callable[[str], bool]) -> tuple[Any, bool]:
    """What becomes of one keyword (`None`: it goes), and whether more is accepted then."""
    if keyword in REFERENCES:
        return value, True
    if keyword.startswith("unevaluated") or (keyword == "pattern" and isinstance(value, str) and unwanted(value)):
        return None, True
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if keyword == "patternProperties" and any(map(unwanted, members)):
            return None, True
        if keyword in _MAPS:
            pairs = {name: _relax(part, unwanted) for name, part in members.items()}
            return {name: part for name, (part, _) in pairs.items()}, any(more for _, more in pairs.values())
        if keyword in _SCHEMAS:
            return _relax(members, unwanted)
    if isinstance(value, list) and keyword in _LISTS:
        found = [_relax(part, unwanted) for part in cast("list[Any]", value)]
        return [part for part, _ in found], any(more for _, more in found)
    return cast("Any", value), False
