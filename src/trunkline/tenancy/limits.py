"""What each user, key and thread may use of calls, tokens and money, and what they used of it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from trunkline.config.tenancy import LimitsSection
from trunkline.errors import ConfigError, LimitReachedError, StoreError
from trunkline.events import Emitter, Event
from trunkline.identity import Scope
from trunkline.storage.store import Store

PERIODS: Mapping[str, tuple[float, str, str]] = {
    "calls_per_minute": (60.0, "calls", "in a minute"),
    "calls_per_hour": (3600.0, "calls", "in an hour"),
    "key_calls_per_minute": (60.0, "calls", "in a minute with this key"),
    "tokens_per_day": (86400.0, "tokens", "in a day"),
    "cost_per_day": (86400.0, "cost", "in a day"),
}
"""What can be limited: for how long it is counted, what of, and in words."""
HELD = ("connections",)
"""What a user may have at once, limited for each as what is counted by time."""
REMEMBERED = 100_000
KEPT_EVERY = 30.0
"""Seconds between two times that what was used is kept; so much of it a crash forgets."""
PLANS = 20_000


@dataclass(frozen=True)
class LimitReached(Event):
    """Somebody may use no more for now."""

    event: ClassVar[str] = "limit_reached"
    user: str
    thread: str
    limit: str


@dataclass(frozen=True)
class LimitNear(Event):
    """Somebody has used most of what they may."""

    event: ClassVar[str] = "limit_near"
    user: str
    thread: str
    limit: str
    share: float


@dataclass(slots=True)
class _Spent:
    """What was used since a period began."""

    most: float
    period: float
    since: float
    amount: float = 0.0
    told: bool = False
    stored: float = 0.0

    def left(self, now: float) -> float:
        if now >= self.since + self.period:
            self.since, self.amount, self.told = now, 0.0, False
        return self.most - self.amount


Place = tuple[str, str, str]
"""User (or key), thread, limit."""


class Limiter:
    """Counts, refuses, and remembers across restarts what lasts longer than a minute."""

    def __init__(self, config: LimitsSection, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._spent: OrderedDict[Place, _Spent] = OrderedDict()
        self._plans: OrderedDict[Scope, tuple[tuple[Place, float], ...]] = OrderedDict()
        self._running: dict[str, int] = {}
        self._connections: dict[str, float] = {}
        """Of those who may have others than `[limits]` says."""
        self._events = Emitter(LimitReached, LimitNear)
        self.on, self.off = self._events.on, self._events.off
        self.configure(config)

    def configure(self, config: LimitsSection) -> None:
        """Take on other limits; what was used stays used."""
        self._config = config
        self._limits_all = bool(config.running_calls) or any(getattr(config, limit) for limit in PERIODS)
        self._plans.clear()

    def learn(self, scope: Scope) -> None:
        """Somebody is here: what is said of them counts where nobody calls, too."""
        own = dict(scope.limits).get("connections")
        if own is None:
            self._connections.pop(scope.user, None)
        else:
            self._connections[scope.user] = own

    def connections(self, user: str) -> int:
        """How many connections a user may have; 0 sets no limit."""
        return int(self._connections.get(user, self._config.connections))

    def is_limited(self, scope: Scope) -> bool:
        """Whether there is anything to count for a caller."""
        if not self._limits_all and not scope.limits and not scope.overrides.limits:
            return False
        return bool(self._plan(scope)) or bool(self._config.running_calls)

    def counts_tokens(self, scope: Scope) -> bool:
        """Whether what answers take is limited for a caller."""
        return any(place[2] == "tokens_per_day" for place, _ in self._plan(scope))

    def enter(self, scope: Scope) -> None:
        """A call begins; `LimitReachedError` when it may not."""
        now = self._clock()
        spent = [(place, self._at(place, most, now)) for place, most in self._plan(scope)]
        for place, one in spent:
            if one.left(now) < (1 if _is_calls(place[2]) else 1e-9):
                self._refuse(place, one, now)
        most = self._config.running_calls
        if most and self._running.get(scope.user, 0) >= most:
            self._tell(scope.user, "running_calls")
            raise LimitReachedError(
                f"{most} calls of yours run already.", retry_after=1, hint="Wait until one of them ends."
            )
        self._running[scope.user] = self._running.get(scope.user, 0) + 1
        for place, one in spent:
            if _is_calls(place[2]):
                self._spend(place, one, 1.0)

    def leave(self, scope: Scope, *, tokens: float = 0.0, cost: float = 0.0) -> None:
        """A call ended; what it used is counted."""
        left = self._running.get(scope.user, 1) - 1
        if left:
            self._running[scope.user] = left
        else:
            self._running.pop(scope.user, None)
        now = self._clock()
        for place, most in self._plan(scope):
            amount = {"tokens_per_day": tokens, "cost_per_day": cost}.get(place[2], 0.0)
            if amount:
                one = self._at(place, most, now)
                one.left(now)
                self._spend(place, one, amount)

    def no_connection(self, user: str) -> None:
        """A user needs one more connection than they may have."""
        self._tell(user, "connections")

    def _tell(self, user: str, limit: str) -> None:
        if self._events.hears(LimitReached):
            self._events.emit(LimitReached(user, "", limit))

    def used(self, scope: Scope) -> dict[str, dict[str, float]]:
        """What a caller used of each limit, and when it begins anew."""
        found: dict[str, dict[str, float]] = {}
        for place, most in self._plan(scope):
            used, left, resets = self.state(place, most)
            name = f"thread.{place[2]}" if place[1] else place[2]
            found[name] = {"limit": most, "used": used, "left": left, "resets": resets}
        return found

    def plan(self, scope: Scope) -> Sequence[tuple[Place, float]]:
        """What is limited for a caller, and how much of it there is."""
        return self._plan(scope)

    def places(self) -> dict[Place, float]:
        """Everything of which somebody used something, and how much of it there is."""
        return {place: one.most for place, one in self._spent.items() if one.most}

    def state(self, place: Place, most: float) -> tuple[float, float, float]:
        """What was used of a limit, what is left, and when it begins anew."""
        now = self._clock()
        one = self._spent.get(place) or _Spent(most, PERIODS[place[2]][0], now)
        left = most - one.amount if now < one.since + one.period else most
        begun = one.since if now < one.since + one.period else now
        return most - left, max(0.0, left), begun + one.period

    def forget_user(self, user: str) -> None:
        """Somebody is gone, with what they used; their calls under way still count as running."""
        for place in [place for place in self._spent if place[0] == user]:
            del self._spent[place]

    # Across restarts.

    async def load(self, store: Store) -> None:
        """Go on where the last process ended."""
        # Another process may have kept what somebody used who was removed just then.
        sql = (
            "SELECT owner, thread, unit, since, amount FROM spent LEFT JOIN users ON users.name = owner "
            "WHERE users.created IS NULL OR since >= users.created"
        )
        for owner, thread, unit, since, amount in await store.fetch(sql):
            period = PERIODS[unit][0] if unit in PERIODS else 0.0
            if since / 1000 + period > self._clock():
                known = _Spent(0.0, period, since / 1000, amount, stored=amount)
                self._spent.setdefault((owner, thread, unit), known)

    async def save(self, store: Store) -> None:
        """Keep what was used of what is counted by the hour or the day."""
        for (owner, thread, unit), one in list(self._spent.items()):
            if one.amount == one.stored or one.period <= 60:
                continue
            one.stored = one.amount
            await store.fetch(
                "INSERT INTO spent (owner, thread, unit, since, amount) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (owner, thread, unit) DO UPDATE SET since = excluded.since, amount = excluded.amount",
                *(owner, thread, unit, round(one.since * 1000), one.amount),
            )

    async def keep(self, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool]) -> None:
        """Have what was used kept now and then, where there is a store; run as a task."""
        while True:
            await asyncio.sleep(KEPT_EVERY)
            if is_open():
                with suppress(StoreError):  # whoever follows the store says that it is away
                    await self.save(await store())

    def _plan(self, scope: Scope) -> tuple[tuple[Place, float], ...]:
        plan = self._plans.get(scope)
        if plan is None:
            plan = self._plans[scope] = tuple(_plan(scope, self._config))
            if len(self._plans) > PLANS:
                self._plans.popitem(last=False)
        return plan

    def _at(self, place: Place, most: float, now: float) -> _Spent:
        found = self._spent.get(place)
        if found is None:
            found = self._spent[place] = _Spent(most, PERIODS[place[2]][0], now)
            if len(self._spent) > REMEMBERED:
                self._spent.popitem(last=False)
        found.most = most
        return found

    def _spend(self, place: Place, one: _Spent, amount: float) -> None:
        one.amount += amount
        if not one.told and one.amount >= one.most * self._config.alert_at:
            one.told = True
            if self._events.hears(LimitNear):
                self._events.emit(LimitNear(place[0], place[1], place[2], one.amount / one.most))

    def _refuse(self, place: Place, one: _Spent, now: float) -> None:
        _, what, when = PERIODS[place[2]]
        if self._events.hears(LimitReached):
            self._events.emit(LimitReached(*place))
        whose = "this thread" if place[1] else "you"
        raise LimitReachedError(
            f"The limit is reached: {one.most:g} {what} {when} for {whose}.",
            retry_after=one.since + one.period - now,
            hint="Wait, or ask an admin for more.",
        )


def _plan(scope: Scope, config: LimitsSection) -> list[tuple[Place, float]]:
    own = dict(scope.limits)
    found: list[tuple[Place, float]] = []
    for limit in PERIODS:
        most = own.get(limit, getattr(config, limit))
        holder = scope.key if limit.startswith("key_") else scope.user
        if most and (holder or not limit.startswith("key_")):
            found.append(((holder, "", limit), most))
    for limit, most in scope.overrides.limits:
        if limit in PERIODS and most:
            found.append(((scope.user, scope.thread, limit), most))
    return found


def _is_calls(limit: str) -> bool:
    return PERIODS[limit][1] == "calls"


def check_limits(limits: Mapping[str, float], known: Sequence[str] = (*PERIODS, *HELD)) -> None:
    """Refuse limits that are none."""
    for name, value in limits.items():
        if name not in known:
            raise ConfigError(f"There is no limit {name!r}.", hint=f"There are {', '.join(known)}.")
        if not 0 <= value < 1e15:
            raise ConfigError(f"The limit {name} must be 0 or more.")
