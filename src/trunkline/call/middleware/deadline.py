"""Ends a call that takes too long, together with everything it started."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.call.middleware.logs import one_line
from trunkline.errors import ConfigError, UpstreamTimeoutError
from trunkline.tasks import drop_outcome
from trunkline.tool import Tool, ToolResult

log = logging.getLogger("trunkline")
GRACE = 1.0
"""Seconds that a cancelled tool gets to clean up; the caller does not wait longer."""


def create_timeout_middleware(timeout: float = 30.0) -> ToolMiddleware:
    """Gives the rest of the chain `timeout` seconds in all; raises UpstreamTimeoutError when they are over."""
    if not timeout > 0:
        raise ConfigError(f"`timeout` is {timeout!r}.", hint="Give more than 0 seconds.")

    async def limit(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        before = context.deadline
        until = context.clock() + timeout
        # Shared, so that a retry further in knows how long it may go on, and never outlives us.
        context.deadline = until if before is None else min(before, until)
        try:
            return await _within(tool, context.deadline - context.clock(), call_next)
        finally:
            context.deadline = before

    return limit


async def _within(tool: Tool, seconds: float, call_next: CallNext) -> ToolResult:
    if seconds <= 0:
        raise _late(tool, hint="Its deadline had passed before it began, so it was not run.")
    task = asyncio.ensure_future(call_next())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        await _stop(tool, task)
    raise _late(tool, hint="Raise the timeout; it was cancelled, but its work may have been done.")


async def _stop(tool: Tool, task: asyncio.Future[ToolResult]) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if not task.done():
        log.warning("Tool %s ignores that it was cancelled, and still runs.", one_line(tool.name))
    task.add_done_callback(drop_outcome)


def _late(tool: Tool, *, hint: str) -> UpstreamTimeoutError:
    return UpstreamTimeoutError(f"Tool {tool.name!r} did not answer in time.", hint=hint)
