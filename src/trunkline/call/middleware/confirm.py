"""Asks a person before a tool runs that needs a person's agreement; where nobody can agree, it does not run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from trunkline.call.middleware.chain import Asker, CallNext, ToolContext, ToolMiddleware
from trunkline.call.middleware.logs import one_line
from trunkline.errors import ConfigError
from trunkline.foreign import Raised, attempt
from trunkline.tool import Tool, ToolResult
from trunkline.tools.annotations import requires_confirmation

log = logging.getLogger("trunkline")
CANCELLED = "Operation cancelled by user"
NOBODY = "Operation cancelled: it needs a person's agreement, and nobody can be asked"
SHOWN_ARGUMENTS = 8


def create_confirmation_middleware(
    *, timeout: float = 60.0, confirm_label: str = "Yes, proceed", cancel_label: str = "Cancel"
) -> ToolMiddleware:
    """Asks once in a call, however many attempts it takes; silence, an error and a no all mean no."""
    if not timeout > 0:
        raise ConfigError(f"`timeout` is {timeout!r}.", hint="Give a person more than 0 seconds.")

    async def confirm(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        if requires_confirmation(tool):
            why = await refusal(tool, params, context, timeout=timeout, labels=(confirm_label, cancel_label))
            if why:
                return cancelled(tool, why)
        return await call_next()

    return confirm


async def refusal(
    tool: Tool,
    params: Mapping[str, Any],
    context: ToolContext,
    *,
    elicitation: Asker | None = None,
    timeout: float = 60.0,
    labels: tuple[str, str] = ("Yes, proceed", "Cancel"),
) -> str:
    """Why the tool may not run; empty once somebody agreed. A person is asked at most once in a call."""
    async with context.asking:
        if context.confirmed:
            return ""
        if not context.refused:
            asker = elicitation or context.elicitation
            if asker is None:
                context.refused = NOBODY
            elif await _agreed(asker, tool, params, context.server or tool.server, timeout, labels):
                context.confirmed = True
            else:
                context.refused = CANCELLED
        return context.refused


def cancelled(tool: Tool, why: str) -> ToolResult:
    """The answer of a tool that was not run."""
    return ToolResult.failed(why, tool_name=tool.name, cancelled=True)


async def _agreed(
    asker: Asker, tool: Tool, params: Mapping[str, Any], server: str, timeout: float, labels: tuple[str, str]
) -> bool:
    answer = await attempt(
        asker.confirm,
        _question(tool, params),
        tool_name=tool.name,
        server_id=server,
        confirm_label=labels[0],
        cancel_label=labels[1],
        timeout=timeout,
    )
    if isinstance(answer, Raised):
        log.error("Nobody could be asked about %s.", one_line(tool.name), exc_info=answer.error)
    return answer is True  # a broken dialogue is not a yes


def _question(tool: Tool, params: Mapping[str, Any]) -> str:
    name = one_line(tool.name)
    what = "destructive" if tool.annotations.destructive_hint else "sensitive"
    cost = tool.annotations.cost_hint
    price = f" It costs {cost:g}." if cost else ""
    done = f"This operation ({name}{_arguments(params)}) is {what} and requires confirmation."
    return f"{done}{price} Do you want to proceed?"


def _arguments(params: Mapping[str, Any]) -> str:
    # Their names alone: values may be secrets, and a question is shown, logged and passed on.
    names = [one_line(str(name))[:40] for name in list(params)[:SHOWN_ARGUMENTS]]
    if not names:
        return ""
    more = len(params) - len(names)
    return f", with {', '.join(names)}" + (f" and {more} more" if more else "")


confirmation_middleware = create_confirmation_middleware()
"""Asks before tools that destroy something, or that a person must agree to."""
