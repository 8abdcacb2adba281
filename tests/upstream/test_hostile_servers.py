"""HTTP from servers that mean harm: answers without an end, bytes behind an answer, leaving HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from trunkline.errors import ProtocolError
from trunkline.upstream.http1 import HEADER_LIMIT, HttpClient, Response, request_bytes
from trunkline.upstream.origin import Origin

REQUEST = request_bytes(b"POST", "/mcp", {b"host": b"a"}, b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Answers:
    """A server that answers each request with the next of some bytes; it counts connections and what it could send."""

    def __init__(self, texts: Sequence[bytes], endless: bytes = b"") -> None:
        self.texts, self.endless = list(texts), endless
        self.connections = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.read(len(REQUEST)) and self.texts:
                writer.write(self.texts.pop(0))
                while self.endless and self.sent < 100 * HEADER_LIMIT:
                    writer.write(self.endless)
                    self.sent += len(self.endless)
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def answering(answers: Answers) -> AsyncGenerator[Origin]:
    server = await asyncio.start_server(answers.serve, "127.0.0.1", 0)
    async with server:
        yield Origin("http", "127.0.0.1", server.sockets[0].getsockname()[1])


async def sent(client: HttpClient, origin: Origin) -> Response:
    async with asyncio.timeout(10):
        response, _ = await client.send(origin, REQUEST, limit=10_000_000)
        await response.ready()
    return response


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nx: ",
        b"HTTP/1.1 200 OK\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\nx: ",
        CHUNKED + b"2\r\n{}\r\n0\r\nx: y\r\n",
    ],
    ids=["a header", "a header's name", "a trailer", "a trailer's name"],
)
async def test_what_has_no_end_has_a_bound(beginning: bytes) -> None:
    answers, client = Answers([beginning], endless=b"a" * 8192), HttpClient()
    async with answering(answers) as origin:
        with pytest.raises(ProtocolError):
            await sent(client, origin)
        client.close()

    assert answers.sent < 100 * HEADER_LIMIT


async def test_bytes_behind_an_answer_reach_nobody() -> None:
    stray = b'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n"stray"'
    answers, client = Answers([OK + stray, OK]), HttpClient()
    async with answering(answers) as origin:
        first = (await sent(client, origin)).body()
        second = (await sent(client, origin)).body()
        client.close()

    assert (first, second, answers.connections) == (b"{}", b"{}", 2)


async def test_a_server_that_leaves_http_is_refused() -> None:
    answers, client = (
        Answers([b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nx"]),
        HttpClient(),
    )
    async with answering(answers) as origin:
        with pytest.raises(ProtocolError):
            await sent(client, origin)
        client.close()


async def test_trailers_are_not_headers() -> None:
    body = b"2\r\n{}\r\n0\r\ncontent-type: text/event-stream\r\nmcp-session-id: stolen\r\n\r\n"
    answers, client = Answers([CHUNKED + body]), HttpClient()
    async with answering(answers) as origin:
        response = await sent(client, origin)
        client.close()

    assert (response.body(), set(response.headers)) == (b"{}", {b"transfer-encoding"})
