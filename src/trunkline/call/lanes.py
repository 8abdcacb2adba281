"""Lanes: each server has so many slots and a bounded queue before them, where every owner gets its turn."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from trunkline.errors import BusyError, ConfigError

T = TypeVar("T")

RECENT = 10.0
"""Seconds for which an owner who came to a lane is taken to be about to come again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a lane bears."""

    concurrency: int = 128
    """Calls inside at once."""
    queue: int = 1000
    """Calls that may wait for a slot; 0 lets none wait."""
    max_wait: float = 30.0
    """Seconds that a call waits for a slot at most."""
    per_owner: int = 0
    """Calls of one owner inside at once while others come too; 0 sets no limit."""

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"`concurrency` is {self.concurrency}.", hint="Let at least 1 call in.")
        if self.queue < 0:
            raise ConfigError(f"`queue` is {self.queue}.", hint="Give 0 to let nobody wait, or more.")
        if not (self.max_wait >= 0 and math.isfinite(self.max_wait)):
            raise ConfigError(f"`max_wait` is {self.max_wait:g}.", hint="Give the seconds, 0 or more.")


class Lane:
    """One server's bulkhead; who cannot enter at once waits, and owners are let in by turns.

    While several owners come, none has more than its share inside: what a server works on already cannot be overtaken.
    The usual way in costs next to nothing:

        if not lane.try_enter(owner):
            await lane.enter(owner)
        try: ...
        finally: lane.leave(owner)
    """

    # A slot changes hands inside `leave`: while anybody waits who may enter, no slot is free, and so `try_enter`
    # overtakes nobody.
    __slots__ = (
        "_again", "_latest", "_running", "_share", "_shared_until", "_waiting",
        "concurrency", "inside", "max_wait", "queue", "server",
    )  # fmt: skip

    def __init__(self, server: str, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self.server = server
        self._set(limits)
        self.inside = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._running: dict[str, int] = {}
        self._latest, self._shared_until = "", 0.0
        self._again: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return self._waiting.size

    def try_enter(self, owner: str = "") -> bool:
        """Enter if a slot is free, and the owner has not its share already."""
        if owner and self._share:
            if owner != self._latest:
                self._note(owner)
            running = self._running.get(owner, 0)
            if self.inside >= self.concurrency or (running >= self._share and self._has_its_share(owner)):
                return False
            self._running[owner] = running + 1
        elif self.inside >= self.concurrency:
            return False
        self.inside += 1
        return True

    async def enter(self, owner: str = "", max_wait: float | None = None) -> None:
        """Enter when it is the owner's turn; `BusyError` when the queue is full or it takes longer than `max_wait`."""
        if self.try_enter(owner):
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        refused = self._waiting.admit(owner, turn, self.queue)
        if refused is not None and not refused.done():
            refused.set_exception(self._full())
        longest = self.max_wait if max_wait is None else max_wait
        timer = loop.call_later(longest, self._give_up, owner, turn, longest)
        if self._share and self._again is None:
            self._again = loop.call_later(RECENT, self._look_again)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(owner, turn)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(owner)  # the slot was ours already: the next one gets it
            raise
        finally:
            timer.cancel()

    def leave(self, owner: str = "") -> None:
        """Give the slot back, or to whoever is next."""
        self.inside -= 1
        running = self._running.get(owner, 0)
        if running > 1:
            self._running[owner] = running - 1
        elif running:
            del self._running[owner]
        if self._waiting.size:
            self._let_in()

    def resize(self, limits: Limits) -> None:
        """Change the limits now: who is inside or waits stays, and new slots are given out at once."""
        self._set(limits)
        self._let_in()

    def _set(self, limits: Limits) -> None:
        self.concurrency, self.queue, self.max_wait = limits.concurrency, limits.queue, limits.max_wait
        # Whatever the limit, one place is left to others where there are several.
        self._share = limits.per_owner and max(1, min(limits.per_owner, limits.concurrency - 1))

    def _note(self, owner: str) -> None:
        """Somebody came who did not come last: the lane is shared for a while."""
        if self._latest:
            self._shared_until = time.monotonic() + RECENT
        self._latest = owner

    def _has_its_share(self, owner: str) -> bool:
        if not self._share or self._running.get(owner, 0) < self._share:
            return False
        return len(self._running) > 1 or time.monotonic() < self._shared_until

    def _let_in(self) -> None:
        """Give free slots to those whose turn it is."""
        while self.inside < self.concurrency and self._waiting.size:
            owner = next((owner for owner in self._waiting.owners if not self._has_its_share(owner)), None)
            if owner is None:
                return
            turn = self._waiting.pop(owner)
            if not turn.done():  # else its caller was cancelled in this very turn of the loop
                self.inside += 1
                if owner and self._share:
                    self._running[owner] = self._running.get(owner, 0) + 1
                turn.set_result(None)

    def _look_again(self) -> None:
        """Whoever waits for its own calls alone, since others came too, waits no longer once they stay away."""
        self._let_in()
        waits = self._waiting.size > 0
        self._again = asyncio.get_running_loop().call_later(RECENT, self._look_again) if waits else None

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
            lane.resize(self._limits_of(server))

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

    @property
    def owners(self) -> Iterable[str]:
        """Those who have entries, in the order of their turns."""
        return self._owners.keys()

    def push(self, owner: str, entry: T) -> None:
        """Put an entry behind the owner's others."""
        entries = self._owners.get(owner)
        if entries is None:
            entries = self._owners[owner] = OrderedDict()
        entries[entry] = None
        self.size += 1

    def pop(self, owner: str | None = None) -> T:
        """Take the first entry of an owner, or of the one whose turn it is."""
        owner = next(iter(self._owners)) if owner is None else owner
        entries = self._owners[owner]
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
