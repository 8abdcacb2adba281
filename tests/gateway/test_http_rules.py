"""The HTTP server by its rules: what it takes, in which order it answers, and how long it waits."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.fuzz.transport import Wire
from trunkline.config.options import GatewayConfig
from trunkline.gateway import http as module
from trunkline.gateway.http import CHUNKS, FRAMING, HEADER_LIMIT, LINGER, PIPELINE, URL_LIMIT, Connection, Server
from trunkline.gateway.request import Request

GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"POST /mcp HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def post(body: bytes = b"{}", *lines: bytes) -> bytes:
    more = b"".join(line + b"\r\n" for line in lines)
    return b"POST /mcp HTTP/1.1\r\nhost: x\r\n%scontent-length: %d\r\n\r\n%s" % (more, len(body), body)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.now


class Caller:
    """A connection, of which this is the far end."""

    def __init__(self, server: Server) -> None:
        self.wire = Wire()
        self.connection = Connection(server)
        self.connection.connection_made(cast("asyncio.Transport", self.wire))

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def hang_up(self) -> None:
        self.wire.closed = True
        self.connection.connection_lost(None)

    @property
    def heard(self) -> bytes:
        return bytes(self.wire.written)

    @property
    def statuses(self) -> list[int]:
        return [int(piece[:3]) for piece in self.heard.split(b"HTTP/1.1 ")[1:]]

    @property
    def over(self) -> bool:
        """Whether we take no more from it."""
        return self.wire.closed or self.wire.ended


class Scene:
    """A server whose requests are answered when a test says so."""

    def __init__(self, **options: Any) -> None:
        self.at_once = True
        self.requests: list[Request] = []
        self.let_go = asyncio.Event()
        self.cancelled = 0
        self.server = Server(self._handle, GatewayConfig(**options))

    async def _handle(self, request: Request) -> None:
        self.requests.append(request)
        try:
            if not self.at_once:
                await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        request.answer(200, b"{}")

    def caller(self) -> Caller:
        return Caller(self.server)

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]


async def turn() -> None:
    """Let everything that can go on do so."""
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@asynccontextmanager
async def sweeping(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[asyncio.Event]:
    """The server as it serves, but for the pauses between two looks at its connections."""
    monkeypatch.setattr(module, "SWEEP", 0.001)
    stop = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(scene.server.serve(listening, stop))
        yield stop
        stop.set()
        async with asyncio.timeout(20):
            await task
        assert listening.fileno() == -1, "it would still let callers in"


async def swept(clock: Clock) -> None:
    """Wait until the server looked at its connections from beginning to end."""
    wanted = clock.looks + 2
    async with asyncio.timeout(20):
        while clock.looks < wanted:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


# What is taken.


async def test_a_request_is_seen_as_it_was_sent() -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(b"POST /a%20b?c=%41 HTTP/1.1\r\nHost: x\r\nX-Odd: \t y z \t\r\nContent-Length: 3\r\n\r\nabc")
    await turn()

    (request,) = scene.requests
    assert (request.method, request.path, request.url, request.body) == ("POST", "/a b", b"/a%20b?c=%41", b"abc")
    assert (request.headers[b"host"], request.headers[b"x-odd"]) == (b"x", b"y z")
    assert (request.repeated, request.peer, request.gone) == (b"", "192.0.2.7", False)
    assert caller.statuses == [200]
    assert not caller.over


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"Host: y", b"host"),
        (b"Authorization: a", b"authorization"),
        (b"MCP-Method: a", b"mcp-method"),
        (b"mcp-session-id: a", b"mcp-session-id"),
        (b"x-mcp: a", b""),
        (b"accept: a", b""),
    ],
)
async def test_a_header_that_decides_must_not_stand_there_twice(line: bytes, named: bytes) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: b\r\n" + (line + b"\r\n") * (1 + (b"ost" not in line)))
    caller.send(b"\r\n" + GET)
    await turn()

    assert [request.repeated for request in scene.requests] == [named, b""]


async def test_a_connection_takes_one_request_after_the_other_and_keeps_nothing_of_the_last() -> None:
    scene = Scene()
    caller = scene.caller()
    for data in (post(b"one", b"x-a: 1"), post(b"two"), GET):
        caller.send(data)
        await turn()

    assert scene.bodies == [b"one", b"two", b""]
    assert [b"x-a" in request.headers for request in scene.requests] == [True, False, False]
    assert caller.statuses == [200] * 3


async def test_it_does_not_matter_where_a_request_is_cut() -> None:
    data = post(b'{"a":1}', b"x-a: 1")
    for cut in range(1, len(data)):
        scene = Scene()
        caller = scene.caller()
        caller.send(data[:cut])
        assert caller.connection.receiving
        caller.send(data[cut:])
        await turn()
        assert scene.bodies == [b'{"a":1}']
        assert scene.requests[0].headers[b"x-a"] == b"1"


async def test_it_does_not_matter_where_a_request_behind_another_is_cut() -> None:
    data = b"POST /abc HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
    for cut in range(1, len(data)):
        scene = Scene()
        caller = scene.caller()
        caller.send(GET + data[:cut])
        caller.send(data[cut:])
        await turn()
        assert [(request.path, request.body) for request in scene.requests] == [("/a", b""), ("/abc", b"{}")]


@pytest.mark.parametrize("name", [b"upgrade: h2c", b"UPGRADE: websocket", b"HTTP2-Settings: abc\r\nUpgrade: h2c"])
async def test_whoever_wants_to_upgrade_is_answered_as_if_they_did_not(name: bytes) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(post(b"body", b"connection: upgrade", name))
    caller.send(GET)
    await turn()

    assert scene.bodies == [b"body", b""]
    assert caller.statuses == [200, 200]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", 505),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\na", 400),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
        (b"get / HTTP/1.1\r\n", 400),
    ],
)
async def test_what_cannot_be_read_for_certain_is_refused_and_nothing_behind_it_is_read(
    data: bytes, status: int
) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(data)
    assert caller.statuses == [status]
    caller.send(GET)
    await turn()

    assert scene.requests == []
    assert caller.statuses == [status]
    assert caller.over


async def test_a_refusal_says_why_in_an_answer_of_its_own() -> None:
    caller = Scene().caller()
    caller.send(b"nonsense\r\n\r\n")

    head, _, body = caller.heard.partition(b"\r\n\r\n")
    assert json.loads(body)["message"] == "Bad Request."
    assert json.loads(body)["code"] == -32600
    assert b"content-length: %d" % len(body) in head
    assert b"connection: close" in head
    assert caller.wire.ended
    assert not caller.wire.closed  # it would lose the refusal, had it sent more meanwhile


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked"])
async def test_a_body_may_come_in_chunks_and_what_trails_it_is_no_header(coding: bytes) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: " + coding + b"\r\n\r\n")
    caller.send(b"1\r\na\r\n2\r\nbc\r\n0\r\nhost: evil\r\nauthorization: b\r\n\r\n")
    await turn()

    assert scene.bodies == [b"abc"]
    assert scene.requests[0].headers[b"host"] == b"x"
    assert b"authorization" not in scene.requests[0].headers


# How much is taken.


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("size", "status"), [(HEADER_LIMIT, 200), (HEADER_LIMIT + 1, 431)])
async def test_a_head_may_have_so_many_bytes(size: int, status: int, pieces: int) -> None:
    scene = Scene()
    caller = scene.caller()
    start = b"GET / HTTP/1.1\r\nhost: x\r\nx: "
    data = start + b"y" * (size - len(start)) + b"\r\n\r\n"
    step = -(-len(data) // pieces)
    for at in range(0, len(data), step):
        caller.send(data[at : at + step])
    await turn()

    assert caller.statuses == [status]


async def test_a_head_that_never_ends_is_refused_before_it_ends() -> None:
    caller = Scene().caller()
    caller.send(b"GET / HTTP/1.1\r\nx: ")
    caller.send(b"y" * (HEADER_LIMIT - 20))
    assert caller.statuses == []
    caller.send(b"y" * 10)

    assert caller.statuses == [431]


@pytest.mark.parametrize(("size", "status"), [(HEADER_LIMIT - 6, 200), (HEADER_LIMIT - 5, 431)])
async def test_a_head_in_one_piece_with_the_request_before_it_has_the_same_bound(size: int, status: int) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(GET + b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * size + b"\r\n\r\n")
    await turn()

    assert caller.statuses == ([200, 200] if status == 200 else [200])
    assert caller.over is (status != 200)


@pytest.mark.parametrize(("length", "status"), [(URL_LIMIT, 200), (URL_LIMIT + 1, 414)])
@pytest.mark.parametrize("cut", [0, 1000])
async def test_an_address_may_have_so_many_bytes(length: int, status: int, cut: int) -> None:
    scene = Scene()
    caller = scene.caller()
    data = b"GET /" + b"a" * (length - 1) + b" HTTP/1.1\r\nhost: x\r\n\r\n"
    caller.send(data[: cut or None])
    if cut:
        caller.send(data[cut:])
    await turn()

    assert caller.statuses[-1:] == [status]


@pytest.mark.parametrize(("size", "status"), [(100, 200), (101, 413)])
async def test_a_body_may_have_so_many_bytes_however_it_comes(size: int, status: int) -> None:
    for data in (post(b"x" * size), CHUNKED + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"):
        scene = Scene(body_limit=100)
        caller = scene.caller()
        caller.send(data)
        await turn()
        assert caller.statuses == [status]
        assert scene.bodies == ([b"x" * 100] if status == 200 else [])


async def test_a_body_that_is_announced_too_long_is_refused_before_it_comes() -> None:
    for length, status in ((b"101", 413), (b"9" * 40, 400)):  # what is beyond 64 bits is no number to the parser
        caller = Scene(body_limit=100).caller()
        caller.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: " + length + b"\r\n\r\n")
        assert caller.over
        assert caller.statuses == [status]


async def test_sizes_of_one_body_are_not_added_to_the_next() -> None:
    scene = Scene(body_limit=100)
    caller = scene.caller()
    for _ in range(3):
        caller.send(post(b"x" * 90))
        await turn()
        caller.send(CHUNKED + b"5a\r\n" + b"x" * 90 + b"\r\n0\r\n\r\n")
        await turn()

    assert caller.statuses == [200] * 6


@pytest.mark.parametrize(("chunks", "status"), [(CHUNKS - 1, 200), (CHUNKS, 413)])
async def test_a_body_may_come_in_so_many_chunks(chunks: int, status: int) -> None:
    caller = Scene().caller()
    caller.send(CHUNKED)
    caller.send(b"1\r\na\r\n" * chunks)
    caller.send(b"0\r\n\r\n")
    await turn()

    assert caller.statuses == [status]


async def test_chunks_are_counted_anew_for_every_body() -> None:
    caller = Scene().caller()
    for _ in range(2):
        caller.send(CHUNKED)
        caller.send(b"1\r\na\r\n" * (CHUNKS - 1) + b"0\r\n\r\n")
        await turn()

    assert caller.statuses == [200, 200]


@pytest.mark.parametrize("body", [b"", b"1\r\na\r\n"])
@pytest.mark.parametrize(("beyond", "fits"), [(0, True), (1, False)])
async def test_what_trails_a_body_may_have_as_many_bytes_as_a_head(body: bytes, beyond: int, fits: bool) -> None:
    caller = Scene().caller()
    caller.send(CHUNKED + body + b"0\r\n")
    chunks = 2 if body else 1
    caller.send(b"t: " + b"v" * (HEADER_LIMIT + chunks * FRAMING + beyond - 3))
    await turn()

    assert caller.over is not fits


@pytest.mark.parametrize(("beyond", "fits"), [(0, True), (1, False)])
async def test_half_a_head_behind_another_request_has_the_same_bound(beyond: int, fits: bool) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(GET + b"GET / HTTP/1.1\r\nx: ")
    caller.send(b"y" * (HEADER_LIMIT + beyond))
    await turn()

    assert caller.statuses == [200]
    assert caller.over is not fits


@pytest.mark.parametrize(("around", "fits"), [(FRAMING, True), (FRAMING + 10, False)])
async def test_every_chunk_may_have_so_many_bytes_around_it(around: int, fits: bool) -> None:
    caller = Scene().caller()
    caller.send(CHUNKED)
    extended = b"1;" + b"e" * (around - 6) + b"\r\na\r\n"
    for _ in range(CHUNKS // 10):
        caller.send(extended * 9)

    assert caller.over is not fits


async def test_bytes_of_a_body_do_not_count_as_framing() -> None:
    scene = Scene()
    caller = scene.caller()
    for _ in range(3):
        data = post(b"x" * (4 * HEADER_LIMIT))
        for at in range(0, len(data), HEADER_LIMIT):
            caller.send(data[at : at + HEADER_LIMIT])
        await turn()

    assert caller.statuses == [200] * 3


# In which order it is answered.


async def test_a_request_behind_another_waits_for_its_turn() -> None:
    scene = Scene()
    scene.at_once = False
    caller = scene.caller()
    caller.send(post(b"one") + post(b"two"))
    caller.send(post(b"three"))
    await turn()
    assert scene.bodies == [b"one"]
    assert caller.heard == b""

    scene.let_go.set()
    await turn()
    await turn()
    assert scene.bodies == [b"one", b"two", b"three"]
    assert caller.statuses == [200] * 3
    assert not caller.connection.busy


@pytest.mark.parametrize(("behind", "taken"), [(PIPELINE, PIPELINE), (PIPELINE + 1, PIPELINE)])
async def test_so_many_requests_may_wait_behind_one(behind: int, taken: int) -> None:
    scene = Scene()
    scene.at_once = False
    caller = scene.caller()
    caller.send(GET)
    for _ in range(behind):
        caller.send(GET)
    await turn()
    scene.let_go.set()
    for _ in range(PIPELINE):
        await turn()

    assert caller.statuses == [200] * (1 + taken)
    assert caller.over is (behind > PIPELINE)


@pytest.mark.parametrize(("size", "taken"), [(50, 3), (51, 2)])
async def test_requests_that_wait_are_together_no_longer_than_a_body_may_be(size: int, taken: int) -> None:
    scene = Scene(body_limit=100)
    scene.at_once = False
    caller = scene.caller()
    caller.send(post(b"x" * 100))
    caller.send(post(b"x" * 50))
    caller.send(post(b"x" * size))
    scene.let_go.set()
    await turn()
    await turn()

    assert caller.statuses == [200] * taken
    assert caller.over is (taken < 3)


async def test_what_is_wrong_behind_a_call_ends_the_connection_after_the_calls_before_it() -> None:
    scene = Scene()
    scene.at_once = False
    caller = scene.caller()
    caller.send(post(b"one"))
    caller.send(post(b"two"))
    caller.send(b"nonsense\r\n\r\n")
    caller.send(post(b"never"))
    await turn()
    assert caller.heard == b""
    scene.let_go.set()
    await turn()
    await turn()

    assert scene.bodies == [b"one", b"two"]
    assert caller.statuses == [200, 200]
    first, second = caller.heard.split(b"HTTP/1.1 200")[1:]
    assert (b"connection: close" in first, b"connection: close" in second) == (False, True)
    assert caller.over


@pytest.mark.parametrize(
    "data", [GET.replace(b"1.1", b"1.0"), GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")]
)
async def test_who_wants_no_further_request_gets_its_answer_and_the_end(data: bytes) -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(data)
    await turn()

    assert caller.statuses == [200]
    assert b"connection: close" in caller.heard
    assert caller.wire.closed


async def test_a_handler_that_answers_nothing_ends_the_connection() -> None:
    async def nothing(request: Request) -> None: ...

    caller = Caller(Server(nothing, GatewayConfig()))
    caller.send(GET)
    await turn()

    assert caller.heard == b""
    assert caller.wire.closed


async def test_whoever_waits_to_be_told_to_go_on_is_told_once_and_in_turn() -> None:
    scene = Scene()
    scene.at_once = False
    caller = scene.caller()
    expecting = post(b"two", b"expect: 100-Continue")
    caller.send(post(b"one"))
    caller.send(expecting[:-3])
    await turn()
    assert caller.heard == b""
    scene.let_go.set()
    await turn()
    assert caller.heard.endswith(b"{}" + CONTINUE)
    caller.send(b"two")
    await turn()
    assert scene.bodies == [b"one", b"two"]
    caller.send(GET)
    await turn()
    assert caller.statuses == [200, 100, 200, 200]

    caller.send(expecting[:-3])
    assert caller.statuses == [200, 100, 200, 200, 100]
    caller.send(b"two")
    await turn()
    assert caller.statuses == [200, 100, 200, 200, 100, 200]


async def test_nobody_is_told_to_go_on_whose_body_is_refused_or_who_does_not_ask() -> None:
    caller = Scene(body_limit=2).caller()
    caller.send(post(b"123", b"expect: 100-continue")[:-3])
    assert caller.statuses == [413]
    plain = Scene().caller()
    plain.send(post(b"123", b"expect: nothing")[:-3])
    assert plain.statuses == []


async def test_a_caller_that_hangs_up_is_missed_and_what_waits_behind_is_not_begun() -> None:
    scene = Scene()
    scene.at_once = False
    caller = scene.caller()
    caller.send(post(b"one") + post(b"two"))
    await turn()
    missed: list[str] = []
    scene.requests[0].on_gone(lambda: missed.append("one"))
    caller.hang_up()
    assert missed == ["one"]
    assert scene.requests[0].gone
    scene.let_go.set()
    await turn()

    assert scene.bodies == [b"one"]
    assert caller.heard == b""


# How answers are sent.


async def test_pieces_wait_while_the_caller_does_not_read() -> None:
    wrote: list[int] = []

    async def stream(request: Request) -> None:
        request.begin([(b"x", b"y")])
        for number in range(3):
            await request.write(b"%d" % number)
            wrote.append(number)
        request.end()

    for ending in ("reads", "hangs up"):
        wrote.clear()
        caller = Caller(Server(stream, GatewayConfig()))
        caller.connection.pause_writing()
        caller.send(GET)
        await turn()
        assert wrote == []
        caller.connection.resume_writing() if ending == "reads" else caller.hang_up()
        await turn()
        assert wrote == [0, 1, 2]
        assert caller.heard.endswith(b"1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n" if ending == "reads" else b"1\r\n0\r\n")


# How many there may be.


async def test_a_connection_too_many_takes_the_place_of_the_one_idle_longest() -> None:
    scene = Scene(max_connections=3)
    scene.at_once = False
    busy = scene.caller()
    busy.send(GET)
    await turn()
    idle, later = scene.caller(), scene.caller()
    assert not idle.wire.closed
    newest = scene.caller()

    assert [one.wire.closed for one in (busy, idle, later, newest)] == [False, True, False, False]
    assert newest.statuses == []
    scene.let_go.set()
    await turn()


async def test_a_connection_too_many_is_refused_where_all_are_busy_until_one_has_gone() -> None:
    scene = Scene(max_connections=1)
    scene.at_once = False
    busy = scene.caller()
    busy.send(GET)
    await turn()
    refused = scene.caller()
    assert refused.statuses == [503]
    assert refused.over
    refused.hang_up()
    busy.hang_up()

    assert scene.caller().statuses == []
    scene.let_go.set()
    await turn()


# How long is waited.


async def test_a_refused_connection_is_closed_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER", 0.02)
    caller = Scene().caller()
    caller.send(b"nonsense\r\n\r\n")
    assert not caller.wire.closed
    async with asyncio.timeout(20):
        while not caller.wire.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert 0 < LINGER <= 2


@pytest.mark.parametrize("begun", [b"", b"GET / HT", post(b"abc")[:-1]], ids=["nothing", "half a head", "half a body"])
async def test_a_first_request_must_have_come_in_time(
    begun: bytes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0, keep_alive=75.0)
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        if begun:
            caller.send(begun)
        clock.now += 10.0
        await swept(clock)
        assert not caller.over
        clock.now += 0.1
        await swept(clock)
        assert caller.wire.closed


async def test_an_idle_connection_has_longer_but_a_request_that_began_on_it_has_not(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0, keep_alive=75.0)
    async with sweeping(scene, monkeypatch):
        idle, half = scene.caller(), scene.caller()
        for caller in (idle, half):
            caller.send(GET)
        await turn()
        clock.now += 75.0
        await swept(clock)
        assert not idle.over
        half.send(b"GET / HT")
        clock.now += 10.0
        await swept(clock)
        assert idle.wire.closed
        assert not half.over
        clock.now += 0.1
        await swept(clock)
        assert half.wire.closed


@pytest.mark.parametrize("begun", [b"GET / HT", post(b"abc")[:-1]], ids=["half a head", "half a body"])
async def test_a_request_behind_a_long_call_must_come_in_time_and_the_call_is_answered(
    begun: bytes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller, patient = scene.caller(), scene.caller()
        for one in (caller, patient):
            one.send(GET)
            await turn()
        caller.send(begun)
        clock.now += 10.0
        await swept(clock)
        caller.send(b"")
        clock.now += 0.1
        await swept(clock)
        scene.let_go.set()
        await turn()
        assert (caller.statuses, caller.over) == ([200], True)
        assert (patient.statuses, patient.over) == ([200], False)


async def test_time_behind_a_call_counts_from_the_first_byte_and_ends_with_the_last(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0, keep_alive=75.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        whole, slow = scene.caller(), scene.caller()
        for one in (whole, slow):
            one.send(GET)
            await turn()
            one.send(GET[:5])
        clock.now += 6.0
        slow.send(GET[5:8])
        clock.now += 4.0
        await swept(clock)
        whole.send(GET[5:])
        clock.now += 0.1
        await swept(clock)
        scene.let_go.set()
        await turn()
        await turn()
        assert (whole.statuses, whole.over) == ([200, 200], False)
        assert (slow.statuses, slow.over) == ([200], True)


@pytest.mark.parametrize("begun", [b"GET / HT", post(b"abc")[:-1]], ids=["half a head", "half a body"])
async def test_a_request_that_began_behind_a_call_has_no_more_time_when_the_call_is_answered(
    begun: bytes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0, keep_alive=75.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()
        clock.now += 20.0
        caller.send(begun)
        clock.now += 6.0
        scene.let_go.set()
        await turn()
        clock.now += 4.0
        await swept(clock)
        assert not caller.over
        clock.now += 0.1
        await swept(clock)
        assert caller.wire.closed


async def test_an_idle_connection_has_its_time_from_its_last_answer_on(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0, keep_alive=75.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()
        clock.now += 50.0
        await swept(clock)
        scene.let_go.set()
        await turn()
        clock.now += 75.0
        await swept(clock)
        assert not caller.over
        clock.now += 0.1
        await swept(clock)
        assert caller.wire.closed


async def test_a_call_that_waited_behind_another_has_all_the_time_it_needs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()
        caller.send(GET[:5])
        caller.send(GET[5:])
        scene.let_go.set()
        scene.let_go = asyncio.Event()
        await turn()
        assert len(scene.requests) == 2
        clock.now += 100.0
        await swept(clock)
        scene.let_go.set()
        await turn()
        assert (caller.statuses, caller.over) == ([200, 200], False)


async def test_who_is_refused_behind_a_long_call_has_time_to_read_its_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()
        caller.send(b"nonsense\r\n\r\n")
        clock.now += 100.0
        scene.let_go.set()
        await turn()
        await swept(clock)
        assert (caller.statuses, caller.wire.ended, caller.wire.closed) == ([200], True, False)


async def test_where_one_side_cannot_end_alone_a_refusal_ends_nothing_at_once() -> None:
    caller = Scene().caller()
    caller.wire.half_closes = False
    caller.send(b"nonsense\r\n\r\n")

    assert (caller.statuses, caller.wire.ended, caller.wire.closed) == ([400], False, False)


async def test_nothing_is_kept_of_a_request_that_was_answered() -> None:
    scene = Scene()
    caller = scene.caller()
    caller.send(GET)
    await turn()
    (request,) = scene.requests
    assert request.task is not None
    task = weakref.ref(request.task)
    request.task = None
    gc.collect()

    assert task() is None


async def test_a_caller_that_reads_nothing_is_let_go_and_one_that_reads_slowly_is_not(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(write_timeout=30.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        stalled, slow, quick = scene.caller(), scene.caller(), scene.caller()
        for one in (stalled, slow, quick):
            one.send(GET)
            one.wire.unread = 1000
            one.connection.pause_writing()
        await turn()
        await swept(clock)
        quick.connection.resume_writing()
        clock.now += 30.0
        slow.wire.unread = 900
        await swept(clock)
        assert [one.wire.closed for one in (stalled, slow, quick)] == [False, False, False]
        clock.now += 0.1
        await swept(clock)
        assert [one.wire.closed for one in (stalled, slow, quick)] == [True, False, False]
        scene.let_go.set()
        await turn()


@pytest.mark.parametrize(
    ("sizes", "gone"), [((40, 60), (False, False)), ((41, 60), (False, True)), ((60, 41, 0), (True, False, False))]
)
async def test_of_what_nobody_reads_so_much_is_kept_in_all_and_the_largest_goes(
    sizes: tuple[int, ...], gone: tuple[bool, ...], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(unsent_limit=100)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        callers = [scene.caller() for _ in sizes]
        for one, size in zip(callers, sizes, strict=True):
            one.send(GET)
            one.wire.unread = size
            one.connection.pause_writing()
        await turn()
        await swept(clock)
        assert tuple(one.wire.closed for one in callers) == gone
        scene.let_go.set()
        await turn()


async def test_who_hung_up_is_not_counted_among_those_who_do_not_read(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(unsent_limit=100)
    async with sweeping(scene, monkeypatch):
        gone, there = scene.caller(), scene.caller()
        for one in (gone, there):
            one.wire.unread = 80
            one.connection.pause_writing()
        gone.hang_up()
        there.wire.unread += 1  # it would be the first to go
        await swept(clock)
        assert not there.wire.closed
        assert list(vars(scene.server)["_connections"]) == [there.connection]


# How it ends.


async def test_when_it_stops_what_is_under_way_is_answered_and_nothing_else_is_begun(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(drain=20.0)
    scene.at_once = False
    async with sweeping(scene, monkeypatch) as stop:
        busy, idle = scene.caller(), scene.caller()
        busy.send(GET)
        await turn()
        stop.set()
        async with asyncio.timeout(20):
            while not idle.wire.closed:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert not busy.wire.closed
        busy.send(GET)
        scene.let_go.set()
    assert busy.statuses == [200, 200]
    assert b"connection: close" in busy.heard.split(b"HTTP/1.1 200")[2]
    assert busy.wire.closed
    assert scene.cancelled == 0


async def test_when_it_stops_what_does_not_end_in_time_is_ended(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(drain=0.01)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()

    assert scene.cancelled == 1
    assert caller.wire.closed


@pytest.mark.parametrize("listens", [True, False])
async def test_when_it_stops_what_was_cancelled_has_two_seconds_to_end(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, patience, done, over = Scene(drain=7.0), list[float](), list[str](), asyncio.Event()
    really_wait = asyncio.wait

    async def stubborn(request: Request) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await over.wait()
            done.append("ended")
            raise

    async def wait(tasks: Any, timeout: float) -> Any:
        patience.append(timeout)
        if listens and len(patience) == 2:
            over.set()
        return await really_wait(tasks, timeout=None if over.is_set() else 0.0)

    scene.server.handler = stubborn
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET)
        await turn()
        monkeypatch.setattr(module.asyncio, "wait", wait)

    assert patience == [7.0, 2.0]
    assert (done, caller.wire.closed) == (["ended"] * listens, True)
    over.set()
    await turn()


# Heads that were read before.


class Fed(list[bytes]):
    """What the parser is given."""

    def __call__(self, data: bytes) -> None:
        self.append(data)


async def known(scene: Scene) -> None:
    """Let the head of `post()` be read once."""
    scene.caller().send(post())
    await turn()
    scene.requests.clear()


async def test_a_head_that_was_read_before_is_given_to_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, fed = Scene(), Fed()
    caller = scene.caller()
    caller.send(post())
    await turn()
    monkeypatch.setattr(caller.connection, "_feed", fed)
    caller.send(post(b"[1]"))
    await turn()

    assert (scene.bodies, fed) == ([b"{}", b"[1]"], [])
    assert vars(caller.connection)["_whole"] == b""


async def test_a_known_head_begins_nothing_behind_a_refusal_nor_within_another_head() -> None:
    scene = Scene()
    await known(scene)
    refused, half = scene.caller(), scene.caller()
    refused.send(b"nonsense\r\n\r\n")
    refused.send(post())
    half.send(b"POST /other HTTP/1.1\r\nhost: y\r\nx: ")
    half.send(post())
    await turn()

    assert (scene.bodies, refused.statuses) == ([b"{}"], [400])
    assert [request.path for request in scene.requests] == ["/other"]


async def test_a_known_head_is_bound_by_what_holds_for_any_other() -> None:
    scene = Scene(body_limit=100)
    await known(scene)
    large, late = scene.caller(), scene.caller()
    large.send(post(b"x" * 101))
    await turn()
    assert (large.statuses, scene.bodies) == ([413], [])
    scene.server.draining = True
    late.send(post())
    await turn()
    assert b"connection: close" in late.heard
    assert late.wire.closed


async def test_a_call_with_a_known_head_has_all_the_time_it_needs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0)
    await known(scene)
    scene.at_once = False
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(post())
        await turn()
        clock.now += 100.0
        await swept(clock)
        scene.let_go.set()
        await turn()
        assert (caller.statuses, caller.over) == ([200], False)


async def test_who_is_refused_at_the_end_of_its_time_has_time_to_read_why(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(header_timeout=10.0)
    async with sweeping(scene, monkeypatch):
        caller = scene.caller()
        caller.send(GET[:20])
        clock.now += 9.0
        caller.send(b"nonsense\r\n: \r\n\r\n")
        clock.now += 1.5
        await swept(clock)
        assert (caller.statuses, caller.wire.ended, caller.wire.closed) == ([400], True, False)


async def test_an_answer_is_followed_by_nothing_that_fails_and_waits_for_no_reader() -> None:
    scene = Scene()
    caller = scene.caller()
    async with asyncio.timeout(20):
        await caller.connection.writable()
    caller.send(GET)
    await turn()
    (request,) = scene.requests

    assert request.task is not None
    assert request.task.exception() is None
