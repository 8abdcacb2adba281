"""One request of a caller, and the way to answer it."""

from __future__ import annotations

import asyncio
import http
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from trunkline.identity import EVERYONE
from trunkline.tenancy.people import ANYONE

Headers = list[tuple[bytes, bytes]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")
STREAM: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]

STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in http.HTTPStatus}
"""The first line of an answer."""


class Writer(Protocol):
    """Where an answer goes."""

    closed: bool

    @property
    def peer(self) -> str:
        """The address at the other end."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        ...

    async def writable(self) -> None:
        """Wait until the peer has read most of what it was sent."""
        ...


class Request:
    """One request, and the way to answer it."""

    __slots__ = (
        "_connection",
        "_gone",
        "_keep_alive",
        "_started",
        "admission",
        "answered",
        "body",
        "by_cookie",
        "headers",
        "lines",
        "local",
        "method",
        "path",
        "patience",
        "repeated",
        "scope",
        "task",
        "thread",
        "url",
    )

    def __init__(self, connection: Writer, method: str, path: str, headers: dict[bytes, bytes], body: bytes) -> None:
        self._connection = connection
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.thread = ""
        """The thread that the caller names."""
        self.url = b""
        """What was asked for, as it was sent."""
        self.repeated = b""
        """A header that must not occur twice, but did."""
        self.scope = EVERYONE
        """Whose request it is, once that is known."""
        self.admission = ANYONE
        """What let its caller in."""
        self.by_cookie = False
        """Whether that is a cookie of the console."""
        self.local = False
        """Whether a command of whoever runs the gateway sent it."""
        self.patience = 0.0
        """Seconds that such a command gives its call, which then wants a fresh answer."""
        self.lines = b""
        """Header lines that every answer to it has."""
        self.answered = False
        self.task: asyncio.Task[None] | None = None
        self._keep_alive = True
        self._started = False
        self._gone: list[Callable[[], object]] = []

    @property
    def gone(self) -> bool:
        """Whether the caller hung up."""
        return self._connection.closed

    @property
    def peer(self) -> str:
        """The address that it came from."""
        return self._connection.peer

    @property
    def token(self) -> bytes:
        """The issuer's token that let the caller in, for who may exchange it; empty for any other caller."""
        if not self.admission.issuer:
            return b""
        return self.headers.get(b"authorization", b"").partition(b" ")[2].strip()

    @contextmanager
    def until_expiry(self, end: Callable[[], object]) -> Generator[None]:
        """Have `end` called when what let the caller in ends, if the body still runs then."""
        left = self.admission.expires - time.time() if self.admission.expires else 0.0
        timer = asyncio.get_running_loop().call_later(left, end) if left else None
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Have `callback` called when the caller hangs up before it is answered."""
        self._gone.append(callback)

    def answer(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """The whole answer, in one write."""
        if self.answered or self._connection.closed:
            return
        self.answered = True
        parts = [STATUS.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, self.lines]
        for name, value in headers or ():
            parts += (name, b": ", value, b"\r\n")
        if not self._keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if self.method == "HEAD" else body)
        self._connection.write(b"".join(parts))

    def begin(self, headers: Headers, status: int = 200) -> None:
        """Start an answer that comes in pieces."""
        if self._started or self.answered or self._connection.closed:
            return
        self._started = True
        parts = [STATUS.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, self.lines]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"transfer-encoding: chunked\r\n\r\n")
        self._connection.write(b"".join(parts))

    async def write(self, piece: bytes) -> None:
        """One piece; waits while the caller is slow to read."""
        if piece and not self.answered and not self._connection.closed:
            self._connection.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            await self._connection.writable()

    def end(self) -> None:
        """The answer is whole."""
        if self._started and not self.answered and not self._connection.closed:
            self._connection.write(b"0\r\n\r\n")
        self.answered = True

    # For the connection.

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can take another request afterwards."""
        return self._keep_alive and self.answered

    def close_after(self) -> None:
        """This is the connection's last request."""
        self._keep_alive = False

    def hung_up(self) -> None:
        """Tell whoever wants to know that the caller is gone."""
        for callback in self._gone:
            callback()
        self._gone.clear()
