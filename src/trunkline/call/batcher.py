"""Batches: calls to an idle server go at once; calls to one that is at work gather, and go out together."""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Self

from trunkline.call.batch_request import (
    BatchCompleted,
    BatchExecutor,
    BatchFailed,
    BatchRequest,
    BatchResult,
    BatchStarted,
    FlushTriggered,
    Reason,
    RequestQueued,
    read_results,
)
from trunkline.call.lanes import FairQueue, Lane, Limits
from trunkline.call.result_cache import result_key
from trunkline.call.single_flight import SingleFlight
from trunkline.errors import BusyError, CancelledCallError, ConfigError, UpstreamError, UpstreamTimeoutError
from trunkline.events import Emitter
from trunkline.foreign import Raised, attempt
from trunkline.tasks import Tasks


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How calls are gathered into batches."""

    max_batch_size: int = 10
    """Requests in a batch; when as many wait for one server, they go."""
    max_wait: float = 0.1
    """Seconds that a request waits for company at most, while its server is at work."""
    enable_parallel: bool = True
    """Run batches side by side; otherwise one at a time in all."""
    max_concurrent_batches: int = 5
    """Batches in flight at once, over all servers."""
    group_by_server: bool = True
    """A batch holds requests to one server; otherwise to any."""
    max_batches_per_server: int = 0
    """Batches in flight to one server; 0 means half of all, so that a stuck server leaves room for others."""
    max_queue: int = 1000
    """Requests that may wait for one server; further ones are refused."""
    batch_timeout: float = 60.0
    """Seconds that a batch may take."""

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_concurrent_batches", "max_queue"):
            if getattr(self, name) < 1:
                raise ConfigError(f"`{name}` is {getattr(self, name)}.", hint="Give 1 or more.")
        if self.max_batches_per_server < 0:
            raise ConfigError(f"`max_batches_per_server` is {self.max_batches_per_server}.", hint="Give 0 or more.")
        if not (self.max_wait >= 0 and math.isfinite(self.max_wait)):
            raise ConfigError(f"`max_wait` is {self.max_wait:g}.", hint="Give the seconds, 0 or more.")
        if not (self.batch_timeout > 0 and math.isfinite(self.batch_timeout)):
            raise ConfigError(f"`batch_timeout` is {self.batch_timeout:g}.", hint="Give the seconds, more than 0.")


DEFAULT_BATCH_CONFIG = BatchConfig()


class RequestBatcher:
    """Gathers requests by server, and has a bounded number of batches in flight.

    What waits for a server becomes due on the next turn of the loop if the server has nothing in flight; otherwise when
    one of its batches ends, when `max_batch_size` requests wait, after `max_wait`, or by `flush`: whichever is first.
    What is due goes as soon as there is a slot: first in the lane of its server, where batches are what calls are on
    the hub's path, then in the lane that all servers share, where servers take turns.
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
        self._slots = Lane("", Limits(slots, queue=sys.maxsize))
        self._share = Limits(share)
        self._groups: dict[str, _Group] = {}
        """Those for which something waits or is in flight."""
        self._batches: dict[str, _Batch] = {}
        """Those in flight."""
        self._flights: SingleFlight[BatchResult] = SingleFlight()
        self._idle = asyncio.Event()
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
        return sum(group.queue.size for group in self._groups.values())

    @property
    def active_batch_count(self) -> int:
        """Batches in flight."""
        return len(self._batches)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is in flight."""
        return not self._groups

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
        answer = asyncio.get_running_loop().create_future()
        request = BatchRequest(tool, args, server_id, owner, read_only, timeout, copy_context(), answer)
        key = _key(request) if read_only else ""
        run = self._result(request) if not key else self._flights.join(key, lambda: self._result(request))
        result = await (_within(timeout, run, request) if timeout else run)
        if result.success:
            return result.result
        raise request.error_of(result)

    async def flush(self) -> None:
        """Run everything that is queued now, and wait for its end."""
        self._check_usable()
        await _let_come()
        requests = [request for group in self._groups.values() for request in group.queue]
        if requests:
            self._flush()
            await asyncio.wait([request.answer for request in requests])

    async def drain(self, timeout: float = 30.0) -> None:
        """Run everything, and wait until nothing waits or is in flight; `UpstreamTimeoutError` after `timeout`."""
        await _let_come()
        if self.queue_size:
            self._flush()
        try:
            async with asyncio.timeout(timeout):
                while not self.is_idle:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError as error:
            raise UpstreamTimeoutError(
                f"The batcher was not idle within {timeout:g} s: {self.queue_size} requests wait, and "
                f"{self.active_batch_count} batches are in flight.",
                hint="Give `drain` more time, or the requests a `timeout`.",
            ) from error

    def destroy(self) -> None:
        """Take no more requests, and reject those that wait; what is in flight still gets its answer."""
        self._destroyed = True
        for group in tuple(self._groups.values()):
            for request in tuple(group.queue):
                self._withdraw(request)
                request.fail(CancelledCallError(f"The batcher was destroyed before {request} could run."))

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

    async def _result(self, request: BatchRequest) -> BatchResult:
        self._check_usable()
        self._queue(request)
        try:
            return await request.answer
        finally:
            if request.answer.cancelled():
                self._abandon(request)

    def _group_name(self, request: BatchRequest) -> str:
        return request.server_id if self.config.group_by_server else ""

    def _queue(self, request: BatchRequest) -> None:
        """Let a request wait, and decide when what waits for its server becomes due."""
        server = self._group_name(request)
        group = self._groups.get(server)
        if group is None:
            group = self._groups[server] = _Group(Lane(server, self._share))
        refused = group.queue.admit(request.owner, request, self.config.max_queue)
        if refused is not None:
            refused.fail(_busy(server, group.queue.size))
            if refused is request:
                return
        request.id = f"req-{next(self._request_ids)}"
        if self._events.hears(RequestQueued):
            self._events.emit(RequestQueued(request.id, self.queue_size))
        if group.next is not None:
            return
        if group.queue.size >= self.config.max_batch_size:
            self._release(group, "size")
        elif group.timer is None:
            loop = asyncio.get_running_loop()
            if group.running:
                group.timer = loop.call_later(self.config.max_wait, self._release, group, "timeout")
            else:
                group.timer = loop.call_soon(self._release, group, "idle")

    def _release(self, group: _Group, reason: Reason) -> None:
        self._prepare(group)
        self._tell_flush(reason, group.lane.server)

    def _flush(self) -> None:
        for group in self._groups.values():
            if group.queue.size and group.next is None:
                self._prepare(group)
        self._tell_flush("manual", "")

    def _tell_flush(self, reason: Reason, server: str) -> None:
        if self._events.hears(FlushTriggered):
            self._events.emit(FlushTriggered(reason, self.queue_size, server))

    def _prepare(self, group: _Group) -> None:
        """What waits for a server goes out as soon as there is a slot."""
        group.stop_timer()
        group.next = self._context.copy().run(self._tasks.start, self._run(_Batch(group)))

    async def _run(self, batch: _Batch) -> None:
        """One batch, from its wait for a slot to its answers."""
        try:
            for lane, owner in ((batch.group.lane, ""), (self._slots, batch.group.lane.server)):
                if not lane.try_enter():
                    await lane.enter(owner, max_wait=math.inf)
                batch.lanes.append(lane)
            self._fill(batch)
            results = await attempt(self._execute, batch) if batch.requests else []
        except asyncio.CancelledError:
            self._leave(batch)
            self._fail(batch, UpstreamError("The batch was stopped.", hint="The calls may have happened."))
            raise
        self._leave(batch)  # before the answers: who has its answer finds the slot free
        if isinstance(results, Raised):
            self._fail(batch, results.error)
        else:
            self._complete(batch, results)

    def _fill(self, batch: _Batch) -> None:
        """Take what waits, owner by owner, into a batch that has its slot; what is left waits for the next one."""
        group = batch.group
        group.next = None
        while group.queue.size and len(batch.requests) < self.config.max_batch_size:
            request = group.queue.pop()
            if not request.answer.done():  # else its caller was just cancelled, and has not had its turn to leave
                batch.requests.append(request)
        if group.queue.size:
            self._prepare(group)
        if not batch.requests:
            return
        batch.id = f"batch-{next(self._batch_ids)}"
        for request in batch.requests:
            request.batch_id = batch.id
        group.running += 1
        self._batches[batch.id] = batch
        batch.task = asyncio.current_task()
        batch.deadline = asyncio.get_running_loop().call_later(self.config.batch_timeout, self._expire, batch)
        if self._events.hears(BatchStarted):
            self._events.emit(BatchStarted(batch.id, len(batch.requests), group.lane.server))

    async def _execute(self, batch: _Batch) -> list[BatchResult]:
        started = self._clock()
        assert self._executor is not None
        answer = self._executor(list(batch.requests))
        results = read_results(await answer if isawaitable(answer) else answer, batch.requests)
        batch.took = self._clock() - started
        return results

    def _expire(self, batch: _Batch) -> None:
        """The callers get their answer now; the slot is free when the executor has really stopped."""
        error = UpstreamTimeoutError(
            f"A batch of {len(batch.requests)} requests was not done within {self.config.batch_timeout:g} s.",
            hint="Raise `batch_timeout`; the calls may have happened.",
        )
        self._fail(batch, error)
        batch.stop()

    def _complete(self, batch: _Batch, results: list[BatchResult]) -> None:
        for request, result in zip(batch.requests, results, strict=True):
            request.resolve(result)
        if results and not batch.failed and self._events.hears(BatchCompleted):
            ended = tuple(
                replace(result, id=request.id, execution_time=result.execution_time or batch.took)
                for request, result in zip(batch.requests, results, strict=True)
            )
            self._events.emit(BatchCompleted(batch.id, ended))

    def _fail(self, batch: _Batch, error: Exception) -> None:
        if batch.failed or not batch.requests:
            return
        batch.failed = True
        for request in batch.requests:
            request.fail(error)
        if self._events.hears(BatchFailed):
            self._events.emit(BatchFailed(batch.id, error))

    def _leave(self, batch: _Batch) -> None:
        """Give the slots on; what gathered meanwhile is due."""
        for lane in batch.lanes:
            lane.leave()
        group = batch.group
        if batch.deadline is not None:
            batch.deadline.cancel()
            del self._batches[batch.id]
            group.running -= 1
        if group.queue.size and group.next is None:
            self._release(group, "idle")
        self._tidy(group)

    def _abandon(self, request: BatchRequest) -> None:
        """Nobody waits for it: if it waits, it never runs; a batch full of such is stopped, to free its slot."""
        batch = self._batches.get(request.batch_id)
        if not request.batch_id:
            self._withdraw(request)
        elif batch is not None and all(other.answer.done() for other in batch.requests):
            batch.stop()

    def _withdraw(self, request: BatchRequest) -> None:
        group = self._groups.get(self._group_name(request))
        if group is not None and group.queue.remove(request.owner, request):
            self._tidy(group)

    def _tidy(self, group: _Group) -> None:
        """Forget an empty group, but for the batches it has in flight."""
        if group.queue.size:
            return
        group.stop_timer()
        if group.next is not None:
            group.next.cancel()
            group.next = None
        server = group.lane.server
        if not group.running and self._groups.get(server) is group:
            del self._groups[server]
            if not self._groups:
                self._idle.set()


def create_request_batcher(config: BatchConfig = DEFAULT_BATCH_CONFIG, **options: Any) -> RequestBatcher:
    """A batcher; the same as making one."""
    return RequestBatcher(config, **options)


@dataclass(eq=False, slots=True)
class _Group:
    """What waits for one server, and the slots that the server may have."""

    lane: Lane
    queue: FairQueue[BatchRequest] = field(default_factory=FairQueue[BatchRequest])
    timer: asyncio.Handle | None = None
    """Makes what waits due, later."""
    next: asyncio.Task[Any] | None = None
    """The batch that takes what waits as soon as it has a slot: while there is one, what waits is due."""
    running: int = 0
    """Batches in flight."""

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(eq=False, slots=True)
class _Batch:
    group: _Group
    id: str = ""
    requests: list[BatchRequest] = field(default_factory=list[BatchRequest])
    lanes: list[Lane] = field(default_factory=list[Lane])
    """Where it has a slot."""
    task: asyncio.Task[Any] | None = None
    deadline: asyncio.TimerHandle | None = None
    took: float = 0.0
    failed: bool = False

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


async def _let_come() -> None:
    """Let calls that were started just before get into the queue; one that others may join takes a turn more."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def _within(timeout: float, run: Awaitable[BatchResult], request: BatchRequest) -> BatchResult:
    try:
        async with asyncio.timeout(timeout):
            return await run
    except TimeoutError as error:
        waited = request.id and not request.batch_id
        hint = "It still waited for its batch, and did not run." if waited else "It may still have happened."
        raise UpstreamTimeoutError(f"{request} was not answered within {timeout:g} s.", hint=hint) from error


def _key(request: BatchRequest) -> str:
    """Equal for equal requests; empty for arguments that cannot be compared."""
    try:
        return result_key(request.tool, request.args, server=request.server_id, tenant=request.owner)
    except TypeError:
        return ""


def _busy(server: str, waiting: int) -> BusyError:
    whom = f"Server {server!r}" if server else "The batcher"
    return BusyError(
        f"{whom} has {waiting} requests waiting already.", hint="Try again in a moment, or raise `max_queue`."
    )
