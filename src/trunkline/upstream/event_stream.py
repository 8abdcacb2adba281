"""An HTTP answer that comes as events, read one by one; what has arrived stays when the reader is called away."""

from __future__ import annotations

from collections import deque

from trunkline.upstream.http1 import Response
from trunkline.wire.sse import Decoder, Event

POLL_AGAIN = 1.0
"""Seconds before a stream that the server closed is asked for again, unless it names a delay."""


class EventStream:
    """The rest of an answer."""

    def __init__(self, response: Response, limit: int) -> None:
        self.response = response
        self.decoder = Decoder(limit)
        self.retry = POLL_AGAIN
        self._waiting: deque[Event] = deque()

    async def next_event(self) -> Event | None:
        """The next event; `None` when the stream is over."""
        while not self._waiting:
            piece = await self.response.next_piece()
            if not piece:
                return None
            self._waiting.extend(self.decoder.feed(piece))
        return self._waiting.popleft()
