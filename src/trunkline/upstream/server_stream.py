"""The stream of a legacy server's own, on which it says what belongs to no call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trunkline.errors import UpstreamError
from trunkline.upstream.address import Address
from trunkline.upstream.event_stream import POLL_AGAIN, EventStream
from trunkline.upstream.http1 import Response


async def keep_listening(address: Address, limit: int, take: Callable[[bytes], None]) -> None:
    """Hand over every message, and open the stream again whenever it ends; a server may also have none."""
    last_id, delay = "", POLL_AGAIN
    while True:
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
                if event.data:
                    take(event.data)
        except (UpstreamError, ValueError):
            delay = min(delay * 2, 60.0)
        finally:
            if response is not None:
                response.close()
        await asyncio.sleep(delay)
