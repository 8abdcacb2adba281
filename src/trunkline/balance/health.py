"""How failures are remembered: in a row, as a pause before the next try, and as ejection from among equal servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from trunkline.config.options import RouterSection
from trunkline.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.balance.strategies import Member

SICK_AFTER = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
PATIENCE = 1.0
"""Seconds that a call waits for the next try rather than fail at once."""
SHORT_LIFE = 10.0
"""A connection that lived less than this counts as failed, so that a crash loop slows down."""
SLOTS = 10
"""Parts of the sliding window; the oldest part is forgotten at once."""
FIRST_SHARE = 0.1
"""What a server that just came back gets of its usual calls."""


def doubled(first: float, times: int, longest: float) -> float:
    """A pause that was doubled so many times, and is never longer than the longest."""
    # Bounded before the power: a server that fails for days must not overflow a float.
    return min(longest, first * 2 ** min(times, 60))


@dataclass(frozen=True, slots=True)
class Health:
    """Failures in a row, and what the last one was."""

    failures: int = 0
    reason: str = ""

    @property
    def sick(self) -> bool:
        """Whether people should be told."""
        return self.failures >= SICK_AFTER


WELL = Health()


def next_health(health: Health, failure: str) -> Health:
    """Three failures in a row make a server sick; one answer makes it well."""
    return Health(health.failures + 1, failure) if failure else WELL


@dataclass(slots=True)
class Backoff:
    """When a server that failed may be tried again: soon at first, then less and less often."""

    failures: int = 0
    closed_until: float = 0.0
    reason: str = ""

    def wait(self, now: float) -> float:
        """Seconds until the next try; 0 when it may be now."""
        return max(0.0, self.closed_until - now)

    def failed(self, now: float, reason: str, chance: float) -> None:
        """Close for a while; `chance`, between 0 and 1, spreads the tries of many."""
        self.failures += 1
        # The first failure is forgiven: one crash must not cost the next caller anything.
        wait = 0.0 if self.failures == 1 else doubled(FIRST_WAIT, self.failures - 2, LONGEST_WAIT)
        self.closed_until = now + wait * (0.5 + chance / 2)
        self.reason = reason

    def connected(self) -> None:
        """Open, but not forgotten: a server that starts and dies at once must not be started without end."""
        self.closed_until = 0.0

    def lasted(self) -> None:
        """A connection lived long enough; what was before no longer counts."""
        self.failures = 0
        self.closed_until = 0.0
        self.reason = ""


class Phase(StrEnum):
    """Where a server is between well and ejected."""

    WELL = "well"
    EJECTED = "ejected"
    HALF_OPEN = "half-open"
    """The next call is a probe."""
    PROBING = "probing"
    """The probe is under way; no other call goes there."""
    WARMING = "warming"
    """It is back, and its share of the calls grows."""


OUT = frozenset({Phase.EJECTED, Phase.HALF_OPEN, Phase.PROBING})
"""Not yet shown to be well again."""


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """When a server is ejected, for how long, and how it comes back; what `[router]` says too has its default there."""

    consecutive_errors: int = RouterSection.eject_after
    """Failures in a row that eject; 0 switches passive health off."""
    error_rate: float = RouterSection.eject_error_rate
    """Share of failures within the window that ejects."""
    min_calls: int = 10
    """Calls within the window below which the rate says nothing."""
    window: float = 30.0
    """Seconds that the rate looks back."""
    ejection: float = RouterSection.eject_seconds
    """Seconds of the first ejection; each further one in close succession doubles it."""
    max_ejection: float = 300.0
    """Seconds that an ejection lasts at most. A server that stayed well this long starts afresh."""
    slow_start: float = RouterSection.slow_start
    """Seconds in which a server that came back grows to its full share; 0 gives it at once."""
    max_ejected: float = 0.5
    """Share of the members that may be out at the same time; one always stays."""

    def __post_init__(self) -> None:
        checks = (
            ("consecutive_errors", self.consecutive_errors >= 0, "0 or more"),
            ("error_rate", 0 < self.error_rate <= 1, "above 0, up to 1"),
            ("min_calls", self.min_calls >= 1, "1 or more"),
            ("window", self.window > 0, "above 0"),
            ("ejection", self.ejection > 0, "above 0"),
            ("max_ejection", self.max_ejection >= self.ejection, "no less than `ejection`"),
            ("slow_start", self.slow_start >= 0, "0 or more"),
            ("max_ejected", 0 <= self.max_ejected <= 1, "from 0 to 1"),
        )
        for name, fine, hint in checks:
            if not fine:
                raise ConfigError(f"The health option {name!r} is not usable.", hint=f"It must be {hint}.")


@dataclass(frozen=True, slots=True)
class HealthState:
    """The phase of a server, and what led to it."""

    phase: Phase = Phase.WELL
    until: float = 0.0
    """When the phase ends by itself; 0 where something else ends it."""
    ejections: int = 0
    since: float = 0.0
    """When it last came back; before that, when it was ejected."""
    due: float = 0.0
    """For a probe, when the ejection would have ended: it comes early where nobody else can take the call."""


NEVER_OUT = HealthState()


class Record:
    """What became of a server's last calls: failures in a row, and a sliding window of counts."""

    __slots__ = ("_calls", "_errors", "_slot", "_speed", "calls", "errors", "in_a_row")

    def __init__(self, window: float) -> None:
        self._speed = SLOTS / window
        self._slot = -1
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._calls = [0] * SLOTS
        self._errors = [0] * SLOTS
        self.calls = 0
        self.errors = 0
        self.in_a_row = 0

    def note(self, ok: bool, now: float) -> None:
        """Count one call that ended."""
        slot = int(now * self._speed)
        if slot != self._slot:
            self._roll(slot)
        self._calls[slot % SLOTS] += 1
        self.calls += 1
        if ok:
            self.in_a_row = 0
        else:
            self._errors[slot % SLOTS] += 1
            self.errors += 1
            self.in_a_row += 1

    def _roll(self, slot: int) -> None:
        for old in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            self.calls -= self._calls[old % SLOTS]
            self.errors -= self._errors[old % SLOTS]
            self._calls[old % SLOTS] = self._errors[old % SLOTS] = 0
        self._slot = slot


