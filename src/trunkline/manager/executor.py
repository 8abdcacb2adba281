"""Tools called from code rather than by a model: one, many at once, or one after the other with what came before."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.errors import InvalidArgumentsError, TrunklineError
from trunkline.identity import unit_name
from trunkline.model import Kind
from trunkline.sandbox.values import value_of
from trunkline.tool import DIRECT, PROGRAM

if TYPE_CHECKING:
    from trunkline.hub import Hub
    from trunkline.sandbox.run import ProgramResult

MOST_TOOLS = 10_000
"""Tools of which it is remembered how their calls went."""


@dataclass(frozen=True)
class ExecutionContext:
    """Who calls, as `allowed_callers` of tools name it, for whom, and how long a call may take."""

    caller: str = PROGRAM
    user_id: str = ""
    thread_id: str = ""
    timeout: float = 0.0
    """Seconds without a sign of life; 0 takes the server's own."""


@dataclass(frozen=True)
class ExecutionResult:
    """What came of one call; a failed one says why, and is not raised."""

    tool_name: str
    result: Any = None
    """What the tool gave: structured content, else its text, read where it is JSON."""
    duration: float = 0.0
    success: bool = True
    error: str = ""


@dataclass(frozen=True)
class ExecutionStep:
    """One call of several: its arguments, or a function that makes them of the results of the steps before."""

    tool_name: str
    arguments: Mapping[str, Any] | Callable[[Sequence[ExecutionResult]], Mapping[str, Any]] = dataclasses.field(
        default_factory=dict[str, Any]
    )


@dataclass(frozen=True)
class ToolMetrics:
    """How calls of one tool from code went."""

    count: int = 0
    total_duration: float = 0.0
    errors: int = 0

    @property
    def average_duration(self) -> float:
        """Seconds that a call took."""
        return self.total_duration / self.count if self.count else 0.0

    @property
    def error_rate(self) -> float:
        """The share that failed."""
        return self.errors / self.count if self.count else 0.0


class ProgrammaticToolExecutor:
    """A face of `hub.call` and `hub.run` for code: every call passes the stages, as the caller that it names."""

    def __init__(self, hub: Hub, context: ExecutionContext | None = None) -> None:
        self._hub, self._context = hub, context or ExecutionContext()
        self._metrics: dict[str, ToolMetrics] = {}

    async def execute_from_code(
        self, tool_name: str, arguments: Mapping[str, Any] | None = None, context: ExecutionContext | None = None
    ) -> ExecutionResult:
        """Call one tool, by its shown name or as `mcp_SERVER_TOOL`; what its caller may not call does not exist."""
        who, began = context or self._context, time.monotonic()
        try:
            if not who.caller:  # which would be nobody's name, and no program's
                raise InvalidArgumentsError("Nobody calls.", hint="Say in the context who the `caller` is.")
            program = "" if who.caller == DIRECT else who.caller
            shown = await self._shown(tool_name, who, program)
            result = await self._hub.call(
                shown, arguments, user=who.user_id, thread=who.thread_id, program=program, timeout=who.timeout
            )
            error = (result.text or "It failed.") if result.is_error else ""
            value = None if error else value_of(result.structured, result.content)
        except TrunklineError as raised:
            error, value = str(raised), None
        took = time.monotonic() - began
        self._count(tool_name, took, failed=bool(error))
        return ExecutionResult(tool_name, value, took, not error, error)

    async def execute_parallel(
        self, steps: Iterable[ExecutionStep], context: ExecutionContext | None = None
    ) -> list[ExecutionResult]:
        """Call several at once; each has its own result, in the order of the calls."""
        calls = [(one.tool_name, _arguments(one, ())) for one in steps]
        return list(await asyncio.gather(*(self.execute_from_code(*call, context) for call in calls)))

    async def execute_sequential(
        self, steps: Iterable[ExecutionStep], context: ExecutionContext | None = None
    ) -> list[ExecutionResult]:
        """Call one after the other; a step that fails ends them, and is raised."""
        done: list[ExecutionResult] = []
        for step in steps:
            result = await self.execute_from_code(step.tool_name, _arguments(step, tuple(done)), context)
            if not result.success:
                raise TrunklineError(f"Tool {step.tool_name} failed: {result.error}")
            done.append(result)
        return done

    async def run(self, code: str, context: ExecutionContext | None = None) -> ProgramResult:
        """Run a program over tools, as `hub.run` does."""
        who = context or self._context
        return await self._hub.run(code, user=who.user_id, thread=who.thread_id, timeout=who.timeout)

    def get_metrics(self) -> dict[str, ToolMetrics]:
        """How calls went, by the names that they were made with."""
        return dict(self._metrics)

    def reset_metrics(self) -> None:
        """Count anew."""
        self._metrics.clear()

    def _count(self, tool: str, took: float, *, failed: bool) -> None:
        old = self._metrics.get(tool, ToolMetrics())
        if old.count or len(self._metrics) < MOST_TOOLS:
            self._metrics[tool] = ToolMetrics(old.count + 1, old.total_duration + took, old.errors + failed)

    async def _shown(self, name: str, who: ExecutionContext, program: str) -> str:
        """The shown name of a tool; ART's names are looked up, never taken apart."""
        if not name.startswith("mcp_"):
            return name
        scope = await self._hub.relay.scope_of(who.user_id, who.thread_id)
        snapshot = self._hub.relay.view(dataclasses.replace(scope, program=program)).snapshot
        if name in snapshot.tools:
            return name
        for offer in snapshot.offers.values():
            prefix = f"mcp_{unit_name(offer.server)}_"
            if name.startswith(prefix) and (entry := offer.own.get(Kind.TOOL, {}).get(name[len(prefix) :])):
                return entry.shown
        return name


def _arguments(step: ExecutionStep, before: Sequence[ExecutionResult]) -> Mapping[str, Any]:
    return step.arguments(before) if callable(step.arguments) else step.arguments
