"""HTTP itself: what is too slow, too big, too much or not HTTP at all, and a graceful end."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.harness import META, VERSION, LegacyCaller, ModernCaller, faulty, gateway, trunkline_up, until


@dataclass
class Answer:
    """One HTTP answer, read by hand."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)


class Wire:
    """A TCP connection to the gateway, for bytes that no HTTP client would send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, head: bool = False) -> Answer:
        async with asyncio.timeout(5):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = b""
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
            elif not head:
                body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return Answer(int(first.split(" ")[1]), headers, body)

    async def closed(self, seconds: float = 5.0) -> bytes:
        """What still came until the gateway closed the connection."""
        async with asyncio.timeout(seconds):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def wire(url: str) -> AsyncGenerator[Wire]:
    """Connect to a gateway's port."""
    where = urlsplit(url)
    assert where.hostname is not None
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


def body_of(tool: str, arguments: dict[str, Any], *, id: Any = 1) -> bytes:
    """A modern call."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def head_of(tool: str, *more: bytes) -> bytes:
    """The headers of a modern call, but for those that say how long it is."""
    lines = (
        b"POST /mcp HTTP/1.1",
        b"host: 127.0.0.1",
        b"content-type: application/json",
        b"mcp-protocol-version: " + VERSION.encode(),
        b"mcp-method: tools/call",
        b"mcp-name: " + tool.encode(),
        *more,
    )
    return b"\r\n".join(lines) + b"\r\n"


def call_of(tool: str, arguments: dict[str, Any], *more: bytes, id: Any = 1) -> bytes:
    """A modern call as bytes."""
    body = body_of(tool, arguments, id=id)
    return head_of(tool, *more) + b"content-length: %d\r\n\r\n" % len(body) + body


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


# Too slow.


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"POST /mcp HT",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ",
        head_of("echo") + b"content-length: 10\r\n\r\n{",
    ],
    ids=["nothing", "half a line", "half the headers", "half the body"],
)
async def test_a_request_that_does_not_come_is_not_waited_for(tmp_path: Path, beginning: bytes) -> None:
    async with gateway(tmp_path, {}, header_timeout=0.5) as opened, wire(opened.url) as line:
        await line.send(beginning)

        rest = await line.closed()

    assert rest == b""


async def test_a_second_request_that_comes_too_slowly_is_not_waited_for(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, header_timeout=0.5) as opened, wire(opened.url) as line:
        await line.send(HEALTH)
        await line.answer()
        await line.send(b"GET /heal")

        rest = await line.closed()

    assert rest == b""


async def test_a_slow_request_behind_a_slow_call_is_not_waited_for(tmp_path: Path) -> None:
    options: dict[str, Any] = {"header_timeout": 0.5, "namespace": "always"}
    async with gateway(tmp_path, {"one": faulty()}, **options) as opened, wire(opened.url) as line:
        await line.send(call_of("one__slow", {"seconds": 0.2}) + b"GET /heal")
        answer = await line.answer()

        rest = await line.closed()

    assert answer.status == 200
    assert rest == b""


async def test_a_slow_call_is_not_a_slow_request(tmp_path: Path) -> None:
    options: dict[str, Any] = {"header_timeout": 0.3, "keep_alive": 0.3}
    async with gateway(tmp_path, {"one": faulty()}, **options) as opened, wire(opened.url) as line:
        await line.send(call_of("slow", {"seconds": 1.5}))

        answer = await line.answer()

    assert answer.status == 200


async def test_an_idle_connection_is_closed_after_a_while(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, keep_alive=0.3) as opened, wire(opened.url) as line:
        await line.send(HEALTH)
        await line.answer()
        await line.send(HEALTH)
        second = await line.answer()

        rest = await line.closed()

    assert second.status == 200
    assert rest == b""


# Too big, too much.


async def test_a_body_that_says_it_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, body_limit=1000) as opened, wire(opened.url) as line:
        await line.send(head_of("echo") + b"content-length: 1001\r\n\r\n")

        answer = await line.answer()
        rest = await line.closed()

    assert (answer.status, rest) == (413, b"")


@pytest.mark.parametrize(
    ("length", "status"),
    [(b"99999999999999999999", 400), (b"18446744073709551616", 400), (b"18446744073709551615", 413)],
)
def test_lengths_are_not_numbers_to_overflow(length: bytes, status: int, tmp_path: Path) -> None:
    async def run() -> Answer:
        async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
            await line.send(head_of("echo") + b"content-length: " + length + b"\r\n\r\n")
            return await line.answer()

    assert asyncio.run(run()).status == status


async def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, body_limit=1000) as opened, wire(opened.url) as line:
        await line.send(head_of("echo") + b"transfer-encoding: chunked\r\n\r\n" + b"1f4\r\n" + b"x" * 500 + b"\r\n")
        await line.send(b"1f5\r\n" + b"x" * 501 + b"\r\n")

        answer = await line.answer()
        rest = await line.closed()

    assert (answer.status, rest) == (413, b"")


async def test_a_body_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    body = body_of("echo", {"text": "x"})
    async with gateway(tmp_path, {"one": faulty()}, body_limit=len(body)) as opened, wire(opened.url) as line:
        await line.send(call_of("echo", {"text": "x"}))

        answer = await line.answer()

    assert answer.status == 200


async def test_a_caller_that_sends_a_long_body_anyway_still_hears_why(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    headers = {"content-type": "application/json"}
    async with (
        gateway(tmp_path, {}, body_limit=1000) as opened,
        http.post(opened.url, data=io.BytesIO(b"x" * 8_000_000), headers=headers) as answer,
    ):
        status = answer.status

    assert status == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 200_000, 431),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"a" * 200_000, 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100)), 431),
        (b"GET /healthz?" + b"a" * 200_000, 431),
        (b"GET /healthz?" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 414),
    ],
    ids=["one long", "one without end", "a name without end", "many", "an address without end", "a long address"],
)
async def test_headers_that_are_too_long_are_refused_before_they_end(
    tmp_path: Path, headers: bytes, status: int
) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(headers)
        answer = await line.answer()

    assert answer.status == status


async def test_connections_beyond_the_most_are_refused_while_all_are_at_work_and_room_is_made_again(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, {"one": faulty()}, max_connections=2) as opened:
        async with wire(opened.url) as first, wire(opened.url) as second:
            for line in (first, second):
                await line.send(call_of("slow", {"seconds": 0.5}))
            await until(lambda: opened.hub.relay.lane("one").inside == 2)
            async with wire(opened.url) as third:
                refused = await third.answer()
            for line in (first, second):
                assert (await line.answer()).status == 200

        async with asyncio.timeout(5):
            while True:
                async with wire(opened.url) as later:
                    await later.send(HEALTH)
                    if (await later.answer()).status == 200:
                        break

    assert refused.status == 503


# Odd, but HTTP.


async def test_pipelined_requests_are_answered_in_their_order(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        calls = [call_of("slow", {"seconds": 0.2}, id="slow")]
        calls += [call_of("echo", {"text": str(number)}, id=number) for number in range(30)]
        await line.send(b"".join(calls))

        answers = [(await line.answer()).message for _ in calls]

    assert [answer["id"] for answer in answers] == ["slow", *range(30)]
    assert [answer["result"]["content"][0]["text"] for answer in answers] == ["slow", *map(str, range(30))]


async def test_garbage_behind_a_call_does_not_take_the_place_of_its_answer(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        await line.send(call_of("slow", {"seconds": 0.3}) + b"\x00\x01garbage\r\n\r\n")

        answer = await line.answer()

    assert (answer.status, answer.message["id"]) == (200, 1)


async def test_a_request_in_many_small_pieces_is_whole(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        for byte in call_of("echo", {"text": "bit by bit"}):
            await line.send(bytes([byte]))

        answer = await line.answer()

    assert answer.message["result"]["content"][0]["text"] == "bit by bit"


async def test_a_chunked_call_is_served(tmp_path: Path) -> None:
    body = body_of("echo", {"text": "in pieces"})
    chunks = b"".join(b"%x\r\n%s\r\n" % (1, bytes([byte])) for byte in body) + b"0\r\n\r\n"
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        await line.send(head_of("echo") + b"transfer-encoding: chunked\r\n\r\n" + chunks)

        answer = await line.answer()

    assert answer.message["result"]["content"][0]["text"] == "in pieces"


async def test_a_caller_that_expects_100_continue_gets_it_before_it_sends_the_body(tmp_path: Path) -> None:
    body = body_of("echo", {"text": "patient"})
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        await line.send(head_of("echo", b"expect: 100-continue") + b"content-length: %d\r\n\r\n" % len(body))
        async with asyncio.timeout(5):
            interim = await line.reader.readuntil(b"\r\n\r\n")
        await line.send(body)

        answer = await line.answer()

    assert interim.startswith(b"HTTP/1.1 100 ")
    assert answer.message["result"]["content"][0]["text"] == "patient"


UPGRADE = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQCAAAAAAIAAAAA")


async def test_an_offer_to_upgrade_is_passed_over(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        for number in range(2):
            await line.send(call_of("echo", {"text": "still 1.1"}, *UPGRADE, id=number))

            answer = await line.answer()

            assert (answer.status, answer.message["id"]) == (200, number)


async def test_an_offer_to_upgrade_that_comes_in_two_pieces_is_passed_over(tmp_path: Path) -> None:
    text = call_of("echo", {"text": "still 1.1"}, *UPGRADE)
    for cut in (text.index(b"connection:"), text.index(b"upgrade: h2c") + 4):
        async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
            await line.send(text[:cut])
            async with wire(opened.url) as other:  # by now the first piece was read
                await other.send(HEALTH)
                await other.answer()
            await line.send(text[cut:])

            answer = await line.answer()

            assert (answer.status, answer.message["id"]) == (200, 1)


async def test_http_1_0_is_answered_and_closed(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        await line.send(call_of("echo", {"text": "old"}).replace(b"HTTP/1.1", b"HTTP/1.0"))

        answer = await line.answer()
        rest = await line.closed()

    assert answer.message["result"]["content"][0]["text"] == "old"
    assert rest == b""


async def test_a_connection_closes_when_the_caller_says_so(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(HEALTH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

        answer = await line.answer()
        rest = await line.closed()

    assert (answer.status, answer.headers["connection"], rest) == (200, "close", b"")


async def test_head_is_answered_without_a_body(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(HEALTH.replace(b"GET", b"HEAD") + HEALTH)

        first = await line.answer(head=True)
        second = await line.answer()

    assert (first.status, first.headers["content-length"]) == (200, str(len(second.body)))
    assert second.message == {"status": "ok"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nho st: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nhost: 127.0.0.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: gzip\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused_and_closed(tmp_path: Path, garbage: bytes) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(garbage)

        answer = await line.answer()
        rest = await line.closed()

    assert (answer.status, rest) == (400, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("GET", "/nothing", 404),
        ("GET", "/mcp/", 404),
        ("GET", "/MCP", 404),
        ("GET", "//mcp", 404),
        ("GET", "/../mcp", 404),
        ("GET", "http://evil.com/mcp", 404),
        ("POST", "/healthz", 405),
        ("OPTIONS", "/mcp", 405),
        ("PUT", "/mcp", 405),
        ("PATCH", "/mcp", 405),
        ("GET", "/healthz?x=1", 200),
    ],
)
async def test_only_what_there_is_is_served(tmp_path: Path, method: str, path: str, status: int) -> None:
    async with gateway(tmp_path, {}) as opened, wire(opened.url) as line:
        await line.send(f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n".encode())

        answer = await line.answer()

    assert answer.status == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("text/plain", 415),
        ("", 415),
        ("application/xml", 415),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
    ],
)
async def test_only_json_is_taken(tmp_path: Path, kind: str, status: int) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, wire(opened.url) as line:
        call = call_of("echo", {"text": "x"})
        await line.send(call.replace(b"content-type: application/json", b"content-type: " + kind.encode()))

        answer = await line.answer()

    assert answer.status == status


# The end.


async def test_what_is_under_way_is_finished_and_nothing_new_is_begun(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened, wire(opened.url) as line:
        await line.send(call_of("slow", {"seconds": 1}) + call_of("echo", {"text": "too late"}, id=2))
        legacy = await LegacyCaller(opened.url, http).open()
        slow = asyncio.create_task(legacy.call("slow", {"seconds": 1}))
        await until(lambda: log.read_text().count("call slow") == 2)

        opened.app.drain()
        opened.stop.set()
        first, second = await line.answer(), await line.answer()
        third = await slow

    assert first.message["result"]["content"][0]["text"] == "slow"
    assert second.status == 503
    assert third.text == "slow"
    assert "call echo" not in log.read_text()


async def test_streams_end_with_the_gateway(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        legacy = await LegacyCaller(opened.url, http).open()
        modern = ModernCaller(opened.url, http)
        params = {"notifications": {"toolsListChanged": True}}
        listening = asyncio.create_task(modern.request("subscriptions/listen", params, id="mine"))
        async with legacy.listen() as standing:
            await legacy.request("ping")

            opened.app.drain()
            heard = await asyncio.wait_for(listening, 5)
            with pytest.raises(EOFError):
                await standing.next()

    assert heard.before[0]["method"] == "notifications/subscriptions/acknowledged"
    assert heard.message["id"] == "mine"
    assert heard.result["resultType"] == "complete"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_gateway_gracefully(
    tmp_path: Path, http: aiohttp.ClientSession, number: signal.Signals
) -> None:
    log = tmp_path / "log"
    with trunkline_up(tmp_path / "home", {"gateway": {}, "servers": {"one": faulty("--log", str(log))}}) as (
        url,
        process,
    ):
        caller = ModernCaller(url, http)
        legacy = await LegacyCaller(url, http).open()
        async with legacy.listen() as standing:
            slow = asyncio.create_task(caller.call("slow", {"seconds": 1}))
            await until(lambda: "call slow" in log.read_text(), 10)

            process.send_signal(number)
            with pytest.raises(EOFError):
                await standing.next()
            answer = await slow
            code = await asyncio.to_thread(process.wait, 10)
        with pytest.raises(aiohttp.ClientConnectorError):
            await caller.call("echo", {"text": "anyone there?"})

    assert answer.text == "slow"
    assert code == 0
    assert log.read_text().splitlines()[-1] == "end"


async def test_a_call_that_takes_longer_than_the_end_may_is_cut_off(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}, drain=0.2) as opened:
        hanging = asyncio.create_task(ModernCaller(opened.url, http).call("hang"))
        await until(lambda: "call hang" in log.read_text())

    with pytest.raises(aiohttp.ClientError):
        await hanging


__all__ = ["Wire", "call_of", "wire"]
