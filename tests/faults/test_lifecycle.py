"""When processes start and end: once for each call, after some idleness, and not too often when they crash."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import ERAS, caller_of, count, get, lines
from tests.harness import ModernCaller, faulty, gateway, until
from trunkline.model import State

MOODY = Path(__file__).with_name("moody_server.py")


@pytest.mark.parametrize("server_era", ["legacy", "modern", "both"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_transient_server_gets_one_process_for_each_call(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, server_era: str
) -> None:
    log = tmp_path / "log"
    # The first legacy caller costs a modern-only server one more process: the one that tells it does not speak legacy.
    asked = ["start", "eof", "end"] if (era, server_era) == ("legacy", "modern") else []
    spec = faulty("--era", server_era, "--log", str(log), lifecycle="transient")
    async with gateway(tmp_path, {"passing": spec}) as opened:
        await until(lambda: count(log, "end") == 1)  # the process that told what it offers
        caller = await caller_of(era, opened.url, http)

        for number in range(3):
            ended = 2 + number + len(asked) // 3
            assert (await caller.call("echo", {"text": f"{number}"})).text == f"{number}"
            await until(lambda ended=ended: count(log, "end") == ended)

    expected = ["start", "eof", "end", *asked, *["start", "call", "eof", "end"] * 3]
    assert [line.split()[0] for line in lines(log)] == expected


async def test_transient_calls_at_the_same_time_have_processes_of_their_own(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"passing": faulty("--log", str(log), lifecycle="transient")}) as opened:
        caller = ModernCaller(opened.url, http)

        crashed, *well = await asyncio.gather(
            caller.call("crash"), *(caller.call("slow", {"seconds": 0.2}) for _ in range(3))
        )

        await until(lambda: count(log, "eof") == 4)
    assert "'passing'" in crashed.error["message"]
    assert [heard.text for heard in well] == ["slow"] * 3
    assert count(log, "start") == 5


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_an_idle_server_is_stopped_and_starts_with_the_next_call(
    tmp_path: Path, http: aiohttp.ClientSession, server_era: str, era: str
) -> None:
    log = tmp_path / "log"
    spec = faulty("--era", server_era, "--log", str(log), idle_timeout=0.4)
    async with gateway(tmp_path, {"sleepy": spec, "other": faulty()}) as opened:
        caller = await caller_of(era, opened.url, http)
        assert (await caller.call("sleepy__echo", {"text": "first"})).text == "first"

        await until(lambda: count(log, "end") == count(log, "start"), 4.0)
        starts = count(log, "start")
        shown = (await get(http, opened.url, "/readyz"))["servers"]["sleepy"]
        listed = (await caller.request("tools/list")).result["tools"]
        again = await caller.call("sleepy__echo", {"text": "again"})

    assert shown["state"] == "ready"
    assert "sleepy__echo" in {tool["name"] for tool in listed}
    assert again.text == "again"
    assert count(log, "start") == starts + 1


@pytest.mark.parametrize(
    ("servers", "status", "word"),
    [
        ({}, 200, "ready"),
        ({"good": faulty(), "bad": faulty("--start", "exit")}, 200, "ready"),
        ({"bad": faulty("--start", "exit"), "off": faulty(enabled=False)}, 503, "unavailable"),
        ({"bad": faulty("--start", "exit"), "late": faulty("--start", "hang")}, 503, "starting"),
    ],
)
async def test_a_gateway_is_ready_while_a_server_can_take_calls(
    tmp_path: Path, http: aiohttp.ClientSession, servers: dict[str, Any], status: int, word: str
) -> None:
    async with gateway(tmp_path, servers, ready=0) as opened:
        views = opened.hub.servers
        await until(lambda: all(view.state is not State.STARTING or view.name == "late" for view in views()))
        async with http.get(opened.url.replace("/mcp", "/readyz")) as answer:
            assert (answer.status, (await answer.json())["status"]) == (status, word)


async def test_a_server_at_work_is_not_idle(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    spec = faulty("--era", "legacy", "--log", str(log), idle_timeout=0.2)
    async with gateway(tmp_path, {"busy": spec}) as opened:
        heard = await ModernCaller(opened.url, http).call("slow", {"seconds": 1.0})

    assert heard.text == "slow"
    # One process works; another only tells what callers that can be asked are offered.
    assert count(log, "start") <= 2


async def test_a_server_that_cannot_start_is_tried_less_and_less_often(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"bad": faulty("--start", "exit", "--log", str(log)), "good": faulty()}) as opened:
        await call_for(3.0, ModernCaller(opened.url, http), "bad__echo")
        shown = (await get(http, opened.url, "/readyz"))["servers"]["bad"]

    assert 2 <= count(log, "start") <= 8
    assert shown["state"] == "unreachable"
    assert "times in a row" in shown["reason"]


async def test_a_server_that_dies_after_the_handshake_is_tried_less_and_less_often(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    moody = {"command": sys.executable, "args": ["-S", str(MOODY), "dies", str(log)]}
    async with gateway(tmp_path, {"bad": moody, "good": faulty()}) as opened:
        await call_for(3.0, ModernCaller(opened.url, http), "bad__echo")
        started = count(log, "start")
        async with asyncio.timeout(20):
            # Between its handshake and its death it is ready, for a moment.
            while (await get(http, opened.url, "/readyz"))["servers"]["bad"]["state"] == "ready":
                pass

    assert started <= 8


async def test_a_server_that_crashes_at_every_call_is_started_less_and_less_often(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"bad": faulty("--log", str(log)), "good": faulty()}) as opened:
        await call_for(3.0, ModernCaller(opened.url, http), "bad__crash")

    assert count(log, "start") <= 10


async def call_for(seconds: float, caller: ModernCaller, tool: str) -> None:
    """Call a tool again and again for so long, while another server stays of use."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                assert (await caller.call(tool)).error
                assert (await caller.call("good__echo", {"text": "well"})).text == "well"
                await asyncio.sleep(0.01)
    except TimeoutError:
        pass
