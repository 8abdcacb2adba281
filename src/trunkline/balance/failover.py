"""One call, on the next server if the first one fails it, and never twice where that could do harm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from trunkline.balance.budget import RetryBudget
from trunkline.balance.lease import Lease
from trunkline.errors import BusyError, NoServerError, UnreachableError, UpstreamError
from trunkline.tool import Annotations

T = TypeVar("T")


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
