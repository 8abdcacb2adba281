"""How calls went: counted for each server and each tool, as they happen."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

BOUNDS = tuple(0.0001 * 2 ** (step / 2) for step in range(42))
"""Seconds that part the slots in which calls are counted by how long they took: from 0.1 ms to two minutes."""
NEWS = 0.1
"""How much of the error rate the last call is."""


def _slots() -> array[int]:
    return array("Q", bytes(8 * (len(BOUNDS) + 1)))


@dataclass(slots=True)
class Tally:
    """The calls of one server or tool since the start."""

    calls: int = 0
    failures: int = 0
    """Calls that the server could not be had to answer."""
    tool_errors: int = 0
    """Answers that say the tool itself failed."""
    error_rate: float = 0.0
    """Share of failures; the last calls count most."""
    seconds: float = 0.0
    """Time spent on all of them."""
    latest: float = 0.0
    """Seconds that the last one took."""
    last_used: float = 0.0
    """On the clock of the one who counts."""
    slots: array[int] = field(default_factory=_slots, repr=False)
    """How many took about how long."""

    @property
    def average(self) -> float:
        """Seconds for a call."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def success_rate(self) -> float:
        """Share of calls that ended well; 1 while there were none."""
        return 1 - (self.failures + self.tool_errors) / self.calls if self.calls else 1.0

    def within(self, share: float) -> float:
        """About the seconds in which this share of the calls ended: 0.95 gives what one call in twenty exceeds."""
        return within(self.slots, BOUNDS, share)

    def add(self, other: Tally) -> None:
        """Count another's calls as well."""
        if calls := self.calls + other.calls:
            self.error_rate = (self.error_rate * self.calls + other.error_rate * other.calls) / calls
        self.calls = calls
        self.failures += other.failures
        self.tool_errors += other.tool_errors
        self.seconds += other.seconds
        self.slots = array("Q", map(sum, zip(self.slots, other.slots, strict=True)))
        if other.last_used >= self.last_used:
            self.latest, self.last_used = other.latest, other.last_used

    def count(self, seconds: float, slot: int, now: float, failed: bool, tool_error: bool) -> None:
        """One more; `slot` is where it belongs among `BOUNDS`."""
        self.calls += 1
        self.slots[slot] += 1
        self.seconds += seconds
        self.latest = seconds
        self.last_used = now
        if failed:
            self.failures += 1
            self.error_rate += NEWS * (1 - self.error_rate)
            return
        self.error_rate -= NEWS * self.error_rate
        if tool_error:
            self.tool_errors += 1


def within(slots: Sequence[int], bounds: Sequence[float], share: float) -> float:
    """About the seconds in which this share of what is counted in slots ended, of which `bounds` are the borders."""
    wanted, passed, lower = share * sum(slots), 0, 0.0
    for count, upper in zip(slots, (*bounds, bounds[-1]), strict=True):
        if count and passed + count >= wanted:
            return lower + (upper - lower) * max(wanted - passed, 0.0) / count
        passed, lower = passed + count, upper
    return 0.0


class Tallies:
    """Tallies by server, and by server and tool; those of each user apart as well."""

    MOST_TOOLS = 100_000
    MOST_USERS = 1000

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = self._clock = clock
        """The time, to be given back to `count`."""
        self.since = clock()
        self.servers: dict[str, Tally] = {}
        self.tools: dict[tuple[str, str], Tally] = {}
        self._gone = Tally()
        self._users: dict[str, Tallies] = {}

    def count(self, server: str, tool: str, since: float, *, failed: bool, tool_error: bool, user: str = "") -> None:
        """A call to a server ended; `tool` is empty for what is no tool."""
        now = self._clock()
        seconds = now - since
        slot = bisect_left(BOUNDS, seconds)
        self._count(server, tool, seconds, slot, now, failed, tool_error)
        if user:
            own = self._users.get(user)
            if own is None:
                if len(self._users) >= self.MOST_USERS:
                    return
                own = self._users[user] = Tallies(self._clock)
            own._count(server, tool, seconds, slot, now, failed, tool_error)

    def _count(
        self, server: str, tool: str, seconds: float, slot: int, now: float, failed: bool, tool_error: bool
    ) -> None:
        tally = self.servers.get(server)
        if tally is None:
            tally = self.servers[server] = Tally()
        tally.count(seconds, slot, now, failed, tool_error)
        if tool:
            key = server, tool
            tally = self.tools.get(key)
            if tally is None:
                if len(self.tools) >= self.MOST_TOOLS:
                    return
                tally = self.tools[key] = Tally()
            tally.count(seconds, slot, now, failed, tool_error)

    def of(self, user: str) -> Tallies:
        """What one user's own calls make; without a name, everybody's."""
        return self._users.get(user) or Tallies(self._clock) if user else self

    def total(self) -> Tally:
        """All calls, also those to servers that are gone."""
        found = Tally()
        for tally in (self._gone, *self.servers.values()):
            found.add(tally)
        return found

    def busiest(self, most: int) -> list[tuple[str, str, Tally]]:
        """The tools with the most calls: server, tool and how its calls went."""
        best = nlargest(most, self.tools.items(), key=lambda pair: (pair[1].calls, pair[1].last_used))
        return [(server, tool, tally) for (server, tool), tally in best]

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and who comes under that name is somebody else."""
        self._users.pop(user, None)

    def forget(self, server: str) -> None:
        """The server is gone."""
        for own in self._users.values():
            own.forget(server)
        gone = self.servers.pop(server, None)
        if gone is not None:
            self._gone.add(gone)
        for key in [key for key in self.tools if key[0] == server]:
            del self.tools[key]
