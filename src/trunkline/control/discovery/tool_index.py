"""The tools that are known, indexed for searching; changed server by server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, islice
from typing import get_args

from trunkline.control.discovery.criteria import ToolSearchCriteria
from trunkline.control.discovery.events import DiscoveryStatistics
from trunkline.control.discovery.facets import Facets, Key
from trunkline.control.discovery.tool_info import NO_CALLS, EnhancedToolInfo, ToolStats
from trunkline.control.search import SearchIndex, text_of
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.telemetry.tally import Tally
from trunkline.tool import UNKNOWN, Safety

Calls = Mapping[Key, Tally]
"""How calls went, by server and tool."""


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
        self._words: SearchIndex[EnhancedToolInfo] | None = None
        self._words_current = False
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
            key = server, _ = tool.entry.server, tool.entry.name
            tally = calls.get(key)
            available = server not in away
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
            tools_with_annotations=sum(tool.annotations != UNKNOWN for tool in tools),
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
        self._words_current = False

    def _scores(self, query: str, only: Iterable[EnhancedToolInfo] | None) -> dict[Key, float]:
        """The tools that fit, best first, each with how well."""
        if not self.tools:
            return {}
        if self._words is None:
            self._words = SearchIndex(Finder(strategy="bm25"), _text)
        if not self._words_current:
            for _ in self._words.update({_text_key(tool): tool for tool in self.tools.values()}):
                pass
            self._words_current = True
        keys = None if only is None else [_text_key(tool) for tool in only]
        hits = self._words.finder.search(query, limit=len(self.tools), only=keys)
        found = ((self._words.tools[hit.key].entry, hit.score) for hit in hits)
        return {(entry.server, entry.name): score for entry, score in found}

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
    entry = tool.entry
    return f"{len(entry.server)}/{entry.server}/{entry.name}"
