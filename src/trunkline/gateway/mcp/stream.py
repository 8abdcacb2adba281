"""What a caller hears: a sequence of messages, written as they come, and kept for a caller that may come back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from trunkline.gateway.request import STREAM, Headers, Request
from trunkline.wire.sse import COMMENT, write_event

KEEP_ALIVE = 15.0
BACKLOG = 1000
"""Messages that may wait for a slow caller; beyond that, notifications are dropped."""


BACKLOG_BYTES = 8 * 2**20
REPLAY_BYTES = 2**20
"""Bytes kept of what was sent already, for a caller that lost it on the way."""


class Stream:
    """One logical stream of events. With a key its events have ids, by which it can be resumed."""

    def __init__(self, *, key: str = "", keep: int = 0) -> None:
        self.key = key
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._keep = keep
        self._count = 0
        self._sent = 0
        self._wake = asyncio.Event()
        self.done = False
        self._hang_ups = 0
        self._readers = 0
        self.dropped = 0

    def push(self, data: bytes, *, event: str = "", retry: int = -1, droppable: bool = False) -> None:
        """Add one message; MCP's have no name as an `event`."""
        if self.done or (droppable and (self._count - self._sent > BACKLOG or self._bytes > BACKLOG_BYTES)):
            self.dropped += droppable
            return
        self._count += 1
        event_id = f"{self.key}-{self._count}" if self.key else ""
        text = write_event(data, id=event_id, event=event, retry=retry)
        self._events.append((self._count, text))
        self._bytes += len(text)
        while self._events[0][0] <= self._sent and (len(self._events) > self._keep or self._bytes > REPLAY_BYTES):
            self._bytes -= len(self._events.popleft()[1])
        self._wake.set()

    def finish(self) -> None:
        """Nothing more comes."""
        self.done = True
        self._wake.set()

    def hang_up(self) -> None:
        """End what is being written now; the stream goes on for a caller that resumes it."""
        self._hang_ups += 1
        self._wake.set()

    @property
    def attached(self) -> bool:
        """Whether somebody reads it now."""
        return self._readers > 0

    def pump(self, request: Request, *, after: int = -1, headers: Headers | None = None) -> Coroutine[Any, Any, None]:
        """Write the stream as an answer, from the event after the given one, until it ends or hangs up."""
        # Hanging up ends those who read now, even if they have not begun to.
        return self._pump(request, after, headers, self._hang_ups)

    async def _pump(self, request: Request, after: int, headers: Headers | None, hang_ups: int) -> None:
        request.begin([*STREAM, *(headers or ())])
        at = self._sent if after < 0 else after
        self._readers += 1
        try:
            while not request.gone:
                pieces = [text for number, text in self._events if number > at]
                self._wake.clear()
                if pieces:
                    at = self._events[-1][0]
                    self._sent = max(self._sent, at)
                    await request.write(b"".join(pieces))
                    continue
                if self.done or self._hang_ups != hang_ups:
                    break
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        await self._wake.wait()
                except TimeoutError:
                    await request.write(COMMENT)
        finally:
            self._readers -= 1
            request.end()
