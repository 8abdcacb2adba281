"""How calls went, read from whoever counts them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from trunkline.control.discovery.facets import Key
from trunkline.control.discovery.tool_info import NO_CALLS, ToolStats


class Counted(Protocol):
    """The calls of one tool."""

    @property
    def calls(self) -> int:
        """All of them."""
        ...

    @property
    def failures(self) -> int:
        """Those that could not be made."""
        ...

    @property
    def tool_errors(self) -> int:
        """Those in which the tool itself failed."""
        ...

    @property
    def seconds(self) -> float:
        """Time spent on all of them."""
        ...

    @property
    def latest(self) -> float:
        """Seconds that the last one took."""
        ...


Calls = Mapping[Key, Counted]
"""By server and tool."""


@dataclass(slots=True)
class Count:
    """The calls of a tool that somebody told us of."""

    calls: int = 0
    failures: int = 0
    tool_errors: int = 0
    seconds: float = 0.0
    latest: float = 0.0

    def add(self, seconds: float, *, success: bool) -> None:
        """One more."""
        self.calls += 1
        self.tool_errors += not success
        self.seconds += seconds
        self.latest = seconds


class CallReader:
    """Statistics of tools; what the members of a group counted is added up."""

    def __init__(self, calls: Callable[[], Calls]) -> None:
        self._calls = calls
        self.members: Mapping[str, tuple[str, ...]] = {}
        """The servers of each group."""

    def now(self) -> Calls:
        """The calls of all tools, a group's under its own name."""
        calls = self._calls()
        if not self.members:
            return calls
        groups = {member: group for group, members in self.members.items() for member in members}
        found: dict[Key, list[Counted]] = {}
        for (server, tool), count in calls.items():
            found.setdefault((groups.get(server, server), tool), []).append(count)
        return {key: counts[0] if len(counts) == 1 else _sum(counts) for key, counts in found.items()}

    def total(self) -> ToolStats:
        """How all calls went."""
        return stats_of(_sum(self._calls().values()))

    def ranks(self, by: str, tools: Collection[Key]) -> dict[Key, float]:
        """What some tools are sorted by, for those that were called."""
        rank = _RANKS[by]
        calls = self.now()
        if len(tools) < len(calls):
            return {key: rank(count) for key in tools if (count := calls.get(key)) is not None and count.calls}
        return {key: rank(count) for key, count in calls.items() if key in tools and count.calls}


def stats_of(count: Counted) -> ToolStats:
    """A tool's calls at this moment."""
    if not count.calls:
        return NO_CALLS
    failed = count.failures + count.tool_errors
    return ToolStats(count.calls, count.calls - failed, failed, count.seconds / count.calls, count.latest)


def _sum(counts: Iterable[Counted]) -> Count:
    total = Count()
    for count in counts:
        total.calls += count.calls
        total.failures += count.failures
        total.tool_errors += count.tool_errors
        total.seconds += count.seconds
        total.latest = count.latest
    return total


_RANKS: dict[str, Callable[[Counted], float]] = {
    "calls": lambda count: count.calls,
    "success_rate": lambda count: 1 - (count.failures + count.tool_errors) / count.calls,
    "avg_execution_time": lambda count: count.seconds / count.calls,
}
