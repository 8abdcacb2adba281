"""CORS: pages of the origins that are named speak MCP with the gateway, and read all that they must; others do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import META, VERSION, faulty, gateway

APP = "https://app.example.org"
KEY = "correct-horse-battery-staple"
METADATA = "/.well-known/oauth-protected-resource/mcp"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}


def page(**headers: str) -> dict[str, str]:
    """The headers of a page's request."""
    own = {"origin": APP, "content-type": "application/json", "authorization": f"Bearer {KEY}"}
    return own | {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/small", METADATA])
async def test_a_browser_that_asks_first_is_told_what_a_page_may_send(
    tmp_path: Path, http: aiohttp.ClientSession, path: str
) -> None:
    asked = {
        "origin": APP,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-param-region,x-evil",
    }
    options: dict[str, Any] = {"allowed_origins": [APP], "token": KEY, "sections": {"profiles": {"small": {}}}}
    async with gateway(tmp_path, {}, **options) as opened:
        response = await http.options(opened.url.removesuffix("/mcp") + path, headers=asked)
        told = response.headers

    assert (response.status, told["access-control-allow-origin"]) == (204, APP)
    assert told["vary"] == "Origin"
    assert told["access-control-allow-methods"] == "GET, POST, DELETE"
    allowed = set(told["access-control-allow-headers"].split(", "))
    needed = {"authorization", "content-type", "accept", "last-event-id", "mcp-session-id", "mcp-protocol-version"}
    assert needed | {"mcp-method", "mcp-name", "mcp-param-region", "trunkline-thread"} <= allowed
    assert not {"x-evil", "*"} & allowed
    assert "access-control-allow-credentials" not in told


async def test_a_page_of_a_named_origin_reads_every_kind_of_answer(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    call = {
        "name": "notify_flood",
        "arguments": {"count": 3},
        "_meta": {**META, "io.modelcontextprotocol/logLevel": "debug"},
    }
    streamed = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    modern = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "notify_flood"}
    options: dict[str, Any] = {"allowed_origins": [APP], "token": KEY, "namespace": "never"}
    async with gateway(tmp_path, {"one": faulty()}, **options) as opened:
        answers: list[tuple[int, Any]] = []
        base = opened.url.removesuffix("/mcp")
        for method, path, headers, body in [
            ("POST", "/mcp", page(), json.dumps(HELLO)),
            ("POST", "/mcp", page(**modern), json.dumps(streamed)),
            ("POST", "/mcp", page(authorization="Bearer wrong"), "{}"),
            ("POST", "/mcp", page(), "not JSON"),
            ("GET", "/mcp", page(), ""),
            ("GET", METADATA, page(), ""),
            ("GET", "/mcp/unknown", page(), ""),
        ]:
            async with http.request(method, base + path, headers=headers, data=body) as response:
                await response.read()
                answers.append((response.status, response.headers))

    for status, told in answers:
        assert (told["access-control-allow-origin"], told["vary"]) == (APP, "Origin"), status
        exposed = told["access-control-expose-headers"].lower()
        assert all(name in exposed for name in ("mcp-session-id", "mcp-protocol-version", "www-authenticate"))
        assert "access-control-allow-credentials" not in told
    assert [status for status, _ in answers] == [200, 200, 401, 400, 400, 200, 404]
    assert "mcp-session-id" in answers[0][1]
    assert "www-authenticate" in answers[2][1]


async def test_other_origins_and_other_addresses_are_told_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}, allowed_origins=[APP]) as opened:
        base = opened.url.removesuffix("/mcp")
        cases: list[tuple[str, str, dict[str, str], int]] = [
            ("POST", "/mcp", page(origin="https://evil.example.org"), 403),
            ("OPTIONS", "/mcp", page(origin="https://evil.example.org"), 403),
            ("OPTIONS", "/mcp", page(origin="null"), 403),
            ("OPTIONS", "/mcp", page(origin="https://app.example.org.evil.com"), 403),
            ("POST", "/mcp", page(origin="http://localhost:3000"), 400),
            ("OPTIONS", "/mcp", page(origin="http://localhost:3000"), 405),
            ("GET", "/api/v1/stats", page(), 200),
            ("OPTIONS", "/api/v1/stats", page(), 405),
            ("GET", "/healthz", page(), 200),
        ]
        for method, path, headers, status in cases:
            async with http.request(method, base + path, headers=headers) as response:
                assert response.status == status, (method, path)
                assert not [name for name in response.headers if name.lower().startswith("access-control")]


async def test_without_named_origins_answers_are_as_they_were(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        headers = page(origin="http://localhost:3000")
        async with http.post(opened.url, headers=headers, data=json.dumps(HELLO)) as response:
            assert response.status == 200
            assert not {"vary", "access-control-allow-origin"} & {name.lower() for name in response.headers}
