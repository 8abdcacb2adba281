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
AT_ONCE = 64
"""Calls that are put into lines together: those that ended in the same few seconds are counted once."""
_Ended = tuple[float, int, bool]
"""When a call ended, its slot among `COARSE`, and whether it failed."""


def _slots() -> array[int]:
    return array("L", bytes(array("L").itemsize * (len(COARSE) + 1)))


@dataclass(slots=True)
class Point:
    """The calls of a few seconds."""

    calls: int = 0
    errors: int = 0
    saved: int = 0
    slots: array[int] = field(default_factory=_slots)

    def within(self, share: float) -> float:
        """About the seconds in which this share of its calls ended; most points have none."""
        return round(within(self.slots, COARSE, share), 6) if self.calls else 0.0

    def add(self, other: Point) -> None:
        """Count what another counted."""
        self.calls += other.calls
        self.errors += other.errors
        for slot, count in enumerate(other.slots):
            if count:
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
            "p50": [point.within(0.5) for point in points],
            "p95": [point.within(0.95) for point in points],
            "saved": [point.saved for point in points],
        }


_NONE = Point()


_FAILED = ("failed", "tool-error", "refused")


class Series:
    """Everybody's calls over time, and those of each user who called lately."""

    def __init__(self, saved: Callable[[str], int], *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._saved = clock, saved
        self._all = _Lines()
        self._users: OrderedDict[str, _Lines] = OrderedDict()

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Count calls that ended."""
        all, users = list[_Ended](), dict[str, list[_Ended]]()
        for record in ended:
            outcome, seconds, user = record.outcome, record.seconds, record.user
            if outcome == "asked":
                continue
            call = record.time + seconds, bisect_left(COARSE, seconds), outcome in _FAILED
            all.append(call)
            if user:
                own = users.get(user)
                if own is None:
                    own = users[user] = []
                own.append(call)
        self._all.count(all)
        for user, own in users.items():
            self._of(user).count(own)

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
    """Lines of every length, of everybody or of one user; calls are put into them when there are many, or are asked."""

    def __init__(self) -> None:
        self._ended: list[_Ended] = []
        self._lines: dict[str, Line] = {}
        self._saved = 0

    def count(self, ended: Sequence[_Ended]) -> None:
        self._ended += ended
        if len(self._ended) >= AT_ONCE:
            self._settle()

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
        if not self._lines:  # most users are never looked at
            self._lines = {name: Line(step, most) for name, (step, most) in RANGES.items()}
        points: dict[int, Point] = {}
        for when, slot, failed in self._ended:
            moment = int(when // FINEST)
            point = points.get(moment)
            if point is None:
                point = points[moment] = Point()
            point.calls += 1
            point.slots[slot] += 1
            if failed:
                point.errors += 1
        self._ended.clear()
        for moment, point in points.items():
            for line in self._lines.values():
                line.at(moment * FINEST).add(point)
