"""Members, and the strategies as data structures: who of them is next, in O(1) or O(log n)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from random import Random
from typing import Protocol, get_args
from zlib import crc32

from trunkline.balance.health import NEVER_OUT, HealthState, Phase, Record
from trunkline.config.options import Strategy

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
FEW = 16
"""Up to so many members a look at every load is faster than keeping them in order."""
TRIES = 8


@dataclass(frozen=True, slots=True)
class MemberState:
    """How a server fares at one moment, for showing."""

    server: str
    load: int
    healthy: bool
    """The flag that somebody set; passive health does not touch it."""
    phase: Phase
    """Where passive health has it."""
    available: bool
    """Whether it may take a call now."""
    weight: float
    priority: float
    failures: int
    """Failures in a row."""
    calls: int
    """Calls that ended within the window."""
    errors: int
    ejections: int
    """Ejections in close succession; each doubles the next."""
    until: float
    """When the phase ends by itself, on the balancer's clock; 0 where it does not."""


class Member:
    """One server as a choice: its weight, its load, and whether it may take a call."""

    __slots__ = ("available", "health", "healthy", "load", "name", "orders", "priority", "record", "watchers", "weight")

    def __init__(self, name: str, window: float) -> None:
        self.name = name
        self.weight = 1.0
        """Share of the calls under `weighted`, rank under `priority`; 0 takes calls only when nobody else can."""
        self.priority = 0.0
        """Rank under `failover-only`; the lowest goes first."""
        self.load = 0
        self.healthy = True
        self.available = True
        self.health: HealthState = NEVER_OUT
        self.record = Record(window)
        self.orders: list[Order] = []
        """Who must hear when the member comes or goes."""
        self.watchers: list[Turns] = []
        """Who must hear when its load changes."""

    def shift(self, delta: int) -> None:
        """Change the load; it never falls below 0."""
        load = self.load + delta
        self.load = load if load > 0 else 0
        for watcher in self.watchers:
            watcher.moved(self)

    def state(self) -> MemberState:
        """A picture of it."""
        return MemberState(
            server=self.name,
            load=self.load,
            healthy=self.healthy,
            phase=self.health.phase,
            available=self.available,
            weight=self.weight,
            priority=self.priority,
            failures=self.record.in_a_row,
            calls=self.record.calls,
            errors=self.record.errors,
            ejections=self.health.ejections,
            until=self.health.until,
        )


Value = Callable[[Member], float]


class Order(Protocol):
    """Members in the order in which they should be asked."""

    def add(self, member: Member) -> None:
        """It may take calls."""
        ...

    def discard(self, member: Member) -> None:
        """It may not."""
        ...

    def first(self) -> Member | None:
        """Who is next."""
        ...

    def walk(self) -> Generator[Member]:
        """Who would be next, one after the other; nothing may change before the walk is closed."""
        ...

    def chose(self, member: Member) -> None:
        """It had its turn."""
        ...


def order_for(
    strategy: Strategy, members: Sequence[Member], *, weight: Value, priority: Value, random: Random
) -> Order:
    """The structure that a strategy needs, with all the members in it."""
    match strategy:
        case "random":
            return Draws(members, random)
        case "failover-only":
            return Turns(members, rank=priority, stays=True)
        case "least-loaded":
            return Few(members) if len(members) <= FEW else Turns(_turned(members), rank=lambda member: member.load)
        case "weighted":
            return Turns(_turned(members), rank=lambda member: 0.0, step=lambda member: _stride(weight(member)))
        case "priority" | "capability-based":
            return Turns(_turned(members), rank=lambda member: -weight(member))
        case "round-robin" | "affinity":
            return Turns(_turned(members), rank=lambda member: 0.0)


def _stride(weight: float) -> float:
    return 1.0 / weight if weight > 0 else math.inf


def _turned(members: Sequence[Member]) -> Sequence[Member]:
    # Every set starts somewhere else, or the first server would get the first call of each.
    start = crc32("\0".join(member.name for member in members).encode()) % max(1, len(members))
    return [*members[start:], *members[:start]]


