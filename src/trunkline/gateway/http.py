"""The HTTP server: one request at a time on a connection, whole before it is looked at, answered in one write.

It is our own because a relayed call is little else than HTTP: see `docs/decisions/0003-our-own-http-server.md`.
"""

from __future__ import annotations

import asyncio
import http
import logging
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote

import httptools  # type: ignore[import-untyped]

from trunkline.config.options import GatewayConfig
from trunkline.model import EVERYONE

log = logging.getLogger("trunkline")

Headers = list[tuple[bytes, bytes]]
Handler = Callable[["Request"], Coroutine[Any, Any, None]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")
STREAM: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]

HEADER_LIMIT = 64 * 1024
URL_LIMIT = 8 * 1024
PIPELINE = 8
"""Requests that may wait on one connection behind the one being answered."""
SWEEP = 0.5

_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in http.HTTPStatus}
_UPGRADE = re.compile(rb"(?i)\r\nupgrade:[^\r\n]*|\r\nhttp2-settings:[^\r\n]*")
_METHOD = re.compile(rb"[A-Z]{1,16}(?: |\Z)")
_SINGLE = frozenset((b"host", b"authorization", b"origin", b"content-type", b"content-length", b"last-event-id"))


class Request:
    """One request, and the way to answer it."""

    __slots__ = (
        "_connection",
        "_gone",
        "_keep_alive",
        "_started",
        "answered",
        "body",
        "headers",
        "method",
        "path",
        "repeated",
        "scope",
        "task",
    )

    def __init__(
        self, connection: Connection, method: str, path: str, headers: dict[bytes, bytes], body: bytes
    ) -> None:
        self._connection = connection
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.repeated = b""
        """A header that must not occur twice, but did."""
        self.scope = EVERYONE
        """Whose request it is, once that is known."""
        self.answered = False
        self.task: asyncio.Task[None] | None = None
        self._keep_alive = True
        self._started = False
        self._gone: list[Callable[[], object]] = []

    @property
    def gone(self) -> bool:
        """Whether the caller hung up."""
        return self._connection.closed

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Have `callback` called when the caller hangs up before it is answered."""
        self._gone.append(callback)

    def answer(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """The whole answer, in one write."""
        if self.answered or self._connection.closed:
            return
        self.answered = True
        parts = [_STATUS[status]]
        for name, value in headers or ():
            parts += (name, b": ", value, b"\r\n")
        if not self._keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if self.method == "HEAD" else body)
        self._connection.write(b"".join(parts))

    def begin(self, headers: Headers) -> None:
        """Start an answer that comes in pieces."""
        if self._started or self.answered or self._connection.closed:
            return
        self._started = True
        parts = [_STATUS[200]]
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


class Connection(asyncio.Protocol):
    """One TCP connection of a caller's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._current: Request | None = None
        self._queue: deque[Request] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._write_paused = False
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._size = 0
        self._parts: list[bytes] = []
        self._repeated = b""
        self._refused = 0
        self._begun = False
        self._pending = b""
        self.receiving = True
        """Whether a request is awaited or half there."""
        self.fresh = True
        self.since = time.monotonic()
        self.closed = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if not self._server.admit(self):
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._server.forget(self)
        self._queue.clear()
        self._wake()
        if self._current is not None:
            self._current.hung_up()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._begun:
            data = self._whole_head(data)
        try:
            if data:
                self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(400)

    def _whole_head(self, data: bytes) -> bytes:
        """Collect a request's head until it is whole; empty while it is not."""
        if not self._pending:
            self.since, self.fresh = time.monotonic(), True
        data = self._pending + data
        end = data.find(b"\r\n\r\n")
        if (len(data) if end < 0 else end) > HEADER_LIMIT:
            self._refuse(431)
            return b""
        if end < 0 and _METHOD.match(data):
            self._pending = data
            return b""
        self._pending = b""
        # We do not upgrade to anything, and the parser would swallow the body of a request that asks for it.
        return _UPGRADE.sub(b"", data[:end]) + data[end:] if b"pgrade" in data[:end] else data

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake()

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._url, self._headers, self._size, self._parts, self._repeated = b"", {}, 0, [], b""
        self._begun = True
        if self._current is None:
            self.receiving = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > URL_LIMIT:
            self._refuse(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._size += len(name) + len(value)
        if self._size > HEADER_LIMIT:
            self._refuse(431)
            return
        if name in self._headers and (name in _SINGLE or name.startswith(b"mcp-")):
            self._repeated = name
        self._headers[name] = value.strip(b" \t")

    def on_headers_complete(self) -> None:
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:15]) > self._server.body_limit:
            self._refuse(413)
        elif self._headers.get(b"expect", b"").lower() == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._size = 0

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        if self._size > self._server.body_limit:
            self._parts.clear()
            self._refuse(413)

    def on_message_complete(self) -> None:
        self._begun = False
        if self._refused:
            return
        path = self._url.partition(b"?")[0].decode("latin-1")
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        method = self._parser.get_method().decode("latin-1")
        request = Request(self, method, unquote(path) if "%" in path else path, self._headers, body)
        request.repeated = self._repeated
        self._parts = []
        if not self._parser.should_keep_alive() or self._server.draining:
            request.close_after()
        self._size = 0
        if self._current is not None:
            self._queue.append(request)
            if len(self._queue) >= PIPELINE and self._transport is not None:
                self._transport.pause_reading()
        else:
            self._start(request)

    # Answering

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._current is not None

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the peer has read most of what it was sent."""
        while self._write_paused and not self.closed:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def close(self) -> None:
        """Close once everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def _start(self, request: Request) -> None:
        self.receiving = False
        self._current = request
        request.task = self._server.run(request)
        request.task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        request, self._current = self._current, None
        if request is None or self.closed:
            return
        if not request.keeps_alive:
            self.close()
            return
        # A request that is half there already has to hurry; an idle connection has time.
        self.since, self.fresh, self.receiving = time.monotonic(), self._begun or bool(self._pending), True
        if self._queue:
            following = self._queue.popleft()
            if self._transport is not None and not self._transport.is_reading():
                self._transport.resume_reading()
            self._start(following)

    def _refuse(self, status: int) -> None:
        if self._refused:
            return
        self._refused = status
        if self._current is not None:
            # The call before it is still to be answered; what came behind it is not worth an answer of its own.
            self._current.close_after()
            if self._transport is not None:
                self._transport.pause_reading()
        else:
            self.write(_STATUS[status] + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            self.close()

    def _wake(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


class Server:
    """Accepts connections, and knows how long each may keep us waiting."""

    def __init__(self, handler: Handler, gateway: GatewayConfig) -> None:
        self._handler = handler
        self._gateway = gateway
        self.body_limit = gateway.body_limit
        self.draining = False
        self._connections: set[Connection] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let what is under way finish."""
        server = await self._loop.create_server(lambda: Connection(self), sock=listening, backlog=2048)
        try:
            while not stop.is_set():
                self._sweep()
                try:
                    async with asyncio.timeout(SWEEP):
                        await stop.wait()
                except TimeoutError:
                    pass
        finally:
            server.close()
            await self._drain()

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; whether there is room for it."""
        self._connections.add(connection)
        return len(self._connections) <= self._gateway.max_connections

    def forget(self, connection: Connection) -> None:
        """A connection ended."""
        self._connections.discard(connection)

    def run(self, request: Request) -> asyncio.Task[None]:
        """Answer a request in a task of its own."""
        task = self._loop.create_task(self._handler(request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _sweep(self) -> None:
        """Close connections whose request does not come, or comes too slowly."""
        now = time.monotonic()
        for connection in list(self._connections):
            if not connection.receiving or connection.busy:
                continue
            limit = self._gateway.header_timeout if connection.fresh else self._gateway.keep_alive
            if now - connection.since > limit:
                connection.close()

    async def _drain(self) -> None:
        self.draining = True
        for connection in list(self._connections):
            if not connection.busy:
                connection.close()
        if self._running:
            await asyncio.wait(list(self._running), timeout=self._gateway.drain)
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running), timeout=2.0)
        for connection in list(self._connections):
            connection.abort()
