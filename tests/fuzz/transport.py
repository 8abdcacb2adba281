"""The end of a connection that only writes down what is done to it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from trunkline.upstream import http1
from trunkline.upstream.http1 import Response
from trunkline.upstream.origin import Origin

ANSWER_LIMIT = 100_000


class Wire:
    """Stands for the network."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.ended = False
        """Whether our side said that it sends no more."""
        self.reading = True
        self.half_closes = True
        """Whether one side can end alone, as over TLS it cannot."""
        self.unread = 0
        """Bytes that the other end has not taken yet."""
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def can_write_eof(self) -> bool:
        return self.half_closes

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    @property
    def far_end(self) -> socket.socket:
        """What the server holds of a connection of the client's."""
        assert self._pair is not None
        return self._pair[1]

    def abort(self) -> None:
        self.closed = True
        if self._pair is not None:
            for one in self._pair:
                one.close()

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, name: str) -> Any:
        if name == "peername":
            return ("192.0.2.7", 4711)
        assert name == "socket"
        if self._pair is None:
            self._pair = socket.socketpair()
        return self._pair[0]


class Line:
    """A connection of the client's, and the pool it goes back to."""

    def __init__(self, pool: http1.ConnectionPool | None = None) -> None:
        self.pool = pool or http1.ConnectionPool(Origin("http", "server", 80))
        self.wire = Wire()
        self.connection: Any = vars(http1)["_Connection"](self.pool)
        self.connection.connection_made(cast("asyncio.Transport", self.wire))

    def send(self) -> Response:
        return self.connection.send(b"POST / HTTP/1.1\r\n\r\n", ANSWER_LIMIT)

    def goodbye(self) -> None:
        """The server closes its end, which nobody has read yet."""
        self.wire.far_end.close()

    def whisper(self) -> None:
        """The server says something, which nobody has read yet."""
        self.wire.far_end.send(b"x")

    def close(self) -> None:
        self.pool.close()
        self.wire.abort()
