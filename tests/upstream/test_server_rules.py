"""Servers that fail, flood or want a key: what is kept of them, how often they are asked, and what is used again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faulty.http_server import RefusedError
from tests.gateway.inside import Inside, inside
from tests.harness import ModernCaller, faulty, gateway, until
from trunkline.config.server import ServerSpec
from trunkline.control import supervisor
from trunkline.errors import UnreachableError
from trunkline.model import State
from trunkline.upstream import pool
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.stream import UNSENT_LIMIT, StreamConnection

CAN_BE_ASKED: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
LISTS_CHANGED = "notifications/tools/list_changed"


async def names(caller: ModernCaller) -> set[str]:
    """The tools that a caller sees."""
    return {tool["name"] for tool in (await caller.request("tools/list")).result["tools"]}


async def heard(server: Inside) -> None:
    """Wait until the gateway hears what the server says by itself."""
    await until(lambda: bool(server.streams))


# Connections of one caller's own.


async def test_a_process_serves_its_callers_next_call_unless_the_last_one_failed_on_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    server = faulty("--era", "legacy", "--log", str(log), timeout=2.0)
    async with gateway(tmp_path, {"one": server}) as opened:
        caller = ModernCaller(opened.url, http)
        for tool in ("echo", "echo", "hang", "echo"):
            await caller.call(tool, {"text": "a"}, meta=CAN_BE_ASKED)

    calls = [line for line in log.read_text().splitlines() if line.startswith("call ")]
    assert calls == ["call echo 2", "call echo 3", "call hang 4", "call echo 2"]  # requests are counted by connection


async def test_a_connection_of_a_callers_own_ends_when_nobody_used_it_for_so_long(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SWEEP", 0.01)
    async with inside() as server:
        servers = {"one": {"url": server.url, "idle_timeout": 0.05}}
        async with gateway(tmp_path, servers) as opened:
            await ModernCaller(opened.url, http).call("echo", {"text": "a"}, meta=CAN_BE_ASKED)
            await until(lambda: not server.sessions)


async def test_a_process_of_a_callers_own_ends_when_nobody_used_it_for_so_long(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SWEEP", 0.01)
    log = tmp_path / "log"
    server = faulty("--era", "legacy", "--log", str(log), idle_timeout=0.1)
    async with gateway(tmp_path, {"one": server}) as opened:
        await ModernCaller(opened.url, http).call("echo", {"text": "a"}, meta=CAN_BE_ASKED)
        await until(lambda: log.read_text().count("start ") == log.read_text().count("eof"))


# Who wants a key.


async def test_a_server_that_wants_a_key_has_not_failed_and_is_asked_again_as_soon_as_it_is_called(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with inside() as server:
        refused = RefusedError(401, -32600, "Who are you?")
        server.results["initialize"] = server.results["server/discover"] = refused
        async with gateway(tmp_path, {"one": {"url": server.url}}) as opened:
            (view,) = opened.hub.servers()
            states = [view.state]
            for _ in range(5):
                await ModernCaller(opened.url, http).call("echo", {"text": "a"})
            del server.results["initialize"], server.results["server/discover"]
            answer = await ModernCaller(opened.url, http).call("echo", {"text": "in"})

    assert states == [State.NEEDS_AUTHORIZATION]
    assert answer.text == "in"


# Lists.


async def test_a_list_that_cannot_be_read_any_more_is_shown_as_it_was(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with inside() as server, gateway(tmp_path, {"one": {"url": server.url}}) as opened:
        caller = ModernCaller(opened.url, http)
        before = await names(caller)
        await heard(server)
        server.results["tools/list"] = RefusedError(200, -32603, "Lost.")
        server.tell(LISTS_CHANGED, {})
        await until(lambda: opened.hub.servers()[0].state is State.DEGRADED)
        after, answer = await names(caller), await caller.call("echo", {"text": "still"})

    assert "echo" in before
    assert after == before
    assert answer.text == "still"


async def test_a_server_that_comes_back_without_its_list_is_shown_as_it_was(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with inside() as server, gateway(tmp_path, {"one": {"url": server.url}}) as opened:
        caller = ModernCaller(opened.url, http)
        before = await names(caller)
        server.results["tools/list"] = RefusedError(200, -32603, "Lost.")
        server.sessions.clear()
        await caller.call("echo", {"text": "found out"})
        await until(lambda: "Lost." in opened.hub.servers()[0].reason)
        state, after = opened.hub.servers()[0].state, await names(caller)

    assert state is State.DEGRADED
    assert after == before


async def test_a_server_that_says_all_the_time_that_its_list_changed_is_asked_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0 if seconds > 100 else seconds)

    monkeypatch.setattr(supervisor, "SHORTEST_REFRESH", 1000.0)  # what was read within a tenth of it is read too often
    async with inside() as server, gateway(tmp_path, {"one": {"url": server.url}}):
        await heard(server)
        asked = len(server.methods("tools/list"))
        monkeypatch.setattr(supervisor.asyncio, "sleep", pause)
        server.tell(LISTS_CHANGED, {})
        await until(lambda: len(server.methods("tools/list")) > asked)
        server.tell(LISTS_CHANGED, {})
        await until(lambda: len(server.methods("tools/list")) > asked + 1)
        monkeypatch.undo()

    assert [seconds for seconds in pauses if 100 < seconds <= 1000]


# What is not read.


@pytest.mark.parametrize(("unread", "sent"), [(UNSENT_LIMIT, True), (UNSENT_LIMIT + 1, False)])
async def test_a_server_that_reads_nothing_is_sent_nothing_more(unread: int, sent: bool) -> None:
    line = StreamConnection(
        ServerSpec("deaf", command="deaf"), ConnectionEvents(lambda method, params: None, lambda why: None)
    )
    written: list[bytes] = []
    line.send, line.unsent = written.append, lambda: unread
    asking = asyncio.create_task(line.request(Exchange("deaf", "ping", b"{}", timeout=5.0, max_timeout=5.0)))
    await asyncio.sleep(0)
    if sent:
        line.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode())
        await asking
    else:
        with pytest.raises(UnreachableError, match="does not read"):
            await asking

    assert len(written) == sent
