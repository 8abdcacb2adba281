"""Tries a call again that failed for a passing reason, if the tool may be called twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from trunkline.balance.failover import RetryBudget
from trunkline.balance.health import doubled
from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.errors import (
    AuthorizationNeededError,
    BusyError,
    ConfigError,
    ProtocolError,
    TrunklineError,
    UpstreamError,
)
from trunkline.tool import Tool, ToolResult
from trunkline.tools.annotations import is_safe_to_retry


def create_retry_middleware(
    max_retries: int = 3,
    delay: float = 1.0,
    *,
    max_delay: float = 30.0,
    budget: RetryBudget | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Random | None = None,
) -> ToolMiddleware:
    """Up to `max_retries` more attempts, each after a random part of a pause that doubles.

    Only for tools that are read-only or idempotent, and not destructive; only after errors that pass.
    A result with `is_error` is an answer, and is not asked for again.
    """
    _validate(max_retries, delay, max_delay)
    chance = random or Random()  # noqa: S311 - it spreads retries, it guards nothing

    async def retry(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        if budget is not None:
            budget.deposit()
        retries = max_retries if repeatable(tool) else 0
        attempt = 0
        while True:
            attempt += 1
            context.attempt = attempt
            try:
                return await call_next()
            except TrunklineError as error:
                longest = doubled(delay, attempt - 1, max_delay)
                pause = max(chance.uniform(0.0, longest), _asked_for(error))
                if attempt > retries or not passes(error) or pause > max_delay or _too_late(context, pause):
                    raise
                if budget is not None and not budget.withdraw():
                    raise
            await sleep(pause)

    return retry


def repeatable(tool: Tool) -> bool:
    """Whether calling the tool twice does no harm; one that says it destroys is not believed when it adds otherwise."""
    return is_safe_to_retry(tool) and not tool.annotations.destructive_hint


def passes(error: TrunklineError) -> bool:
    """Whether the same call may succeed a moment later."""
    lasting = isinstance(error, ProtocolError | AuthorizationNeededError)
    return isinstance(error, UpstreamError | BusyError) and not lasting


def _asked_for(error: TrunklineError) -> float:
    return float(error.retry_after) if isinstance(error, BusyError) else 0.0


def _too_late(context: ToolContext, pause: float) -> bool:
    return context.deadline is not None and context.clock() + pause >= context.deadline


def _validate(max_retries: int, delay: float, max_delay: float) -> None:
    if max_retries < 0:
        raise ConfigError(f"`max_retries` is {max_retries!r}.", hint="0 tries once; 3 is the default.")
    if not delay >= 0:
        raise ConfigError(f"`delay` is {delay!r}.", hint="Give the seconds before the first retry, 0 or more.")
    if not max_delay >= delay:
        raise ConfigError(f"`max_delay` is {max_delay!r}, less than `delay`.", hint="Give at least as much.")
