"""A server that wants authorization is shown as such, is not hammered, and its callers are told what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.harness import ModernCaller, faulty, gateway
from trunkline.gateway.mcp.lists import UNAVAILABLE


class Locked:
    """A server that lets nobody in; it counts who asked."""

    asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked += head.startswith(b"POST")
        challenge = b'HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm="x"\r\nconnection: close\r\n'
        writer.write(challenge + b"content-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def locked(server: Locked) -> AsyncGenerator[str]:
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"


async def test_a_server_that_wants_authorization_says_so_everywhere_and_counts_as_no_failure(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    server = Locked()
    async with locked(server) as url, gateway(tmp_path, {"locked": {"url": url}, "open": faulty()}) as opened:
        caller = ModernCaller(opened.url, http)
        asked = server.asked
        listed = (await caller.request("tools/list")).result
        async with http.get(opened.url.removesuffix("/mcp") + "/readyz") as response:
            shown = (await response.json())["servers"]["locked"]
        called = await caller.call("open__echo", {"text": "open"})
        failures = opened.hub.relay.snapshot.servers["locked"]

    assert asked >= 1
    assert server.asked == asked, "it was asked again at once"
    assert shown["state"] == "needs-authorization"
    assert "authorization" in listed["_meta"][UNAVAILABLE]["locked"]
    assert failures.state == "needs-authorization"
    assert called.text == "open"
