"""One call, on the next server if the first one fails it, and never twice where that could do harm."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trunkline.balance.balancer import Lease
from trunkline.errors import BusyError, ConfigError, NoServerError, UnreachableError, UpstreamError
from trunkline.tool import Annotations

T = TypeVar("T")

QUIET = 10.0
"""Seconds in which an empty budget of retries grows to its floor by itself."""


def safe_to_repeat(annotations: Annotations) -> bool:
    """Whether a call may be made again though it may have happened."""
    if annotations.destructive_hint:
        return False
    return bool(annotations.read_only_hint or annotations.idempotent_hint)


async def failover(
    take: Callable[[tuple[str, ...]], Lease],
    attempt: Callable[[str], Awaitable[T]],
    *,
    repeatable: bool,
    max_retries: int,
    budget: RetryBudget,
) -> T:
    """Await `attempt(server)` under a lease, and on a failure that allows it once more on another server.

    `take` chooses a server that is not among those given; it raises `NoServerError` if there is none.
    """
    budget.deposit()
    tried: tuple[str, ...] = ()
    failure: UpstreamError | BusyError | None = None
    while True:
        if failure is not None and budget.balance < 1:
            raise failure
        try:
            lease = take(tried)
        except NoServerError:
            if failure is not None:
                raise failure from failure.__cause__
            raise
        if failure is not None:
            budget.withdraw()
        try:
            with lease:
                return await attempt(lease.server)
        except (UpstreamError, BusyError) as error:
            if len(tried) >= max_retries or not may_repeat(error, repeatable=repeatable):
                raise
            failure = error
            tried = (*tried, lease.server)


def may_repeat(error: UpstreamError | BusyError, *, repeatable: bool) -> bool:
    """Whether a call that ended so may be made again: if nothing happened, or if it does no harm."""
    return repeatable or isinstance(error, UnreachableError | BusyError)


class RetryBudget:
    """So that a failing server is not buried under repetitions: calls pay in a part of a retry, retries take a whole.

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
