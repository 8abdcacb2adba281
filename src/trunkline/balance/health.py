"""Passive health: what a server's calls came to decides whether it gets more of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from trunkline.errors import ConfigError

SLOTS = 10
"""Parts of the sliding window; the oldest part is forgotten at once."""
FIRST_SHARE = 0.1
"""What a server that just came back gets of its usual calls."""


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
    """When a server is ejected, for how long, and how it comes back."""

    consecutive_errors: int = 5
    """Failures in a row that eject; 0 switches passive health off."""
    error_rate: float = 0.5
    """Share of failures within the window that ejects."""
    min_calls: int = 10
    """Calls within the window below which the rate says nothing."""
    window: float = 30.0
    """Seconds that the rate looks back."""
    ejection: float = 30.0
    """Seconds of the first ejection; each further one in close succession doubles it."""
    max_ejection: float = 300.0
    """Seconds that an ejection lasts at most. A server that stayed well this long starts afresh."""
    slow_start: float = 30.0
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


WELL = HealthState()


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


def ejected(standing: HealthState, options: HealthOptions, now: float) -> HealthState:
    """Out, twice as long as the last time if that was not long ago."""
    recent = standing.ejections and (standing.phase in OUT or now - standing.since <= options.max_ejection)
    ejections = standing.ejections + 1 if recent else 1
    # Bounded before the power: a server that fails for days must not overflow a float.
    seconds = min(options.max_ejection, options.ejection * 2 ** min(ejections - 1, 60))
    return HealthState(Phase.EJECTED, until=now + seconds, ejections=ejections, since=now)


def probing(standing: HealthState) -> HealthState:
    """On probation: one call shows whether it is well."""
    return replace(standing, phase=Phase.PROBING, until=0.0, due=standing.until)


def probed(standing: HealthState, ok: bool | None, options: HealthOptions, now: float) -> HealthState:
    """What a probe leads to; `None` is one that showed nothing. An early one does not change when the time is over."""
    if ok:
        return returned(standing, options, now)
    if standing.due > now:
        return replace(standing, phase=Phase.EJECTED, until=standing.due)
    return replace(standing, phase=Phase.HALF_OPEN) if ok is None else ejected(standing, options, now)


def returned(standing: HealthState, options: HealthOptions, now: float) -> HealthState:
    """Back, with a share that grows."""
    if not options.slow_start:
        return HealthState(Phase.WELL, ejections=standing.ejections, since=now)
    return HealthState(Phase.WARMING, until=now + options.slow_start, ejections=standing.ejections, since=now)


def awoken(standing: HealthState) -> HealthState:
    """The phase after the one whose time is over."""
    phase = Phase.HALF_OPEN if standing.phase is Phase.EJECTED else Phase.WELL
    return replace(standing, phase=phase, until=0.0)


def share(standing: HealthState, options: HealthOptions, now: float) -> float:
    """The part of its usual calls that a server should get, from 0.1 up to 1."""
    if standing.phase is not Phase.WARMING:
        return 1.0
    return min(1.0, max(FIRST_SHARE, (now - standing.since) / options.slow_start))
