"""Runs a tool's own function: one that is async where it is, any other in a thread, so that the loop lives."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from trunkline.errors import ConfigError, TrunklineError
from trunkline.tool import Tool, ToolResult


async def run_function(tool: Tool, params: dict[str, Any]) -> ToolResult:
    """The function's answer; what it raises becomes a failed result, but our own errors are let through."""
    try:
        return ToolResult.of(await call_function(tool, params))
    except TrunklineError:
        raise
    except Exception as error:  # noqa: BLE001 - it is somebody else's code, and a failing tool is a result
        return ToolResult.failed(str(error) or type(error).__name__, tool_name=tool.name, error=type(error).__name__)


async def call_function(tool: Tool, params: dict[str, Any]) -> Any:
    """What the function returns, or raises."""
    if tool.execute is None:
        raise ConfigError(f"Tool {tool.name!r} has no function.", hint="Give it an `execute`.")
    if _is_async(tool.execute):
        return await tool.execute(params)
    value, error = await asyncio.to_thread(_caught, tool.execute, params)
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _caught(function: Callable[[dict[str, Any]], Any], params: dict[str, Any]) -> tuple[Any, Exception | None]:
    # A StopIteration cannot travel through a future: the one who awaits it would wait for ever.
    try:
        return function(params), None
    except Exception as error:  # noqa: BLE001 - raised again by the one who waits
        return None, error
