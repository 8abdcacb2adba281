"""Templates of addresses: which addresses fit one, and what their variables are, in time linear in the address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from trunkline.errors import ConfigError

LONGEST = 8000
"""Characters of an address that are looked at; a longer one fits nothing."""

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"([+#./?&]?)([A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*)(\*?)")
_LITERALS = ("#", ".", "/")
_FOREIGN_LENGTH = 2000
_FOREIGN_VARIABLES = 20


@dataclass(frozen=True, slots=True)
class _Part:
    text: str = ""
    """What stands here; or the variable, if there is one."""
    variable: str = ""
    wide: bool = False
    """Whether the variable may hold slashes."""


def matches(template: str, uri: str) -> bool:
    """Whether an address can have come from a template that anybody may have written; an odd one matches nothing."""
    pattern = _pattern(template)
    return pattern is not None and pattern.fullmatch(uri) is not None


@dataclass(frozen=True)
class UriTemplate:
    """A template as RFC 6570 writes it, as far as addresses can be told apart by it.

    `{x}` is one step of a path, `{+x}` any number of them, `{/x}` and `{/x*}` the same with the slash before it, `{#x}`
    a fragment, and `{?x,y}` at the end a query whose parts may be missing.
    """

    text: str
    parts: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    query: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts, query = _read(self.text)
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "query", tuple(query))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of all variables."""
        return (*(part.variable for part in self.parts if part.variable), *self.query)

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of an address, decoded; `None` when it does not fit. Absent parts of the query are left out."""
        if len(uri) > LONGEST:
            return None
        path, mark, rest = uri.partition("?") if self.query else (uri, "", "")
        found = self._path(path)
        asked = _query(rest, self.query) if mark else {}
        return None if found is None or asked is None else found | asked

    def _path(self, text: str) -> dict[str, str] | None:
        """Where each part can end, part by part; then one way back through them, each variable as short as can be."""
        ends: list[set[int]] = [{0}]
        for part in self.parts:
            before = ends[-1]
            if part.variable:
                ends.append(_stretched(before, text, wide=part.wide))
            else:
                ends.append({at + len(part.text) for at in before if text.startswith(part.text, at)})
        if len(text) not in ends[-1]:
            return None
        found: dict[str, str] = {}
        end = len(text)
        for part, before in zip(reversed(self.parts), reversed(ends[:-1]), strict=True):
            if not part.variable:
                end -= len(part.text)
                continue
            low = 0 if part.wide else text.rfind("/", 0, end) + 1
            start = max(at for at in before if low <= at < end)
            found[part.variable] = unquote(text[start:end])
            if not part.wide and not _harmless(found[part.variable]):
                return None
            end = start
        return found


@lru_cache(maxsize=4096)
def _pattern(template: str) -> re.Pattern[str] | None:
    if len(template) > _FOREIGN_LENGTH or len(_EXPRESSION.findall(template)) > _FOREIGN_VARIABLES:
        return None
    pieces: list[str] = []
    at = 0
    for place in _EXPRESSION.finditer(template):
        pieces.append(re.escape(template[at : place.start()]))
        at = place.end()
        wide = place[1][:1] in tuple("+#?&;") or place[1].endswith("*")
        if place[1][:1] in _LITERALS and not wide:
            pieces.append(re.escape(place[1][0]))
        # Possessive: what a variable took it never gives back, so that no address can make this slow.
        follows = template[at : at + 1]
        stop = re.escape(follows) if follows and follows != "{" else ""
        pieces.append(f"[^{stop}]*+" if wide and stop else ".*+" if wide else f"[^/{stop}]++")
    return re.compile("".join(pieces) + re.escape(template[at:]), re.DOTALL)


def _read(text: str) -> tuple[list[_Part], list[str]]:
    parts: list[_Part] = []
    query: list[str] = []
    at = 0
    for place in _EXPRESSION.finditer(text):
        if place.start() > at:
            parts.append(_Part(text[at : place.start()]))
        at = place.end()
        read = _VARIABLE.fullmatch(place[1])
        if read is None or (read[3] and read[1] != "/"):
            raise _unclear(text, f"{place[0]} is not understood")
        kind, names = read[1], read[2].split(",")
        if kind in ("?", "&"):
            query += names
            continue
        if query or len(names) > 1:
            raise _unclear(text, f"{place[0]} cannot be told from what is around it")
        if kind in _LITERALS:
            parts.append(_Part(kind))
        if parts and parts[-1].variable:
            raise _unclear(text, f"nothing divides {place[0]} from what is before it")
        parts.append(_Part(variable=names[0], wide=kind in ("+", "#") or bool(read[3])))
    if at < len(text):
        parts.append(_Part(text[at:]))
        if query:
            raise _unclear(text, "a query can only be its end")
    if any(mark in part.text for part in parts for mark in "{}"):
        raise _unclear(text, "its braces do not pair")
    names = [part.variable for part in parts if part.variable] + query
    if len(set(names)) < len(names):
        raise _unclear(text, "it names a variable twice")
    return parts, query


def _stretched(before: set[int], text: str, *, wide: bool) -> set[int]:
    """Where a variable can end that begins at one of these places and has a character at least."""
    ends: set[int] = set()
    running = False
    for at, letter in enumerate(text):
        running = (running or at in before) and (wide or letter != "/")
        if running:
            ends.add(at + 1)
    return ends


def _query(text: str, names: tuple[str, ...]) -> dict[str, str] | None:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=len(names))
    except ValueError:
        return None
    found: Mapping[str, str] = dict(pairs)
    return dict(found) if len(found) == len(pairs) and found.keys() <= set(names) else None


def _harmless(value: str) -> bool:
    """One step of a path that, put into a path, stays one step of it."""
    return value not in (".", "..") and not any(mark in value for mark in "/\\\0")


def _unclear(template: str, why: str) -> ConfigError:
    return ConfigError(f"The template {template!r} cannot be used: {why}.", hint="Write {name}, {+path} or {?query}.")
