"""Lanes: each server has so many slots and a bounded queue before them, where every owner gets its turn."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from trunkline.errors import BusyError, ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a lane bears."""

    concurrency: int = 128
    """Calls inside at once."""
    queue: int = 1000
    """Calls that may wait for a slot; 0 lets none wait."""
    max_wait: float = 30.0
    """Seconds that a call waits for a slot at most."""

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"`concurrency` is {self.concurrency}.", hint="Let at least 1 call in.")
        if self.queue < 0:
            raise ConfigError(f"`queue` is {self.queue}.", hint="Give 0 to let nobody wait, or more.")
        if not (self.max_wait >= 0 and math.isfinite(self.max_wait)):
            raise ConfigError(f"`max_wait` is {self.max_wait:g}.", hint="Give the seconds, 0 or more.")


class Lane:
    """One server's bulkhead; who cannot enter at once waits, and owners are let in by turns.

    The usual way in costs next to nothing:

        if not lane.try_enter():
            await lane.enter(owner)
        try: ...
        finally: lane.leave()
    """

    # A slot changes hands inside `leave`: while anybody waits, no slot is free, and so `try_enter` overtakes nobody.
    __slots__ = ("_waiting", "concurrency", "inside", "max_wait", "queue", "server")

    def __init__(self, server: str, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self.server = server
        self.concurrency, self.queue, self.max_wait = limits.concurrency, limits.queue, limits.max_wait
        self.inside = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return self._waiting.size

    def try_enter(self) -> bool:
        """Enter if a slot is free."""
        if self.inside < self.concurrency:
            self.inside += 1
            return True
        return False

    async def enter(self, owner: str = "", max_wait: float | None = None) -> None:
        """Enter when it is the owner's turn; `BusyError` when the queue is full or it takes longer than `max_wait`."""
        if self.try_enter():
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        refused = self._waiting.admit(owner, turn, self.queue)
        if refused is not None and not refused.done():
            refused.set_exception(self._full())
        longest = self.max_wait if max_wait is None else max_wait
        timer = loop.call_later(longest, self._give_up, owner, turn, longest)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(owner, turn)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # the slot was ours already: the next one gets it
            raise
        finally:
            timer.cancel()

    def leave(self) -> None:
        """Give the slot back, or to whoever is next."""
        if self._waiting.size and self.inside <= self.concurrency and self._let_in():
            return
        self.inside -= 1

    def resize(self, concurrency: int, queue: int) -> None:
        """Change the limits now: who is inside or waits stays, and new slots are given out at once."""
        Limits(concurrency, queue)
        self.concurrency, self.queue = concurrency, queue
        while self.inside < self.concurrency and self._let_in():
            self.inside += 1

    def _let_in(self) -> bool:
        while self._waiting.size:
            turn = self._waiting.pop()
            if not turn.done():  # else its caller was cancelled in this very turn of the loop
                turn.set_result(None)
                return True
        return False

    def _give_up(self, owner: str, turn: asyncio.Future[None], waited: float) -> None:
        if self._waiting.remove(owner, turn) and not turn.done():
            message = f"Server {self.server!r} had no free slot for {waited:g} s."
            turn.set_exception(BusyError(message, hint="Try again in a moment, or raise its `concurrency`."))

    def _full(self) -> BusyError:
        return BusyError(
            f"Server {self.server!r} already works on {self.inside} calls, and {self._waiting.size} more wait.",
            hint="Try again in a moment, or raise its `concurrency` or its `queue`.",
        )


class Lanes:
    """The lanes by server, made on demand; ask anew for each call, since idle ones are dropped when there are many."""

    def __init__(self, limits_of: Callable[[str], Limits] = lambda server: Limits(), *, keep: int = 1000) -> None:
        self._limits_of, self._keep = limits_of, keep
        self._lanes: dict[str, Lane] = {}
        self._sweep_at = keep

    def __len__(self) -> int:
        return len(self._lanes)

    def of(self, server: str) -> Lane:
        """The lane of a server."""
        lane = self._lanes.get(server)
        return lane if lane is not None else self._make(server)

    def refresh(self) -> None:
        """Ask for everyone's limits again, and apply them now."""
        for server, lane in tuple(self._lanes.items()):
            limits = self._limits_of(server)
            lane.resize(limits.concurrency, limits.queue)
            lane.max_wait = limits.max_wait

    def _make(self, server: str) -> Lane:
        if len(self._lanes) >= self._sweep_at:
            self._lanes = {name: lane for name, lane in self._lanes.items() if lane.inside}
            # If most are busy, sweeping again at each new one would be in vain.
            self._sweep_at = max(self._keep, 2 * len(self._lanes))
        lane = self._lanes[server] = Lane(server, self._limits_of(server))
        return lane


class FairQueue(Generic[T]):
    """Entries by owner: owners take turns, and each one's entries come in their order."""

    # Ordered dictionaries, since only they forget the first and the last of many at a constant cost.
    __slots__ = ("_owners", "size")

    def __init__(self) -> None:
        self._owners: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        self.size = 0

    def __iter__(self) -> Iterator[T]:
        return (entry for entries in self._owners.values() for entry in entries)

    def push(self, owner: str, entry: T) -> None:
        """Put an entry behind the owner's others."""
        entries = self._owners.get(owner)
        if entries is None:
            entries = self._owners[owner] = OrderedDict()
        entries[entry] = None
        self.size += 1

    def pop(self) -> T:
        """Take the first entry of the owner whose turn it is."""
        owner, entries = next(iter(self._owners.items()))
        entry, _ = entries.popitem(last=False)
        if entries:
            self._owners.move_to_end(owner)
        else:
            del self._owners[owner]
        self.size -= 1
        return entry

    def remove(self, owner: str, entry: T) -> bool:
        """Take out one entry; false when it is not here (any more)."""
        entries = self._owners.get(owner)
        if entries is None or entry not in entries:
            return False
        del entries[entry]
        if not entries:
            del self._owners[owner]
        self.size -= 1
        return True

    def admit(self, owner: str, entry: T, places: int) -> T | None:
        """Put an entry behind the owner's others, or, where all places are taken, say which entry must go without.

        That is the newest one of the owner that has most; or the new one, if its owner has an even share already.
        """
        if self.size < places:
            self.push(owner, entry)
            return None
        mine = len(self._owners.get(owner, ()))
        if mine >= places // (len(self._owners) + (mine == 0)):
            return entry
        longest = max(self._owners, key=lambda name: len(self._owners[name]))
        refused = next(reversed(self._owners[longest]))
        self.remove(longest, refused)
        self.push(owner, entry)
        return refused


_MINUTE = 60.0
_MOST_TOOLS = 10_000


class Pace:
    """How often each tool may be called in a minute: so many at once, and then as they become due again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: OrderedDict[tuple[str, str], float] = OrderedDict()

    def check(self, server: str, tool: str, rate: float) -> None:
        """Count one call; raises BusyError, with how long to wait, when there are too many."""
        now, apart = self._clock(), _MINUTE / rate
        due = max(now, self._due.get((server, tool), now))
        wait = due - now - max(0.0, _MINUTE - apart)
        if wait > 1e-9:
            message = f"Tool {tool!r} of server {server!r} bears {rate:g} calls in a minute."
            error = BusyError(message, hint=f"Try again in {math.ceil(wait)} s; its `rate_limit_hint` says so.")
            error.retry_after = math.ceil(wait)
            raise error
        self._due[server, tool] = due + apart
        self._due.move_to_end((server, tool))
        if len(self._due) > _MOST_TOOLS:
            self._due.popitem(last=False)
