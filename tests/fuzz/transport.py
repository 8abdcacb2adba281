"""The end of a connection that only writes down what is done to it."""

from __future__ import annotations

import socket
from typing import Any


class Wire:
    """Stands for the network."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.ended = False
        """Whether our side said that it sends no more."""
        self.reading = True
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

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
        assert name == "socket"
        if self._pair is None:
            self._pair = socket.socketpair()
        return self._pair[0]
