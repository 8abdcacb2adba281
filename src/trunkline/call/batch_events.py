"""What a batcher tells its listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trunkline.call.batch_request import BatchResult
from trunkline.events import Event

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
