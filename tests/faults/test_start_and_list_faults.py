"""A server does not start, or does not list: the gateway is up, the others are there, and the reason can be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import ERAS, caller_of, get
from tests.harness import ModernCaller, faulty, faulty_http, gateway, until
from trunkline.gateway.mcp.lists import UNAVAILABLE

MOODY = Path(__file__).with_name("moody_server.py")
QUICK: dict[str, Any] = {"timeout": 0.5, "start_timeout": 0.6, "answer_limit": 2**20, "max_pages": 20}


def tools_of(listed: dict[str, Any], server: str) -> list[str]:
    return [tool["name"] for tool in listed["tools"] if tool["name"].startswith(f"{server}__")]


async def test_a_gateway_answers_before_a_hanging_server_does(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"bad": faulty("--start", "hang", start_timeout=30), "good": faulty()}
    async with gateway(tmp_path, servers, ready=0, settle=1.0) as opened:
        healthy = await get(http, opened.url, "/healthz")
        listed = (await ModernCaller(opened.url, http).request("tools/list")).result

    assert healthy == {"status": "ok"}
    assert "good__echo" in tools_of(listed, "good")
    assert listed["_meta"][UNAVAILABLE]["bad"].startswith("starting")


async def test_the_only_server_s_tools_have_both_their_names_before_it_listed_any(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty("--start", "slow")}, ready=0) as opened:
        caller = ModernCaller(opened.url, http)
        called = [await caller.call(name, {"text": "hello"}) for name in ("one__echo", "echo")]

    assert [one.result["content"][0]["text"] for one in called] == ["hello", "hello"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("fault", ["exit", "hang"])
async def test_a_server_that_cannot_start_is_missing_with_its_reason(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, fault: str
) -> None:
    async with gateway(tmp_path, {"bad": faulty("--start", fault, **QUICK), "good": faulty()}) as opened:
        caller = await caller_of(era, opened.url, http)

        listed = (await caller.request("tools/list")).result
        called = await caller.call("bad__echo", {"text": "hello"})
        shown = (await get(http, opened.url, "/readyz"))["servers"]

    assert tools_of(listed, "bad") == []
    assert "good__echo" in tools_of(listed, "good")
    assert "'bad'" in listed["_meta"][UNAVAILABLE]["bad"]
    assert "bad" in called.error["message"]
    assert shown["bad"]["state"] == "unreachable"
    assert "'bad'" in shown["bad"]["reason"]
    assert shown["good"] == {"state": "ready", "reason": ""}


@pytest.mark.parametrize("fault", ["refuse", "hang"])
async def test_a_remote_server_that_cannot_be_reached_is_missing_with_its_reason(
    tmp_path: Path, http: aiohttp.ClientSession, fault: str
) -> None:
    with faulty_http("--start", fault) as url:
        async with gateway(tmp_path, {"bad": {"url": url, **QUICK}, "good": faulty()}) as opened:
            caller = ModernCaller(opened.url, http)

            listed = (await caller.request("tools/list")).result
            shown = (await get(http, opened.url, "/readyz"))["servers"]

    assert "good__echo" in tools_of(listed, "good")
    assert "'bad'" in listed["_meta"][UNAVAILABLE]["bad"]
    assert shown["bad"]["state"] == "unreachable"
    assert "'bad'" in shown["bad"]["reason"]


async def test_a_remote_server_that_is_silent_is_not_said_to_speak_another_revision(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with faulty_http("--start", "hang") as url:
        async with gateway(tmp_path, {"bad": {"url": url, "era": "modern", **QUICK}}) as opened:
            shown = (await get(http, opened.url, "/readyz"))["servers"]["bad"]

    assert "did not answer within 0.6 s" in shown["reason"]


async def test_the_reason_of_a_server_that_exits_says_how_it_ended(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"bad": faulty("--start", "exit", **QUICK), "good": faulty()}) as opened:
        shown = (await get(http, opened.url, "/readyz"))["servers"]

    assert "exited with code 3" in shown["bad"]["reason"]


async def test_a_program_that_does_not_exist_is_a_reason_not_a_failure(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"bad": {"command": "no-such-program-anywhere"}, "good": faulty()}) as opened:
        shown = (await get(http, opened.url, "/readyz"))["servers"]
        heard = await ModernCaller(opened.url, http).call("good__echo", {"text": "fine"})

    assert "no-such-program-anywhere" in shown["bad"]["reason"]
    assert heard.text == "fine"


@pytest.mark.parametrize("server_era", ["legacy", "modern", "both"])
async def test_a_server_that_prints_a_banner_before_it_speaks_works(
    tmp_path: Path, http: aiohttp.ClientSession, server_era: str
) -> None:
    servers = {"loud": faulty("--start", "garbage", "--era", server_era), "good": faulty()}
    async with gateway(tmp_path, servers) as opened:
        heard = await ModernCaller(opened.url, http).call("loud__echo", {"text": "hello"})

    assert heard.text == "hello"


@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_a_server_that_starts_slowly_appears_when_it_is_there(
    tmp_path: Path, http: aiohttp.ClientSession, server_era: str
) -> None:
    servers = {"slow": faulty("--start", "slow", "--era", server_era), "good": faulty()}
    async with gateway(tmp_path, servers, ready=0, settle=0.0) as opened:
        caller = ModernCaller(opened.url, http)
        await until(lambda: "good__echo" in opened.hub.snapshot.tools)

        at_first = (await caller.request("tools/list")).result
        await until(lambda: "slow__echo" in opened.hub.snapshot.tools)
        in_the_end = (await caller.request("tools/list")).result

    assert tools_of(at_first, "slow") == []
    assert at_first["_meta"][UNAVAILABLE]["slow"].startswith("starting")
    assert "slow__echo" in tools_of(in_the_end, "slow")
    assert UNAVAILABLE not in in_the_end["_meta"]


LIST_FAULTS = ["hang", "error", "endless", "garbage", "huge"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("fault", LIST_FAULTS)
async def test_a_list_that_fails_leaves_the_other_lists_whole(
    tmp_path: Path, http: aiohttp.ClientSession, fault: str, transport: str
) -> None:
    with faulty_http("--list", fault) as url:
        bad = {"url": url, **QUICK} if transport == "http" else faulty("--list", fault, **QUICK)
        async with gateway(tmp_path, {"bad": bad, "good": faulty()}) as opened:
            listed = (await ModernCaller(opened.url, http).request("tools/list")).result
            healthy = await get(http, opened.url, "/healthz")
            shown = (await get(http, opened.url, "/readyz"))["servers"]

    assert healthy == {"status": "ok"}
    assert "good__echo" in tools_of(listed, "good")
    assert "bad" in listed["_meta"][UNAVAILABLE]
    assert shown["bad"]["state"] == "degraded"
    assert shown["bad"]["reason"]


@pytest.mark.parametrize("era", ERAS)
async def test_of_a_list_without_end_the_first_pages_are_shown(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    servers = {"bad": faulty("--list", "endless", max_pages=7), "good": faulty()}
    async with gateway(tmp_path, servers) as opened:
        caller = await caller_of(era, opened.url, http)

        listed = (await caller.request("tools/list")).result

    assert len(tools_of(listed, "bad")) == 7
    assert "do not end" in listed["_meta"][UNAVAILABLE]["bad"]


async def test_a_list_that_failed_once_is_read_again(tmp_path: Path) -> None:
    moody = {"command": sys.executable, "args": ["-S", str(MOODY), "forgets", str(tmp_path / "log")]}
    async with gateway(tmp_path, {"bad": moody, "good": faulty()}) as opened:
        assert "bad__late" not in opened.hub.snapshot.tools

        await until(lambda: "bad__late" in opened.hub.snapshot.tools, 5.0)
