"""A request on its way through a batch: what its executor gets, and gives, and what listeners are told."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from trunkline.errors import ServerRefusedError, TrunklineError, UpstreamError
from trunkline.events import Event
from trunkline.foreign import Raised, attempt_now
from trunkline.untrusted import as_object

log = logging.getLogger("trunkline")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How one request ended; the batcher fills in the id, and the time where it is 0."""

    success: bool
    result: Any = None
    error: Exception | str | None = None
    id: str = ""
    execution_time: float = 0.0
    """Seconds."""


@dataclass(eq=False, slots=True)
class BatchRequest:
    """One request, as the executor gets it."""

    tool: str
    args: Mapping[str, Any]
    server_id: str
    owner: str
    read_only: bool
    timeout: float
    """Seconds that its caller waits in all; 0 when it did not say."""
    context: Context = field(repr=False)
    """The context variables of its caller."""
    answer: asyncio.Future[BatchResult] = field(repr=False)
    """Cancelled when nobody waits for it any more."""
    id: str = ""
    """Empty until it waits for a batch."""
    batch_id: str = ""
    """Empty while it waits."""

    def __str__(self) -> str:
        return f"{self.tool!r} of server {self.server_id!r}" if self.server_id else repr(self.tool)

    def resolve(self, result: BatchResult) -> None:
        """Answer it; executors that learn some results before others may do so. Only the first answer counts."""
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        """Answer it with an error."""
        self.resolve(BatchResult(success=False, error=error))

    def error_of(self, result: BatchResult) -> Exception:
        """An error for one caller alone: a shared one would collect the tracebacks of all."""
        error = result.error
        if not isinstance(error, Exception) or isinstance(error, StopIteration):  # a coroutine cannot raise that one
            text = str(error or "") or "The batch executor did not say why."
            return ServerRefusedError(f"{self} failed: {text}", code=UpstreamError.code)
        copied = attempt_now(_copy_of, error)
        if isinstance(copied, Raised):  # somebody else's class may be made in any way
            copied = UpstreamError(f"{self} failed: {type(error).__name__}: {error}")
        own = copied
        # Where it was raised is worth keeping; an error that never was raised says all by itself.
        own.__cause__ = error if error.__traceback__ is not None else error.__cause__
        return own


def _copy_of(error: Exception) -> Exception:
    if not isinstance(error, TrunklineError):
        return copy.copy(error)
    own = type(error).__new__(type(error), *error.args)  # made with keywords, which `copy` does not know
    own.__dict__.update(vars(error))
    return own


BatchAnswers = Sequence[BatchResult | Mapping[str, Any]]
"""One for each request, in their order: a `BatchResult`, or a mapping with its `success` and `result` or `error`."""
BatchExecutor = Callable[[list[BatchRequest]], Awaitable[BatchAnswers] | BatchAnswers]
"""Runs a batch, and gives one result for each request, in their order."""


Reason = Literal["idle", "size", "timeout", "manual"]


@dataclass(frozen=True, slots=True)
class BatchStarted(Event):
    """A batch begins."""

    event: ClassVar[str] = "batch_started"
    batch_id: str
    size: int
    server_id: str = ""


@dataclass(frozen=True, slots=True)
class BatchCompleted(Event):
    """A batch is done; some of its requests may have failed."""

    event: ClassVar[str] = "batch_completed"
    batch_id: str
    results: tuple[BatchResult, ...]


@dataclass(frozen=True, slots=True)
class BatchFailed(Event):
    """A batch failed as a whole, and with it all requests that had no answer."""

    event: ClassVar[str] = "batch_failed"
    batch_id: str
    error: Exception


@dataclass(frozen=True, slots=True)
class RequestQueued(Event):
    """A request came that does not share another's answer."""

    event: ClassVar[str] = "request_queued"
    request_id: str
    queue_size: int


@dataclass(frozen=True, slots=True)
class FlushTriggered(Event):
    """What waits for a server (by `flush`: for any) became due; said once, however many batches it makes."""

    event: ClassVar[str] = "flush_triggered"
    reason: Reason
    queue_size: int
    server_id: str = ""


def read_results(results: object, requests: Sequence[BatchRequest]) -> list[BatchResult]:
    """One result for each request, whatever the executor gave."""
    if not isinstance(results, Sequence):
        raise UpstreamError(f"The batch executor returned {type(results).__name__}, not a list.", hint=_CONTRACT)
    given = cast("Sequence[object]", results)
    if len(given) > len(requests):
        log.warning("The batch executor returned %d results for %d requests.", len(given), len(requests))
    return [_result(given[i] if i < len(given) else None, i, request) for i, request in enumerate(requests)]


def _result(given: object, place: int, request: BatchRequest) -> BatchResult:
    if isinstance(given, BatchResult):
        return given
    said = as_object(given)
    if isinstance(said.get("success"), bool):
        return BatchResult(said["success"], said.get("result"), said.get("error"))
    what = "no result" if given is None else type(given).__name__
    error = UpstreamError(f"The batch executor returned {what} for request {place} ({request}).", hint=_CONTRACT)
    return BatchResult(success=False, error=error)


_CONTRACT = (
    "It must give one BatchResult, or mapping with `success`, for each request, in their order. "
    "The calls may have happened."
)
