"""One request by its rules: an answer is written once and whole, and nobody writes to who is gone."""

from __future__ import annotations

import asyncio
import time

import pytest

from trunkline.gateway.request import JSON, KnownHeads, Request
from trunkline.identity import EVERYONE
from trunkline.tenancy.people import ANYONE, Admission
from trunkline.wire.headers import read_said

BEARER = {b"authorization": b"Bearer  abc "}


class Paper:
    """Writes down what is sent, and can be gone."""

    def __init__(self) -> None:
        self.closed = False
        self.peer = "192.0.2.7"
        self.data = b""
        self.waited = 0

    def write(self, data: bytes) -> None:
        self.data += data

    async def writable(self) -> None:
        self.waited += 1


def asked(method: str = "POST", headers: dict[bytes, bytes] | None = None) -> tuple[Request, Paper]:
    paper = Paper()
    return Request(paper, method, "/mcp", headers or {}, b""), paper


def test_a_request_that_nobody_looked_at_is_nobodys() -> None:
    request, _ = asked()

    assert (request.scope, request.admission, request.thread) == (EVERYONE, ANYONE, "")
    assert (request.by_cookie, request.local, request.patience) == (False, False, 0.0)
    assert (request.url, request.repeated, request.lines) == (b"", b"", b"")


def test_an_answer_is_one_write_with_its_length_and_comes_once() -> None:
    request, paper = asked()
    request.lines = b"x-every: 1\r\n"
    request.answer(200, b"{}", [JSON])
    request.answer(500, b"again")
    request.begin([])

    assert paper.data == (
        b"HTTP/1.1 200 OK\r\nx-every: 1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert request.answered
    assert request.keeps_alive


@pytest.mark.parametrize(("status", "line"), [(404, b"404 Not Found"), (299, b"299 Unknown")])
async def test_a_status_is_said_with_its_words(status: int, line: bytes) -> None:
    whole, paper = asked()
    whole.answer(status)
    pieces, strip = asked()
    pieces.begin([], status)

    assert paper.data == b"HTTP/1.1 " + line + b"\r\ncontent-length: 0\r\n\r\n"
    assert strip.data == b"HTTP/1.1 " + line + b"\r\ntransfer-encoding: chunked\r\n\r\n"


def test_who_asks_for_the_head_alone_gets_the_length_of_what_it_would_get() -> None:
    request, paper = asked("HEAD")
    request.answer(200, b"{}")

    assert paper.data.endswith(b"content-length: 2\r\n\r\n")


def test_the_last_answer_of_a_connection_says_so() -> None:
    request, paper = asked()
    request.close_after()
    request.answer(200)

    assert b"\r\nconnection: close\r\n" in paper.data
    assert not request.keeps_alive


async def test_an_answer_in_pieces_begins_once_and_ends_once() -> None:
    request, paper = asked()
    request.lines = b"x-every: 1\r\n"
    for _ in range(2):
        request.begin([(b"a", b"b")])
    await request.write(b"x" * 17)
    await request.write(b"")
    assert not request.keeps_alive
    for _ in range(2):
        request.end()
    await request.write(b"late")
    request.begin([])
    request.answer(200)

    assert paper.data == (
        b"HTTP/1.1 200 OK\r\nx-every: 1\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n11\r\n"
        + b"x" * 17
        + b"\r\n0\r\n\r\n"
    )
    assert paper.waited == 1
    assert request.keeps_alive


async def test_what_was_never_begun_is_not_ended_on_the_wire() -> None:
    request, paper = asked()
    request.end()

    assert paper.data == b""
    assert request.answered


async def test_nothing_is_written_to_who_is_gone() -> None:
    request, paper = asked()
    paper.closed = True
    request.begin([])
    await request.write(b"a")
    request.end()
    unanswered, strip = asked()
    strip.closed = True
    unanswered.answer(200)
    begun, tape = asked()
    begun.begin([])
    said = tape.data
    tape.closed = True
    begun.end()

    assert (paper.data, strip.data, tape.data) == (b"", b"", said)
    assert request.gone
    assert not unanswered.answered


def test_whoever_wants_to_know_of_a_hang_up_is_told_once() -> None:
    request, _ = asked()
    told: list[int] = []
    request.on_gone(lambda: told.append(1))
    request.on_gone(lambda: told.append(2))
    request.hung_up()
    request.hung_up()

    assert told == [1, 2]


def test_a_token_is_given_on_only_where_an_issuer_made_it() -> None:
    by_issuer, _ = asked(headers=BEARER)
    by_issuer.admission = Admission(EVERYONE, issuer="https://issuer.example")
    by_key, _ = asked(headers=BEARER)
    without, _ = asked()
    without.admission = Admission(EVERYONE, issuer="https://issuer.example")

    assert (by_issuer.token, by_key.token, without.token) == (b"abc", b"", b"")


@pytest.mark.parametrize(("left", "ended"), [(0.01, True), (0.0, False), (60.0, False)])
async def test_what_let_a_caller_in_ends_what_it_holds_open_and_nothing_later(left: float, ended: bool) -> None:
    request, _ = asked()
    request.admission = Admission(EVERYONE, expires=time.time() + left) if left else ANYONE
    over = asyncio.Event()
    with request.until_expiry(over.set):
        if ended:
            async with asyncio.timeout(20):
                await over.wait()
        else:
            await asyncio.sleep(0.03)
    assert over.is_set() is ended
    late = asyncio.Event()
    request.admission = Admission(EVERYONE, expires=time.time() + 0.01)
    with request.until_expiry(late.set):
        pass
    await asyncio.sleep(0.03)
    assert not late.is_set()


# Heads that were read before.


def message(*lines: bytes, method: bytes = b"POST", path: bytes = b"/mcp", body: bytes = b"{}") -> bytes:
    """A request as it is sent."""
    head = [method + b" " + path + b" HTTP/1.1", b"host: h", *lines, b"content-length: %d" % len(body)]
    return b"\r\n".join((*head, b"", body))


def learn(heads: KnownHeads, data: bytes, method: str = "POST", path: str = "/mcp") -> None:
    headers = {b"host": b"h", b"mcp-method": b"tools/call", b"content-length": b"2"}
    request = Request(Paper(), method, path, headers, b"{}", said=read_said(headers))
    request.url = path.encode() + b"?q=1"
    heads.learn(data, request)


def test_a_request_with_a_head_that_was_read_before_is_like_the_first_with_a_body_of_its_own() -> None:
    heads = KnownHeads()
    learn(heads, message())
    request = heads.read(Paper(), message(body=b'{"a":1}'))

    assert request is not None
    assert (request.method, request.path, request.url, request.body) == ("POST", "/mcp", b"/mcp?q=1", b'{"a":1}')
    assert request.headers == {b"host": b"h", b"mcp-method": b"tools/call"}
    assert request.said.method == "tools/call"
    assert heads.read(Paper(), message(b"x-other: 1")) is None


@pytest.mark.parametrize("line", [b"expect", b"transfer-encoding", b"upgrade"])
def test_a_head_that_says_more_of_how_it_is_read_is_read_each_time(line: bytes) -> None:
    heads, data = KnownHeads(), message(line + b": x")
    heads.learn(data, Request(Paper(), "POST", "/mcp", {line: b"x"}, b"{}"))

    assert heads.read(Paper(), data) is None


@pytest.mark.parametrize(("method", "path"), [("GET", "/mcp"), ("POST", "/api/v1/servers")])
def test_only_what_is_sent_to_mcp_is_remembered(method: str, path: str) -> None:
    heads, data = KnownHeads(), message(method=method.encode(), path=path.encode())
    learn(heads, data, method, path)

    assert heads.read(Paper(), data) is None


def test_a_head_with_a_header_that_came_twice_is_not_remembered() -> None:
    heads = KnownHeads()
    request = Request(Paper(), "POST", "/mcp", {}, b"{}")
    request.repeated = b"authorization"
    heads.learn(message(), request)

    assert heads.read(Paper(), message()) is None


def test_so_many_heads_are_remembered() -> None:
    heads, messages = KnownHeads(), [message(b"x: %d" % number) for number in range(1_025)]
    for data in messages[:-1]:
        learn(heads, data)
    assert heads.read(Paper(), messages[0]) is not None
    learn(heads, messages[-1])

    assert heads.read(Paper(), messages[0]) is None
