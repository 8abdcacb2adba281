"""One request of a caller, and the way to answer it."""

from __future__ import annotations

import asyncio
import http
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from trunkline.identity import EVERYONE, Scope
from trunkline.tenancy.people import ANYONE, Admission
from trunkline.wire.headers import NOTHING_SAID, Said
from trunkline.wire.heads import Heads

Headers = list[tuple[bytes, bytes]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")
STREAM: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]

STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in http.HTTPStatus}
"""The first line of an answer."""
MOST_HEADS = 1024
"""Heads of requests that are remembered, over all connections."""
_PARSED = frozenset((b"expect", b"transfer-encoding", b"upgrade"))
"""Headers that say more of how a request is read than how long it is: such a one goes through the parser each time."""


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


class Request(msgspec.Struct, eq=False):
    """One request, and the way to answer it."""

    connection: Writer
    method: str
    path: str
    headers: Mapping[bytes, bytes]
    """What was sent beside it; never changed, as equal heads share them."""
    body: bytes
    url: bytes = b""
    """What was asked for, as it was sent."""
    said: Said = NOTHING_SAID
    """What its headers say of its body."""
    repeated: bytes = b""
    """A header that must not occur twice, but did."""
    thread: str = ""
    """The thread that the caller names."""
    scope: Scope = EVERYONE
    """Whose request it is, once that is known."""
    admission: Admission = ANYONE
    """What let its caller in."""
    by_cookie: bool = False
    """Whether that is a cookie of the console."""
    local: bool = False
    """Whether a command of whoever runs the gateway sent it."""
    patience: float = 0.0
    """Seconds that such a command gives its call, which then wants a fresh answer."""
    lines: bytes = b""
    """Header lines that every answer to it has."""
    answered: bool = False
    task: asyncio.Task[None] | None = None
    _keep_alive: bool = True
    _started: bool = False
    _gone: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"Request({self.method!r}, {self.path!r})"  # headers are secret

    @property
    def gone(self) -> bool:
        """Whether the caller hung up."""
        return self.connection.closed

    @property
    def peer(self) -> str:
        """The address that it came from."""
        return self.connection.peer

    @property
    def token(self) -> bytes:
        """The issuer's token that let the caller in, for who may exchange it; empty for any other caller."""
        if not self.admission.issuer:
            return b""
        return self.headers.get(b"authorization", b"").partition(b" ")[2].strip()

    @contextmanager
    def until_expiry(self, end: Callable[[], object]) -> Generator[None]:
        """Have `end` called when what let the caller in ends, if the body still runs then."""
        expires = self.admission.expires
        timer = asyncio.get_running_loop().call_later(expires - time.time(), end) if expires else None
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
        if self.answered or self.connection.closed:
            return
        self.answered = True
        parts = [STATUS.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, self.lines]
        for name, value in headers or ():
            parts += (name, b": ", value, b"\r\n")
        if not self._keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if self.method == "HEAD" else body)
        self.connection.write(b"".join(parts))

    def begin(self, headers: Headers, status: int = 200) -> None:
        """Start an answer that comes in pieces."""
        if self._started or self.answered or self.connection.closed:
            return
        self._started = True
        parts = [STATUS.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, self.lines]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"transfer-encoding: chunked\r\n\r\n")
        self.connection.write(b"".join(parts))

    async def write(self, piece: bytes) -> None:
        """One piece; waits while the caller is slow to read."""
        if piece and not self.answered and not self.connection.closed:
            self.connection.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            await self.connection.writable()

    def end(self) -> None:
        """The answer is whole."""
        if self._started and not self.answered and not self.connection.closed:
            self.connection.write(b"0\r\n\r\n")
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


class KnownHeads:
    """Requests of MCP whose head was read before, and so need no parser."""

    def __init__(self) -> None:
        self._heads: Heads[tuple[str, bytes, Mapping[bytes, bytes], Said]] = Heads(MOST_HEADS)

    def read(self, connection: Writer, data: bytes) -> Request | None:
        """The request that these bytes are, if they are a whole one with a head that is known."""
        found = self._heads.find(data)
        if found is None:
            return None
        (path, url, headers, said), body = found
        return Request(connection, "POST", path, headers, body, url, said)

    def learn(self, data: bytes, request: Request) -> None:
        """Remember the head of a request that the parser read; `data` begins with it."""
        plain = not request.repeated and _PARSED.isdisjoint(request.headers)
        if plain and request.method == "POST" and request.path.startswith("/mcp"):
            # How long its body was, another one does not say.
            kept = {name: value for name, value in request.headers.items() if name != b"content-length"}
            self._heads.learn(data, (request.path, request.url, kept, request.said))
