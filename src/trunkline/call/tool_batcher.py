"""Tool calls through batches, for those who have a function for one call and none for many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Self

from trunkline.call.batch_request import BatchRequest, BatchResult
from trunkline.call.batcher import DEFAULT_BATCH_CONFIG, BatchConfig, RequestBatcher
from trunkline.errors import ConfigError
from trunkline.foreign import Raised, attempt

ToolExecutor = Callable[[str, Mapping[str, Any], str], Awaitable[Any] | Any]
"""Runs one call: given the tool, its arguments and the server."""


class ToolCallBatcher:
    """Runs the calls of a batch side by side; each caller has its answer as soon as its own call ends.

    A call runs with its caller's context variables, and is cancelled when nobody waits for it any more.
    """

    def __init__(
        self,
        config: BatchConfig = DEFAULT_BATCH_CONFIG,
        *,
        tool_executor: ToolExecutor | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self._tool_executor, self._clock = tool_executor, clock
        self.batcher = RequestBatcher(config, executor=self._run, clock=clock, **options)
        """What gathers the calls; listen to its events."""
        self.flush, self.drain, self.destroy = self.batcher.flush, self.batcher.drain, self.batcher.destroy
        self.on, self.off = self.batcher.on, self.batcher.off

    @property
    def queue_size(self) -> int:
        """Calls that wait for their batch."""
        return self.batcher.queue_size

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is in flight."""
        return self.batcher.is_idle

    def set_tool_executor(self, tool_executor: ToolExecutor) -> None:
        """Say what runs a call."""
        self._tool_executor = tool_executor

    async def execute(
        self,
        tool: str,
        args: Mapping[str, Any],
        server_id: str = "",
        *,
        read_only: bool = False,
        timeout: float = 0.0,
        owner: str = "",
    ) -> Any:
        """The result of a call; see `RequestBatcher.add`."""
        if self._tool_executor is None:
            raise ConfigError(
                "Missing required configuration: tool_executor",
                hint="Call set_tool_executor() before executing tool calls.",
            )
        return await self.batcher.add(tool, args, server_id, read_only=read_only, timeout=timeout, owner=owner)

    async def __aenter__(self) -> Self:
        await self.batcher.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await self.batcher.__aexit__(kind, *rest)

    async def _run(self, requests: list[BatchRequest]) -> list[BatchResult]:
        async with asyncio.TaskGroup() as calls:
            running = [
                calls.create_task(self._call(request, requests), context=request.context) for request in requests
            ]
            for request, task in zip(requests, running, strict=True):
                request.answer.add_done_callback(lambda answer, task=task: answer.cancelled() and task.cancel())
        return [CANCELLED if task.cancelled() else task.result() for task in running]

    async def _call(self, request: BatchRequest, batch: list[BatchRequest]) -> BatchResult:
        started = self._clock()
        execute = self._tool_executor
        assert execute is not None

        async def answer() -> BatchResult:
            given = execute(request.tool, request.args, request.server_id)
            return BatchResult(success=True, result=await given if isawaitable(given) else given)

        result = await attempt(answer)
        if isinstance(result, Raised):  # whatever the tool raises is the answer to this request
            result = BatchResult(success=False, error=result.error)
        if any(not other.answer.done() for other in batch if other is not request):
            request.resolve(result)  # the last one is answered by the end of the batch, when its slot is free
        return replace(result, execution_time=self._clock() - started)


CANCELLED = BatchResult(success=False, error="It was cancelled.")


def create_tool_call_batcher(config: BatchConfig = DEFAULT_BATCH_CONFIG, **options: Any) -> ToolCallBatcher:
    """A batcher of tool calls; the same as making one."""
    return ToolCallBatcher(config, **options)
