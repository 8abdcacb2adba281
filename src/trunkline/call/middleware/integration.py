"""Keeps tools and middleware together, and runs the one through the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from trunkline.call.middleware.chain import (
    Asker,
    ToolContext,
    ToolMiddleware,
    copied,
    create_tool_middleware_chain,
    marked,
    running,
)
from trunkline.call.middleware.confirm import cancelled, confirmation_middleware, refusal
from trunkline.call.middleware.logs import logging_middleware
from trunkline.call.middleware.validate import validation_middleware
from trunkline.errors import ConfigError, InvalidArgumentsError, TrunklineError, UnknownNameError
from trunkline.foreign import Raised, attempt
from trunkline.questions.kinds import ElicitationHandler
from trunkline.questions.manager import ElicitationManager
from trunkline.tool import Tool, ToolResult
from trunkline.tools.annotations import requires_confirmation
from trunkline.tools.names import did_you_mean
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


_QUIET = ToolWrapperOptions(enable_logging=False)


class ToolIntegrationManager:
    """Tools by name, behind middleware; a tool that needs a person's agreement asks even where no middleware does."""

    def __init__(
        self, middlewares: Iterable[ToolMiddleware] = (), *, elicitation: ElicitationManager | None = None
    ) -> None:
        self._middlewares = list(middlewares)
        self._chain = create_tool_middleware_chain(self._middlewares)
        self._elicitation = elicitation
        self._tools: dict[str, Tool] = {}

    @property
    def middlewares(self) -> tuple[ToolMiddleware, ...]:
        """What calls pass through, the outermost first."""
        return tuple(self._middlewares)

    @property
    def elicitation(self) -> ElicitationManager | None:
        """Who is asked, if anybody is."""
        return self._elicitation

    def use(self, middleware: ToolMiddleware) -> ToolIntegrationManager:
        """Let calls pass through one more middleware, inside those before it; calls under way do not notice."""
        self._middlewares.append(middleware)
        self._chain = create_tool_middleware_chain(self._middlewares)
        return self

    def set_elicitation_handler(self, handler: ElicitationHandler) -> ToolIntegrationManager:
        """Say who asks the person."""
        if self._elicitation is None:
            self._elicitation = ElicitationManager()
        self._elicitation.register_handler(handler)
        return self

    def register_tool(self, tool: Tool, *, replace: bool = False) -> ToolIntegrationManager:
        """Offer a tool; raises ConfigError for a name that is taken, unless the other is to be replaced."""
        if not tool.name:
            raise ConfigError("A tool has no name.", hint="Give it one to be called by.")
        if tool.name in self._tools and not replace:
            raise ConfigError(
                f"There is a tool {tool.name!r} already.", hint="Pass `replace=True`, or give it another name."
            )
        self._tools[tool.name] = tool if is_wrapped(tool) else wrap_tool_with_elicitation(tool, _QUIET)
        return self

    def register_tools(self, tools: Iterable[Tool], *, replace: bool = False) -> ToolIntegrationManager:
        """Offer several tools, one after the other."""
        for tool in tools:
            self.register_tool(tool, replace=replace)
        return self

    def unregister_tool(self, name: str) -> bool:
        """Offer a tool no longer; whether there was one."""
        return self._tools.pop(name, None) is not None

    def get_tool(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def get_tools(self) -> list[Tool]:
        """All tools, in the order they came."""
        return list(self._tools.values())

    async def execute_tool(
        self, name: str, params: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> ToolResult:
        """Run a tool through the middleware.

        A tool that fails gives a result with `is_error`. A TrunklineError is raised when the call could not be made
        or a server let us down: UnknownNameError, InvalidArgumentsError, UpstreamTimeoutError and the like.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownNameError(f"There is no tool {name!r}.", hint=did_you_mean(name, self._tools, 3))
        if not isinstance(cast("Any", params), Mapping | None):
            raise InvalidArgumentsError(f"The arguments of tool {name!r} have no names.", hint="Pass a dict.")
        asked = context or ToolContext()
        call = asked.for_call(
            elicitation=asked.elicitation or self._elicitation, server=asked.server or tool.server, attempt=1
        )

        async def end(given: Mapping[str, Any] | None = None, /) -> ToolResult:
            return await _outcome(tool, dict(given or {}))

        return await self._chain(tool, copied(params or {}), call, end)


async def _outcome(tool: Tool, params: dict[str, Any]) -> ToolResult:
    """What the function answers; what it raises becomes a failed result, but our own errors are let through."""
    function = tool.execute
    assert function is not None, "a tool without a function is not registered"

    async def answer() -> ToolResult:
        return ToolResult.of(await run(function, params))

    outcome = await attempt(answer)
    if not isinstance(outcome, Raised):
        return outcome
    error = outcome.error
    if isinstance(error, TrunklineError):
        raise error
    return ToolResult.failed(str(error) or type(error).__name__, tool_name=tool.name, error=type(error).__name__)


global_tool_integration_manager = ToolIntegrationManager(
    # Arguments are checked first: nobody should be asked to agree to a call that cannot be made.
    (logging_middleware, validation_middleware, confirmation_middleware)
)
"""One for the whole program, with logging, validation and confirmation."""


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
