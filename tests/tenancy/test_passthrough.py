"""What a caller sends to be let in stays with us: no server gets its token, its cookies or its other headers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.harness import LegacyCaller, ModernCaller, faulty_http, gateway
from tests.tenancy.provider import open_provider
from tests.tenancy.test_people import Admin

Json = dict[str, Any]

SENT = {
    "cookie": "session=canary-cookie",
    "proxy-authorization": "Basic canary-proxy",
    "x-vault-token": "canary-vault",
    "x-forwarded-for": "canary-address",
    "trunkline-thread": "canary-thread",
    "x-api-key": "canary-api-key",
    "connection": "keep-alive, x-hop",
    "keep-alive": "canary-keep",
    "proxy-connection": "canary-proxy-connection",
    "trailer": "canary-trailer",
    "x-hop": "canary-hop",
    "te": "canary-te",
    "last-event-id": "canary-event",
}


class OldServer:
    """Speaks HTTP+SSE, and notes every header that it is sent."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._answers: list[asyncio.Queue[bytes]] = []

    async def stream(self, request: web.Request) -> web.StreamResponse:
        self.heard.append(str(dict(request.headers)))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        answers = asyncio.Queue[bytes]()
        await response.write(b"event: endpoint\ndata: /messages?stream=%d\n\n" % len(self._answers))
        self._answers.append(answers)
        while True:
            await response.write(b"event: message\ndata: " + await answers.get() + b"\n\n")

    async def post(self, request: web.Request) -> web.Response:
        self.heard.append(str(dict(request.headers)))
        message: Json = await request.json()
        results: Json = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "ok"}]},
        }
        if "id" in message:
            result = results.get(message["method"], {})
            answers = self._answers[int(request.query["stream"])]
            answers.put_nowait(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())
        return web.Response(status=202)


@asynccontextmanager
async def open_old_server() -> AsyncGenerator[tuple[OldServer, str]]:
    server, app = OldServer(), web.Application()
    app.router.add_get("/sse", server.stream)
    app.router.add_post("/messages", server.post)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address: Any = runner.addresses[0]
    try:
        yield server, f"http://127.0.0.1:{address[1]}/sse"
    finally:
        await runner.cleanup()


async def test_nothing_of_what_lets_a_caller_in_reaches_a_server_a_log_or_the_disk(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logs = {era: tmp_path / f"{era}.log" for era in ("modern", "legacy")}
    with (
        faulty_http("--era", "modern", "--log", str(logs["modern"])) as modern,
        faulty_http("--era", "legacy", "--log", str(logs["legacy"])) as legacy,
    ):
        async with open_old_server() as (old, address), open_provider() as corp:
            servers: Json = {
                "modern": {"url": modern, "headers": {"authorization": "Bearer our-own"}},
                "legacy": {"url": legacy},
                "old": {"url": address, "transport": "sse"},
            }
            sections: Json = {"auth": {"issuers": {"corp": {"issuer": corp.url}}}}
            async with gateway(tmp_path / "home", servers, sections=sections) as opened:
                tokens = [corp.token(opened.url), await Admin(opened, http).key("bob")]
                answers, sessions = list[bytes](), list[str]()
                for token in tokens:
                    callers = (ModernCaller(opened.url, http, token=token), LegacyCaller(opened.url, http))
                    for caller in callers:
                        caller.headers |= {**SENT, "authorization": f"Bearer {token}"}
                    callers[0].headers["mcp-session-id"] = "canary-session"
                    await callers[1].open()
                    sessions.append(callers[1].headers["mcp-session-id"])
                    for caller in callers:
                        for server in servers:
                            heard = await caller.call(f"{server}__echo", {"text": "x"})
                            assert "result" in heard.message, (server, heard.message)
                            answers.append(heard.raw)
                        answers.append((await caller.call("nothing")).raw)
                        answers.append((await caller.request("tools/list")).raw)
                seen = [path.read_text() for path in logs.values()] + old.heard
    kept = [path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()]

    secret = [word for token in tokens for word in (token, token.rpartition(".")[2])]
    assert [word for word in ("canary", *secret, *sessions) if any(word in one for one in seen)] == []
    assert [word for word in secret if word in caplog.text] == []
    assert [word for word in (*secret, "our-own") if any(word.encode() in one for one in answers)] == []
    assert [word for word in secret if any(word.encode() in one for one in kept)] == []
    assert "our-own" in seen[0]
