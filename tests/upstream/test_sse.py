"""Servers that speak the older HTTP+SSE, written with the official SDK."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, Start, gateway, until
from trunkline.model import State


@pytest.fixture
def old_server(sdk_server: Start) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Its address, and its process."""
    started = sdk_server(str(Path(__file__).with_name("sse_server.py")))
    process = subprocess.Popen([started["command"], *started["args"]], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/sse", process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


Server = tuple[str, "subprocess.Popen[str]"]


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_its_tools_work_for_callers_of_both_eras(
    transport: str, old_server: Server, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": {"url": old_server[0], "transport": transport}}) as opened:
        modern = ModernCaller(opened.url, http)
        legacy = await LegacyCaller(opened.url, http).open()

        texts = [(await caller.call("echo", {"text": "hi"})).text for caller in (modern, legacy)]

    assert texts == ["hi", "hi"]
    assert legacy.introduction["serverInfo"]["name"] == "old"


async def test_progress_reaches_the_caller_under_its_own_token(
    old_server: Server, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": {"url": old_server[0]}}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        params: dict[str, Any] = {"name": "steps", "arguments": {}, "_meta": {"progressToken": "mine"}}

        heard = await caller.request("tools/call", params)

    assert [message["params"]["progressToken"] for message in heard.before] == ["mine", "mine"]
    assert heard.text == "done"


async def test_when_its_stream_breaks_callers_hear_it_and_the_state_shows_it(
    old_server: Server, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    url, process = old_server
    async with gateway(tmp_path, {"old": {"url": url}}) as opened:
        process.kill()
        caller = ModernCaller(opened.url, http)

        await until(lambda: opened.hub.servers()[0].state is State.UNREACHABLE)
        heard = await caller.call("echo", {"text": "hi"})

    assert "'old'" in heard.error["message"]
