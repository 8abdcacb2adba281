"""Several servers of which one is chosen for each call: who exists, who is well, who is next, and who is in use."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Container, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from random import Random
from types import TracebackType
from typing import Literal

from trunkline.balance.health import NEVER_OUT, Ejector, HealthOptions, HealthState, Phase, share, soonest
from trunkline.balance.strategies import Member, MemberState, Order, Strategy, Turns, Value, order_for
from trunkline.errors import (
    AuthorizationNeededError,
    NoServerError,
    ServerRefusedError,
    SessionLostError,
    TrunklineError,
    UpstreamError,
)
from trunkline.foreign import Raised, attempt
from trunkline.tasks import open_tasks

log = logging.getLogger("trunkline")

MOST_SUBSETS = 256
"""Subsets that are kept in order at once; beyond it the one unused longest is opened anew when it is wanted."""
DEFAULT_HEALTH = HealthOptions()

Outcome = Literal["ok", "failed", "unclear", "unused"]
"""`unclear` says nothing about the server (the caller withdrew); `unused` means that the call was never made."""
RESULTS: Mapping[Outcome, bool | None] = {"ok": True, "failed": False, "unclear": None, "unused": None}


Probe = Callable[[str], Awaitable[bool]]
"""Asks a server whether it is well; an error means no."""
Sleep = Callable[[float], Awaitable[object]]
AT_ONCE = 32
"""Servers that are asked at the same time."""

own_weight: Value = attrgetter("weight")
own_priority: Value = attrgetter("priority")


class Subset:
    """Those that could take a certain kind of call, in the order of one strategy.

    A balancer opens it when it is first wanted; from then on it hears of every change to its members.
    """

    def __init__(
        self,
        names: Collection[str],
        strategy: Strategy,
        *,
        weight: Value = own_weight,
        priority: Value = own_priority,
        health_aware: bool = True,
    ) -> None:
        self.names = names
        self.strategy: Strategy = strategy
        self.weight = weight
        self.priority = priority
        self.health_aware = health_aware
        self.members: Mapping[str, Member] = {}
        self.order: Order = Turns((), rank=priority)

    def open(self, members: Mapping[str, Member], random: Random) -> None:
        """Put those that are members in order."""
        self.members = {name: members[name] for name in self.names if name in members}
        found = list(self.members.values())
        order = order_for(self.strategy, found, weight=self.weight, priority=self.priority, random=random)
        self.order = order
        for member in found:
            if isinstance(order, Turns) and self.strategy == "least-loaded":
                member.watchers.append(order)
            if self.health_aware:
                member.orders.append(order)
                if not member.available:
                    order.discard(member)

    def close(self) -> None:
        """Hear nothing more, and keep nothing but the names."""
        for member in self.members.values():
            member.orders = [order for order in member.orders if order is not self.order]
            member.watchers = [order for order in member.watchers if order is not self.order]
        self.members, self.order = {}, Turns((), rank=self.priority)

    def ranked(self, *, exclude: Container[str] = ()) -> tuple[str, ...]:
        """Those that may take a call now, in the order in which they would be asked."""
        names = (member.name for member in self.order.walk()) if self.members else self.names
        return tuple(dict.fromkeys(name for name in names if name not in exclude))


class Lease:
    """The right to make one call on `server`; leave its `with` block, or say `done`, to give it back.

    A lease that is merely dropped gives its load back too, and counts as unused.
    """

    __slots__ = ("_end", "_probation", "member", "pinned", "server", "started", "subset")

    def __init__(
        self,
        member: Member,
        subset: Subset,
        started: float,
        end: Callable[[Lease, Outcome], None],
        probation: HealthState | None,
        pinned: bool,
    ) -> None:
        self.server = member.name
        self.member = member
        self.subset = subset
        """Those among whom it was chosen."""
        self.started = started
        """When it was taken, on the balancer's clock."""
        self._probation = probation
        self.pinned = pinned
        """The server was preferred, and not chosen by the strategy."""
        self._end: Callable[[Lease, Outcome], None] | None = end

    @property
    def probe(self) -> bool:
        """Whether this call shows if an ejected server is well again; something else may have shown it meanwhile."""
        return self._probation is not None and self.member.health is self._probation

    @property
    def open(self) -> bool:
        """Whether it still counts as load."""
        return self._end is not None

    def done(self, ok: bool | None = True) -> None:
        """The call ended: well, badly, or (`None`) in a way that says nothing about the server. Only once counts."""
        self._finish("unclear" if ok is None else "ok" if ok else "failed")

    def cancel(self) -> None:
        """The call is not made after all."""
        self._finish("unused")

    def _finish(self, outcome: Outcome) -> None:
        end = self._end
        if end is not None:
            self._end = None
            end(self, outcome)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.done(True if error is None else verdict(error))

    def __del__(self) -> None:
        self._finish("unused")


