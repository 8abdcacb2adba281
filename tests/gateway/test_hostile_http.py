"""HTTP from callers that mean harm: they do not read, do not end, send what two readers understand differently."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.gateway.test_limits import HEALTH, Wire, body_of, call_of, head_of, wire
from tests.harness import faulty, gateway, until
from trunkline.config.options import GatewayConfig
from trunkline.gateway.http import Connection, Server
from trunkline.gateway.request import Request

MEGABYTE = 2**20


@contextmanager
def deaf(url: str) -> Generator[socket.socket]:
    """A connection whose caller reads nothing."""
    where = urlsplit(url)
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((where.hostname, where.port))
        yield line


async def ended(line: socket.socket) -> int:
    """How much a connection still gives before it ends."""

    def read() -> int:
        line.settimeout(10)
        count = 0
        try:
            while piece := line.recv(65536):
                count += len(piece)
        except ConnectionError:
            pass
        return count

    return await asyncio.to_thread(read)


async def test_a_caller_that_stops_reading_is_let_go_after_a_while(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}, write_timeout=0.5) as opened:
        with deaf(opened.url) as line:
            line.sendall(call_of("huge", {"bytes": 4 * MEGABYTE}))
            await until(lambda: opened.server.unread, seconds=10)
            await until(lambda: not opened.server.unread, seconds=10)

            assert await ended(line) < 4 * MEGABYTE


async def test_answers_that_nobody_reads_have_a_bound_over_all_connections(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}, write_timeout=600.0, unsent_limit=8 * MEGABYTE) as opened:
        with deaf(opened.url) as first, deaf(opened.url) as second, deaf(opened.url) as third:
            for line in (first, second, third):
                line.sendall(call_of("huge", {"bytes": 8 * MEGABYTE}))
            await until(lambda: opened.server.unread, seconds=10)
            await until(lambda: len(opened.server.unread) == 1, seconds=10)

        async with wire(opened.url) as other:
            await other.send(HEALTH)
            assert (await other.answer()).status == 200


async def test_whoever_reads_a_little_has_time_again() -> None:
    class Peer(asyncio.Transport):
        unsent = 0

        def get_write_buffer_size(self) -> int:
            return self.unsent

    connection, peer = Connection(Server(answer_nothing, GatewayConfig())), Peer()
    connection.connection_made(peer)
    connection.pause_writing()
    waits: list[float] = []
    for now, peer.unsent in ((100.0, 500), (110.0, 500), (120.0, 400), (130.0, 400)):
        connection.measure(now)
        waits.append(now - connection.unsent_since if now > 115 else 0.0)

    assert waits == [0.0, 0.0, 0.0, 10.0]


async def answer_nothing(request: Request) -> None:
    """For tests in which no request comes."""


BEGINNINGS = {
    "a header": call_of("echo", {"text": "x"}) + b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ",
    "a header's name": call_of("echo", {"text": "x"}) + b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n",
    "a trailer": head_of("echo") + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
    "a chunk's extension": head_of("echo") + b"transfer-encoding: chunked\r\n\r\n1;x=",
}


async def flooded(line: Wire, beginning: bytes, most: int) -> int:
    """How many bytes the gateway takes behind a beginning that has no end, before it wants no more."""
    await line.send(beginning)
    sent = 0
    while sent < most:
        try:
            await line.send(b"a" * 8192)
        except ConnectionError:
            break
        sent += 8192
        if line.reader.at_eof():
            break
        await asyncio.sleep(0)
    return sent


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS.keys())
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "behind a call"])
async def test_what_has_no_end_has_a_bound(tmp_path: Path, beginning: bytes, busy: bool) -> None:
    async with gateway(tmp_path, {"one": faulty()}, header_timeout=1.0) as opened, wire(opened.url) as line:
        first = call_of("slow", {"seconds": 0.4}) if busy else b""
        await flooded(line, first + beginning, 40 * 8192)
        heard = await line.closed()

    statuses = [part.split(b" ")[0] for part in heard.split(b"HTTP/1.1 ")[1:]]
    assert (b"200" in statuses) == (busy or b"echo" in beginning.partition(b"\r\n\r\n")[2])
    assert not busy or statuses[0] == b"200"


async def test_half_a_request_behind_a_call_that_takes_long_is_not_waited_for(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}, header_timeout=0.3) as opened, wire(opened.url) as line:
        await line.send(call_of("slow", {"seconds": 1.5}) + b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
        answer = await line.answer()
        rest = await line.closed()

    assert (answer.status, rest) == (200, b"")


@pytest.mark.parametrize("trailer", [b"authorization: Bearer a-token-of-sixteen", b"host: evil.example", b"x: y"])
async def test_trailers_are_not_headers(tmp_path: Path, trailer: bytes) -> None:
    body = body_of("echo", {"text": "x"})
    async with gateway(tmp_path, {"one": faulty()}, token="a-token-of-sixteen") as opened, wire(opened.url) as line:
        chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(body), body, trailer)
        await line.send(head_of("echo") + chunked)

        assert (await line.answer()).status == 401


async def test_100_continue_waits_for_the_answer_before_it(tmp_path: Path) -> None:
    body = body_of("echo", {"text": "later"}, id=2)
    second = head_of("echo", b"expect: 100-continue") + b"content-length: %d\r\n\r\n" % len(body)
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        await line.send(call_of("slow", {"seconds": 0.3}) + second)
        first = await line.answer()
        goes_on = await line.reader.readuntil(b"\r\n\r\n")
        await line.send(body)

        assert (first.status, first.message["id"]) == (200, 1)
        assert goes_on == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await line.answer()).message["id"] == 2


async def test_a_hang_up_is_seen_however_much_was_sent_before_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        async with wire(opened.url) as line:
            await line.send(call_of("hang", {}) + call_of("echo", {"text": "x"}) * 200)
            await until(lambda: opened.hub.relay.lane("one").inside == 1)

        await until(lambda: opened.hub.relay.lane("one").inside == 0)


async def test_who_ends_its_half_of_a_connection_has_hung_up(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        async with wire(opened.url) as line:
            await line.send(call_of("hang", {}))
            await until(lambda: opened.hub.relay.lane("one").inside == 1)
            line.writer.write_eof()

            assert await line.closed() == b""
        await until(lambda: opened.hub.relay.lane("one").inside == 0)


@pytest.mark.parametrize(
    ("request_line", "header", "status"),
    [
        (b"POST /mcp HTTP/1.1", b"transfer-encoding: gzip, chunked", 400),
        (b"POST /mcp HTTP/1.1", b"transfer-encoding: identity", 400),
        (b"POST /mcp HTTP/1.0", b"transfer-encoding: chunked", 400),
        (b"POST /mcp HTTP/2.0", b"content-length: 2", 505),
        (b"POST /mcp HTTP/1.1", b"content-length: 2\r\ntransfer-encoding: chunked", 400),
    ],
)
async def test_a_body_whose_end_two_readers_could_see_differently_is_refused(
    tmp_path: Path, request_line: bytes, header: bytes, status: int
) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(request_line + b"\r\nhost: 127.0.0.1\r\n" + header + b"\r\n\r\n{}")
        answer = await line.answer()

    assert answer.status == status
    assert json.loads(answer.body)["code"] == -32600


async def test_a_body_in_countless_pieces_is_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(head_of("echo") + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 20_000)

        assert (await line.answer()).status == 413


async def test_a_new_caller_takes_the_place_of_a_connection_that_says_nothing(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, {"one": faulty()}, max_connections=3) as opened,
        wire(opened.url) as idle,
        wire(opened.url) as busy,
        wire(opened.url),
    ):
        await busy.send(call_of("hang", {}))
        await until(lambda: opened.hub.relay.lane("one").inside == 1)
        async with wire(opened.url) as fourth:
            await fourth.send(HEALTH)
            answer = await fourth.answer()

        assert answer.status == 200
        assert await idle.closed() == b""
        assert opened.hub.relay.lane("one").inside == 1
