"""Writes one line for every use of a tool: who used which, how it ended, and how long it took."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.tool import Tool, ToolResult
from trunkline.untrusted import printable

log = logging.getLogger("trunkline.tools")
LONGEST_NAME = 200


def create_logging_middleware(
    *, logger: logging.Logger = log, level: int = logging.INFO, clock: Callable[[], float] = time.perf_counter
) -> ToolMiddleware:
    """Logging into a logger of one's own; arguments and answers are never written, for they may be secrets."""

    async def note(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        begin = clock()
        outcome = "interrupted"
        try:
            result = await call_next()
            outcome = _outcome(result)
            return result
        finally:
            error = sys.exception()
            if isinstance(error, Exception):
                outcome = type(error).__name__
            facts: dict[str, Any] = {
                "tool": one_line(tool.name),
                "server": one_line(context.server or tool.server),
                "user": one_line(context.user),
                "outcome": outcome,
                "seconds": round(clock() - begin, 6),
            }
            name, server, user, _, seconds = facts.values()
            text = "tool=%s server=%s user=%s outcome=%s duration=%.3fs"
            logger.log(level, text, name, server or "-", user or "-", outcome, seconds, extra=facts)

    return note


def one_line(text: str) -> str:
    """A name that cannot forge a line of the log, nor fill it."""
    shown = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
    return printable(shown)


def _outcome(result: ToolResult) -> str:
    if not result.is_error:
        return "answered"
    return "cancelled" if result.meta.get("cancelled") else "failed"


logging_middleware = create_logging_middleware()
"""Logs to `trunkline.tools`."""
