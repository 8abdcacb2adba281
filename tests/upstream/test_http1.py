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
from trunkline.upstream.http1 import IDLE, ClosedError, HttpClient, Origin, request_bytes, split_url

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
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
    (b"max=5, Timeout=30", 29.0),
    (b"timeout=x", IDLE),
    (b"timeout", IDLE),
    (b"time=9", IDLE),
]


@pytest.mark.parametrize(("header", "seconds"), KEPT)
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


@pytest.mark.parametrize(("coding", "taken"), [(b"identity", True), (b"", True), (b"gzip", False), (b"GZIP", False)])
async def test_a_compressed_answer_is_refused(coding: bytes, taken: bool) -> None:
    line = Line()
    response = line.send()
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
async def test_a_connection_that_ends_too_soon_says_whether_anything_had_come(came: bytes, untouched: bool) -> None:
    line = Line()
    response = line.send()
    if came:
        line.connection.data_received(came)
    line.connection.connection_lost(None)

    with pytest.raises(ClosedError) as closed:
        await response.ready()
    assert closed.value.untouched is untouched
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
