"""What use teaches: of tools that fit alike, those that lately served come first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KEYS = 10_000
_MOST_SCOPES = 1_000


class Usage:
    """How tools fared, fading with time; it parts near ties, and is too small to pass a better match."""

    def __init__(
        self, *, most: float = 0.03, half_life: float = 86_400.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        """The greatest boost of a score."""
        self._half_life = half_life
        self._clock = clock
        self._kept: dict[str, tuple[float, float, float]] = {}

    def record(self, key: str, *, ok: bool) -> None:
        """A call of the tool has ended."""
        good, bad, now = self._faded(key)
        self._kept.pop(key, None)
        self._kept[key] = (good + ok, bad + (not ok), now)
        if len(self._kept) > _MOST_KEYS:
            del self._kept[next(iter(self._kept))]

    def boost(self, key: str) -> float:
        """What the tool's score gains, 0 to `most`: much for many late successes, nothing for failures."""
        if key not in self._kept:
            return 0.0
        good, bad, _ = self._faded(key)
        return self.most * good / (good + bad + 1.0)

    def _faded(self, key: str) -> tuple[float, float, float]:
        now = self._clock()
        good, bad, then = self._kept.get(key, (0.0, 0.0, now))
        fading = 0.5 ** ((now - then) / self._half_life)
        return good * fading, bad * fading, now


class Learned:
    """What use has taught for each user and each thread of theirs; those not heard of for longest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._scopes: OrderedDict[tuple[str, str], Usage] = OrderedDict()

    def record(self, user: str, thread: str, key: str, *, ok: bool) -> None:
        """A call of a tool has ended."""
        self._usage(user, "").record(key, ok=ok)
        if thread:
            self._usage(user, thread).record(key, ok=ok)

    def boost(self, user: str, thread: str) -> Callable[[str], float]:
        """What tools' scores gain in a thread: most for what served there, half of it for what served its user."""
        own = self._scopes.get((user, thread)) if thread else None
        all_of_it = self._scopes.get((user, ""))

        def gained(key: str) -> float:
            here = own.boost(key) if own is not None else 0.0
            elsewhere = all_of_it.boost(key) if all_of_it is not None else 0.0
            return max(here, elsewhere / 2)

        return gained

    def forget_user(self, user: str) -> None:
        """Somebody is gone."""
        for place in [place for place in self._scopes if place[0] == user]:
            del self._scopes[place]

    def _usage(self, user: str, thread: str) -> Usage:
        usage = self._scopes.get((user, thread))
        if usage is None:
            usage = self._scopes[(user, thread)] = Usage(clock=self._clock)
            if len(self._scopes) > _MOST_SCOPES:
                self._scopes.popitem(last=False)
        else:
            self._scopes.move_to_end((user, thread))
        return usage