def verdict(error: BaseException) -> bool | None:
    """What an error says about the server: `True` it answered, `False` it failed, `None` nothing."""
    if isinstance(error, ServerRefusedError):
        return True
    if isinstance(error, NoServerError | SessionLostError | AuthorizationNeededError):
        return None
    return False if isinstance(error, UpstreamError | OSError) else None


class Balancer:
    """Members, their load and their health; `take` chooses one of them.

    It has no timers: what time brings about is noticed with the next call. It belongs to one event loop.
    """

    def __init__(
        self,
        *,
        health: HealthOptions = DEFAULT_HEALTH,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        on_health: Callable[[str, bool], object] | None = None,
        on_end: Callable[[Lease, Outcome], object] | None = None,
    ) -> None:
        self._ejector = Ejector(health, clock, on_health)
        self._members = self._ejector.members
        self._clock = clock
        self._random = random or Random()  # noqa: S311  a choice of servers is no secret
        self._on_end = on_end
        self._open: OrderedDict[Subset, None] = OrderedDict()
        self._end_lease = self._end

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> tuple[str, ...]:
        """All members, in the order they came."""
        return tuple(self._members)

    def add(self, name: str, *, weight: float = 1.0, priority: float = 0.0) -> None:
        """Let a server take part. One that does already gets the weight and priority, and keeps load and health."""
        member = self._members.get(name)
        if member is None:
            member = Member(name, self._ejector.options.window)
            self._ejector.add(member)
        elif (member.weight, member.priority) == (weight, priority):
            return
        member.weight, member.priority = weight, priority
        self.close_subsets()

    def remove(self, name: str) -> bool:
        """Let it take part no longer; leases on it end in peace."""
        member = self._members.get(name)
        if member is None:
            return False
        self.close_subsets()
        self._ejector.remove(member)
        return True

    def take(self, *subsets: Subset, prefer: Collection[str] = (), exclude: Container[str] = ()) -> Lease | None:
        """Choose a server; the lease is its load until it is done. `None` if nobody can take the call.

        The first subset that can take it does: in it the first preferred server that is well, else whom the
        strategy says.
        """
        ejector, now = self._ejector, self._clock()
        if ejector.waiting and ejector.waiting[0][0] <= now:
            ejector.wake(now)
        for subset in subsets:
            if subset in self._open:
                self._open.move_to_end(subset)
            else:
                self.open(subset)
            for name in prefer:
                member = subset.members.get(name)
                if member is not None and (member.available or not subset.health_aware) and name not in exclude:
                    return self._lease(member, subset, now, True)
            order = subset.order
            member = order.first()
            if member is None or exclude or ejector.warming:
                member = self._search(subset, exclude, now)
                if member is None:
                    continue
            else:
                order.chose(member)
            return self._lease(member, subset, now, False)
        return None

    def open(self, subset: Subset) -> None:
        """Keep a subset in order, as long as no member comes or goes."""
        subset.open(self._members, self._random)
        self._open[subset] = None
        if len(self._open) > MOST_SUBSETS:
            self._open.popitem(last=False)[0].close()

    def close_subsets(self) -> None:
        """Put every subset in order anew when it is next wanted."""
        if not self._open:
            return
        self._open.clear()
        for member in self._members.values():
            member.orders.clear()
            member.watchers.clear()

    def set_healthy(self, name: str, healthy: bool) -> None:
        """Say from outside whether a server is well; unknown servers are ignored."""
        member = self._members.get(name)
        if member is not None:
            self._ejector.flag(member, healthy)

    def report(self, name: str, ok: bool) -> None:
        """Count a call that was made without a lease."""
        member = self._members.get(name)
        if member is None:
            return
        if member.health.phase in (Phase.HALF_OPEN, Phase.PROBING):
            self._ejector.end_probe(member, ok)
        else:
            self._ejector.count(member, ok)

    def shift_load(self, name: str, delta: int) -> None:
        """Change a load by hand; it never falls below 0. Unknown servers are ignored."""
        member = self._members.get(name)
        if member is not None:
            member.shift(delta)

    def is_healthy(self, name: str) -> bool:
        """Whether a server is a member and flagged healthy."""
        member = self._members.get(name)
        return member is not None and member.healthy

    def is_well(self, name: str) -> bool:
        """Whether a server is flagged healthy and not out for its failures."""
        return self._ejector.is_well(name)

    def load(self, name: str) -> int:
        """Calls that are under way on a server."""
        member = self._members.get(name)
        return 0 if member is None else member.load

    async def ask(self, probe: Probe, *, timeout: float) -> dict[str, bool]:
        """Ask every server whether it is well, all at once, none for longer than `timeout` seconds."""
        gate, found = asyncio.Semaphore(AT_ONCE), dict.fromkeys(self._members, False)

        async def ask(server: str) -> None:
            async with gate:
                found[server] = await _answers(server, probe, timeout)

        async with open_tasks() as tasks:
            running = [tasks.start(ask(server), name=f"check {server}") for server in found]
            if running:
                await asyncio.wait(running)
        return found

    def states(self) -> dict[str, MemberState]:
        """How all members fare."""
        self._ejector.wake(self._clock())
        return {name: member.state() for name, member in self._members.items()}

    def _search(self, subset: Subset, exclude: Container[str], now: float) -> Member | None:
        """The first that is not excluded; those that are warming up let most of their turns pass."""
        passed: dict[Member, None] = {}
        chosen: Member | None = None
        walk = subset.order.walk()
        for member in walk:
            if member.name in exclude:
                continue
            part = share(member.health, self._ejector.options, now)
            if part >= 1 or self._random.random() < part:
                chosen = member
                break
            passed[member] = None
        walk.close()
        chosen = chosen or next(iter(passed), None)
        for member in passed:
            subset.order.chose(member)
        if chosen is not None:
            if chosen not in passed:
                subset.order.chose(chosen)
            return chosen
        # Nobody else is left: a server that is out for its failures is better than none.
        out = (member for name, member in self._ejector.out.items() if name in subset.members and name not in exclude)
        return min((member for member in out if member.healthy), key=soonest, default=None)

    def _lease(self, member: Member, subset: Subset, now: float, pinned: bool) -> Lease:
        probation = None
        if member.health is not NEVER_OUT and member.health.phase in (Phase.EJECTED, Phase.HALF_OPEN):
            self._ejector.begin_probe(member)
            probation = member.health
        member.load += 1
        for watcher in member.watchers:
            watcher.moved(member)
        return Lease(member, subset, now, self._end_lease, probation, pinned)

    def _end(self, lease: Lease, outcome: Outcome) -> None:
        member = lease.member
        member.shift(-1)
        if lease.probe:
            self._ejector.end_probe(member, RESULTS[outcome])
        elif outcome == "ok":
            member.record.note(True, self._clock())
        elif outcome == "failed":
            self._ejector.count(member, False)
        if self._on_end is not None and self._members.get(member.name) is member:
            self._on_end(lease, outcome)


@asynccontextmanager
async def open_checks(
    once: Callable[[], Awaitable[object]], *, interval: float, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[None]:
    """Check now and every `interval` seconds, until the body ends."""

    async def loop() -> None:
        while True:
            await once()
            await sleep(interval)

    async with open_tasks() as tasks:
        tasks.start(loop(), name="health checks")
        yield


async def _answers(server: str, probe: Probe, timeout: float) -> bool:
    async def ask() -> bool:
        async with asyncio.timeout(timeout):
            return bool(await probe(server))

    outcome = await attempt(ask)
    if not isinstance(outcome, Raised):
        return outcome
    if not isinstance(outcome.error, (TrunklineError, OSError)):  # one bad answer must not end the checks
        log.error("The health check of %s failed.", server, exc_info=outcome.error)
    return False
