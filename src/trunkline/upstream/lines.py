"""Lines from a stream of pieces: bounded, and linear however the pieces fall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

SLICE = 100
"""Lines after which others get a turn."""
EDGE = 512
"""Bytes kept of each end of a line that is too long, to tell which call it would have answered."""


class Lines(asyncio.Protocol):
    """Hands over each line; one beyond `limit` is dropped as it arrives, and only its edges are handed over."""

    def __init__(
        self,
        limit: int,
        *,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._limit = limit
        self._on_line, self._on_too_long, self._on_end = on_line, on_too_long, on_end
        self._parts: list[bytes] = []
        self._size = 0
        self._dropped: tuple[bytes, bytes] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._rest = b""
        """What came and was not gone through yet; nothing more is read meanwhile."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream begins."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take one piece."""
        if self._rest:
            self._rest += data
        else:
            self._go_through(data, SLICE)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream ended; half a line is no line."""
        rest, self._rest = self._rest, b""
        self._go_through(rest, len(rest))
        self._on_end()

    def _go_through(self, data: bytes, lines: int) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not lines and self._transport is not None:
                self._rest = data[start:]
                self._transport.pause_reading()
                asyncio.get_running_loop().call_soon(self._go_on)
                return
            lines -= 1
            self._take(data[start:end])
            start = end + 1
            self._finish()
        if start < len(data):
            self._take(data[start:])

    def _go_on(self) -> None:
        rest, self._rest = self._rest, b""
        self._go_through(rest, SLICE)
        if not self._rest and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take(self, piece: bytes) -> None:
        if self._dropped is not None:
            head, tail = self._dropped
            self._dropped = head, (tail + piece)[-EDGE:]
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            whole = b"".join(self._parts)
            self._dropped = whole[:EDGE], whole[-EDGE:]
            self._parts.clear()

    def _finish(self) -> None:
        dropped, self._dropped = self._dropped, None
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if dropped is not None:
            self._on_too_long(*dropped)
        elif line and not line.isspace():
            self._on_line(line)
