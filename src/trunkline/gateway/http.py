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
from trunkline.gateway.request import STATUS, KnownHeads, Request
from trunkline.wire.envelope import error_object
from trunkline.wire.headers import read_said

log = logging.getLogger("trunkline")

Handler = Callable[[Request], Coroutine[Any, Any, None]]

HEADER_LIMIT = 64 * 1024
URL_LIMIT = 8 * 1024
PIPELINE = 64
"""Requests that may wait on one connection behind the one being answered; together no longer than a body may be."""
CHUNKS = 10_000
"""Pieces that a body may come in: each costs time, however little it holds."""
FRAMING = 16
"""Bytes around a piece of a body that say how long it is."""
LINGER = 2.0
"""Seconds in which a caller that was refused can read why, while what it still sends is thrown away."""
SWEEP = 0.5

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_UPGRADE = re.compile(rb"(?i)\r\nupgrade:[^\r\n]*|\r\nhttp2-settings:[^\r\n]*")
_METHOD = re.compile(rb"[A-Z]{1,16}(?: |\Z)")
_SINGLE = frozenset((b"host", b"authorization", b"origin", b"content-type", b"content-length", b"last-event-id"))


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
        self._behind = False
        """Whether a request came in one piece with the one before it, so that nothing has looked at its length yet."""
        self._pending = bytearray()
        self._whole = b""  # what came first of a request that begins a piece
        self._in_head = True
        self._raw = 0
        """Bytes of the head, or of what is around the body's pieces, since it began."""
        self._chunks = 0
        self._continue_due = False
        self.receiving = True
        """Whether a request is awaited or half there."""
        self.fresh = True
        self.since = time.monotonic()
        self.half_there_since = 0.0
        """Since when a request behind the one being answered is incomplete; 0 when none is."""
        self.unsent = 0
        self.unsent_since = 0.0
        """Since when the peer has read nothing of what it was sent; 0 when nothing waits to be sent."""
        self.closed = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if not self._server.admit(self):
            self.refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._pending.clear()
        self._server.forget(self)
        self._queue.clear()
        self._wake()
        if self._current is not None:
            self._current.hung_up()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._begun:
            self._behind = False
            if self._is_known(data):
                return
            data = self._whole_head(data)
        if data:
            self._feed(data)
        if self._current is not None:
            waits = self._begun or bool(self._pending)
            self.half_there_since = (self.half_there_since or time.monotonic()) if waits else 0.0

    def _feed(self, data: bytes) -> None:
        self._raw += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.refuse(400)
        # What the parser collects before it tells us of it (a header or trailer without an end) must have a bound too.
        if self._raw > HEADER_LIMIT + self._chunks * FRAMING:
            self.refuse(431)

    def _is_known(self, data: bytes) -> bool:
        """Start a request whose head was read before, if it is all that came and nothing waits."""
        self._whole = data if self._current is None and not self._pending else b""
        request = self._server.heads.read(self, self._whole)
        if request is None or len(request.body) > self._server.body_limit or self._server.draining:
            return False
        self._whole = b""  # an idle connection holds nothing
        self._start(request)
        return True

    def _whole_head(self, data: bytes) -> bytes:
        """Collect a request's head until it is whole; empty while it is not."""
        if not self._pending:
            self.since, self.fresh = time.monotonic(), True
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._pending += data
        else:
            searched = max(len(self._pending) - 3, 0)
            self._pending += data
            end = self._pending.find(b"\r\n\r\n", searched)
        if (len(self._pending) if end < 0 else end) > HEADER_LIMIT:
            self.refuse(431)
            return b""
        if end < 0 and _METHOD.match(self._pending):
            return b""
        if self._pending:
            data = bytes(self._pending)
            self._pending.clear()
        # We do not upgrade to anything, and the parser would swallow the body of a request that asks for it.
        return _UPGRADE.sub(b"", data[:end]) + data[end:] if data.find(b"pgrade", 0, end) >= 0 else data

    def pause_writing(self) -> None:
        self._write_paused = True
        self.unsent, self.unsent_since = 0, time.monotonic()
        self._server.unread.add(self)

    def resume_writing(self) -> None:
        self._write_paused = False
        self.unsent_since = 0.0
        self._server.unread.discard(self)
        self._wake()

    def measure(self, now: float) -> int:
        """How many bytes wait for the peer to read; when it read some since the last look, its time begins anew."""
        size = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if size < self.unsent:
            self.unsent_since = now
        self.unsent = size
        return size

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._url, self._headers, self._parts, self._repeated = b"", {}, [], b""
        self._begun = self._in_head = True
        self._chunks = 0
        if self._current is None:
            self.receiving = True

    def on_url(self, url: bytes) -> None:
        self._url = self._url + url if self._url else url
        if len(self._url) > URL_LIMIT:
            self.refuse(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer says nothing that we would act on
        name, headers = name.lower(), self._headers
        if name in headers and (name in _SINGLE or name.startswith(b"mcp-")):
            self._repeated = name
        headers[name] = value.strip(b" \t")
        if self._behind:
            self._size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        large, self._in_head, self._raw, self._size = self._size > HEADER_LIMIT, False, 0, 0
        version = self._parser.get_http_version()
        coding = self._headers.get(b"transfer-encoding")
        length = self._headers.get(b"content-length", b"0")
        if large:
            self.refuse(431)  # one that came behind another, in one piece with it
        elif version not in ("1.0", "1.1"):
            self.refuse(505)
        elif coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
            self.refuse(400)
        elif self._parser.should_upgrade():
            self.refuse(400)  # CONNECT, say: its body would be nobody's
        elif length.isdigit() and int(length[:15]) > self._server.body_limit:
            self.refuse(413)
        elif self._headers.get(b"expect", b"").lower() == b"100-continue":
            if self._current is None:
                self.write(_CONTINUE)
            else:
                self._continue_due = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        self._raw = max(self._raw - len(body), 0)
        if self._size > self._server.body_limit:
            self._parts.clear()
            self.refuse(413)

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > CHUNKS:
            self.refuse(413)

    def on_message_complete(self) -> None:
        self._begun, self._in_head, self._raw, self._behind = False, True, 0, True
        whole, self._whole = self._whole, b""
        if self._refused:
            return
        path = "/mcp" if self._url == b"/mcp" else self._url.partition(b"?")[0].decode("latin-1")
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        method = self._parser.get_method().decode("latin-1")
        path = unquote(path) if "%" in path else path
        said = read_said(self._headers)
        request = Request(self, method, path, self._headers, body, self._url, said, self._repeated)
        self._parts = []
        if not self._parser.should_keep_alive() or self._server.draining:
            request.close_after()
        elif whole:
            self._server.heads.learn(whole, request)
        self._size = 0
        if self._current is not None:
            waiting = sum(len(one.body) for one in self._queue) + len(body)
            if len(self._queue) >= PIPELINE or waiting > self._server.body_limit:
                self.refuse(429)  # reading goes on, so that a hang-up is seen: what more comes is thrown away
            else:
                self._queue.append(request)
        else:
            self._start(request)

    # Answering

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._current is not None

    @property
    def peer(self) -> str:
        """The address at the other end."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if name else ""

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
        task = request.task = asyncio.Task(self._answer(request), loop=self._server.loop, name="request")
        self._server.running.add(task)

    async def _answer(self, request: Request) -> None:
        try:
            await self._server.handler(request)
        finally:
            self._finished(request)

    def _finished(self, request: Request) -> None:
        if request.task is not None:
            self._server.running.discard(request.task)
        self._current = None
        if self.closed:
            return
        if not request.keeps_alive:
            self._linger() if self._refused else self.close()
            return
        # A request that is half there already has to hurry; an idle connection has time.
        now, self.fresh, self.receiving = time.monotonic(), self._begun or bool(self._pending), True
        self.since, self.half_there_since = self.half_there_since or now, 0.0
        if self._queue:
            self._start(self._queue.popleft())
        elif self._refused:
            self._linger()
        elif self._continue_due:
            self.write(_CONTINUE)
        self._continue_due = False

    def refuse(self, status: int) -> None:
        """Take nothing more; whoever waits for no answer is told why."""
        if self._refused:
            return
        self._refused = status
        self._pending.clear()
        if self._current is not None:
            # The calls before it are still to be answered; what came behind them is not worth an answer of its own.
            (self._queue[-1] if self._queue else self._current).close_after()
            return
        reason = error_object(-32600, f"{http.HTTPStatus(status).phrase}.")
        head = b"connection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reason)
        self.write(STATUS[status] + head + reason)
        self._linger()

    def _linger(self) -> None:
        """Close, but not at once: what the peer still sends would make TCP throw away what it has not read yet."""
        self.receiving, self.fresh, self.since = True, True, time.monotonic()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()
        self._server.let_linger(self)

    def _wake(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


class Server:
    """Accepts connections, and knows how long each may keep us waiting."""

    def __init__(self, handler: Handler, gateway: GatewayConfig) -> None:
        self.handler = handler
        self._gateway = gateway
        self.body_limit = gateway.body_limit
        self.draining = False
        self.heads = KnownHeads()
        self._connections: dict[Connection, None] = {}
        """The oldest first."""
        self.unread: set[Connection] = set()
        """Those whose peer does not read as fast as it is sent to."""
        self.running: set[asyncio.Task[None]] = set()
        """Requests that are answered."""
        self.loop = asyncio.get_running_loop()

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let what is under way finish."""
        server = await self.loop.create_server(lambda: Connection(self), sock=listening, backlog=2048)
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
        """Count a new connection; whether there is room for it. One that waits for nothing makes room."""
        self._connections[connection] = None
        if len(self._connections) <= self._gateway.max_connections:
            return True
        idle = next((old for old in self._connections if not old.busy and old is not connection), None)
        if idle is not None:
            idle.abort()
        return idle is not None

    def forget(self, connection: Connection) -> None:
        """A connection ended."""
        self._connections.pop(connection, None)
        self.unread.discard(connection)

    def let_linger(self, connection: Connection) -> None:
        """Close a connection once its peer had time to read why it was refused."""
        self.loop.call_later(LINGER, connection.close)

    def _sweep(self) -> None:
        """Close connections whose request does not come, or comes too slowly."""
        now = time.monotonic()
        self._drop_unread(now)
        for connection in list(self._connections):
            if connection.busy:
                since = connection.half_there_since
                if since and now - since > self._gateway.header_timeout:
                    connection.refuse(408)
                continue
            if not connection.receiving:
                continue
            limit = self._gateway.header_timeout if connection.fresh else self._gateway.keep_alive
            if now - connection.since > limit:
                connection.close()

    def _drop_unread(self, now: float) -> None:
        """Let go of callers that stopped reading, and of those with most unread when there is too much in all."""
        total = 0
        for connection in sorted(self.unread, key=lambda one: one.measure(now)):
            total += connection.unsent
            stalled = now - connection.unsent_since
            if stalled > self._gateway.write_timeout or total > self._gateway.unsent_limit:
                connection.abort()

    async def _drain(self) -> None:
        self.draining = True
        for connection in list(self._connections):
            if not connection.busy:
                connection.close()
        if self.running:
            await asyncio.wait(list(self.running), timeout=self._gateway.drain)
        for task in list(self.running):
            task.cancel()
        if self.running:
            await asyncio.wait(list(self.running), timeout=2.0)
        for connection in list(self._connections):
            connection.abort()
