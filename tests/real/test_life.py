"""Real servers come, go and fall over behind a gateway that stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
import mcp
import psutil
import pytest

from tests.harness import ModernCaller
from tests.real.parts import Running, eventually, five, node_server, prefixes, running, text_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_killed_server_is_back_for_the_next_call_and_the_others_do_not_notice(
    gateway: Running, mode: Any
) -> None:
    before = gateway.processes()
    async with mcp.Client(gateway.url, mode=mode) as client:
        os.kill(before["server-memory"], signal.SIGKILL)
        other = await text_of(client, "everything__echo", {"message": "still here"})
        again = await text_of(client, "memory__read_graph")
    after = gateway.processes()

    assert other == "Echo: still here"
    assert '"entities"' in again
    assert after.pop("server-memory") != before.pop("server-memory")
    assert after == before


@pytest.fixture
def own_gateway(tmp_path: Path) -> Generator[Running]:
    with running(tmp_path, five(tmp_path)) as opened:
        yield opened


async def test_a_changed_file_adds_and_removes_servers_and_leaves_the_others_alone(
    own_gateway: Running, http: aiohttp.ClientSession
) -> None:
    gateway = own_gateway
    caller = ModernCaller(gateway.url, http)
    before = gateway.processes()
    config = five(gateway.folder)
    del config["mcpServers"]["time"]
    config["mcpServers"]["second"] = node_server("memory", MEMORY_FILE_PATH=str(gateway.folder / "second.jsonl"))
    names = set(config["mcpServers"])

    async def is_in_effect() -> bool:
        return prefixes((await caller.request("tools/list")).result["tools"]) == names

    gateway.configure(config)
    await eventually(is_in_effect)
    graph = await caller.call("second__read_graph")
    gone = await caller.call("time__get_current_time", {"timezone": "UTC"})

    assert '"entities"' in graph.text
    assert gone.error["code"] == -32602
    assert not psutil.pid_exists(before["mcp-server-time"])
    unchanged = ("server-everything", "server-filesystem", "mcp-server-git")
    after = gateway.processes()
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]
    assert psutil.pid_exists(before["server-memory"])
