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
        lines.look(now, self._saved(user))
        return lines.lines[range].told(now)

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
        self.lines = {name: Line(step, most) for name, (step, most) in RANGES.items()}
        self._seen = 0
        self._moment, self._points = -1, (_NONE,)

    def count(self, when: float, slot: int, failed: bool) -> None:
        moment = int(when // FINEST)
        if moment != self._moment:  # what one of the shortest points has in common, it has of the longer ones too
            self._moment, self._points = moment, tuple(line.at(when) for line in self.lines.values())
        for point in self._points:
            point.calls += 1
            point.slots[slot] += 1
            if failed:
                point.errors += 1

    def look(self, now: float, saved: int) -> None:
        more, self._seen = saved - self._seen, saved
        if more:
            for line in self.lines.values():
                line.at(now).saved += more
