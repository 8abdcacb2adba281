"""Lets a single tool ask before it runs, wherever it is called from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.call.middleware.chain import Asker, ToolContext, marked, running
from trunkline.call.middleware.confirm import cancelled, refusal
from trunkline.call.middleware.logs import logging_middleware
from trunkline.errors import ConfigError
from trunkline.tool import Tool, ToolResult
from trunkline.tools.annotations import requires_confirmation
from trunkline.workers import run


@dataclass(frozen=True)
class ToolWrapperOptions:
    """How a wrapped tool asks."""

    auto_confirm_destructive: bool = False
    """Run without asking: somebody answers for it."""
    elicitation_timeout: float = 60.0
    """Seconds that a person has to answer."""
    enable_logging: bool = True
    """Write one line for a call that no chain has logged."""
    elicitation: Asker | None = None
    """Who is asked; without it, whoever the chain asks."""

    def __post_init__(self) -> None:
        if not self.elicitation_timeout > 0:
            raise ConfigError(
                f"`elicitation_timeout` is {self.elicitation_timeout!r}.", hint="Give a person more than 0 seconds."
            )


DEFAULT_TOOL_WRAPPER_OPTIONS = ToolWrapperOptions()


def wrap_tool_with_elicitation(tool: Tool, options: ToolWrapperOptions = DEFAULT_TOOL_WRAPPER_OPTIONS) -> Tool:
    """The same tool, whose function asks first if the tool needs a person's agreement.

    In a chain that has asked already, it does not ask again. With nobody to ask, it does not run. Wrapping a wrapped
    tool gives it the new options.
    """
    inner = tool.execute.tool if isinstance(tool.execute, _Asking) else tool
    if inner.execute is None:
        raise ConfigError(f"Tool {tool.name!r} has no function.", hint="Give it an `execute`.")
    plain = dataclasses.replace(tool, execute=inner.execute)
    return dataclasses.replace(tool, execute=_Asking(plain, inner.execute, options))


def wrap_tools_with_elicitation(
    tools: Iterable[Tool], options: ToolWrapperOptions = DEFAULT_TOOL_WRAPPER_OPTIONS
) -> list[Tool]:
    """Many tools, wrapped alike."""
    return [wrap_tool_with_elicitation(tool, options) for tool in tools]


def is_wrapped(tool: Tool) -> bool:
    """Whether a tool asks by itself already."""
    return isinstance(tool.execute, _Asking)


@dataclass(frozen=True)
class _Asking:
    tool: Tool
    execute: Callable[..., Any]
    options: ToolWrapperOptions

    async def __call__(self, params: dict[str, Any]) -> Any:
        call = running(self.tool)
        if call is not None or not self.options.enable_logging:
            return await self._ask_and_run(params, call or ToolContext())

        async def rest(_: Mapping[str, Any] | None = None, /) -> ToolResult:
            return ToolResult.of(await self._ask_and_run(params, ToolContext()))

        return await logging_middleware(self.tool, params, ToolContext(), rest)

    async def _ask_and_run(self, params: dict[str, Any], context: ToolContext) -> Any:
        if requires_confirmation(self.tool) and not self.options.auto_confirm_destructive:
            asker = self.options.elicitation
            why = await refusal(self.tool, params, context, elicitation=asker, timeout=self.options.elicitation_timeout)
            if why:
                return cancelled(self.tool, why)
        # What the function calls itself is another call: nobody has agreed to that.
        with marked(None):
            return await run(self.execute, params)
