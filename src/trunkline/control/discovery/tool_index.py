"""The tools that are known, indexed for searching by their properties, their words and how their calls went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from heapq import nsmallest
from itertools import accumulate, chain, compress, count, islice, repeat
from typing import Any, get_args

from trunkline.control.discovery.criteria import ToolSearchCriteria
from trunkline.control.discovery.events import DiscoveryStatistics
from trunkline.control.discovery.tool_info import NO_CALLS, EnhancedToolInfo, ToolStats
from trunkline.control.search import SearchIndex, text_of
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.telemetry.tally import Tally
from trunkline.tool import UNKNOWN, Annotations, Safety

Key = tuple[str, str]
"""Server and tool."""
Calls = Mapping[Key, Tally]
"""How calls went, by server and tool."""

_HINTS = tuple(field.name for field in fields(Annotations) if field.name != "tags")
_FEW = 8
"""When fewer than one in so many are left, they are looked at one by one."""
_TO_BITS = bytes.maketrans(b"01", b"\x00\x01")


class ToolIndex:
    """Tools by server and name. The index is made anew when it is asked after a change."""

    def __init__(self, calls: Callable[[], Calls]) -> None:
        self.tools: dict[Key, EnhancedToolInfo] = {}
        self.servers: dict[str, dict[str, EnhancedToolInfo]] = {}
        self.away: frozenset[str] = frozenset()
        """Servers that cannot be reached."""
        self.members: Mapping[str, tuple[str, ...]] = {}
        """The servers of each group."""
        self._calls = calls
        self._words = SearchIndex(Finder(strategy="bm25"), _text)
        self._indexed = False
        """Whether all tools can be found by their words: that waits for the first query after a change."""
        self._facets: Facets | None = None
        self._made: dict[Key, EnhancedToolInfo] = {}
        """Tools with their latest statistics: most are asked for more often than they are called."""

    def put(self, server_id: str, tools: Iterable[EnhancedToolInfo]) -> None:
        """These are a server's tools now."""
        before = self.servers.pop(server_id, {})
        after = {tool.name: tool for tool in tools}
        if after:
            self.servers[server_id] = after
        for name in before:
            self._made.pop((server_id, name), None)
        for name in before.keys() - after.keys():
            del self.tools[server_id, name]
        self.tools.update({(server_id, name): tool for name, tool in after.items()})
        self._changed()

    def change(self, tool: EnhancedToolInfo) -> None:
        """This is what is known of a tool now."""
        self.tools[tool.server_id, tool.name] = self.servers[tool.server_id][tool.name] = tool
        self._made.pop((tool.server_id, tool.name), None)
        self._changed()

    def now(self, tools: Iterable[EnhancedToolInfo]) -> list[EnhancedToolInfo]:
        """The tools with how their calls went and whether they can be reached, at this moment."""
        calls, away, made = self._calls_now(), self.away, self._made
        if not calls and not away:
            return list(tools)
        found: list[EnhancedToolInfo] = []
        for tool in tools:
            key = tool.server_id, tool.name
            tally = calls.get(key)
            available = tool.server_id not in away
            if tally is not None or not available:
                latest = made.get(key, tool)
                total = tally.calls if tally is not None else 0
                if latest.stats.total_calls != total or latest.is_available != available:
                    stats = _stats((tally,)) if tally is not None else NO_CALLS
                    latest = made[key] = tool.at(stats, available=available)
                tool = latest
            found.append(tool)
        return found

    def search(self, criteria: ToolSearchCriteria) -> tuple[list[EnhancedToolInfo], int, dict[Key, float]]:
        """The tools that meet the criteria, how many there are without a limit, and how well they fit a query."""
        if self._facets is None:
            self._facets = Facets(self.tools.values())
        facets = self._facets
        found = facets.matching(criteria, self.away)
        scores: dict[Key, float] = {}
        if criteria.query.strip():
            only = None if found == facets.everything else facets.chosen(found)
            scores = self._scores(criteria.query, only)
            found = facets.at(facets.places[key] for key in scores)
        stop = criteria.offset + criteria.limit if criteria.limit else None
        ordered = self._ordered(facets, found, criteria, scores, stop)
        return self.now(islice(ordered, criteria.offset, stop)), found.bit_count(), scores

    def statistics(self) -> DiscoveryStatistics:
        """All of it in numbers."""
        tools = self.tools.values()
        levels = Counter(tool.safety for tool in tools)
        calls = _stats(tuple(self._calls().values()))
        return DiscoveryStatistics(
            total_tools=len(tools),
            available_tools=sum(tool.server_id not in self.away for tool in tools),
            tools_by_server={server: len(found) for server, found in self.servers.items()},
            tools_by_category=dict(Counter(tool.category for tool in tools)),
            tools_by_safety_level={level: levels[level] for level in get_args(Safety)},
            tools_with_annotations=sum(tool.entry.annotations != UNKNOWN for tool in tools),
            deprecated_tools=sum(tool.deprecated for tool in tools),
            total_calls=calls.total_calls,
            successful_calls=calls.successful_calls,
            failed_calls=calls.failed_calls,
            average_execution_time=calls.average_execution_time,
        )

    def _ordered(
        self, facets: Facets, found: int, criteria: ToolSearchCriteria, scores: dict[Key, float], stop: int | None
    ) -> Iterator[EnhancedToolInfo]:
        by = criteria.sort_by or ("relevance" if criteria.query.strip() else "name")
        if by == "relevance":
            keys = reversed(scores) if criteria.sort_direction == "asc" else iter(scores)
            return (self.tools[key] for key in keys)
        if by == "name":
            return facets.chosen(found, backwards=criteria.sort_direction == "desc")
        sign = -1 if criteria.sort_direction == "desc" else 1
        keys = (
            self.tools.keys() if found == facets.everything else {(t.server_id, t.name) for t in facets.chosen(found)}
        )
        ranks = [(sign * rank, facets.places[key]) for key, rank in self._ranks(by, keys)]
        ranks = sorted(ranks) if stop is None else nsmallest(stop, ranks)
        called = facets.at(place for _, place in ranks)
        # Of tools that were never called nothing can be said: they come last, whatever the direction.
        return chain((facets.tools[place] for _, place in ranks), facets.chosen(found & ~called))

    def _changed(self) -> None:
        self._facets = None
        self._indexed = False

    def _scores(self, query: str, only: Iterable[EnhancedToolInfo] | None) -> dict[Key, float]:
        """The tools that fit, best first, each with how well."""
        if not self.tools:
            return {}
        if not self._indexed:
            for _ in self._words.update({_text_key(tool): tool for tool in self.tools.values()}):
                pass
            self._indexed = True
        keys = None if only is None else [_text_key(tool) for tool in only]
        hits = self._words.finder.search(query, limit=len(self.tools), only=keys)
        found = ((self._words.tools[hit.key], hit.score) for hit in hits)
        return {(tool.server_id, tool.name): score for tool, score in found}

    def _calls_now(self) -> Calls:
        """How calls went, those of a group's members under its own name."""
        calls = self._calls()
        if not self.members:
            return calls
        groups = {member: group for group, members in self.members.items() for member in members}
        found: dict[Key, Tally] = {}
        for (server, tool), tally in calls.items():
            if server in groups:
                found.setdefault((groups[server], tool), Tally()).add(tally)
            else:
                found[server, tool] = tally
        return found

    def _ranks(self, by: str, tools: Collection[Key]) -> Iterator[tuple[Key, float]]:
        """What some tools are sorted by, for those that were called."""
        rank = _RANKS[by]
        calls = self._calls_now()
        found = ((key, calls[key]) for key in tools if key in calls) if len(tools) < len(calls) else calls.items()
        return ((key, rank(tally)) for key, tally in found if tally.calls and key in tools)