def is_sick(record: Record, options: HealthOptions) -> bool:
    """Whether its calls speak for an ejection."""
    if not options.consecutive_errors:
        return False
    if record.in_a_row >= options.consecutive_errors:
        return True
    return record.calls >= options.min_calls and record.errors >= options.error_rate * record.calls


def may_eject(members: int, out: int, well: int, options: HealthOptions) -> bool:
    """Whether one more may go: not more than the share, and never the last that is well."""
    return well > 1 and out + 1 <= members * options.max_ejected


def ejected(state: HealthState, options: HealthOptions, now: float) -> HealthState:
    """Out, twice as long as the last time if that was not long ago."""
    recent = state.ejections and (state.phase in OUT or now - state.since <= options.max_ejection)
    ejections = state.ejections + 1 if recent else 1
    seconds = doubled(options.ejection, ejections - 1, options.max_ejection)
    return HealthState(Phase.EJECTED, until=now + seconds, ejections=ejections, since=now)


def probing(state: HealthState) -> HealthState:
    """On probation: one call shows whether it is well."""
    return replace(state, phase=Phase.PROBING, until=0.0, due=state.until)


def probed(state: HealthState, failed: bool, options: HealthOptions, now: float) -> HealthState:
    """After a probe that failed or showed nothing. An early one does not change when the time is over."""
    if state.due > now:
        return replace(state, phase=Phase.EJECTED, until=state.due)
    return ejected(state, options, now) if failed else replace(state, phase=Phase.HALF_OPEN)


def returned(state: HealthState, options: HealthOptions, now: float) -> HealthState:
    """Back, with a share that grows."""
    if not options.slow_start:
        return HealthState(Phase.WELL, ejections=state.ejections, since=now)
    return HealthState(Phase.WARMING, until=now + options.slow_start, ejections=state.ejections, since=now)


def awoken(state: HealthState) -> HealthState:
    """The phase after the one whose time is over."""
    phase = Phase.HALF_OPEN if state.phase is Phase.EJECTED else Phase.WELL
    return replace(state, phase=phase, until=0.0)


def share(state: HealthState, options: HealthOptions, now: float) -> float:
    """The part of its usual calls that a server should get, from 0.1 up to 1."""
    if state.phase is not Phase.WARMING:
        return 1.0
    return min(1.0, max(FIRST_SHARE, (now - state.since) / options.slow_start))


