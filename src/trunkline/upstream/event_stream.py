"""HTTP answers that come as events: of one call, or what a legacy server says outside calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from trunkline.errors import UpstreamError
from trunkline.upstream.address import Address
from trunkline.upstream.http1 import Response
from trunkline.wire.sse import Decoder, Event

POLL_AGAIN = 1.0
"""Seconds before a stream that the server closed is asked for again, unless it names a delay."""
SLICE = 100
"""Events after which others get a turn."""
SOONEST = 0.1
"""Seconds between two attempts at least, whatever delay it names."""


class EventStream:
    """The rest of an answer, event by event; what has arrived stays when the reader is called away."""

    def __init__(self, response: Response, limit: int) -> None:
        self.response = response
        self.decoder = Decoder(limit)
        self.retry = POLL_AGAIN
        self._waiting: deque[Event] = deque()
        self._taken = 0

    async def next_event(self) -> Event | None:
        """The next event; `None` when the stream is over."""
        self._taken += 1
        if self._taken % SLICE == 0:
            await asyncio.sleep(0)  # what came in one piece may be thousands
        while not self._waiting:
            piece = await self.response.next_piece()
            if not piece:
                return None
            self._waiting.extend(self.decoder.feed(piece))
        return self._waiting.popleft()


async def keep_listening(address: Address, limit: int, take: Callable[[bytes], None]) -> None:
    """Hand over every message, and open the stream again whenever it ends; a server may also have none."""
    last_id, delay = "", POLL_AGAIN
    while True:
        heard = False
        response: Response | None = None
        try:
            response = await address.get(last_id)
            await response.ready()
            if response.status != 200 or not response.streams:
                return
            stream = EventStream(response, limit)
            while (event := await stream.next_event()) is not None:
                last_id = stream.decoder.last_id or last_id
                delay = event.retry / 1000 if event.retry >= 0 else POLL_AGAIN
                heard = heard or bool(event.data)
                if event.data:
                    take(event.data)
            # A server may ask to be asked again at once, but not for ever while it has nothing to say.
            delay = max(delay, SOONEST) if heard else min(max(delay, SOONEST) * 2, 60.0)
        except (UpstreamError, ValueError):
            delay = min(delay * 2, 60.0)
        finally:
            if response is not None:
                response.close()
        await asyncio.sleep(delay)
