"""Which batch goes next: requests wait by server; servers that are due take turns for slots, as do owners in each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from trunkline.call.lanes import FairQueue, Lane, Limits
from trunkline.errors import BusyError

T = TypeVar("T")


class Group(Generic[T]):
    """What waits for one server, and the slots that the server may have."""

    __slots__ = ("due", "lane", "lined_up", "queue", "server", "timer")

    def __init__(self, server: str, limits: Limits) -> None:
        self.server = server
        self.lane = Lane(server, limits)
        self.queue: FairQueue[T] = FairQueue()
        self.due = False
        """It goes out as soon as there is a slot; never set while nothing waits."""
        self.lined_up = False
        self.timer: asyncio.Handle | None = None
        """Makes it due, later."""

    def stop_timer(self) -> None:
        """Whatever was to happen later does not."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Groups(Generic[T]):
    """Gives out batches while slots are free: `slots` in all, `share` of them to one server."""

    def __init__(self, slots: int, share: int, batch_size: int, max_queue: int, wanted: Callable[[T], bool]) -> None:
        self.size = 0
        """Entries that wait."""
        self._slots = Lane("", Limits(slots, queue=0))
        self._share = Limits(share, queue=0)
        self._batch_size, self._max_queue, self._wanted = batch_size, max_queue, wanted
        self._groups: dict[str, Group[T]] = {}
        self._line: deque[Group[T]] = deque()

    @property
    def in_flight(self) -> int:
        """Batches that have a slot."""
        return self._slots.inside

    def all(self) -> list[Group[T]]:
        """The groups of servers for which something waits or is in flight."""
        return list(self._groups.values())

    def of(self, server: str) -> Group[T]:
        """The group of a server."""
        group = self._groups.get(server)
        if group is None:
            group = self._groups[server] = Group(server, self._share)
        return group

    def push(self, group: Group[T], owner: str, entry: T) -> T | None:
        """Let an entry wait. In a full queue it takes the place of the newest one of the owner that has most: that
        one is returned; or `BusyError`, if the new one's owner has its share already."""
        pushed_out = None
        if group.queue.size >= self._max_queue:
            if not group.queue.below_share(owner, self._max_queue):
                raise busy(group.server, group.queue.size)
            pushed_out = group.queue.pop_from_longest()
            self.size -= 1
        group.queue.push(owner, entry)
        self.size += 1
        return pushed_out

    def remove(self, server: str, owner: str, entry: T) -> None:
        """Let an entry wait no longer, if it still does."""
        group = self._groups.get(server)
        if group is not None and group.queue.remove(owner, entry):
            self.size -= 1
            self._tidy(group)

    def make_due(self, group: Group[T]) -> None:
        """What waits for a server goes out as soon as there is a slot."""
        group.stop_timer()
        group.due = True
        self._line_up(group)

    def next(self) -> tuple[Group[T], list[T]] | None:
        """The next batch that is due and has a slot, which it takes."""
        while self._line and self._slots.inside < self._slots.concurrency:
            group = self._line.popleft()
            group.lined_up = False
            entries = self._take(group) if group.due else []  # it may have emptied since it lined up
            if entries:
                self._slots.try_enter()
                group.lane.try_enter()
                self._line_up(group)
                return group, entries
            self._tidy(group)
        return None

    def end(self, group: Group[T]) -> bool:
        """A batch gives its slot back; true when that makes due what gathered meanwhile."""
        self._slots.leave()
        group.lane.leave()
        gathered = bool(group.queue.size) and not group.due
        if gathered:
            self.make_due(group)
        else:
            self._line_up(group)
            self._tidy(group)
        return gathered

    def _take(self, group: Group[T]) -> list[T]:
        entries: list[T] = []
        while group.queue.size and len(entries) < self._batch_size:
            entry = group.queue.pop()
            self.size -= 1
            if self._wanted(entry):
                entries.append(entry)
        if not group.queue.size:
            group.due = False
        return entries

    def _line_up(self, group: Group[T]) -> None:
        if group.due and not group.lined_up and group.lane.inside < group.lane.concurrency:
            group.lined_up = True
            self._line.append(group)

    def _tidy(self, group: Group[T]) -> None:
        """Forget an empty group, but for the batches it has in flight."""
        if group.queue.size:
            return
        group.due = False
        group.stop_timer()
        if not group.lane.inside and self._groups.get(group.server) is group:
            del self._groups[group.server]


def busy(server: str, waiting: int) -> BusyError:
    """The error for a request too many."""
    whom = f"Server {server!r}" if server else "The batcher"
    return BusyError(
        f"{whom} has {waiting} requests waiting already.", hint="Try again in a moment, or raise `max_queue`."
    )