class Ejector:
    """Moves members between the phases, and keeps count so that never too many are out.

    A flag set from outside stands above all of this: whoever is flagged unhealthy gets no call.
    """

    def __init__(
        self, options: HealthOptions, clock: Callable[[], float], changed: Callable[[str, bool], object] | None
    ) -> None:
        self.options = options
        self.members: dict[str, Member] = {}
        self.out: dict[str, Member] = {}
        self.warming = 0
        """Members that let some of their turns pass."""
        self.waiting: list[tuple[float, int, Member, HealthState]] = []
        """Phases that end by themselves, the next one first; outlived ones are dropped when they come up."""
        self._clock = clock
        self._changed = changed
        self._well = 0
        """Members with a good flag that are not out."""
        self._count = 0

    def add(self, member: Member) -> None:
        """Watch over a new member."""
        self.members[member.name] = member
        self._well += 1

    def remove(self, member: Member) -> None:
        """Watch no longer; what its calls come to does not matter any more."""
        del self.members[member.name]
        self.warming -= member.health.phase is Phase.WARMING
        if self.out.pop(member.name, None) is None and member.healthy:
            self._well -= 1
        member.health = NEVER_OUT
        self._readmit()

    def is_well(self, name: str) -> bool:
        """Whether a server is flagged healthy and not out."""
        member = self.members.get(name)
        return member is not None and member.healthy and name not in self.out

    def flag(self, member: Member, healthy: bool) -> None:
        """Somebody says whether it is well."""
        if member.healthy == healthy:
            return
        member.healthy = healthy
        if member.name not in self.out:
            self._well += 1 if healthy else -1
            self._update(member)
            self._announce(member.name, not healthy)
        elif healthy:
            # Whoever says that it is well knows more than its last calls.
            self._return(member, self._clock())
        else:
            self._update(member)
        self._readmit()

    def count(self, member: Member, ok: bool) -> None:
        """One of its calls ended; too many failures eject it."""
        if member.health.phase in OUT:
            return  # it was sent before the ejection, or for want of anybody else
        now = self._clock()
        member.record.note(ok, now)
        if ok or self.members.get(member.name) is not member or not is_sick(member.record, self.options):
            return
        well = self._well if member.healthy else self._well + 1
        if may_eject(len(self.members), len(self.out), well, self.options):
            before = self.is_well(member.name)
            self._well -= before
            self.out[member.name] = member
            self._enter(member, ejected(member.health, self.options, now))
            self._announce(member.name, before)

    def begin_probe(self, member: Member) -> None:
        """From now on one call shows whether it is well; no other goes there."""
        self._enter(member, probing(member.health))

    def end_probe(self, member: Member, ok: bool | None) -> None:
        """The probe ended: the member is back, out again, or (`None`) must be probed once more."""
        if self.members.get(member.name) is not member:
            return
        now = self._clock()
        if ok:
            self._return(member, now)
        else:
            self._enter(member, probed(member.health, ok is not None, self.options, now))

    def wake(self, now: float) -> None:
        """End the phases whose time is over."""
        while self.waiting and self.waiting[0][0] <= now:
            _, _, member, state = heappop(self.waiting)
            if member.health is state:
                self._enter(member, awoken(state))

    def _return(self, member: Member, now: float) -> None:
        del self.out[member.name]
        self._well += member.healthy
        member.record.clear()
        self._enter(member, returned(member.health, self.options, now))
        self._announce(member.name, False)

    def _readmit(self) -> None:
        """Let back in whom only the presence of others had allowed to eject."""
        while self.out:
            within = len(self.out) <= len(self.members) * self.options.max_ejected
            flagged_well = [member for member in self.out.values() if member.healthy]
            if within and (self._well or not flagged_well):
                return
            self._return(min(flagged_well or self.out.values(), key=soonest), self._clock())

    def _enter(self, member: Member, state: HealthState) -> None:
        self.warming += (state.phase is Phase.WARMING) - (member.health.phase is Phase.WARMING)
        member.health = state
        if state.until:
            self._count += 1
            heappush(self.waiting, (state.until, self._count, member, state))
        self._update(member)

    def _update(self, member: Member) -> None:
        available = member.healthy and member.health.phase not in (Phase.EJECTED, Phase.PROBING)
        if available == member.available:
            return
        member.available = available
        for order in member.orders:
            if available:
                order.add(member)
            else:
                order.discard(member)

    def _announce(self, name: str, before: bool) -> None:
        if self._changed is not None and (after := self.is_well(name)) != before:
            self._changed(name, after)


def soonest(member: Member) -> tuple[bool, float]:
    """The best of those that are out: who returns first, but not where a probe is under way."""
    return member.health.phase is Phase.PROBING, member.health.until
