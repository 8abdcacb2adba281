"""A small HTTP/1.1 client: pooled connections, one write a request, nothing shared between two requests."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import cast

import httptools  # type: ignore[import-untyped]
import msgspec

from trunkline.errors import ProtocolError, UnreachableError, UpstreamError
from trunkline.upstream.origin import Origin
from trunkline.wire.heads import Heads

HEADER_LIMIT = 64 * 1024
FRAMING = 16
"""Bytes around a piece of an answer that say how long it is."""
BUFFER_LIMIT = 256 * 1024
"""Bytes of a stream that wait for their reader before the connection is told to pause."""
IDLE = 4.0
"""Seconds a connection is kept for the next request; shorter than what servers commonly allow."""
CONNECT_TIMEOUT = 10.0
MOST_HEADS = 64
"""Heads of answers that are remembered, for each origin."""
_no_parts = cast("Callable[[], deque[bytes]]", deque)
_PARSED = frozenset((b"content-encoding", b"transfer-encoding", b"upgrade"))
"""Headers that change how an answer is read, so that it goes through the parser each time."""


class ClosedError(UpstreamError):
    """The connection closed before the answer was whole; `untouched` when not a byte of it had come."""

    def __init__(self, message: str, *, untouched: bool) -> None:
        super().__init__(message)
        self.untouched = untouched


class Response(msgspec.Struct, eq=False):
    """An answer as it arrives. Read it whole, or piece by piece; close it when you stop early."""

    _connection: _Connection
    limit: int
    status: int = 0
    headers: dict[bytes, bytes] = {}
    started: bool = False
    streams: bool = False
    """Whether it is known to be a stream of events rather than one body."""
    complete: bool = False
    _parts: deque[bytes] = msgspec.field(default_factory=_no_parts)
    _size: int = 0
    _waiter: asyncio.Future[None] | None = None
    _error: UpstreamError | None = None

    def __repr__(self) -> str:
        return f"Response({self.status})"  # what it says may be secret

    @property
    def content_type(self) -> bytes:
        """The media type, without parameters."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    def ready(self) -> Awaitable[None]:
        """Wait for a stream's headers, or for the whole of any other answer."""
        waiter = self._more()
        if self.complete or self.streams:
            waiter.set_result(None)
        return waiter

    def body(self) -> bytes:
        """All of a complete answer."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return body

    async def next_piece(self) -> bytes:
        """The next bytes of a stream; empty when it is over."""
        while not self._parts:
            if self.complete:
                return b""
            await self._more()
        piece = self._parts.popleft()
        self._size -= len(piece)
        if self._size <= BUFFER_LIMIT // 2:
            self._connection.resume()
        return piece

    def fail(self, error: UpstreamError) -> None:
        """End it for whoever waits; the connection is of no further use."""
        if self.complete or self._error is not None:
            return
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._connection.drop()

    def interrupt(self, reason: Exception) -> bool:
        """Call away whoever waits, if anybody does; the answer goes on arriving, and can be waited for again."""
        if self._waiter is None or self._waiter.done():
            return False
        self._waiter.set_exception(reason)
        return True

    def close(self) -> None:
        """Stop reading: over HTTP this is how a request is cancelled."""
        if not self.complete:
            self._connection.drop()

    # Called by the connection.

    def take(self, piece: bytes) -> None:
        self._parts.append(piece)
        self._size += len(piece)
        if self.streams:
            if self._size > BUFFER_LIMIT:
                self._connection.pause()
            self._wake()
        elif self._size > self.limit:
            self.fail(ProtocolError(f"The answer has more than {self.limit} bytes."))

    def begin(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.status, self.headers, self.started = status, headers, True
        self.streams = self.content_type == b"text/event-stream"
        if headers.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
            self.fail(ProtocolError("The answer is compressed, although we did not offer to decompress it."))
        elif self.streams:
            self._wake()

    def arrive(self, headers: dict[bytes, bytes], body: bytes) -> None:
        """All of it, in one piece, with a head that was read before."""
        self.status, self.headers, self.started = 200, headers, True
        self._parts.append(body)

    def finish(self) -> None:
        self.complete = True
        if (waiter := self._waiter) is not None and not waiter.done():
            waiter.set_result(None)

    def _more(self) -> asyncio.Future[None]:
        if self._error is not None:
            raise self._error
        waiter = self._waiter = self._connection.loop.create_future()
        return waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """One TCP connection, with at most one request on it at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._headers: dict[bytes, bytes] = {}
        self._in_head = True
        self._raw = 0
        """Bytes of the head, or of what is around the body's pieces, since it began."""
        self._chunks = 0
        self._interim = False
        self.paused = False
        self._poll = select.poll()
        self.loop = asyncio.get_running_loop()
        self._whole = b""  # what came first of an answer
        self.closed = False
        self.idle_since = 0.0
        self.idle_limit = IDLE

    def send(self, request: bytes, limit: int) -> Response:
        assert self._transport is not None
        self._response = Response(self, limit)
        self._transport.write(request)
        return self._response

    def usable(self) -> bool:
        """Whether the peer has kept silent since the last answer; what it says now can only be a goodbye."""
        transport = self._transport
        if self.closed or transport is None or transport.is_closing():
            return False
        # Its goodbye may have arrived and not been read yet: a request written now would be lost, and nobody could
        # tell whether it ran.
        return not self._poll.poll(0)

    def drop(self) -> None:
        """Close at once; the peer learns that nobody listens."""
        self.closed = True
        self._pool.forget(self)
        self._response = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if not self.paused and self._transport is not None and not self.closed:
            self.paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.paused and self._transport is not None and not self.closed:
            self.paused = False
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.drop()  # bytes that nobody asked for
            return
        self._whole = b"" if self._raw or response.started else data
        if self._is_known(response):
            return
        self._raw += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            response.fail(ProtocolError("The answer leaves HTTP, although nobody asked for that."))
        except httptools.HttpParserError as error:
            response.fail(ProtocolError(f"The answer is not HTTP: {error}."))
            self.drop()  # also where the answer before it was whole
        # What the parser collects before it tells us of it (a header or trailer without an end) must have a bound too.
        if self._raw > HEADER_LIMIT + self._chunks * FRAMING:
            response.fail(ProtocolError(f"The headers or trailers have more than {HEADER_LIMIT} bytes."))
            self.drop()

    def _is_known(self, response: Response) -> bool:
        """Take an answer whose head was read before, if it is all that came."""
        found = self._pool.heads.find(self._whole)
        if found is None or len(found[1]) > response.limit:
            return False
        response.arrive(*found)
        self._finished(response, found[0])
        return True

    def eof_received(self) -> None:
        self.closed = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._pool.forget(self)
        response, self._response = self._response, None
        if response is None or response.complete:
            return
        delimited = b"content-length" in response.headers or b"transfer-encoding" in response.headers
        if response.started and not delimited and exc is None:
            response.finish()  # an answer that ends with its connection
            return
        why = str(exc) if exc else "the connection was closed"
        response.fail(ClosedError(why, untouched=not response.started))

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._response is None:
            self.drop()  # bytes behind an answer: whoever came next would take them for its own
            return
        self._headers = {}
        self._in_head, self._chunks = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer says nothing that we would act on
            self._headers[name.lower()] = value.strip()

    def on_headers_complete(self) -> None:
        self._in_head = False
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
            return  # however many come, together they are no longer than a head
        self._raw = 0
        if self._response is None:
            return
        version, coding = self._parser.get_http_version(), self._headers.get(b"transfer-encoding", b"chunked")
        if version in ("1.0", "1.1") and status >= 200 and coding.lower() == b"chunked":
            self._response.begin(status, self._headers)
        else:
            self._response.fail(ProtocolError("The answer is not HTTP/1.1, or comes in a form other than chunks."))

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        self._raw = max(self._raw - len(body), 0)
        if self._response is not None:
            self._response.take(body)

    def on_message_complete(self) -> None:
        response = self._response
        if self._interim or response is None:
            return
        self._raw = 0
        if not self._parser.should_keep_alive():
            self.closed = True
        elif response.status == 200 and not response.streams and _PARSED.isdisjoint(self._headers):
            # How long its body was, another answer does not say.
            plain = {name: value for name, value in self._headers.items() if name != b"content-length"}
            self._pool.heads.learn(self._whole, plain)
        self._finished(response, self._headers)

    def _finished(self, response: Response, headers: dict[bytes, bytes]) -> None:
        self._response, self._whole = None, b""  # an idle connection holds nothing
        response.finish()
        if self.closed:
            self.drop()
            return
        self.idle_limit = _keep_alive(headers) if b"keep-alive" in headers else IDLE
        self._pool.give_back(self)


