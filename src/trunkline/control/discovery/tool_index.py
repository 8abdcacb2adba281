"""The tools that are known, indexed for searching; changed server by server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import chain, islice
from typing import get_args

from trunkline.control.discovery.counts import CallReader, Calls, stats_of
from trunkline.control.discovery.criteria import ToolSearchCriteria
from trunkline.control.discovery.events import DiscoveryStatistics
from trunkline.control.discovery.facets import Facets, Key
from trunkline.control.discovery.ranking import Ranking
from trunkline.control.discovery.tool_info import NO_CALLS, EnhancedToolInfo
from trunkline.tool import UNKNOWN, Safety


class ToolIndex:
    """Tools by server and name. The index is made anew when it is asked after a change."""

    def __init__(self, calls: Callable[[], Calls]) -> None:
        self.tools: dict[Key, EnhancedToolInfo] = {}
        self.servers: dict[str, dict[str, EnhancedToolInfo]] = {}
        self.away: frozenset[str] = frozenset()
        """Servers that cannot be reached."""
        self.calls = CallReader(calls)
        self._ranking = Ranking(self.tools)
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
        self._facets = None
        self._ranking.note((server_id, name) for name in before | after if before.get(name) is not after.get(name))

    def change(self, tool: EnhancedToolInfo) -> None:
        """This is what is known of a tool now."""
        self.tools[tool.server_id, tool.name] = self.servers[tool.server_id][tool.name] = tool
        self._made.pop((tool.server_id, tool.name), None)
        self._facets = None
        self._ranking.note([(tool.server_id, tool.name)])

    def now(self, tools: Iterable[EnhancedToolInfo]) -> list[EnhancedToolInfo]:
        """The tools with how their calls went and whether they can be reached, at this moment."""
        calls, away, made = self.calls.now(), self.away, self._made
        if not calls and not away:
            return list(tools)
        found: list[EnhancedToolInfo] = []
        for tool in tools:
            key = tool.server_id, tool.name
            count = calls.get(key)
            available = tool.server_id not in away
            if count is not None or not available:
                latest = made.get(key, tool)
                total = count.calls if count is not None else 0
                if latest.stats.total_calls != total or latest.is_available != available:
                    stats = stats_of(count) if count is not None else NO_CALLS
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
            scores = self._ranking.scores(criteria.query, only)
            found = facets.at(facets.places[key] for key in scores)
        stop = criteria.offset + criteria.limit if criteria.limit else None
        ordered = self._ordered(facets, found, criteria, scores, stop)
        return self.now(islice(ordered, criteria.offset, stop)), found.bit_count(), scores

    def statistics(self) -> DiscoveryStatistics:
        """All of it in numbers."""
        tools = self.tools.values()
        levels = Counter(tool.safety for tool in tools)
        calls = self.calls.total()
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
        ranks = [(sign * rank, facets.places[key]) for key, rank in self.calls.ranks(by, keys).items()]
        ranks = sorted(ranks) if stop is None else nsmallest(stop, ranks)
        called = facets.at(place for _, place in ranks)
        # Of tools that were never called nothing can be said: they come last, whatever the direction.
        return chain((facets.tools[place] for _, place in ranks), facets.chosen(found & ~called))
