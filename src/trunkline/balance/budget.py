"""A budget of retries, so that a failing server is not buried under the repetitions of its failures."""

from __future__ import annotations

import time
from collections.abc import Callable

from trunkline.errors import ConfigError

QUIET = 10.0
"""Seconds in which an empty budget grows to its floor by itself."""


class RetryBudget:
    """Every call pays in a part of a retry, and every retry takes out a whole one.

    Over time no more than `ratio` of the calls are repeated, besides `floor` every ten seconds, without which a quiet
    system could never retry. What is saved up is bounded by `saved`.
    """

    def __init__(
        self,
        *,
        ratio: float = 0.2,
        floor: float = 3.0,
        saved: float = 50.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= ratio <= 1:
            raise ConfigError(f"A retry ratio of {ratio} is not usable.", hint="Give a `ratio` from 0 to 1.")
        if not 0 <= floor <= saved:
            raise ConfigError(f"A retry floor of {floor} is not usable.", hint="Give a `floor` from 0 to `saved`.")
        self._ratio = ratio
        self._floor = floor
        self._saved = saved
        self._clock = clock
        self._tokens = floor
        self._since = clock()

    @property
    def balance(self) -> float:
        """Retries that could be had now."""
        self._grow()
        return self._tokens

    def deposit(self) -> None:
        """One call begins."""
        tokens = self._tokens + self._ratio
        self._tokens = tokens if tokens < self._saved else self._saved

    def withdraw(self) -> bool:
        """Whether one retry may be made; if so, it is paid for."""
        self._grow()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _grow(self) -> None:
        now = self._clock()
        if self._tokens < self._floor:
            self._tokens = min(self._floor, self._tokens + self._floor * (now - self._since) / QUIET)
        self._since = now
