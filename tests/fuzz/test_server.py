"""Whatever bytes a caller sends, the gateway's server sees the requests that a strict reader sees, or refuses."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, cast

import httptools  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.messages import INNER, broken, in_pieces, requests
from tests.fuzz.strict import read_requests
from tests.fuzz.transport import Wire
from trunkline.config.options import GatewayConfig
from trunkline.gateway.http import CHUNKS, FRAMING, HEADER_LIMIT, Connection, Server
from trunkline.gateway.request import Request

BODY_LIMIT = 1_000_000
Seen = tuple[str, str, bytes]


@dataclass
class Outcome:
    """What came of some bytes."""

    requests: list[Seen] = field(default_factory=list[Seen])
    """Method, path and body of what was handled, in order."""
    ended: bool = False
    """Whether the server takes no more on this connection."""
    taken: int = 0
    """Bytes that it took before that."""
    answers: bytes = b""


async def serve(pieces: list[bytes]) -> Outcome:
    """Let a server have bytes as they come, and answer each request at once."""
    outcome = Outcome()

    async def handle(request: Request) -> None:
        outcome.requests.append((request.method, request.path, request.body))
        request.answer(200, b"{}")

    wire = Wire()
    connection = Connection(Server(handle, GatewayConfig(body_limit=BODY_LIMIT)))
    connection.connection_made(cast("asyncio.Transport", wire))
    for piece in pieces:
        if not (wire.ended or wire.closed):
            outcome.taken += len(piece)
        if not wire.closed:
            connection.data_received(piece)
        for _ in range(3):
            await asyncio.sleep(0)
    while connection.busy:  # noqa: ASYNC110 - a task that is about to end
        await asyncio.sleep(0)
    outcome.ended, outcome.answers = wire.ended or wire.closed, bytes(wire.written)
    wire.abort()
    connection.connection_lost(None)
    return outcome


class Llhttp:
    """What llhttp itself makes of the bytes, given at once."""

    def __init__(self, data: bytes) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.failed = False
        self._body = b""
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.failed = True

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.messages.append((self._parser.get_method().decode(), self._body))


FOLDED_INTO = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\nupgrade: h2c\r\n 0\r\n\r\n" + INNER
SECOND_UPGRADES = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" + INNER.replace(b"\r\n\r\n", b"\r\nupgrade: h2c\r\n\r\n")


@example([b"CONNECT /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n" + INNER])
@example([FOLDED_INTO])
@example([SECOND_UPGRADES])
@given(in_pieces(broken(requests(), most=3)))
def test_requests_are_those_of_a_strict_reader_or_the_connection_ends(pieces: list[bytes]) -> None:
    pieces = [*pieces, b"\r\n\r\n"]  # a head that cannot be read is refused once it is whole
    data = b"".join(pieces)
    outcome = asyncio.run(serve(pieces))
    strict, llhttp = read_requests(data), Llhttp(data)

    ours = [(method, body) for method, _, body in outcome.requests]
    wanted = [(message.first[0].decode("latin-1"), message.body) for message in strict.messages]
    assert ours == wanted[: len(ours)]
    assert ours == llhttp.messages[: len(ours)]
    assert len(ours) == len(wanted) or outcome.ended, "a request was neither handled nor refused"
    assert outcome.ended or not strict.bad


@given(broken(requests(), most=2), st.data())
def test_it_does_not_matter_how_the_bytes_are_cut(data: bytes, draw: st.DataObject) -> None:
    data += b"\r\n\r\n"  # what cannot be read is refused at once or, after empty lines, once its head is whole
    cut = draw.draw(st.integers(0, len(data)))
    whole, halves = asyncio.run(serve([data])), asyncio.run(serve([data[:cut], data[cut:]]))
    single = asyncio.run(serve([data[i : i + 1] for i in range(len(data))]))

    assert halves.requests == whole.requests == single.requests
    assert halves.ended == whole.ended == single.ended
    assert halves.answers.count(b"HTTP/1.1 200") == whole.answers.count(b"HTTP/1.1 200")


@given(broken(requests(), most=2))
def test_every_answer_is_whole_and_no_request_has_two(data: bytes) -> None:
    outcome = asyncio.run(serve([data]))
    final = [line for line in outcome.answers.split(b"HTTP/1.1 ")[1:] if not line.startswith(b"100")]

    assert len(final) - len(outcome.requests) in ((0, 1) if outcome.ended else (0,))


HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n"
ENDLESS = {
    "a request line": (b"POST /", b"a"),
    "a method": (b"", b"A"),
    "a field's name": (HEAD, b"x"),
    "a field's value": (HEAD + b"x: ", b"y"),
    "fields": (HEAD, b"x: y\r\n"),
    "empty lines": (b"", b"\r\n"),
    "a chunk's size": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"0"),
    "a chunk's extension": (HEAD + b"transfer-encoding: chunked\r\n\r\n5;", b"e"),
    "a trailer's name": (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"t"),
    "a trailer's value": (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\nt: ", b"v"),
    "trailers": (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"t: v\r\n"),
    "chunks of one byte": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "chunks with extensions": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1;abcdefghijklmnopqrs\r\na\r\n"),
    "a body": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"400\r\n" + b"b" * 0x400 + b"\r\n"),
}
MOST = HEADER_LIMIT + BODY_LIMIT + CHUNKS * (FRAMING + 8)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_ends_is_refused_after_so_many_bytes_and_steps(begin: bytes, more: bytes, size: int) -> None:
    repeated = more * (3 * MOST // len(more)) if size > 1 else more * (HEADER_LIMIT * 2 // len(more))
    pieces = [begin, *(repeated[i : i + size] for i in range(0, len(repeated), size))]
    with Steps() as steps:
        outcome = asyncio.run(serve_until_refused(pieces))

    if size > 1:
        assert outcome.taken < len(repeated) // 2, "it would take bytes for ever"
    assert steps.count < 40 * len(pieces) + 8 * outcome.taken


async def serve_until_refused(pieces: list[bytes]) -> Outcome:
    """Like `serve`, without a chance for anybody else in between; ends with the refusal."""
    outcome, wire = Outcome(), Wire()

    async def handle(request: Request) -> None:
        request.answer(200)

    connection = Connection(Server(handle, GatewayConfig(body_limit=BODY_LIMIT)))
    connection.connection_made(cast("asyncio.Transport", wire))
    for piece in pieces:
        if wire.ended or wire.closed:
            break
        outcome.taken += len(piece)
        connection.data_received(piece)
    wire.abort()
    connection.connection_lost(None)
    return outcome


class Steps:
    """Counts calls of functions of ours, and what they call."""

    count = 0

    def __enter__(self) -> Steps:
        sys.setprofile(self._step)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _step(self, frame: FrameType, event: str, argument: Any) -> None:
        self.count += event in ("call", "c_call") and "trunkline" in frame.f_code.co_filename
