"""Whatever bytes a server sends, the client reads the answer that a strict reader reads, or fails and hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.messages import broken, in_pieces, responses
from tests.fuzz.strict import read_response
from tests.fuzz.test_server import Steps
from tests.fuzz.transport import ANSWER_LIMIT, Line
from trunkline.errors import UpstreamError
from trunkline.upstream.http1 import BUFFER_LIMIT, FRAMING, HEADER_LIMIT, Response


@dataclass
class Outcome:
    """What came of a server's bytes."""

    read: tuple[int, bytes] | None = None
    """Status and body, if the answer was whole."""
    pooled: bool = False
    """Whether the connection is kept for the next request."""
    taken: int = 0
    """Bytes that were taken before it was closed."""
    pieces: list[bytes] = field(default_factory=list[bytes])


async def receive(pieces: list[bytes], *, ended: bool) -> Outcome:
    """Send a request, let its answer come piece by piece, and perhaps end the connection behind it."""
    outcome, line = Outcome(), Line()
    response = line.send()
    for piece in pieces:
        if not line.wire.closed:
            outcome.taken += len(piece)
            line.connection.data_received(piece)
    if ended and not line.wire.closed:
        line.connection.connection_lost(None)
    outcome.pooled = line.pool.take() is not None
    if response.complete or (response.started and response.streams):
        try:
            body = b"".join([piece async for piece in streamed(response)]) if response.streams else response.body()
            outcome.read = (response.status, body) if response.complete else None
        except UpstreamError:
            pass
    line.close()
    return outcome


async def streamed(response: Response) -> AsyncGenerator[bytes]:
    """What has come of a stream."""
    while True:
        try:
            async with asyncio.timeout(0):
                piece = await response.next_piece()
        except TimeoutError:
            return
        if not piece:
            return
        yield piece


@example([b"HTTP/1.1 099 OK\r\ncontent-length: 5\r\n\r\nfalseHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue"], False)
@example([b"HTTP/2.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"], False)
@given(in_pieces(broken(responses(), most=2)), st.booleans())
def test_an_answer_is_that_of_a_strict_reader_or_an_error(pieces: list[bytes], ended: bool) -> None:
    data = b"".join(pieces)
    outcome = asyncio.run(receive(pieces, ended=ended))
    strict = read_response(data, ended=ended)

    wanted = [(int(message.first[0]), message.body) for message in strict.messages]
    assert outcome.read is None or [outcome.read] == wanted
    if outcome.pooled:
        assert outcome.read is not None
        assert not data[strict.messages[0].end :].strip(b"\r\n"), "bytes behind an answer wait for the next request"
        assert not strict.messages[0].until_close


@given(broken(responses(), most=1), st.data())
def test_it_does_not_matter_how_an_answer_is_cut(data: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(0, len(data)))
    whole = asyncio.run(receive([data], ended=True))
    halves = asyncio.run(receive([data[:cut], data[cut:]], ended=True))
    single = asyncio.run(receive([data[i : i + 1] for i in range(len(data))], ended=True))

    assert halves.read == whole.read == single.read


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "a status line": (b"HTTP/1.1 200 ", b"a"),
    "a field's name": (HEAD, b"x"),
    "a field's value": (HEAD + b"x: ", b"y"),
    "fields": (HEAD, b"x: y\r\n"),
    "empty lines": (b"", b"\r\n"),
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"),
    "a chunk's size": (CHUNKED, b"0"),
    "a chunk's extension": (CHUNKED + b"5;", b"e"),
    "a trailer's value": (CHUNKED + b"0\r\nt: ", b"v"),
    "trailers": (CHUNKED + b"0\r\n", b"t: v\r\n"),
    "chunks of one byte": (CHUNKED, b"1\r\na\r\n"),
    "chunks with extensions": (CHUNKED, b"1;abcdefghijklmnopqrs\r\na\r\n"),
    "a body": (HEAD + b"\r\n", b"b"),
}
MOST = HEADER_LIMIT + ANSWER_LIMIT * (FRAMING + 8)


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_ends_is_given_up_after_so_many_bytes_and_steps(begin: bytes, more: bytes) -> None:
    repeated = more * (2 * MOST // len(more))
    pieces = [begin, *(repeated[i : i + 4000] for i in range(0, len(repeated), 4000))]
    with Steps() as steps:
        outcome = asyncio.run(receive(pieces, ended=False))

    assert outcome.taken <= MOST
    assert steps.count < 40 * len(pieces) + 8 * outcome.taken


async def test_a_stream_that_nobody_reads_is_paused_and_goes_on_when_it_is_read() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(HEAD + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    sent = 0
    while line.wire.reading and sent < 4 * BUFFER_LIMIT:
        line.connection.data_received(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
        sent += 0x1000
    paused = not line.wire.reading
    while not line.wire.reading:
        await response.next_piece()
    line.close()

    assert paused
    assert BUFFER_LIMIT < sent <= BUFFER_LIMIT + 0x1000
