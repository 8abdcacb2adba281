"""Batches: calls to an idle server go at once; calls to one that is at work gather, and go out together."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Self

from trunkline.call.batch_config import DEFAULT_BATCH_CONFIG, BatchConfig
from trunkline.call.batch_events import (
    BatchCompleted,
    BatchFailed,
    BatchStarted,
    FlushTriggered,
    Reason,
    RequestQueued,
)
from trunkline.call.batch_groups import Group, Groups, busy
from trunkline.call.batch_request import BatchExecutor, BatchRequest, BatchResult, read_results
from trunkline.errors import CancelledCallError, ConfigError, UpstreamError, UpstreamTimeoutError
from trunkline.events import Emitter
from trunkline.tasks import Tasks
from trunkline.tools.digest import digest

__all__ = [
    "DEFAULT_BATCH_CONFIG",
    "BatchCompleted",
    "BatchConfig",
    "BatchExecutor",
    "BatchFailed",
    "BatchRequest",
    "BatchResult",
    "BatchStarted",
    "FlushTriggered",
    "RequestBatcher",
    "RequestQueued",
    "create_request_batcher",
]

Key = tuple[str, str, str, str]


class RequestBatcher:
    """Gathers requests by server, and has a bounded number of batches in flight.

    What waits for a server becomes due on the next turn of the loop if the server has nothing in flight; otherwise when
    one of its batches ends, when `max_batch_size` requests wait, after `max_wait`, or by `flush`: whichever is first.
    What is due goes as soon as there is a slot.
    """

    def __init__(
        self,
        config: BatchConfig = DEFAULT_BATCH_CONFIG,
        *,
        executor: BatchExecutor | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.config = config = replace(config, **options)
        self._executor, self._clock = executor, clock
        slots = config.max_concurrent_batches if config.enable_parallel else 1
        share = (config.max_batches_per_server or max(1, slots // 2)) if config.group_by_server else slots
        self._groups = Groups[BatchRequest](
            slots, share, config.max_batch_size, config.max_queue, lambda request: request.wanted
        )
        self._shared: dict[Key, BatchRequest] = {}
        self._batches: dict[str, _Batch] = {}
        self._drained: list[asyncio.Future[None]] = []
        self._destroyed = False
        self._tasks = Tasks()
        # A batch has many callers, and must not run with the context variables of whoever happened to start it.
        self._context = copy_context()
        self._request_ids, self._batch_ids = itertools.count(1), itertools.count(1)
        self._events = Emitter(BatchStarted, BatchCompleted, BatchFailed, RequestQueued, FlushTriggered)
        self.on, self.off = self._events.on, self._events.off

    @property
    def queue_size(self) -> int:
        """Requests that wait for their batch."""
        return self._groups.size

    @property
    def active_batch_count(self) -> int:
        """Batches in flight."""
        return self._groups.in_flight

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is in flight."""
        return not self._groups.size and not self._groups.in_flight

    def set_executor(self, executor: BatchExecutor) -> None:
        """Say what runs the batches from now on."""
        self._executor = executor

    async def add(
        self,
        tool: str,
        args: Mapping[str, Any],
        server_id: str = "",
        *,
        read_only: bool = False,
        timeout: float = 0.0,
        owner: str = "",
    ) -> Any:
        """The result of a request, run in some batch; equal `read_only` ones of one owner share an execution.

        Raises `BusyError` when too many wait already, `UpstreamTimeoutError` after `timeout` seconds or when the batch
        takes too long, and otherwise what the executor gave as the error.
        """
        self._check_usable()
        key = _key(server_id, tool, args, owner) if read_only else None
        request = self._shared.get(key) if key is not None else None
        if request is not None and not request.ended.done():
            waiter = request.join()
        else:
            ended = asyncio.get_running_loop().create_future()
            name = f"req-{next(self._request_ids)}"
            request = BatchRequest(name, tool, args, server_id, owner, read_only, timeout, copy_context(), ended)
            waiter = request.join()
            self._queue(request)
            if key is not None:
                self._share(key, request)
        try:
            return await (_within(timeout, waiter, request) if timeout else waiter)
        finally:
            if request.leave(waiter):
                self._abandon(request)

    async def flush(self) -> None:
        """Run everything that is queued now, and wait for its end."""
        self._check_usable()
        await asyncio.sleep(0)  # calls that were started just before this one get into the queue
        requests = [request for group in self._groups.all() for request in group.queue]
        if requests:
            self._flush()
            await asyncio.wait([request.ended for request in requests])

    async def drain(self, timeout: float = 30.0) -> None:
        """Run everything, and wait until nothing waits or is in flight; `UpstreamTimeoutError` after `timeout`."""
        await asyncio.sleep(0)
        if self._groups.size:
            self._flush()
        if self.is_idle:
            return
        drained = asyncio.get_running_loop().create_future()
        self._drained.append(drained)
        try:
            async with asyncio.timeout(timeout):
                await drained
        except TimeoutError as error:
            raise UpstreamTimeoutError(
                f"The batcher was not idle within {timeout:g} s: {self.queue_size} requests wait, and "
                f"{self.active_batch_count} batches are in flight.",
                hint="Give `drain` more time, or the requests a `timeout`.",
            ) from error
        finally:
            self._drained.remove(drained)

    def destroy(self) -> None:
        """Take no more requests, and reject those that wait; what is in flight still gets its answer."""
        self._destroyed = True
        for group in self._groups.all():
            for request in tuple(group.queue):
                self._groups.remove(group.server, request.owner, request)
                error = CancelledCallError(f"The batcher was destroyed before {request} could run.")
                request.resolve(BatchResult(success=False, error=error))
        self._tell_drained()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.drain()
        finally:
            self.destroy()
            await self._tasks.close()

    def _check_usable(self) -> None:
        if self._destroyed:
            raise ConfigError("The batcher has been destroyed.", hint="Make a new one.")
        if self._executor is None:
            raise ConfigError(
                "Missing required configuration: batch_executor", hint="Call set_executor() before adding requests."
            )

    def _group_name(self, request: BatchRequest) -> str:
        return request.server_id if self.config.group_by_server else ""

    def _queue(self, request: BatchRequest) -> None:
        """Let a request wait, and decide when what waits for its server becomes due."""
        group = self._groups.of(self._group_name(request))
        pushed_out = self._groups.push(group, request.owner, request)
        if pushed_out is not None:
            pushed_out.resolve(BatchResult(success=False, error=busy(group.server, group.queue.size)))
        if self._events.hears(RequestQueued):
            self._events.emit(RequestQueued(request.id, self.queue_size))
        if group.due:
            return
        if group.queue.size >= self.config.max_batch_size:
            self._release(group, "size")
        elif group.timer is None:
            loop = asyncio.get_running_loop()
            if group.lane.inside:
                group.timer = loop.call_later(self.config.max_wait, self._release, group, "timeout")
            else:
                group.timer = loop.call_soon(self._release, group, "idle")

    def _share(self, key: Key, request: BatchRequest) -> None:
        self._shared[key] = request

        def forget(_: object) -> None:
            if self._shared.get(key) is request:
                del self._shared[key]

        request.ended.add_done_callback(forget)

    def _release(self, group: Group[BatchRequest], reason: Reason) -> None:
        self._groups.make_due(group)
        self._tell_flush(reason, group.server)
        self._dispatch()

    def _flush(self) -> None:
        for group in self._groups.all():
            if group.queue.size:
                self._groups.make_due(group)
        self._tell_flush("manual", "")
        self._dispatch()

    def _tell_flush(self, reason: Reason, server: str) -> None:
        if self._events.hears(FlushTriggered):
            self._events.emit(FlushTriggered(reason, self.queue_size, server))

    def _dispatch(self) -> None:
        while (batch := self._groups.next()) is not None:
            self._start(*batch)

    def _start(self, group: Group[BatchRequest], requests: list[BatchRequest]) -> None:
        batch = _Batch(f"batch-{next(self._batch_ids)}", group, requests)
        for request in requests:
            request.batch_id = batch.id
        if self._events.hears(BatchStarted):
            self._events.emit(BatchStarted(batch.id, len(requests), group.server))
        self._batches[batch.id] = batch
        batch.deadline = asyncio.get_running_loop().call_later(self.config.batch_timeout, self._expire, batch)
        batch.task = self._context.copy().run(self._tasks.start, self._run(batch), name=batch.id)
        # Not in the task itself: one that is cancelled before its first step never gets to a `finally`.
        batch.task.add_done_callback(lambda _: self._stopped(batch))

    async def _run(self, batch: _Batch) -> None:
        started = self._clock()
        try:
            assert self._executor is not None
            answer = self._executor(list(batch.requests))
            results = read_results(await answer if isawaitable(answer) else answer, batch.requests)
        except Exception as error:  # noqa: BLE001 - whatever the executor raises is the answer to each request
            self._end(batch)
            self._fail(batch, error)
            return
        took = self._clock() - started
        self._end(batch)  # before the answers: who has its answer finds the slot free
        for request, result in zip(batch.requests, results, strict=True):
            request.resolve(result)
        if not batch.failed and self._events.hears(BatchCompleted):
            told = tuple(
                replace(result, id=request.id, execution_time=result.execution_time or took)
                for request, result in zip(batch.requests, results, strict=True)
            )
            self._events.emit(BatchCompleted(batch.id, told))

    def _expire(self, batch: _Batch) -> None:
        """The callers get their answer now; the slot is free when the executor has really stopped."""
        error = UpstreamTimeoutError(
            f"A batch of {len(batch.requests)} requests was not done within {self.config.batch_timeout:g} s.",
            hint="Raise `batch_timeout`; the calls may have happened.",
        )
        self._fail(batch, error)
        batch.stop()

    def _stopped(self, batch: _Batch) -> None:
        if not batch.over:  # it was cancelled
            self._end(batch)
            self._fail(batch, UpstreamError("The batch was stopped.", hint="The calls may have happened."))

    def _fail(self, batch: _Batch, error: Exception) -> None:
        if batch.failed:
            return
        batch.failed = True
        for request in batch.requests:
            request.resolve(BatchResult(success=False, error=error))
        if self._events.hears(BatchFailed):
            self._events.emit(BatchFailed(batch.id, error))

    def _end(self, batch: _Batch) -> None:
        """Give the slot on."""
        batch.over = True
        if batch.deadline is not None:
            batch.deadline.cancel()
        del self._batches[batch.id]
        if self._groups.end(batch.group):
            self._tell_flush("idle", batch.group.server)
        self._dispatch()
        self._tell_drained()

    def _abandon(self, request: BatchRequest) -> None:
        """Nobody waits for it: if it waits, it never runs; a batch full of such is stopped, to free its slot."""
        if not request.batch_id:
            self._groups.remove(self._group_name(request), request.owner, request)
            self._tell_drained()
            return
        batch = self._batches.get(request.batch_id)
        if batch is not None and all(other.ended.done() for other in batch.requests):
            batch.stop()

    def _tell_drained(self) -> None:
        if self._drained and self.is_idle:
            for drained in self._drained:
                if not drained.done():
                    drained.set_result(None)


def create_request_batcher(config: BatchConfig = DEFAULT_BATCH_CONFIG, **options: Any) -> RequestBatcher:
    """A batcher; the same as making one."""
    return RequestBatcher(config, **options)


@dataclass(eq=False, slots=True)
class _Batch:
    id: str
    group: Group[BatchRequest]
    requests: list[BatchRequest]
    task: asyncio.Task[Any] | None = None
    deadline: asyncio.TimerHandle | None = None
    over: bool = False
    failed: bool = False

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


def _key(server_id: str, tool: str, args: Mapping[str, Any], owner: str) -> Key | None:
    """What equal requests have in common; nothing, for arguments that cannot be compared."""
    try:
        return (server_id, tool, digest(args), owner)
    except TypeError:
        return None


async def _within(timeout: float, waiter: asyncio.Future[Any], request: BatchRequest) -> Any:
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await waiter
    except TimeoutError as error:
        if not deadline.expired():
            raise  # the executor's own
        hint = "It may still have happened." if request.batch_id else "It still waited for its batch, and did not run."
        raise UpstreamTimeoutError(f"{request} was not answered within {timeout:g} s.", hint=hint) from error
