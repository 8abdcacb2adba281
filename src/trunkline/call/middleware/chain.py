"""What a middleware is, what it knows about a call, and how several become one."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from trunkline.errors import InvalidArgumentsError
from trunkline.questions.manager import ElicitationContext, ElicitationManager
from trunkline.tool import Tool, ToolResult

Asker = ElicitationManager | ElicitationContext
MAX_DEPTH = 100
"""How deeply arguments may be nested: checking and copying them recurses."""


@dataclass
class ToolContext:
    """What all middleware of one call share; every call works on a copy of what its caller gave."""

    user: str = ""
    thread: str = ""
    session: str = ""
    server: str = ""
    elicitation: Asker | None = None
    """Who can be asked something; without it, nobody can."""
    deadline: float | None = None
    """When the call must be over, by `clock`."""
    attempt: int = 1
    confirmed: bool = False
    """Somebody agreed to this call already, so that nobody is asked again."""
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    """A place for what your own middleware have to tell each other."""
    clock: Callable[[], float] = time.monotonic
    refused: str = field(default="", init=False)
    """Why nobody agreed; empty while nobody was asked or somebody agreed."""
    answers: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    """Arguments that a person filled in during this call."""
    started: bool = field(default=False, init=False, repr=False)
    """It is the copy of one call already."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False, compare=False)
    """Held while a person is asked, so that branches of one call do not ask the same question."""

    def for_call(self, **changes: Any) -> ToolContext:
        """A copy for one call: what one call learns must not leak into the next."""
        copy = dataclasses.replace(self, **{"meta": dict(self.meta), **changes})
        copy.started = True
        return copy


class CallNext(Protocol):
    """Runs the whole rest of the chain, each time it is called, with the given params or one's own."""

    def __call__(self, params: Mapping[str, Any] | None = None, /) -> Awaitable[ToolResult]:
        """Run the rest; it gets a copy of the params."""
        ...


ToolMiddleware = Callable[[Tool, dict[str, Any], ToolContext, CallNext], Awaitable[ToolResult]]
"""An async function of a tool, its arguments, the context of the call, and what runs the rest of the chain."""


def create_tool_middleware_chain(middlewares: Iterable[ToolMiddleware]) -> ToolMiddleware:
    """One middleware made of several; the first is the outermost."""
    steps = tuple(middlewares)

    async def chain(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        # A caller may use one context for many calls, but a chain inside another belongs to the same call.
        call = context if context.started else context.for_call()
        handler = _end(tool, call, call_next)
        for step in reversed(steps):
            handler = _bound(step, tool, call, handler)
        return await handler(params)

    return chain


def _end(tool: Tool, context: ToolContext, call_next: CallNext) -> CallNext:
    async def run(given: Mapping[str, Any] | None = None, /) -> ToolResult:
        with marked(Running(tool, context)):
            return await call_next(copied(given or {}))

    return run


def _bound(step: ToolMiddleware, tool: Tool, context: ToolContext, rest: CallNext) -> CallNext:
    async def run(given: Mapping[str, Any] | None = None, /) -> ToolResult:
        # The middleware's own copy: what it changes in there goes on to the rest, and nowhere else.
        params = copied(given or {})

        def call_next(changed: Mapping[str, Any] | None = None, /) -> Awaitable[ToolResult]:
            return rest(params if changed is None else changed)

        return await step(tool, params, context, call_next)

    return run


def copied(params: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments in containers of their own; raises InvalidArgumentsError if they are nested too deeply."""
    return {key: _copy(value, MAX_DEPTH) for key, value in params.items()}


def _copy(value: Any, room: int) -> Any:
    if isinstance(value, dict):
        _check(room)
        return {key: _copy(each, room - 1) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        _check(room)
        return [_copy(each, room - 1) for each in cast("list[Any]", value)]
    return value


def _check(room: int) -> None:
    if not room:
        raise InvalidArgumentsError(f"The arguments are nested more than {MAX_DEPTH} levels deep.")


@dataclass(frozen=True, slots=True)
class Running:
    """The call in which a tool's function runs."""

    tool: Tool
    context: ToolContext


_running: ContextVar[Running | None] = ContextVar("trunkline_running_tool", default=None)


def running(tool: Tool) -> ToolContext | None:
    """The context of the call that runs this very tool now, if it came through a chain."""
    call = _running.get()
    if call is None or (call.tool.name, call.tool.server) != (tool.name, tool.server):
        return None
    return call.context


@contextmanager
def marked(call: Running | None) -> Generator[None]:
    """Let the function called inside know its call; `None` hides a call from what the function calls itself."""
    token = _running.set(call)
    try:
        yield
    finally:
        _running.reset(token)