class ConnectionPool:
    """The idle connections to one origin, the freshest first."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.heads: Heads[dict[bytes, bytes]] = Heads(MOST_HEADS)
        """Headers of answers that were read before."""
        self._idle: list[_Connection] = []
        self._sweep: asyncio.TimerHandle | None = None

    def send(self, request: bytes, limit: int) -> Response | None:
        """Send one request, if there is a connection that had been used before."""
        connection = self.take()
        return connection.send(request, limit) if connection is not None else None

    def take(self) -> _Connection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < connection.idle_limit and connection.usable():
                return connection
            connection.drop()
        return None

    def give_back(self, connection: _Connection) -> None:
        if connection.paused:
            connection.resume()
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE, self._drop_old)

    def forget(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._idle):
            connection.drop()

    def _drop_old(self) -> None:
        self._sweep = None
        now = time.monotonic()
        for connection in [c for c in self._idle if now - c.idle_since >= c.idle_limit]:
            connection.drop()
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(IDLE / 2, self._drop_old)


class HttpClient:
    """Sends requests; connections are kept for each origin and reused.

    With `where`, connections go to the addresses that it gives for a host and port, and nowhere else.
    """

    def __init__(self, where: Callable[[str, int], Awaitable[Sequence[str]]] | None = None) -> None:
        self._where = where
        self._pools: dict[Origin, ConnectionPool] = {}

    async def send(
        self, origin: Origin, request: bytes, *, limit: int, timeout: float = CONNECT_TIMEOUT
    ) -> tuple[Response, bool]:
        """Send one request; the flag tells whether it went over a connection that had been used before."""
        pool = self.pool_of(origin)
        response = pool.send(request, limit)
        if response is not None:
            return response, True
        connection = await self._connect(pool, timeout)
        return connection.send(request, limit), False

    def pool_of(self, origin: Origin) -> ConnectionPool:
        """The connections to an origin."""
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = ConnectionPool(origin)
        return pool

    def close(self) -> None:
        """Close every idle connection."""
        for pool in self._pools.values():
            pool.close()

    async def _connect(self, pool: ConnectionPool, timeout: float) -> _Connection:
        origin = pool.origin
        context = tls_context() if origin.scheme == "https" else None
        name = origin.host if context is not None else None  # the certificate is the origin's, wherever it is
        try:
            async with asyncio.timeout(min(timeout, CONNECT_TIMEOUT)):
                hosts = [origin.host] if self._where is None else await self._where(origin.host, origin.port)
                for host in hosts:
                    with suppress(OSError) if host is not hosts[-1] else nullcontext():
                        _, connection = await asyncio.get_running_loop().create_connection(
                            lambda: _Connection(pool), host, origin.port, ssl=context, server_hostname=name
                        )
                        return connection
                raise UnreachableError(f"{origin.authority} has no address.")
        except TimeoutError as error:
            raise UnreachableError(f"{origin.authority} does not answer.") from error
        except OSError as error:
            raise UnreachableError(f"{origin.authority} cannot be reached: {error.strerror or error}.") from error


@cache
def tls_context() -> ssl.SSLContext:
    """One trust store for all connections: loading it costs 30 ms."""
    return ssl.create_default_context()


def request_bytes(method: bytes, target: str, headers: dict[bytes, bytes], body: bytes) -> bytes:
    """A whole request, ready to be written at once."""
    lines = [method, b" ", target.encode(), b" HTTP/1.1\r\n"]
    for name, value in headers.items():
        if b"\r" in value or b"\n" in value or b"\0" in value:
            raise UnreachableError(f"The header {name.decode()} has a line break in its value.")
        lines += (name, b": ", value, b"\r\n")
    lines += (b"content-length: ", b"%d" % len(body), b"\r\n\r\n", body)
    return b"".join(lines)


def _keep_alive(headers: dict[bytes, bytes]) -> float:
    """How long the server says it keeps the connection, less a second for the way."""
    for part in headers.get(b"keep-alive", b"").split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit():
            return min(max(int(value[:6]) - 1.0, 0.0), 60.0)
    return IDLE
