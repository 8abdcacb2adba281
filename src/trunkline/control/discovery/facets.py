"""Which tools have a property, as bits in the order of names: criteria are joined by `&`, and nothing is sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import accumulate, compress, count, repeat
from typing import Any

from trunkline.control.discovery.criteria import ToolSearchCriteria
from trunkline.control.discovery.tool_info import EnhancedToolInfo
from trunkline.tool import UNKNOWN, Annotations

Key = tuple[str, str]
"""Server and tool."""

_HINTS = tuple(field.name for field in fields(Annotations) if field.name != "tags")
_FEW = 8
"""When fewer than one in so many are left, they are looked at one by one."""
_TO_BITS = bytes.maketrans(b"01", b"\x00\x01")


class Facets:
    """An index over tools that do not change; each facet is made when it is first asked for."""

    def __init__(self, tools: Iterable[EnhancedToolInfo]) -> None:
        self.tools = sorted(tools, key=_order)
        self._made: dict[str, dict[Any, int]] = {}

    @cached_property
    def everything(self) -> int:
        """All tools."""
        return (1 << len(self.tools)) - 1

    @cached_property
    def places(self) -> dict[Key, int]:
        """Where each tool stands."""
        return {(tool.entry.server, tool.entry.name): place for place, tool in enumerate(self.tools)}

    def matching(self, criteria: ToolSearchCriteria, away: Iterable[str] = ()) -> int:
        """The tools that meet the criteria, but for those of servers that are away."""
        found = self.everything
        if criteria.server_ids:
            found &= self._any("server", criteria.server_ids)
        if criteria.category:
            found &= self._any("category", (criteria.category,))
        if criteria.safety is not None:
            found &= self._any("safety", (criteria.safety,))
        if criteria.tags:
            found &= self._any("tags", criteria.tags)
        if criteria.annotations is not UNKNOWN:
            found &= self._hinted(criteria.annotations)
        if not criteria.include_unavailable:
            found &= ~self._any("server", away)
        name = criteria.name.strip().lower()
        if found and name:
            found &= self._names.having((name,), among=found)
        words = tuple(dict.fromkeys(criteria.description.lower().split()))
        if found and words:
            found &= self._descriptions.having(words, among=found)
        return found

    def chosen(self, found: int, *, backwards: bool = False) -> Iterator[EnhancedToolInfo]:
        """The tools of some bits, by name."""
        bits = _bits(found, len(self.tools))
        return compress(reversed(self.tools), bits) if backwards else compress(self.tools, reversed(bits))

    def at(self, places: Iterable[int]) -> int:
        """The tools at some places, in whatever order."""
        return _mask(sorted(places))

    def _any(self, facet: str, values: Iterable[Any]) -> int:
        found = 0
        masks = self._facet(facet)
        for value in values:
            found |= masks.get(value, 0)
        return found

    def _hinted(self, wanted: Annotations) -> int:
        found = self.everything
        for name in _HINTS:
            value = getattr(wanted, name)
            if value is not None and value != "":
                found &= self._any(name, (value,))
        return found & self._any("tags", wanted.tags) if wanted.tags else found

    def _facet(self, name: str) -> dict[Any, int]:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(
                _READERS.get(name) or (lambda tool: (getattr(tool.entry.annotations, name),))
            )
        return made

    def _make(self, values: Callable[[EnhancedToolInfo], Iterable[Any]]) -> dict[Any, int]:
        places: dict[Any, list[int]] = {}
        for place, tool in enumerate(self.tools):
            for value in values(tool):
                places.setdefault(value, []).append(place)
        return {value: _mask(found) for value, found in places.items()}

    @cached_property
    def _names(self) -> _Texts:
        return _Texts([tool.name.lower() for tool in self.tools])

    @cached_property
    def _descriptions(self) -> _Texts:
        return _Texts([tool.description.lower() for tool in self.tools])


class _Texts:
    """Texts joined into one, so that a word is looked for in all of them at once."""

    _END = "\0"

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [text.replace(self._END, " ") for text in texts]
        self._whole = self._END.join(self._texts)

    def having(self, words: Sequence[str], *, among: int) -> int:
        """The texts that contain one of some words; `among` says which of them matter."""
        if among.bit_count() * _FEW < len(self._texts):
            places = compress(count(), reversed(_bits(among, len(self._texts))))
            return _mask([place for place in places if any(word in self._texts[place] for word in words)])
        found = 0
        for word in words:
            if self._END not in word:
                pieces = self._whole.split(word)
                # Before each finding stand as many ends as texts were passed.
                passed = accumulate(map(str.count, pieces[:-1], repeat(self._END)))
                found |= _mask(list(dict.fromkeys(passed)))
        return found


def _order(tool: EnhancedToolInfo) -> tuple[str, str, str]:
    name = tool.entry.name
    return name.lower(), name, tool.entry.server


def _bits(found: int, length: int) -> bytes:
    """One byte for each, the last one first."""
    return format(found, "b").zfill(length).encode().translate(_TO_BITS)


def _mask(places: list[int]) -> int:
    if not places:
        return 0
    bits = bytearray(places[-1] // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")


_READERS: dict[str, Callable[[EnhancedToolInfo], Iterable[Any]]] = {
    "server": lambda tool: (tool.entry.server,),
    "category": lambda tool: (tool.category,),
    "safety": lambda tool: (tool.safety,),
    "tags": lambda tool: dict.fromkeys(tool.entry.annotations.tags),
}
