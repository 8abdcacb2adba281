"""A caller leaves, withdraws or waits too long: the server hears of it, and its slot is free again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import ERAS, caller_of, count, number_of
from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway, until

TRANSPORTS = ("stdio", "http")


@contextmanager
def server(transport: str, log: Path, **options: Any) -> Generator[dict[str, Any]]:
    """A server that has room for one call only."""
    if transport == "stdio":
        yield faulty("--log", str(log), concurrency=1, **options)
        return
    with faulty_http("--log", str(log)) as url:
        yield {"url": url, "concurrency": 1, **options}


def told(log: Path, tool: str) -> bool:
    """Whether the server heard that its last call of this tool is off."""
    return count(log, f"call {tool} ") > 0 and count(log, f"cancelled {number_of(log, tool)}") > 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_caller_that_hangs_up_cancels_its_call(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, transport: str
) -> None:
    log = tmp_path / "log"
    with server(transport, log) as spec:
        async with gateway(tmp_path, {"one": spec}) as opened:
            caller = await caller_of(era, opened.url, http)
            leaving = asyncio.create_task(caller.call("hang"))
            await until(lambda: count(log, "call hang"))

            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

            await until(lambda: told(log, "hang"))
            assert (await caller.call("echo", {"text": "free"})).text == "free"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_that_is_withdrawn_is_cancelled_and_gets_no_answer(
    tmp_path: Path, http: aiohttp.ClientSession, transport: str
) -> None:
    log = tmp_path / "log"
    with server(transport, log) as spec:
        async with gateway(tmp_path, {"one": spec}) as opened:
            caller = await LegacyCaller(opened.url, http).open()
            withdrawn = asyncio.create_task(caller.call("hang", id=77))
            await until(lambda: count(log, "call hang"))

            status = await caller.notify("notifications/cancelled", {"requestId": 77, "reason": "changed my mind"})
            heard = await withdrawn

            await until(lambda: told(log, "hang"))
            assert (await caller.call("echo", {"text": "free"})).text == "free"
    assert status == 202
    assert heard.message == {}


async def test_a_withdrawal_that_names_another_call_changes_nothing(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        stranger = await LegacyCaller(opened.url, http).open()
        working = asyncio.create_task(caller.call("slow", {"seconds": 0.3}, id=77))
        await until(lambda: count(log, "call slow"))

        await caller.notify("notifications/cancelled", {"requestId": 78})
        await stranger.notify("notifications/cancelled", {"requestId": 77})

        assert (await working).text == "slow"
        assert count(log, "cancelled") == 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_that_timed_out_is_cancelled_and_frees_its_slot(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, transport: str
) -> None:
    log = tmp_path / "log"
    with server(transport, log, timeout=1.0) as spec:
        async with gateway(tmp_path, {"one": spec}) as opened:
            caller = await caller_of(era, opened.url, http)

            heard = await caller.call("hang")

            await until(lambda: told(log, "hang"))
            assert heard.error["code"] == -32001
            assert (await caller.call("echo", {"text": "free"})).text == "free"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_progress_keeps_a_call_alive_up_to_the_maximum(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, transport: str
) -> None:
    log = tmp_path / "log"
    with server(transport, log, timeout=1.0, max_timeout=2.0) as spec:
        async with gateway(tmp_path, {"one": spec}) as opened:
            caller = await caller_of(era, opened.url, http)
            params = {"name": "progress_forever", "arguments": {}, "_meta": {"progressToken": "mine"}}

            if isinstance(caller, ModernCaller):
                heard = await caller.request("tools/call", params, meta={"progressToken": "mine"})
            else:
                heard = await caller.request("tools/call", params)

            await until(lambda: told(log, "progress_forever"))
            assert (await caller.call("echo", {"text": "free"})).text == "free"
    assert heard.error["code"] == -32001
    assert "2 s" in heard.error["message"]  # and not the second that are allowed without progress
    assert {message["params"]["progressToken"] for message in heard.before} == {"mine"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_caller_that_leaves_in_the_middle_of_progress_cancels_its_call_or_may_come_back(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    """A modern caller's stream ends with it; a legacy one's lives on until the call's own end."""
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log), concurrency=1, max_timeout=1.0)}) as opened:
        caller = await caller_of(era, opened.url, http)
        params = {"name": "progress_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        sending = (
            caller.request("tools/call", params, meta={"progressToken": 1})
            if isinstance(caller, ModernCaller)
            else caller.request("tools/call", params)
        )
        leaving = asyncio.create_task(sending)
        await until(lambda: count(log, "call progress_forever"))

        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)

        await until(lambda: told(log, "progress_forever"))
        assert (await caller.call("echo", {"text": "free"})).text == "free"


async def test_ending_a_session_cancels_its_calls(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        hanging = asyncio.create_task(caller.call("hang"))
        await until(lambda: count(log, "call hang"))

        async with http.delete(opened.url, headers=caller.headers) as response:
            assert response.status == 200

        await until(lambda: told(log, "hang"))
        await asyncio.gather(hanging, return_exceptions=True)


POLLED = """
import http.server, json

class Polled(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def stream(self, text):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, id = message.get("method"), message.get("id")
        if id is None:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
        elif method == "tools/call":
            self.stream(b"id: 1\\nretry: 50\\ndata:\\n\\n")
        else:
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "p"}}
            if method == "tools/list":
                result = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
            self.stream(b"data: " + json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\\n\\n")

    def do_GET(self):
        self.stream(b"id: 2\\ndata:\\n\\n" if self.headers["last-event-id"] else b": nothing\\n\\n")

    def log_message(self, *args): pass

served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Polled)
print("PORT", served.server_address[1], flush=True)
served.serve_forever()
"""


@contextmanager
def polled_server() -> Generator[str]:
    """A legacy server that closes each stream at once, and wants to be polled for the rest of it."""
    process = subprocess.Popen([sys.executable, "-c", POLLED], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}/mcp"
    finally:
        process.kill()
        process.communicate()


async def test_a_server_that_wants_to_be_polled_for_ever_meets_the_deadline(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with polled_server() as url:
        spec = {"url": url, "era": "legacy", "timeout": 0.5, "max_timeout": 1.0}
        async with gateway(tmp_path, {"polled": spec}) as opened:
            calling = asyncio.create_task(ModernCaller(opened.url, http).call("wait"))
            await asyncio.wait([calling], timeout=4)
            ended = calling.done()
            calling.cancel()

    assert ended
    assert calling.result().error["code"] == -32001