Entry = tuple[float, int, Member, float]


class Turns:
    """A heap of turns: the smallest key first, and among equal keys the one that waited longest.

    A `step` that is added with each turn makes shares (stride scheduling): with steps of 1/weight everyone gets calls
    in proportion to its weight, evenly spread. An infinite step is served only when all others are gone.
    """

    def __init__(
        self, members: Sequence[Member], *, rank: Value, step: Value = lambda member: 0.0, stays: bool = False
    ) -> None:
        self._rank = rank
        self._step = step
        self._stays = stays
        self._turn = 0
        self._now = 0.0
        # An entry counts while it is its member's current one; others are dropped when they come up.
        self._entries: dict[Member, Entry] = {}
        self._heap: list[Entry] = []
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        if member not in self._entries:
            step = self._step(member)
            # Who comes late starts now: it does not catch up on what it missed.
            self._put(member, self._now + step if step else self._rank(member), step)

    def discard(self, member: Member) -> None:
        self._entries.pop(member, None)

    def moved(self, member: Member) -> None:
        """Its rank is another one now."""
        if member in self._entries:
            self._put(member, self._rank(member), 0.0)

    def first(self) -> Member | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[2]
            heappop(heap)
        return None

    def walk(self) -> Generator[Member]:
        aside: list[Entry] = []
        try:
            while (member := self.first()) is not None:
                aside.append(heappop(self._heap))
                yield member
        finally:
            for entry in aside:
                heappush(self._heap, entry)

    def chose(self, member: Member) -> None:
        if self._stays:
            return
        key, _, _, step = self._entries[member]
        if step and key != math.inf:
            self._now = key
        self._put(member, key + step, step)

    def _put(self, member: Member, key: float, step: float) -> None:
        self._turn += 1
        heap, before = self._heap, self._entries.get(member)
        fresh = self._entries[member] = (key, self._turn, member, step)
        if heap and heap[0] is before:
            heapreplace(heap, fresh)
            return
        heappush(heap, fresh)
        # Entries that no longer count lie where nobody comes by, for instance those of a member that comes and goes.
        if len(heap) > 2 * len(self._entries) + FEW:
            self._heap = list(self._entries.values())
            heapify(self._heap)


class Few:
    """The least loaded of a handful, found by looking; equal ones take turns."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members: OrderedDict[Member, None] = OrderedDict.fromkeys(_turned(members))

    def add(self, member: Member) -> None:
        self._members[member] = None

    def discard(self, member: Member) -> None:
        self._members.pop(member, None)

    def first(self) -> Member | None:
        best, least = None, math.inf
        for member in self._members:
            load = member.load
            if load < least:
                if not load:
                    return member
                best, least = member, load
        return best

    def walk(self) -> Generator[Member]:
        yield from sorted(self._members, key=lambda member: member.load)

    def chose(self, member: Member) -> None:
        self._members.move_to_end(member)


class Draws:
    """Anyone, with equal chance."""

    def __init__(self, members: Sequence[Member], random: Random) -> None:
        self._random = random.random
        self._members = list(members)
        self._at = {member: index for index, member in enumerate(members)}

    def add(self, member: Member) -> None:
        if member not in self._at:
            self._at[member] = len(self._members)
            self._members.append(member)

    def discard(self, member: Member) -> None:
        index = self._at.pop(member, None)
        if index is None:
            return
        last = self._members.pop()
        if last is not member:
            self._members[index] = last
            self._at[last] = index

    def first(self) -> Member | None:
        members = self._members
        return members[int(self._random() * len(members))] if members else None

    def walk(self) -> Generator[Member]:
        members = self._members
        if not members:
            return
        # Drawing again keeps the chances of the others equal; the round after it makes sure that nobody is missed.
        for _ in range(TRIES):
            yield members[int(self._random() * len(members))]
        start = int(self._random() * len(members))
        for index in range(len(members)):
            yield members[index - start]

    def chose(self, member: Member) -> None:
        """Chance has no memory."""