_RANKS: dict[str, Callable[[Tally], float]] = {
    "calls": lambda tally: tally.calls,
    "success_rate": lambda tally: tally.success_rate,
    "avg_execution_time": lambda tally: tally.average,
}


def _stats(tallies: Sequence[Tally]) -> ToolStats:
    """How calls went, all together."""
    calls = sum(tally.calls for tally in tallies)
    if not calls:
        return NO_CALLS
    failed = sum(tally.failures + tally.tool_errors for tally in tallies)
    latest = max(tallies, key=lambda tally: tally.last_used).latest
    return ToolStats(calls, calls - failed, failed, sum(tally.seconds for tally in tallies) / calls, latest)


def _text(key: str, tool: EnhancedToolInfo) -> ToolText:
    return text_of(key, tool.entry, tags=[*tool.annotations.tags, tool.category])


def _text_key(tool: EnhancedToolInfo) -> str:
    # The length tells where the server's name ends, whatever stands in it.
    return f"{len(tool.server_id)}/{tool.server_id}/{tool.name}"


class Facets:
    """Which tools have a property, as bits in the order of names: criteria are joined by `&`, and nothing is sorted.

    The tools do not change; each facet is made when it is first asked for.
    """

    def __init__(self, tools: Iterable[EnhancedToolInfo]) -> None:
        self.tools = sorted(tools, key=lambda tool: (tool.name.lower(), tool.name, tool.server_id))
        self._made: dict[str, dict[Any, int]] = {}

    @cached_property
    def everything(self) -> int:
        """All tools."""
        return (1 << len(self.tools)) - 1

    @cached_property
    def places(self) -> dict[Key, int]:
        """Where each tool stands."""
        return {(tool.server_id, tool.name): place for place, tool in enumerate(self.tools)}

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
    "server": lambda tool: (tool.server_id,),
    "category": lambda tool: (tool.category,),
    "safety": lambda tool: (tool.safety,),
    "tags": lambda tool: dict.fromkeys(tool.entry.annotations.tags),
}
