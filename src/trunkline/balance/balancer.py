"""Several servers of which one is chosen for each call: who exists, who is well, who is next."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping
from random import Random

from trunkline.balance.affinity import Affinity
from trunkline.balance.ejection import Ejector, soonest
from trunkline.balance.health import WELL, HealthOptions, Phase, Record, share
from trunkline.balance.lease import Lease, Outcome
from trunkline.balance.member import Member, MemberOptions, MemberState
from trunkline.balance.strategies import Strategy, Value
from trunkline.balance.subset import Subset
from trunkline.errors import NoServerError
from trunkline.model import NOTHING

MOST_SLATES = 256
"""Candidate sets that are kept in order at once; beyond it the one unused longest is made anew when it is wanted."""
ORDINARY = MemberOptions()
RESULTS: Mapping[Outcome, bool | None] = {"ok": True, "failed": False, "unclear": None, "unused": None}
DEFAULT_HEALTH = HealthOptions()


def own_weight(member: Member) -> float:
    """The weight that a member has wherever nothing else is said."""
    return member.options.weight


def own_priority(member: Member) -> float:
    """The priority that a member has wherever nothing else is said."""
    return member.options.priority


class Balancer:
    """Members, their load and their health; `take` chooses one of them.

    It has no timers: what time brings about is noticed with the next call. It belongs to one event loop.
    """

    def __init__(
        self,
        members: Mapping[str, MemberOptions] = NOTHING,
        *,
        strategy: Strategy = "round-robin",
        health: HealthOptions = DEFAULT_HEALTH,
        affinity: Affinity | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        on_health: Callable[[str, bool], object] | None = None,
        on_end: Callable[[Lease, Outcome], object] | None = None,
    ) -> None:
        self.strategy: Strategy = strategy
        self.affinity = Affinity(clock=clock) if affinity is None else affinity
        self._ward = Ejector(health, clock, on_health)
        self._window = health.window
        self._clock = clock
        self._random = random or Random()  # noqa: S311  a choice of servers is no secret
        self._on_end = on_end
        self._members: dict[str, Member] = {}
        self._slates: OrderedDict[Hashable, Subset] = OrderedDict()
        self._end_lease = self._end
        for name, options in members.items():
            self.add(name, options)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> tuple[str, ...]:
        """All members, in the order they came."""
        return tuple(self._members)

    def add(self, name: str, options: MemberOptions = ORDINARY) -> None:
        """Let a server take part. One that does already gets the options, and keeps its load and its health."""
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = Member(name, options, Record(self._window))
            self._ward.admit(member)
        elif member.options == options:
            return
        member.options = options
        self.forget_slates()

    def remove(self, name: str) -> bool:
        """Let it take part no longer; leases on it end in peace."""
        member = self._members.pop(name, None)
        if member is None:
            return False
        self.affinity.forget_server(name)
        self.forget_slates()
        self._ward.dismiss(member)
        return True

    def take(self, key: str = "", *, exclude: Container[str] = (), only: Collection[str] | None = None) -> Lease:
        """Choose a server; the lease is its load until it is done. Raises `NoServerError` if there is none.

        Calls with the same `key` go to the same server while it is well. `only` names the candidates; keep one
        `frozenset` for each kind of call, so that it need not be hashed again.
        """
        slate = self.slate(only if only is None or isinstance(only, frozenset) else frozenset(only), only)
        lease = self.take_from(slate, prefer=self.affinity.servers(key) if key else (), exclude=exclude)
        if lease is None:
            raise NoServerError(
                f"None of {len(slate.members)} servers can take the call.",
                hint="Wait until one is well again, or add one." if slate.members else "Add a server.",
            )
        if key and not lease.pinned:
            self.affinity.remember(key, lease.server)
        return lease

    def slate(
        self,
        key: Hashable,
        names: Iterable[str] | None,
        *,
        strategy: Strategy | None = None,
        weight: Value = own_weight,
        priority: Value = own_priority,
        health_aware: bool = True,
    ) -> Subset:
        """The candidates of a kind of call; made once for each key, as long as no member comes or goes."""
        slate = self._slates.get(key)
        if slate is not None:
            self._slates.move_to_end(key)
            return slate
        wanted = None if names is None else set(names)
        slate = self._slates[key] = Subset(
            [member for name, member in self._members.items() if wanted is None or name in wanted],
            strategy=strategy or self.strategy,
            weight=weight,
            priority=priority,
            health_aware=health_aware,
            random=self._random,
        )
        if len(self._slates) > MOST_SLATES:
            self._slates.popitem(last=False)[1].close()
        return slate

    def forget_slates(self) -> None:
        """Make every candidate set anew when it is next wanted."""
        if not self._slates:
            return
        self._slates.clear()
        for member in self._members.values():
            member.orders.clear()
            member.watchers.clear()

    def take_from(self, slate: Subset, prefer: Iterable[str] = (), exclude: Container[str] = ()) -> Lease | None:
        """Choose from a slate: the first preferred one that is well, else whom the strategy says."""
        ward, now = self._ward, self._clock()
        if ward.waiting and ward.waiting[0][0] <= now:
            ward.wake(now)
        for name in prefer:
            member = slate.members.get(name)
            if member is not None and (member.available or not slate.health_aware) and name not in exclude:
                return self._lease(member, now, True)
        order = slate.order
        member = order.first()
        if member is None or exclude or ward.warming:
            member = self._search(slate, exclude, now)
            if member is None:
                return None
        else:
            order.chose(member)
        return self._lease(member, now, False)

    def set_healthy(self, name: str, healthy: bool) -> None:
        """Say from outside whether a server is well; unknown servers are ignored."""
        member = self._members.get(name)
        if member is not None:
            self._ward.flag(member, healthy)

    def report(self, name: str, ok: bool) -> None:
        """Count a call that was made without a lease."""
        member = self._members.get(name)
        if member is None:
            return
        if member.standing.phase in (Phase.HALF_OPEN, Phase.PROBING):
            self._ward.end_probe(member, ok)
        else:
            self._ward.judge(member, ok)

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
        return self._ward.is_well(name)

    def load(self, name: str) -> int:
        """Calls that are under way on a server."""
        member = self._members.get(name)
        return 0 if member is None else member.load

    def states(self) -> dict[str, MemberState]:
        """How all members fare."""
        self._ward.wake(self._clock())
        return {name: member.state() for name, member in self._members.items()}

    def _search(self, slate: Subset, exclude: Container[str], now: float) -> Member | None:
        """The first that is not excluded; those that are warming up let most of their turns pass."""
        passed: dict[Member, None] = {}
        chosen: Member | None = None
        walk = slate.order.walk()
        for member in walk:
            if member.name in exclude:
                continue
            part = share(member.standing, self._ward.options, now)
            if part >= 1 or self._random.random() < part:
                chosen = member
                break
            passed[member] = None
        walk.close()
        chosen = chosen or next(iter(passed), None)
        for member in passed:
            slate.order.chose(member)
        if chosen is not None:
            if chosen not in passed:
                slate.order.chose(chosen)
            return chosen
        # Nobody else is left: a server that is out for its failures is better than none.
        out = (member for name, member in self._ward.out.items() if name in slate.members and name not in exclude)
        return min((member for member in out if member.healthy), key=soonest, default=None)

    def _lease(self, member: Member, now: float, pinned: bool) -> Lease:
        probation = None
        if member.standing is not WELL and member.standing.phase in (Phase.EJECTED, Phase.HALF_OPEN):
            self._ward.begin_probe(member)
            probation = member.standing
        member.load += 1
        for watcher in member.watchers:
            watcher.moved(member)
        return Lease(member, now, self._end_lease, probation, pinned)

    def _end(self, lease: Lease, outcome: Outcome) -> None:
        member = lease.member
        member.shift(-1)
        if lease.probe:
            self._ward.end_probe(member, RESULTS[outcome])
        elif outcome == "ok":
            member.record.note(True, self._clock())
        elif outcome == "failed":
            self._ward.judge(member, False)
        if self._on_end is not None and self._members.get(member.name) is member:
            self._on_end(lease, outcome)
