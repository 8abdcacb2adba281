"""Tools and people for the tests of middleware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.questions.kinds import Elicitation
from trunkline.questions.manager import ElicitationManager
from trunkline.tool import Annotations, Tool, ToolResult

READER = Annotations(read_only_hint=True)
WRITER = Annotations(read_only_hint=False, idempotent_hint=False)
DESTROYER = Annotations(destructive_hint=True)


class Person:
    """Somebody who gives the same answer to everything, and remembers what was asked."""

    def __init__(self, answer: object = True) -> None:
        self.answer = answer
        self.asked: list[Elicitation] = []
        self.elicitation = ElicitationManager(handler=self.handle)

    def handle(self, request: Elicitation) -> object:
        """Answer a question."""
        self.asked.append(request)
        return self.answer


class Recorder:
    """A tool's function that remembers how it was called."""

    def __init__(self, *outcomes: object) -> None:
        self.calls: list[dict[str, Any]] = []
        self.outcomes = list(outcomes)

    async def __call__(self, params: dict[str, Any]) -> Any:
        self.calls.append(params)
        outcome = self.outcomes.pop(0) if self.outcomes else "done"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def tool(execute: Callable[..., Any], annotations: Annotations = READER, **more: Any) -> Tool:
    """A tool called `t`."""
    return Tool("t", annotations=annotations, execute=execute, **more)


def changing(change: Callable[[dict[str, Any]], object]) -> ToolMiddleware:
    """A middleware that does something to its params, and goes on."""

    async def middleware(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        change(params)
        return await call_next()

    return middleware


async def twice(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
    """A middleware that runs the rest two times."""
    await call_next()
    return await call_next()
