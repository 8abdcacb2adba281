"""How much work a schema makes, told before it is compiled, and the schema without what has no bound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from trunkline.errors import ConfigError
from trunkline.tools.patterns import backtracks, states
from trunkline.untrusted import as_list, as_object

MAX_VALUES = 10_000
MAX_DEPTH = 100
MAX_APPLIED = 5_000

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

_HOLDERS = frozenset(("properties", "patternProperties", "propertyNames")).union(
    IN_PLACE, IN_PLACE_LISTS, IN_PLACE_MAPS, ITEMS, ANY_MEMBER
)
_SCHEMAS = (*IN_PLACE, "items", "additionalItems", "contains", "propertyNames", *ANY_MEMBER)
_LISTS = (*IN_PLACE_LISTS, "prefixItems", "items")
_MAPS = ("properties", "patternProperties", *IN_PLACE_MAPS, *DEFINITIONS)
_REFUSE_BY_ACCEPTING = ("not", "if", "contains")
_DEPENDENT = {"if": ("then", "else"), "contains": ("minContains", "maxContains")}
_LEFT_OVER = ("unevaluatedProperties", "unevaluatedItems")
_NOTED = frozenset(("pattern", "patternProperties", "$schema", "$id", "id")).union(
    REFERENCES, _LEFT_OVER, ("$anchor", "$dynamicAnchor", "$recursiveAnchor")
)
_BUILT_IN = re.compile(r"https?://json-schema\.org/draft")


@dataclass(frozen=True, slots=True)
class CheckCost:
    """What checking a value costs."""

    width: int
    """How many schemas may have to be tried on one part of a value."""
    loops: int
    """Places where the schema contains itself."""
    states: int
    """What one character may cost in all patterns together."""
    patterns: int
    unbounded: bool
    """Whether it has parts that cannot be checked in bounded time, so that it must be relaxed."""


def weigh(schema: dict[str, Any]) -> CheckCost:
    """The weight of a schema; raises ConfigError, with the reason, if no value could be checked in bounded time."""
    found = _survey(schema)
    width, loops = _applied(schema, found.anchors)
    linear = [pattern for pattern in found.patterns if not backtracks(pattern)]
    # The validator remembers what it found where a schema contains itself, but not while it looks for what is left.
    endless = loops > 0 and not found.words.isdisjoint(_LEFT_OVER)
    return CheckCost(
        width,
        loops,
        sum(states(pattern) for pattern in linear),
        len(found.patterns),
        unbounded=endless or len(linear) < len(found.patterns),
    )


@dataclass(slots=True)
class _Survey:
    """What is found in a schema at first sight."""

    anchors: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    patterns: list[str] = field(default_factory=list[str])
    words: set[str] = field(default_factory=set[str])
    """Keywords that refer to another part, give an address to one, or take what is left over."""

    def note(self, members: dict[str, Any], *, root: bool) -> None:
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := members.get(word), str):
                self.anchors.setdefault(name, []).append(members)
        if members.get("$recursiveAnchor") is True:
            self.anchors.setdefault("", []).append(members)
        if isinstance(pattern := members.get("pattern"), str):
            self.patterns.append(pattern)
        if isinstance(keyed := members.get("patternProperties"), dict):
            self.patterns += cast("dict[str, Any]", keyed)
        if "draft-04" in str(members.get("$schema")):
            self.words.add("draft-04")
        self.words.update(word for word in (*REFERENCES, *_LEFT_OVER) if word in members)
        if not root:
            self.words.update(word for word in ("$id", "id") if isinstance(members.get(word), str))

    def check(self) -> None:
        # A document inside the document gives `#` another meaning, and so could hide what is weighed here.
        inside = "$id" in self.words or {"id", "draft-04"} <= self.words
        if inside and not self.words.isdisjoint(REFERENCES):
            raise ConfigError("Its schema has another document inside.")


def _survey(schema: Any) -> _Survey:
    found = _Survey()
    values = 0
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise ConfigError(f"Its schema has more than {MAX_VALUES} parts.")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                members = cast("dict[str, Any]", value)
                below += members.values()
                if not _NOTED.isdisjoint(members):
                    found.note(members, root=value is schema)
            elif isinstance(value, list):
                below += cast("list[Any]", value)
        if not below:
            found.check()
            return found
        level = below
    raise ConfigError(f"Its schema is nested more than {MAX_DEPTH} levels deep.")


def _applied(schema: dict[str, Any], anchors: dict[str, list[Any]]) -> tuple[int, int]:
    """How many schemas meet on one part of a value, and how often the schema contains itself.

    References are followed as if what they name were written there. Where one leads back to where we came from, it
    ends: the validator remembers what it found out about a value there.
    """
    at: Counter[tuple[str, ...]] = Counter()
    loops = steps = 0
    todo: list[tuple[Any, tuple[str, ...], frozenset[int], int]] = [(schema, (), frozenset([id(schema)]), 1)]
    while todo:
        part, path, above, factor = todo.pop()
        if not isinstance(part, dict):
            continue
        members = cast("dict[str, Any]", part)
        own = factor * _own_weight(members)
        steps += own
        at[path] += own
        if max(steps, len(todo)) > MAX_APPLIED:
            raise ConfigError(f"Its schema comes to more than {MAX_APPLIED} parts when its references are followed.")
        # To know what is left over, the validator looks at everything beside it once more, at every such level.
        beside = factor * (3 if any(word in members for word in _LEFT_OVER) else 1)
        for step, inner in parts(members):
            todo.append((inner, path, above, beside) if step == HERE else (inner, (*path, step), above, factor))
        for target in _targets(members, schema, anchors):
            if id(target) in above:
                loops += 1
            elif len(above) > MAX_DEPTH:
                raise ConfigError(f"More than {MAX_DEPTH} of its references lead to each other.")
            else:
                todo.append((target, path, above | {id(target)}, beside))
    return _widest(at), loops


def _own_weight(members: dict[str, Any]) -> int:
    """Comparing objects, with options or with each other, is dearer than looking at one."""
    weight = 5 if "uniqueItems" in members else 1
    if isinstance(options := members.get("enum"), list):
        weight += sum(isinstance(option, dict | list) for option in cast("list[Any]", options))
    return weight


def _widest(at: Counter[tuple[str, ...]]) -> int:
    """The most at one path; what applies to any member may meet with what applies to a named one."""
    anywhere: Counter[int] = Counter()
    for path, count in at.items():
        if ANY in path:
            anywhere[len(path)] += count
    return max(anywhere[len(path)] + (0 if ANY in path else count) for path, count in at.items())


def _targets(members: dict[str, Any], root: dict[str, Any], anchors: dict[str, list[Any]]) -> list[Any]:
    found: list[Any] = []
    for keyword in REFERENCES:
        reference = members.get(keyword)
        if not isinstance(reference, str):
            continue
        document, _, fragment = reference.partition("#")
        if document and document != _own_address(root):
            if _BUILT_IN.match(document):
                continue
            raise ConfigError("Its schema refers to another document, and such are never fetched.")
        if fragment == "" or fragment.startswith("/"):
            found.append(_pointed(root, fragment))
        found += anchors.get(unquote(fragment), [])
    return found


def _own_address(root: dict[str, Any]) -> str:
    address = root.get("$id")
    return address.partition("#")[0] if isinstance(address, str) else ""


def _pointed(root: Any, pointer: str) -> Any:
    here: Any = root
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        try:
            here = cast("list[Any]", here)[int(key)] if isinstance(here, list) else here[key]
        except (LookupError, TypeError, ValueError):
            raise ConfigError("Its schema refers to a part that it does not have.") from None
    return here


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


def parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas inside, each with the step to what it applies to; a member of a value is `.` and its name."""
    for keyword in _HOLDERS & schema.keys():
        value = schema[keyword]
        if keyword == "properties":
            yield from ((f".{name}", part) for name, part in as_object(value).items())
        elif keyword == "patternProperties":
            yield from ((ANY, part) for part in as_object(value).values())
        elif keyword in IN_PLACE:
            yield HERE, value
        elif keyword in IN_PLACE_LISTS:
            yield from ((HERE, part) for part in as_list(value))
        elif keyword in IN_PLACE_MAPS:
            yield from ((HERE, part) for part in as_object(value).values())
        elif keyword in ITEMS:
            yield from ((ITEM, part) for part in (as_list(value) if isinstance(value, list) else [value]))
        elif keyword in ANY_MEMBER:
            yield ANY, value
        else:
            yield NAME, value
