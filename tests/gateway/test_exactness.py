"""Small print: ids however they are spelt, reasons in the caller's own words, states and errors of a wrong shape."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, gateway, until

SERVER = """
import json, sys
log = open(sys.argv[1], "a", buffering=1)
era = sys.argv[2]
for line in sys.stdin:
    message = json.loads(line)
    log.write(line)
    if "id" not in message:
        continue
    method, result, error = message["method"], {}, None
    extra = {"_meta": {"example/own": 1}, "example": [None], "capabilities": {"tools": {}, "experimental": {"x": {}}}}
    if method == "server/discover" and era == "legacy":
        error = {"code": -32601, "message": "no"}
    elif method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "resultType": "complete", "ttlMs": 0, **extra}
    elif method == "initialize":
        result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}, **extra}
    elif method == "tools/list":
        names = ("hang", "odd", "run")
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], "ttlMs": 0}
    elif method == "tools/call" and message["params"]["name"] == "hang":
        continue
    elif method == "tools/call" and message["params"]["name"] == "odd":
        error = json.loads(message["params"]["arguments"]["error"])
    elif method == "tools/call":
        result = {"content": [], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"], **({"error": error} if error is not None else {"result": result})}
    print(json.dumps(answer), flush=True)
"""


def exact(folder: Path, era: str = "legacy") -> dict[str, Any]:
    """A server that writes down every line that reaches it."""
    script = folder / "server.py"
    script.write_text(SERVER)
    return {"command": sys.executable, "args": ["-S", str(script), str(folder / "log"), era]}


def heard(folder: Path, method: str) -> list[dict[str, Any]]:
    """What reached the server of one method."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [message for message in map(json.loads, lines) if message.get("method") == method]


@pytest.fixture
async def http() -> Any:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize("spelling", [b'"sl\\u00e9"', '"slé"'.encode(), b'"s\\u006c\\u00E9"'])
async def test_a_call_is_withdrawn_however_its_id_is_spelt_and_for_the_reason_given(
    tmp_path: Path, http: aiohttp.ClientSession, spelling: bytes
) -> None:
    async with gateway(tmp_path, {"one": exact(tmp_path)}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        call = asyncio.create_task(caller.call("hang", id="slé"))
        await until(lambda: heard(tmp_path, "tools/call"))
        body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"my dog"}}'
        headers = caller.headers
        async with http.post(opened.url, data=body % spelling, headers=headers) as answer:
            assert answer.status == 202
        await call
        await until(lambda: heard(tmp_path, "notifications/cancelled"))

    assert heard(tmp_path, "notifications/cancelled")[0]["params"]["reason"] == "my dog"


@pytest.mark.parametrize("state", ["", 12, None, {}, []])
async def test_a_state_of_a_wrong_shape_runs_nothing(tmp_path: Path, http: aiohttp.ClientSession, state: Any) -> None:
    async with gateway(tmp_path, {"one": exact(tmp_path, "modern")}) as opened:
        params: dict[str, Any] = {"name": "run", "arguments": {}, "requestState": state, "inputResponses": {}}
        answer = await ModernCaller(opened.url, http).request("tools/call", params)

    assert answer.error["code"] == -32602
    assert heard(tmp_path, "tools/call") == []


@pytest.mark.parametrize("error", ['"text"', "12", "[]", '{"code":"x","message":"y"}', '{"code":1}', '{"message":"y"}'])
async def test_an_error_of_a_wrong_shape_is_told_in_the_right_one(
    tmp_path: Path, http: aiohttp.ClientSession, error: str
) -> None:
    async with gateway(tmp_path, {"one": exact(tmp_path)}) as opened:
        answer = await ModernCaller(opened.url, http).call("odd", {"error": error})

    assert answer.error == {"code": -32603, "message": "Server 'one' sent an error that is none."}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_a_server_says_of_itself_crosses_the_eras(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with gateway(tmp_path, {"one": exact(tmp_path, era)}) as opened:
        if era == "legacy":
            found = (await ModernCaller(opened.url, http).request("server/discover")).result
        else:
            found = (await LegacyCaller(opened.url, http).open()).introduction

    assert found["example"] == [None]
    assert found["_meta"]["example/own"] == 1
    assert found["capabilities"]["experimental"] == {"x": {}}


async def test_a_call_whose_work_was_cancelled_by_nobody_is_answered_all_the_same(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async def stray(*_: Any) -> Any:
        raise asyncio.CancelledError

    async with gateway(tmp_path, {"exact": exact(tmp_path)}) as running:
        running.hub.use(stray)

        refused = await ModernCaller(running.url, http).call("run")

    assert (refused.status, refused.message["error"]["message"]) == (500, "Trunkline failed; its log says why.")
    assert "what it waited for was cancelled" in caplog.text
