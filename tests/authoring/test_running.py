"""Servers of one's own as programs: what is on standard output, how they end, and whom they let in."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests.harness import ModernCaller
from trunkline import ToolServer
from trunkline.authoring.serving import open_http
from trunkline.errors import ConfigError

PROGRAM = Path(__file__).with_name("noisy_server.py")
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@asynccontextmanager
async def program(transport: str, folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        transport,
        str(folder / "stopped"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process, number: int, method: str, **params: Any) -> dict[str, Any]:
    """Send a line, and read the next one."""
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    async with asyncio.timeout(20):
        return json.loads(await process.stdout.readline())


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(10):
        return await process.wait()


async def test_nothing_but_mcp_is_on_standard_output(tmp_path: Path) -> None:
    async with program("stdio", tmp_path) as process:
        await said(process, 1, "initialize", **HELLO)
        shouted = await said(process, 2, "tools/call", name="shout", arguments={})
        listened = await said(process, 3, "tools/call", name="listen", arguments={})
        process.terminate()
        assert await ended(process) == 0
        assert process.stderr is not None
        noise = await process.stderr.read()

    assert (shouted["id"], shouted["result"]["content"][0]["text"]) == (2, "done")
    assert listened["result"]["content"][0]["text"] == "''"
    assert b"from a child" in noise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
async def test_a_signal_ends_it_cleanly_even_when_a_tool_hangs(tmp_path: Path, number: signal.Signals) -> None:
    async with program("stdio", tmp_path) as process:
        await said(process, 1, "initialize", **HELLO)
        assert process.stdin is not None
        hang: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "hang", "arguments": {}},
        }
        process.stdin.write(json.dumps(hang).encode() + b"\n")
        await said(process, 3, "ping")
        process.send_signal(number)

        assert await ended(process) == 0
    assert (tmp_path / "stopped").read_text(encoding="utf-8") == "stopped"


async def test_a_caller_that_leaves_ends_it(tmp_path: Path) -> None:
    async with program("stdio", tmp_path) as process:
        await said(process, 1, "initialize", **HELLO)
        assert process.stdin is not None
        process.stdin.close()

        assert await ended(process) == 0
    assert (tmp_path / "stopped").exists()


async def test_a_broken_line_does_not_end_it(tmp_path: Path) -> None:
    async with program("stdio", tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(b"{nonsense\n\n[]\n")

        assert "result" in await said(process, 1, "initialize", **HELLO)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_is_served_in_both_eras(tmp_path: Path, mode: Any) -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ana"})

    parameters = StdioServerParameters(command=sys.executable, args=[str(PROGRAM), "stdio", str(tmp_path / "stopped")])
    async with Client(parameters, mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("greet", {})

    assert isinstance(result, types.CallToolResult)
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "Hello Ana."


async def test_over_http_it_says_its_address_and_ends_by_a_signal(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with program("http", tmp_path) as process:
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        url = line.rpartition(" ")[2].strip()
        heard = await ModernCaller(url, http).call("shout")
        process.terminate()
        assert await ended(process) == 0

    assert line.startswith("noisy listens at http://127.0.0.1:")
    assert heard.text == "done"
    assert (tmp_path / "stopped").exists()


async def test_no_web_page_reaches_a_server_on_this_machine(http: aiohttp.ClientSession) -> None:
    server = ToolServer("shop")
    server.register_tool(lambda: "sold", name="sell")

    async with open_http(await server.protocol()) as url:
        caller = ModernCaller(url, http)
        good = await caller.call("sell")
        strange_host = await caller.http.post(url, headers={**caller.headers, "host": "evil.example.com"}, data=b"{}")
        strange_origin = await caller.http.post(
            url, headers={**caller.headers, "origin": "http://evil.example"}, data=b"{}"
        )
    await server.stop()

    assert good.text == "sold"
    assert (strange_host.status, strange_origin.status) == (421, 403)


async def test_beyond_this_machine_a_token_is_wanted(http: aiohttp.ClientSession) -> None:
    server = ToolServer("shop")
    server.register_tool(lambda: "sold", name="sell")
    protocol = await server.protocol()

    with pytest.raises(ConfigError, match="without a token"):
        async with open_http(protocol, host="0.0.0.0"):
            pass
    async with open_http(protocol, token="sesame-open-yourself") as url:
        stranger = await http.post(url, data=b"{}")
        friend = await ModernCaller(url, http, token="sesame-open-yourself").call("sell")
    await server.stop()

    assert stranger.status == 401
    assert friend.text == "sold"


async def test_a_port_that_is_taken_is_an_error_with_a_hint() -> None:
    server = ToolServer("shop")
    protocol = await server.protocol()

    async with open_http(protocol) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ConfigError, match="Cannot listen"):
            async with open_http(protocol, port=port):
                pass
    await server.stop()


def test_there_are_two_ways_to_serve() -> None:
    with pytest.raises(ConfigError, match="carrier pigeon"):
        ToolServer("shop").run("carrier pigeon")  # pyright: ignore[reportArgumentType]
