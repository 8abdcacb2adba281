"""A request on its way through a batch: who waits for it, and how it is answered."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, cast

from trunkline.errors import ServerRefusedError, TrunklineError, UpstreamError

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

    id: str
    tool: str
    args: Mapping[str, Any]
    server_id: str
    owner: str
    read_only: bool
    timeout: float
    """Seconds that its caller waits in all; 0 when it did not say."""
    context: Context = field(repr=False)
    """The context variables of its caller."""
    ended: asyncio.Future[None] = field(repr=False)
    """Done when it has its answer; cancelled when nobody waits for one any more."""
    batch_id: str = ""
    """Empty while it waits."""
    _waiters: list[asyncio.Future[Any]] = field(default_factory=list[asyncio.Future[Any]], repr=False)

    def __str__(self) -> str:
        return f"{self.tool!r} of server {self.server_id!r}" if self.server_id else repr(self.tool)

    def resolve(self, result: BatchResult) -> None:
        """Answer it; executors that learn some results before others may do so. Only the first answer counts."""
        if self.ended.done():
            return
        self.ended.set_result(None)
        for waiter in self._waiters:
            if waiter.done():
                continue
            if result.success:
                waiter.set_result(result.result)
            else:
                waiter.set_exception(self._failure(result.error))

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits: a caller that was just cancelled has not had its turn to leave."""
        return any(not waiter.done() for waiter in self._waiters)

    def join(self) -> asyncio.Future[Any]:
        """Wait for the answer."""
        waiter: asyncio.Future[Any] = self.ended.get_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def leave(self, waiter: asyncio.Future[Any]) -> bool:
        """Wait no longer; true when the last one left before there was an answer."""
        self._waiters.remove(waiter)
        return not self._waiters and self.ended.cancel()

    def _failure(self, error: object) -> Exception:
        """An error for one waiter alone: a shared one would collect the tracebacks of all."""
        if not isinstance(error, Exception) or isinstance(error, StopIteration):  # a future cannot raise that one
            text = str(error or "") or "The batch executor did not say why."
            return ServerRefusedError(f"{self} failed: {text}", code=UpstreamError.code)
        own: Exception
        try:
            if isinstance(error, TrunklineError):  # made with keywords, which `copy` does not know
                own = type(error).__new__(type(error), *error.args)
                own.__dict__.update(vars(error))
            else:
                own = copy.copy(error)
        except Exception:  # noqa: BLE001 - somebody else's class may be made in any way
            own = UpstreamError(f"{self} failed: {type(error).__name__}: {error}")
        # Where it was raised is worth keeping; an error that never was raised says all by itself.
        own.__cause__ = error if error.__traceback__ is not None else error.__cause__
        return own


BatchExecutor = Callable[[list[BatchRequest]], Awaitable[Sequence[BatchResult]] | Sequence[BatchResult]]
"""Runs a batch, and gives one result for each request, in their order."""


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
    what = "no result" if given is None else type(given).__name__
    error = UpstreamError(f"The batch executor returned {what} for request {place} ({request}).", hint=_CONTRACT)
    return BatchResult(success=False, error=error)


_CONTRACT = "It must give one BatchResult for each request, in their order. The calls may have happened."
