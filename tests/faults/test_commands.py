"""Which program runs is said in the local configuration alone: nobody who calls the gateway can name one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import all_tried, descendants
from tests.harness import META, VERSION, ModernCaller, faulty, gateway, trunkline_up

TOKEN = "correct-horse-battery-staple"
ANA = "the-long-token-of-ana"
PATHS = (
    "/api/v1/servers",
    "/api/v1/servers/evil",
    "/api/v1/servers/one",
    "/api/v1/servers/one/test",
    "/api/v1/servers/preview",
    "/api/v1/import",
    "/api/v1/export",
    "/api/v1/registry/install",
    "/api/v1/manifests",
    "/api/v1/config",
    "/api/v1/stats",
    "/servers",
    "/import",
    "/mcp/evil",
    "/mcp-proxy/server/stdio",
    "/healthz",
    "/readyz",
)


def command(canary: Path) -> dict[str, Any]:
    """What would leave a file behind if anybody ran it, in all the places where a gateway might look."""
    spec: dict[str, Any] = {"command": "sh", "args": ["-c", f"touch {canary}"], "env": {}}
    return {"name": "evil", "transport": "stdio", **spec, "servers": {"evil": spec}, "mcpServers": {"evil": spec}}


@pytest.mark.parametrize("token", ["", ANA, TOKEN], ids=["stranger", "user", "operator"])
async def test_no_address_of_the_gateways_takes_a_command(
    tmp_path: Path, http: aiohttp.ClientSession, token: str
) -> None:
    canary = tmp_path / "canary"
    headers = {"authorization": f"Bearer {token}"} if token else {}
    statuses: set[int] = set()
    spec = {"command": "sh", "args": ["-c", f"touch {canary}"]}
    async with gateway(tmp_path, {"one": faulty()}, token=TOKEN, users={"ana": ANA}) as opened:
        at = opened.url.removesuffix("/mcp")
        for path in PATHS:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                for body in (command(canary), {**spec, "name": "evil", "scope": "app"}, {**spec, "name": "evil"}):
                    async with http.request(method, f"{at}{path}", json=body, headers=headers) as response:
                        statuses.add(response.status)
        names = [view.name for view in opened.hub.servers()]

    assert statuses <= {401, 403, 404, 405, 422}
    assert names == ["one"]
    assert not canary.exists()


@pytest.mark.parametrize("token", ["", ANA, TOKEN], ids=["stranger", "user", "operator"])
async def test_no_message_of_mcp_takes_a_command(tmp_path: Path, http: aiohttp.ClientSession, token: str) -> None:
    canary = tmp_path / "canary"
    config = {"gateway": {"token": TOKEN, "users": {"ana": ANA}}, "servers": {"one": faulty()}}
    with trunkline_up(tmp_path / "up", config) as (url, process):
        caller = ModernCaller(url, http, token=token)
        await all_tried(http, url, authorization=f"Bearer {TOKEN}")
        before = descendants(process.pid)
        evil = command(canary)
        for method in ("initialize", "server/discover", "servers/add", "tools/list", "tools/call", "prompts/get"):
            await caller.request(method, {"arguments": {"text": "x", **evil}, **evil, "name": "echo"}, meta=evil)
        for name in ("add_server", "sh", "one__sh"):
            await caller.call(name, evil)
        whole = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}, **evil}
        own = {**caller.headers, "mcp-protocol-version": VERSION, "mcp-method": "tools/list"}
        async with http.post(url, data=json.dumps(whole), headers=own) as response:
            await response.read()
        after = descendants(process.pid)

    assert {one.pid for one in after} <= {one.pid for one in before}
    assert not canary.exists()


async def test_a_command_is_words_and_no_shell_reads_them(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    words = [f"; touch {canary}", f"$(touch {canary})", f"`touch {canary}`", f"| touch {canary}", f"> {canary}", "*"]
    told = tmp_path / "told"
    script = f"import json, sys; open({str(told)!r}, 'w').write(json.dumps(sys.argv[1:]))"
    async with gateway(tmp_path, {"one": {"command": sys.executable, "args": ["-S", "-c", script, *words]}}):
        pass

    assert json.loads(told.read_text()) == words
    assert not canary.exists()
