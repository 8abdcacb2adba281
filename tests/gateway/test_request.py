"""Requests whose head was read before: each is still read as what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from tests.fuzz.transport import Wire
from trunkline.config.options import GatewayConfig
from trunkline.gateway.http import Connection, Server
from trunkline.gateway.request import Request

Seen = tuple[str, bytes, bytes]


def post(body: bytes, *lines: bytes, path: bytes = b"/mcp") -> bytes:
    head = b"".join(line + b"\r\n" for line in (b"Host: a", b"Content-Length: %d" % len(body), *lines))
    return b"POST " + path + b" HTTP/1.1\r\n" + head + b"\r\n" + body


async def served(*connections: Sequence[bytes]) -> list[Seen]:
    """Path, token and body of the requests that a server saw in what came on several connections."""
    seen: list[Seen] = []

    async def handle(request: Request) -> None:
        seen.append((request.path, request.headers.get(b"authorization", b""), request.body))
        with suppress(AttributeError):  # what requests share, none of them can change
            cast("dict[bytes, bytes]", request.headers).clear()
        request.answer(200, b"{}")

    server = Server(handle, GatewayConfig(body_limit=1000))
    for pieces in connections:
        wire = Wire()
        connection = Connection(server)
        connection.connection_made(cast("asyncio.Transport", wire))
        for piece in pieces:
            connection.data_received(piece)
            while connection.busy:  # noqa: ASYNC110 - a task that is about to end
                await asyncio.sleep(0)
        connection.connection_lost(None)
    return seen


async def test_requests_that_differ_in_length_alone_have_their_own_bodies() -> None:
    seen = await served([post(b"one"), post(b"three"), post(b"seventeen")], [post(b"twelve")])

    assert [body for _, _, body in seen] == [b"one", b"three", b"seventeen", b"twelve"]


async def test_a_request_that_differs_in_anything_else_is_read_anew() -> None:
    ana, bob = b"Authorization: Bearer ana", b"Authorization: Bearer bob"
    seen = await served([post(b"1", ana), post(b"2", bob), post(b"3"), post(b"4", ana), post(b"5", path=b"/mcp/small")])

    assert [(path, token) for path, token, _ in seen] == [
        ("/mcp", b"Bearer ana"),
        ("/mcp", b"Bearer bob"),
        ("/mcp", b""),
        ("/mcp", b"Bearer ana"),
        ("/mcp/small", b""),
    ]


async def test_a_known_head_in_pieces_or_with_another_request_behind_it_is_read_whole() -> None:
    whole = post(b"twelve")
    seen = await served(
        [post(b"one"), whole[:30], whole[30:-2], whole[-2:], post(b"two") + post(b"three"), post(b"last")]
    )

    assert [body for _, _, body in seen] == [b"one", b"twelve", b"two", b"three", b"last"]


async def test_a_known_head_before_too_long_a_body_is_refused() -> None:
    seen = await served([post(b"one"), post(b"x" * 1001)], [post(b"x" * 1000)])

    assert [len(body) for _, _, body in seen] == [3, 1000]
