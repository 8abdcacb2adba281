"""The strategies as data structures: who is next among those that may take a call, in O(1) or O(log n)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from random import Random
from typing import TYPE_CHECKING, Literal, Protocol
from zlib import crc32

if TYPE_CHECKING:
    from trunkline.balance.member import Member

Strategy = Literal[
    "round-robin", "least-loaded", "capability-based", "affinity", "priority", "random", "weighted", "failover-only"
]
STRATEGIES: tuple[Strategy, ...] = (
    "round-robin",
    "least-loaded",
    "capability-based",
    "affinity",
    "priority",
    "random",
    "weighted",
    "failover-only",
)
FEW = 16
"""Up to so many members a look at every load is faster than keeping them in order."""
TRIES = 8

Value = Callable[["Member"], float]


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
        case "least-loaded":
            return Few(members) if len(members) <= FEW else Loads(members)
        case "random":
            return Lots(members, random)
        case "weighted":
            return Turns(_turned(members), rank=lambda member: 0.0, step=lambda member: _stride(weight(member)))
        case "priority" | "capability-based":
            return Turns(_turned(members), rank=lambda member: -weight(member))
        case "failover-only":
            return Turns(members, rank=priority, stays=True)
        case "round-robin" | "affinity":
            return Turns(_turned(members), rank=lambda member: 0.0)


def _stride(weight: float) -> float:
    return 1.0 / weight if weight > 0 else math.inf


def _turned(members: Sequence[Member]) -> Sequence[Member]:
    # Every set starts somewhere else, or the first server would get the first call of each.
    start = crc32("\0".join(member.name for member in members).encode()) % max(1, len(members))
    return [*members[start:], *members[:start]]


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
        self._entries: dict[Member, tuple[float, int, Member, float]] = {}
        self._heap: list[tuple[float, int, Member, float]] = []
        for member in members:
            self._heap.append(self._enter(member))
        heapify(self._heap)

    def add(self, member: Member) -> None:
        if member not in self._entries:
            self._push(self._enter(member))

    def discard(self, member: Member) -> None:
        self._entries.pop(member, None)

    def first(self) -> Member | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[2]
            heappop(heap)
        return None

    def walk(self) -> Generator[Member]:
        aside: list[tuple[float, int, Member, float]] = []
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
        entry = self._entries[member]
        key, step = entry[0], entry[3]
        self._turn += 1
        if step:
            if key != math.inf:
                self._now = key
            key += step
        fresh = (key, self._turn, member, step)
        self._entries[member] = fresh
        if self._heap[0] is entry:
            heapreplace(self._heap, fresh)
        else:
            self._push(fresh)

    def _push(self, entry: tuple[float, int, Member, float]) -> None:
        heappush(self._heap, entry)
        # Entries that no longer count lie where nobody comes by, for instance those of a member that comes and goes.
        if len(self._heap) > 2 * len(self._entries) + FEW:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def _enter(self, member: Member) -> tuple[float, int, Member, float]:
        self._turn += 1
        step = self._step(member)
        # Who comes late starts now: it does not catch up on what it missed.
        entry = (self._now + step if step else self._rank(member), self._turn, member, step)
        self._entries[member] = entry
        return entry


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


class Loads:
    """The least loaded of many: one queue for each load, so that a change of load is a step to the next queue."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._at: dict[Member, int] = {}
        self._queues: dict[int, OrderedDict[Member, None]] = {}
        self._least = 0
        for member in _turned(members):
            self.add(member)

    def add(self, member: Member) -> None:
        if member not in self._at:
            self._enqueue(member)

    def discard(self, member: Member) -> None:
        load = self._at.pop(member, None)
        if load is not None:
            self._dequeue(member, load)

    def moved(self, member: Member) -> None:
        """Its load is another one now."""
        load = self._at.get(member)
        if load is not None and load != member.load:
            self._dequeue(member, load)
            self._enqueue(member)

    def first(self) -> Member | None:
        if not self._at:
            return None
        queue = self._queues.get(self._least)
        if queue is None:
            self._least = min(self._queues)
            queue = self._queues[self._least]
        return next(iter(queue))

    def walk(self) -> Generator[Member]:
        for load in sorted(self._queues):
            yield from self._queues[load]

    def chose(self, member: Member) -> None:
        self._queues[self._at[member]].move_to_end(member)

    def _enqueue(self, member: Member) -> None:
        load = self._at[member] = member.load
        queue = self._queues.get(load)
        if queue is None:
            queue = self._queues[load] = OrderedDict()
        queue[member] = None
        if load < self._least:
            self._least = load

    def _dequeue(self, member: Member, load: int) -> None:
        queue = self._queues[load]
        del queue[member]
        if not queue:
            del self._queues[load]


class Lots:
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
