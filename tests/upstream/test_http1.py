"""Kept connections: one that its server has closed is not written to, however late that is noticed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from trunkline.upstream.http1 import HttpClient, Origin, request_bytes

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
