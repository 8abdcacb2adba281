"""Tells before a schema is compiled how much work it makes: anybody may have written it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from trunkline.errors import ConfigError
from trunkline.tools.check.keywords import ANY, HERE, REFERENCES, parts
from trunkline.tools.check.relax import backtracks

MAX_VALUES = 10_000
MAX_DEPTH = 100
MAX_APPLIED = 5_000

_LEFT_OVER = ("unevaluatedProperties", "unevaluatedItems")
_NOTED = frozenset(
    (
        *REFERENCES,
        *_LEFT_OVER,
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "pattern",
        "patternProperties",
        "$schema",
        "$id",
        "id",
    )
)
_BUILT_IN = re.compile(r"https?://json-schema\.org/draft")
_REPEAT = re.compile(r"\{(\d{0,6})(?:,(\d{0,6}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]?")
_ESCAPE = re.compile(r"\\(?:[pPuxk](?:\{[^}]*\}|<[^>]*>)|.)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Weight:
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


def weigh(schema: dict[str, Any]) -> Weight:
    """The weight of a schema; raises ConfigError, with the reason, if no value could be checked in bounded time."""
    found = _survey(schema)
    width, loops = _applied(schema, found.anchors)
    linear = [pattern for pattern in found.patterns if not backtracks(pattern)]
    # The validator remembers what it found where a schema contains itself, but not while it looks for what is left.
    endless = loops > 0 and not found.words.isdisjoint(_LEFT_OVER)
    return Weight(
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


def states(pattern: str) -> int:
    """About how many places of a pattern one character may have to be held against."""
    sizes = [0]
    last = at = 0
    while at < len(pattern):
        sign = pattern[at]
        end = at + 1
        if sign == "(":
            sizes.append(0)
        elif sign == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif sign == "{" and (repeat := _REPEAT.match(pattern, at)):
            end = repeat.end()
            times = max(int(repeat[2] or 0), int(repeat[1] or 0) + (repeat[2] == ""), 1)
            sizes[-1] += last * (times - 1)
            last *= times
        elif sign not in "*+?|^$":
            match = _ESCAPE.match(pattern, at) if sign == "\\" else _CLASS.match(pattern, at) if sign == "[" else None
            end = match.end() if match else end
            last = 1
            sizes[-1] += 1
        at = end
    return sum(sizes) + 1
