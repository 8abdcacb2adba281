"""How calls went over time, for charts: a few hundred points of each length, in memory."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trunkline.telemetry.record import CallRecord
from trunkline.telemetry.tally import BOUNDS, within

RANGES = {"1h": (10, 360), "24h": (300, 288), "7d": (3600, 168)}
"""What can be looked back at: the seconds of a point, and how many there are."""
FINEST = min(step for step, _ in RANGES.values())
USERS = 100
"""Users who have series of their own: those who called last."""
COARSE = BOUNDS[::2]


def _slots() -> array[int]:
    return array("L", bytes(array("L").itemsize * (len(COARSE) + 1)))


@dataclass(slots=True)
class Point:
    """The calls of a few seconds."""

    calls: int = 0
    errors: int = 0
    saved: int = 0
    slots: array[int] = field(default_factory=_slots)

    def add(self, other: Point) -> None:
        """Count what another counted."""
        self.calls += other.calls
        self.errors += other.errors
        for slot, count in enumerate(other.slots):
            self.slots[slot] += count


class Line:
    """Points of one length; those that are too old go when new ones come."""

    def __init__(self, step: int, most: int) -> None:
        self.step, self._most = step, most
        self._points: OrderedDict[int, Point] = OrderedDict()

    def at(self, when: float) -> Point:
        """The point of a moment."""
        number = int(when // self.step)
        point = self._points.get(number)
        if point is None:
            point = self._points[number] = Point()
            while len(self._points) > self._most:
                self._points.popitem(last=False)
        return point

    def told(self, now: float) -> dict[str, Any]:
        """The points until now, with zeros where there were no calls."""
        last = int(now // self.step)
        points = [self._points.get(number, _NONE) for number in range(last - self._most + 1, last + 1)]
        return {
            "step": self.step,
            "from": (last - self._most + 1) * self.step,
            "calls": [point.calls for point in points],
            "errors": [point.errors for point in points],
            "p50": [round(within(point.slots, COARSE, 0.5), 6) for point in points],
            "p95": [round(within(point.slots, COARSE, 0.95), 6) for point in points],
            "saved": [point.saved for point in points],
        }


_NONE = Point()


class Series:
    """Everybody's calls over time, and those of each user who called lately."""

    def __init__(self, saved: Callable[[str], int], *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._saved = clock, saved
        self._all = _Lines()
        self._users: OrderedDict[str, _Lines] = OrderedDict()

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Count calls that ended."""
        for record in ended:
            if record.outcome == "asked":
                continue
            when = record.time + record.seconds
            slot = bisect_left(COARSE, record.seconds)
            failed = record.outcome in ("failed", "tool-error", "refused")
            self._all.count(when, slot, failed)
            if record.user:
                self._of(record.user).count(when, slot, failed)

    def told(self, range: str, user: str = "") -> dict[str, Any]:
        """Everybody's, or a user's own; `range` is one of `RANGES`."""
        now = self._clock()
        lines = self._of(user) if user else self._all
        return lines.told(range, now, self._saved(user))

    def look(self) -> None:
        """Note what was saved until now, in the point of this moment; done now and then."""
        self._all.look(self._clock(), self._saved(""))

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and who comes under that name is somebody else."""
        self._users.pop(user, None)

    def _of(self, user: str) -> _Lines:
        found = self._users.get(user)
        if found is None:
            found = self._users[user] = _Lines()
            if len(self._users) > USERS:
                self._users.popitem(last=False)
        else:
            self._users.move_to_end(user)
        return found


class _Lines:
    def __init__(self) -> None:
        self._lines = {name: Line(step, most) for name, (step, most) in RANGES.items()}
        self._saved = 0
        self._moment, self._now = -1, Point()
        """The shortest point that calls are counted in just now; what they have in common goes into all lines."""

    def count(self, when: float, slot: int, failed: bool) -> None:
        moment = int(when // FINEST)
        if moment != self._moment:
            self._settle()
            self._moment = moment
        now = self._now
        now.calls += 1
        now.slots[slot] += 1
        if failed:
            now.errors += 1

    def told(self, range: str, now: float, saved: int) -> dict[str, Any]:
        self.look(now, saved)
        return self._lines[range].told(now)

    def look(self, now: float, saved: int) -> None:
        self._settle()
        more, self._saved = saved - self._saved, saved
        if more:
            for line in self._lines.values():
                line.at(now).saved += more

    def _settle(self) -> None:
        counted = self._now
        if counted.calls:
            for line in self._lines.values():
                line.at(self._moment * FINEST).add(counted)
            self._now = Point()
