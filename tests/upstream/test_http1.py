"""Kept connections: one that its server has closed is not written to, however late that is noticed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from tests.fuzz.transport import Line
from trunkline.errors import ConfigError, ProtocolError, UnreachableError
from trunkline.upstream import http1
from trunkline.upstream.http1 import IDLE, ClosedError, HttpClient, request_bytes
from trunkline.upstream.origin import Origin, split_url

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
AROUND = 16
"""Bytes that may be around a piece."""
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]

Loop = Callable[[], asyncio.AbstractEventLoop]


async def exchange(
    client: HttpClient, listening: socket.socket, peer: socket.socket | None
) -> tuple[socket.socket, bool]:
    """Send a request, answer it as the server, and tell whether its connection had been used before."""
    origin = Origin("http", "127.0.0.1", listening.getsockname()[1])
    request = request_bytes(b"POST", "/mcp", {b"host": b"a"}, b"{}")
    response, used = await client.send(origin, request, limit=100)
    if not used:
        peer, _ = listening.accept()
    assert peer is not None
    peer.settimeout(5)
    await asyncio.sleep(0.01)
    assert peer.recv(1000) == request
    peer.sendall(OK)
    await response.ready()
    return peer, used


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_that_was_closed_meanwhile_is_not_written_to(loop: Loop, turns: int, reset: bool) -> None:
    async def run(listening: socket.socket) -> bool:
        client = HttpClient()
        peer, _ = await exchange(client, listening, None)
        if reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        for _ in range(turns):  # the loop may not have seen it, have seen it, or be about to tell
            await asyncio.sleep(0)
        peer, used = await exchange(client, listening, None)
        peer.close()
        client.close()
        await asyncio.sleep(0.01)
        return used

    with socket.create_server(("127.0.0.1", 0)) as listening, asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(run(listening)) is False


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_connection_that_is_open_is_used_again(loop: Loop) -> None:
    async def run(listening: socket.socket) -> bool:
        client = HttpClient()
        peer, _ = await exchange(client, listening, None)
        peer, used = await exchange(client, listening, peer)
        peer.close()
        client.close()
        await asyncio.sleep(0.01)
        return used

    with socket.create_server(("127.0.0.1", 0)) as listening, asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(run(listening)) is True


# What is written.


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\r\nhost: evil", b"\0", b"a\0"])
def test_a_line_break_in_a_header_is_never_written(value: bytes) -> None:
    with pytest.raises(UnreachableError, match="line break"):
        request_bytes(b"POST", "/mcp", {b"x": value}, b"")


def test_a_request_is_written_whole() -> None:
    written = request_bytes(b"POST", "/mcp?a", {b"host": b"a", b"x": b"y"}, b"{}")

    assert written == b"POST /mcp?a HTTP/1.1\r\nhost: a\r\nx: y\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("http://a", "a", "/"),
        ("https://a/mcp?x=1", "a", "/mcp?x=1"),
        ("http://a:80/b", "a", "/b"),
        ("https://a:80/b", "a:80", "/b"),
        ("http://a:443", "a:443", "/"),
        ("https://a:443", "a", "/"),
        ("http://[::1]:8/b", "[::1]:8", "/b"),
    ],
)
def test_an_address_is_an_origin_and_a_target(url: str, authority: str, target: str) -> None:
    origin, found = split_url(url)

    assert (origin.authority, found) == (authority, target)
    assert origin.port == (443 if url.startswith("https") else 80) or f":{origin.port}" in url


@pytest.mark.parametrize("url", ["ftp://a/", "http:///x", "http://a:x/?token=secret", "a", "http://[::1"])
def test_what_is_no_address_is_refused_without_its_query(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        split_url(url)
    assert "secret" not in str(refused.value)


# What is kept.

KEPT = [
    (b"", IDLE),
    (b"timeout=5", 4.0),
    (b"timeout=1", 0.0),
    (b"timeout=0", 0.0),
    (b"timeout=61", 60.0),
    (b"timeout=62", 60.0),
    (b"timeout=99999999999999", 60.0),
    (b"timeout=" + b"9" * 5_000, 60.0),
    (b"max=5, Timeout=30", 29.0),
    (b"timeout=x", IDLE),
    (b"timeout", IDLE),
    (b"time=9", IDLE),
]


@pytest.mark.parametrize(("header", "seconds"), KEPT, ids=[str(header[:30]) for header, _ in KEPT])
async def test_a_connection_is_kept_a_second_less_than_its_server_says(
    header: bytes, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(http1.time, "monotonic", lambda: now[0])
    lines = [Line() for _ in range(2)]
    for line in lines:
        line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\nkeep-alive: " + header + b"\r\ncontent-length: 0\r\n\r\n")

    now[0] = 100.0 + max(seconds - 0.1, 0.0)
    assert (lines[0].pool.take() is not None) == (seconds > 0)
    now[0] = 100.0 + seconds
    assert lines[1].pool.take() is None
    assert lines[1].wire.closed
    for line in lines:
        line.close()


async def test_a_connection_that_says_something_unasked_is_dropped() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(OK)
    assert response.body() == b"{}"
    line.connection.data_received(OK)

    assert line.wire.closed
    assert line.pool.take() is None
    line.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_a_connection_that_its_server_ends_is_not_kept(answer: bytes) -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(answer)

    assert (response.complete, line.wire.closed) == (True, True)
    assert line.pool.take() is None
    line.close()


# What is answered.


async def test_an_answer_may_be_as_long_as_the_limit_and_no_longer() -> None:
    for size, fits in ((100_000, True), (100_001, False)):
        line = Line()
        response = line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        if fits:
            await response.ready()
            assert len(response.body()) == size
        else:
            with pytest.raises(ProtocolError, match="more than 100000"):
                await response.ready()
        assert line.wire.closed is not fits
        line.close()


@pytest.mark.parametrize(
    ("coding", "taken"), [(b"identity", True), (b"Identity", True), (b"", True), (b"gzip", False), (b"GZIP", False)]
)
async def test_a_compressed_answer_is_refused(coding: bytes, taken: bool) -> None:
    line = Line()
    response = line.send()
    assert response.status == 0
    line.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-encoding: " + coding + b"\r\ncontent-length: 0\r\n\r\n")

    if taken:
        await response.ready()
    else:
        with pytest.raises(ProtocolError, match="compressed"):
            await response.ready()
    line.close()


@pytest.mark.parametrize(
    ("came", "untouched"), [(b"", True), (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", False)]
)
@pytest.mark.parametrize(("error", "words"), [(None, "the connection was closed"), (OSError("cut off"), "cut off")])
async def test_a_connection_that_ends_too_soon_says_why_and_whether_anything_had_come(
    came: bytes, untouched: bool, error: OSError | None, words: str
) -> None:
    line = Line()
    response = line.send()
    if came:
        line.connection.data_received(came)
    line.connection.connection_lost(error)

    with pytest.raises(ClosedError, match=f"^{words}$") as closed:
        await response.ready()
    assert closed.value.untouched is untouched
    assert line.connection.closed
    line.close()


async def test_a_compressed_stream_is_refused_before_anybody_reads_it() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(STREAM[:-2] + b"content-encoding: gzip\r\n\r\n")

    with pytest.raises(ProtocolError, match="compressed"):
        await response.ready()
    line.close()


async def test_an_answer_without_a_length_ends_with_its_connection_but_not_with_its_failure() -> None:
    for error, whole in ((None, True), (ConnectionResetError(), False)):
        line = Line()
        response = line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nabc")
        line.connection.connection_lost(error)
        if whole:
            await response.ready()
            assert response.body() == b"abc"
        else:
            with pytest.raises(ClosedError):
                await response.ready()
        line.close()


# What a connection may hold, and who is called when.


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_an_answer_is_read_as_it_was_sent() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(
        b"HTTP/1.1 201 Created\r\nContent-Type: Application/JSON ; charset=utf-8\r\nX-Odd:  a b \r\n"
        b"transfer-encoding: Chunked\r\n\r\n" + chunk(b"ab") + chunk(b"c") + b"0\r\nx-odd: trailer\r\nx-new: 1\r\n\r\n"
    )
    await response.ready()

    assert (response.status, response.body(), response.content_type) == (201, b"abc", b"application/json")
    assert response.headers[b"x-odd"] == b"a b"
    assert b"x-new" not in response.headers
    assert (response.started, response.complete, response.streams) == (True, True, False)
    assert line.pool.take() is line.connection
    line.close()


async def test_nothing_is_left_of_a_body_that_was_read() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(OK)

    assert (response.body(), response.body()) == (b"{}", b"")
    line.close()


async def test_whoever_waits_for_an_answer_is_woken_when_it_is_whole() -> None:
    line = Line()
    response = line.send()
    waiting = asyncio.ensure_future(response.ready())
    await asyncio.sleep(0)
    line.connection.data_received(OK[:-1])
    await asyncio.sleep(0)
    assert not waiting.done()
    line.connection.data_received(OK[-1:])
    async with asyncio.timeout(5):
        await waiting
    line.close()


async def test_a_stream_is_there_with_its_headers_and_read_piece_by_piece() -> None:
    line = Line()
    response = line.send()
    waiting = asyncio.ensure_future(response.ready())
    await asyncio.sleep(0)
    line.connection.data_received(STREAM)
    async with asyncio.timeout(5):
        await waiting
        assert response.streams
        reading = asyncio.create_task(response.next_piece())
        await asyncio.sleep(0)
        assert not reading.done()
        line.connection.data_received(chunk(b"a"))
        assert await reading == b"a"
        line.connection.data_received(chunk(b"b") + chunk(b"c") + b"0\r\n\r\n")
        assert [await response.next_piece() for _ in range(4)] == [b"b", b"c", b"", b""]
    assert line.pool.take() is line.connection
    line.close()


async def test_a_stream_may_be_longer_than_an_answer_but_not_than_its_reader_is_behind() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(STREAM)
    piece, limit = b"x" * 1024, 256 * 1024
    for _ in range(limit // 1024):
        line.connection.data_received(chunk(piece))
    assert line.wire.reading
    line.connection.data_received(chunk(b"y"))
    assert not line.wire.reading
    line.connection.data_received(chunk(piece[1:]))  # which was on its way
    behind = limit + 1024
    while behind > limit // 2:
        assert not line.wire.reading
        behind -= len(await response.next_piece())
    assert line.wire.reading
    line.close()


async def test_a_connection_is_read_again_when_its_stream_was_given_back() -> None:
    line = Line()
    line.send()
    line.connection.data_received(STREAM + chunk(b"x" * (http1.BUFFER_LIMIT + 1)))
    assert not line.wire.reading
    line.connection.data_received(b"0\r\n\r\n")

    assert line.wire.reading
    assert line.pool.take() is line.connection
    line.close()


async def test_who_stops_reading_ends_the_connection_unless_the_answer_is_whole() -> None:
    for answer, ends in ((STREAM, True), (OK, False)):
        line = Line()
        response = line.send()
        line.connection.data_received(answer)
        response.close()
        assert line.wire.closed is ends
        assert (line.pool.take() is None) is ends
        line.close()


async def test_a_failure_is_told_once_to_who_waits_and_to_who_comes_later() -> None:
    line = Line()
    response = line.send()
    waiting = asyncio.ensure_future(response.ready())
    await asyncio.sleep(0)
    response.fail(ProtocolError("first"))
    response.fail(ProtocolError("second"))
    async with asyncio.timeout(5):
        with pytest.raises(ProtocolError, match="first"):
            await waiting
        with pytest.raises(ProtocolError, match="first"):
            await response.next_piece()
    assert line.wire.closed
    line.close()


async def test_an_answer_that_is_whole_cannot_fail_any_more() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(OK)
    response.fail(ProtocolError("late"))
    await response.ready()

    assert response.body() == b"{}"
    assert line.pool.take() is line.connection
    line.close()


async def test_who_waits_can_be_called_away_and_wait_again() -> None:
    line = Line()
    response = line.send()
    assert response.interrupt(ValueError("nobody waits")) is False
    waiting = asyncio.ensure_future(response.ready())
    await asyncio.sleep(0)
    assert response.interrupt(ValueError("called away")) is True
    assert response.interrupt(ValueError("twice")) is False
    with pytest.raises(ValueError, match="called away"):
        await waiting
    line.connection.data_received(OK)
    async with asyncio.timeout(5):
        await response.ready()
    assert response.body() == b"{}"
    line.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_what_is_no_answer_of_http_fails_and_ends_the_connection(answer: bytes) -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(answer)

    with pytest.raises(ProtocolError):
        await response.ready()
    assert line.wire.closed
    assert line.pool.take() is None
    line.close()


async def test_interim_answers_are_passed_over_and_leave_nothing_behind() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 199 Odd\r\nx-early: 1\r\n\r\n")
    assert not response.started
    line.connection.data_received(OK)

    assert (response.status, response.body()) == (200, b"{}")
    assert b"x-early" not in response.headers
    line.close()


async def test_bytes_behind_an_answer_in_the_same_piece_end_the_connection() -> None:
    line = Line()
    response = line.send()
    line.connection.data_received(OK + OK)

    assert response.body() == b"{}"
    assert line.wire.closed
    assert line.pool.take() is None
    line.close()


@pytest.mark.parametrize(("size", "fits"), [(http1.HEADER_LIMIT, True), (http1.HEADER_LIMIT + 1, False)])
async def test_a_head_may_have_so_many_bytes_before_it_ends(size: int, fits: bool) -> None:
    for start in (b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx: "):
        line = Line()
        response = line.send()
        line.connection.data_received(start + b"y" * (size - len(start)))
        assert line.wire.closed is not fits
        if not fits:
            with pytest.raises(ProtocolError, match="more than"):
                await response.ready()
        line.close()


async def test_heads_of_one_connection_are_counted_apart() -> None:
    line = Line()
    big = b"HTTP/1.1 200 OK\r\nx: " + b"y" * (http1.HEADER_LIMIT // 2) + b"\r\ncontent-length: 2\r\n\r\n{}"
    for _ in range(4):
        response = line.send()
        line.connection.data_received(big)
        assert response.body() == b"{}"
        assert line.pool.take() is line.connection
    line.close()


async def test_what_is_around_one_answer_is_not_counted_for_the_next() -> None:
    for size, fits in ((http1.HEADER_LIMIT, True), (http1.HEADER_LIMIT + 1, False)):
        line = Line()
        line.send()
        line.connection.data_received(CHUNKED + chunk(b"a"))
        line.connection.data_received(b"0\r\nx: y\r\n\r\n")
        assert line.pool.take() is line.connection
        line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\nx: ".ljust(size, b"y"))
        assert line.wire.closed is not fits
        line.close()


async def test_line_breaks_before_an_answer_are_counted() -> None:
    for size, fits in ((http1.HEADER_LIMIT, True), (http1.HEADER_LIMIT + 2, False)):
        line = Line()
        line.send()
        line.connection.data_received(b"\r\n" * (size // 2))
        assert line.wire.closed is not fits
        line.close()


@pytest.mark.parametrize("start", [b"", chunk(b"a")], ids=["empty", "after a chunk"])
async def test_a_trailer_may_have_so_many_bytes_however_long_the_head_was(start: bytes) -> None:
    head = CHUNKED[:-2] + b"x: " + b"y" * (http1.HEADER_LIMIT // 2) + b"\r\n\r\n"
    most = http1.HEADER_LIMIT + AROUND * (2 if start else 1)
    for size, fits in ((most, True), (most + 1, False)):
        line = Line()
        line.send()
        line.connection.data_received(head + start)
        line.connection.data_received(b"0\r\nx: ".ljust(size, b"y"))
        assert line.wire.closed is not fits
        line.close()


async def test_each_answer_of_a_connection_has_its_own_headers() -> None:
    line = Line()
    for value in (b"a", b"b"):
        response = line.send()
        line.connection.data_received(b"HTTP/1.1 201 Created\r\nx: " + value + b"\r\ncontent-length: 0\r\n\r\n")
        assert response.headers[b"x"] == value
        assert line.pool.take() is line.connection
    line.close()


# Heads that were read before.


class Unasked:
    """A parser that is not needed."""

    def feed_data(self, data: bytes) -> None:
        raise AssertionError("the head was read before")


def answer(*lines: bytes, status: bytes = b"200 OK", body: bytes = b"{}") -> bytes:
    head = [b"HTTP/1.1 " + status, *lines, b"content-length: %d" % len(body)]
    return b"\r\n".join((*head, b"", body))


async def test_an_answer_with_a_head_that_was_read_before_needs_no_parser() -> None:
    line = Line()
    line.send()
    line.connection.data_received(answer(b"x: y"))
    assert line.pool.take() is line.connection
    response = line.send()
    vars(line.connection)["_parser"] = Unasked()
    line.connection.data_received(answer(b"x: y", body=b'{"a":1}'))

    assert (response.status, response.body(), response.complete) == (200, b'{"a":1}', True)
    assert response.headers == {b"x": b"y"}
    assert line.pool.take() is line.connection
    line.close()


async def test_an_answer_with_a_known_head_may_be_as_long_as_the_limit_and_no_longer() -> None:
    for size, fits in ((100_000, True), (100_001, False)):
        line = Line()
        line.send()
        line.connection.data_received(answer())
        response = line.send()
        if fits:
            vars(line.connection)["_parser"] = Unasked()
        line.connection.data_received(answer(body=b"x" * size))
        assert (response.complete, line.wire.closed) == (fits, not fits)
        line.close()


async def test_a_piece_of_an_answer_is_not_taken_for_a_whole_one_that_it_looks_like() -> None:
    whole = answer()
    line = Line()
    line.send()
    line.connection.data_received(whole)
    response = line.send()
    line.connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(whole))
    line.connection.data_received(whole)
    assert response.body() == whole

    response = line.send()
    line.connection.data_received(b"HTTP/1.1 200 OK\r\nx: y\r\n")
    line.connection.data_received(whole)
    with pytest.raises(ProtocolError):
        await response.ready()
    line.close()


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (answer(), True),
        (answer(b"x: y"), True),
        (answer(status=b"201 Created"), False),
        (answer(b"content-encoding: identity"), False),
        (answer(b"connection: close"), False),
    ],
)
async def test_only_plain_answers_of_connections_that_go_on_are_remembered(data: bytes, known: bool) -> None:
    line = Line()
    line.send()
    line.connection.data_received(data)

    assert (line.pool.heads.find(data) is not None) is known
    line.close()


async def test_so_many_heads_of_a_server_are_remembered() -> None:
    line, answers = Line(), [answer(b"x: %d" % number) for number in range(65)]
    for data in answers[:-1]:
        line.send()
        line.connection.data_received(data)
    assert line.pool.heads.find(answers[0]) is not None
    line.send()
    line.connection.data_received(answers[-1])

    assert line.pool.heads.find(answers[0]) is None
    line.close()


async def test_every_chunk_may_have_so_many_bytes_around_it() -> None:
    for around, fits in ((AROUND - 5, True), (AROUND + 5, False)):
        line = Line()
        response = line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        extended = b"1;" + b"e" * (around - 6) + b"\r\na\r\n"
        for _ in range(2 * http1.HEADER_LIMIT // 5 // 8):
            line.connection.data_received(extended * 8)
            if line.wire.closed:
                break
        assert line.wire.closed is not fits
        assert not response.complete
        line.close()


async def test_an_answer_cut_off_after_its_length_was_said_is_not_whole() -> None:
    for head in (b"content-length: 9", b"transfer-encoding: chunked"):
        line = Line()
        response = line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        line.connection.connection_lost(None)
        with pytest.raises(ClosedError):
            await response.ready()
        line.close()


async def test_a_connection_whose_peer_said_goodbye_is_not_taken_again() -> None:
    for say in (Line.goodbye, Line.whisper):
        line = Line()
        line.send()
        line.connection.data_received(OK)
        say(line)
        assert line.pool.take() is None
        line.close()


async def test_a_connection_that_is_closing_or_whose_peer_ended_is_not_taken_although_nothing_waits_on_it() -> None:
    for ends in (True, False):
        line = Line()
        line.send()
        line.connection.data_received(OK)
        if ends:
            line.connection.eof_received()
        else:
            line.wire.close()
        assert line.pool.take() is None
        line.close()


async def test_whoever_takes_a_connection_does_not_wait_for_a_goodbye() -> None:
    waited: list[int] = []

    class Poll:
        def poll(self, milliseconds: int) -> list[object]:
            waited.append(milliseconds)
            return []

    line = Line()
    line.send()
    line.connection.data_received(OK)
    vars(line.connection)["_poll"] = Poll()

    assert line.pool.take() is line.connection
    assert waited == [0]
    line.close()


async def test_nobody_holds_a_connection_that_was_dropped_or_lost() -> None:
    for lost in (True, False):
        line = Line()
        line.send()
        line.connection.data_received(OK)
        if lost:
            line.connection.connection_lost(None)
        else:
            line.connection.drop()
        assert line.connection.closed
        assert vars(line.pool)["_idle"] == []
        line.close()


async def test_idle_connections_are_dropped_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "IDLE", 0.05)
    line = Line()
    line.connection.idle_limit = 0.05
    line.send()
    line.connection.data_received(OK)
    assert not line.wire.closed
    async with asyncio.timeout(20):
        while not line.wire.closed:  # noqa: ASYNC110 - a timer of the pool's
            await asyncio.sleep(0.01)
    assert line.pool.take() is None
    line.close()


async def test_a_connection_that_has_time_left_is_not_dropped_with_those_that_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http1, "IDLE", 0.02)
    old = Line()
    fresh = Line(old.pool)
    for line, kept in ((old, b""), (fresh, b"keep-alive: timeout=60\r\n")):
        line.send()
        line.connection.data_received(b"HTTP/1.1 200 OK\r\n" + kept + b"content-length: 0\r\n\r\n")
    async with asyncio.timeout(20):
        while not old.wire.closed:  # noqa: ASYNC110 - a timer of the pool's
            await asyncio.sleep(0.01)

    assert not fresh.wire.closed
    assert old.pool.take() is fresh.connection
    for line in (old, fresh):
        line.close()


@pytest.mark.parametrize(("passed", "left"), [(1.9, 2), (2.0, 1), (59.0, 0)])
async def test_connections_are_looked_at_for_as_long_as_one_is_idle(
    passed: float, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(http1.time, "monotonic", lambda: now[0])
    first = Line()
    for line, seconds in ((first, b"3"), (Line(first.pool), b"60")):
        line.send()
        line.connection.data_received(
            b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=%s\r\ncontent-length: 0\r\n\r\n" % seconds
        )
    (begun, loop), now[0] = (vars(first.pool)["_sweep"], asyncio.get_running_loop()), 100.0 + passed
    vars(http1.ConnectionPool)["_drop_old"](first.pool)
    sweep = vars(first.pool)["_sweep"]

    assert begun.when() == 100.0 + IDLE
    assert len(vars(first.pool)["_idle"]) == left
    assert (sweep.when() - loop.time() if sweep is not None else None) == (IDLE / 2 if left else None)
    begun.cancel()
    first.pool.close()


async def test_a_client_that_is_closed_drops_what_is_idle_and_looks_no_more() -> None:
    client = HttpClient()
    line = Line(client.pool_of(Origin("http", "a", 80)))
    line.send()
    line.connection.data_received(OK)
    timer = vars(line.pool)["_sweep"]
    client.close()

    assert line.wire.closed
    assert timer.cancelled()
    assert vars(line.pool)["_sweep"] is None


async def test_an_idle_connection_that_is_lost_is_forgotten() -> None:
    line = Line()
    line.send()
    line.connection.data_received(OK)
    line.connection.connection_lost(ConnectionResetError())

    assert line.pool.take() is None
    line.close()


async def test_the_freshest_connection_is_taken_first() -> None:
    older = Line()
    pool, newer = older.pool, Line(older.pool)
    for line in (older, newer):
        line.send()
        line.connection.data_received(OK)

    assert [pool.take(), pool.take(), pool.take()] == [newer.connection, older.connection, None]
    for line in (older, newer):
        line.close()


async def test_a_closed_client_keeps_no_connection() -> None:
    line = Line()
    line.send()
    line.connection.data_received(OK)
    line.pool.close()

    assert line.wire.closed
    assert line.pool.take() is None
    line.close()


# Where connections go.


async def nobody(host: str, port: int) -> list[str]:
    return []


async def test_connections_go_to_the_addresses_that_were_looked_up_and_nowhere_else() -> None:
    asked: list[tuple[str, int]] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        async def where(host: str, port: int) -> list[str]:
            asked.append((host, port))
            return ["127.0.0.2", "127.0.0.1"]

        client = HttpClient(where)
        response, used = await client.send(Origin("http", "nowhere.invalid", port), b"x", limit=10)
        response.close()
        client.close()
    assert asked == [("nowhere.invalid", port)]
    assert used is False

    with pytest.raises(UnreachableError, match="has no address"):
        await HttpClient(nobody).send(Origin("http", "localhost", port), b"x", limit=10)


async def test_what_refuses_connections_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(UnreachableError, match="cannot be reached"):
        await HttpClient().send(Origin("http", "127.0.0.1", port), b"x", limit=10)


async def test_a_connection_has_so_long_to_come_about() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.sleep(3600)
        return []

    with pytest.raises(UnreachableError, match="does not answer"):
        await HttpClient(never).send(Origin("http", "a", 80), b"x", limit=10, timeout=0.01)
    assert http1.CONNECT_TIMEOUT <= 10


async def test_each_origin_has_connections_of_its_own() -> None:
    client = HttpClient()
    one, other = Origin("http", "a", 80), Origin("https", "a", 80)

    assert client.pool_of(one) is client.pool_of(Origin("http", "a", 80))
    assert client.pool_of(one) is not client.pool_of(other)


def test_certificates_are_checked_against_the_host() -> None:
    context = http1.tls_context()

    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert http1.tls_context() is context
