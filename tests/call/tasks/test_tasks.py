"""A task is found at its server, by its user alone, in the words of the caller's era."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.tasks.scene import CALLERS, EXTENSION, NO_SUCH_TASK, RELATED, USERS, Legacy, Modern, over_http, stdio
from tests.harness import LegacyCaller, ModernCaller, faulty, gateway

ERAS = ("modern", "legacy")
BOTH = {"new": stdio("modern"), "old": stdio("legacy")}

by_caller = pytest.mark.parametrize("caller", ERAS)
by_server = pytest.mark.parametrize("server", ERAS)


@by_caller
async def test_among_several_servers_a_task_is_asked_for_at_its_own(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str
) -> None:
    async with gateway(tmp_path, BOTH) as opened:
        peer = CALLERS[caller](opened.url, http)
        ids = [await peer.begin(f"{server}__job", key=server) for server in BOTH]
        for server in BOTH:
            await peer.call(f"{server}__finish", key=server)
        texts = [await peer.text(id) for id in ids]

    assert texts == ["Done at last – é."] * 2


@by_server
@by_caller
async def test_a_task_of_one_user_is_to_another_as_if_it_did_not_exist(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, server: str
) -> None:
    async with gateway(tmp_path, {"one": stdio(server)}, users=USERS) as opened:
        ann, bob = (CALLERS[caller](opened.url, http, user) for user in USERS)
        id = await ann.begin(key="hers")
        stolen = [(await bob.about(method, id)).error for method in bob.ending]
        invented = [(await bob.about(method, "tl1.invented")).error for method in bob.ending]
        state = (await ann.about("get", id)).result["status"]

    assert stolen == invented == [NO_SUCH_TASK] * 3
    assert state == "working"


@by_server
async def test_a_list_shows_the_tasks_of_its_caller_alone(
    tmp_path: Path, http: aiohttp.ClientSession, server: str
) -> None:
    async with gateway(tmp_path, {"one": stdio(server)}, users=USERS) as opened:
        ann, again, bob = (Legacy(opened.url, http, user) for user in ("ann", "ann", "bob"))
        hers, his = [await ann.begin(key="a"), await ann.begin(key="b")], await bob.begin(key="c")
        lists = [await ann.listed(), await again.listed(), await bob.listed()]

    assert lists == [hers, hers, [his]]


@by_server
async def test_sessions_without_a_user_see_their_own_tasks_alone(
    tmp_path: Path, http: aiohttp.ClientSession, server: str
) -> None:
    async with gateway(tmp_path, {"one": stdio(server)}) as opened:
        one, other = Legacy(opened.url, http), Legacy(opened.url, http)
        id = await one.begin(key="a")
        lists = [await one.listed(), await other.listed()]

    assert lists == [[id], []]


async def test_a_task_at_a_modern_server_outlives_the_gateway(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    with over_http("modern") as server:
        async with gateway(tmp_path, {"one": server}) as opened:
            id = await Modern(opened.url, http).begin(key="long")
        async with gateway(tmp_path, {"one": server}) as opened:
            caller = Modern(opened.url, http)
            await caller.call("finish", key="long")
            text = await caller.text(id)

    assert text == "Done at last – é."


@pytest.mark.parametrize(
    ("servers", "offered"),
    [
        ({"one": stdio("modern")}, True),
        ({"one": stdio("legacy")}, True),
        ({"one": faulty()}, False),
        ({"one": faulty(), "two": faulty()}, False),
        ({"one": faulty(), "two": stdio("legacy")}, True),
        ({"one": faulty(), "two": stdio("modern")}, True),
    ],
    ids=("modern", "legacy", "none", "neither", "a legacy one", "a modern one"),
)
async def test_tasks_are_announced_when_some_server_has_them(
    tmp_path: Path, http: aiohttp.ClientSession, servers: dict[str, Any], offered: bool
) -> None:
    async with gateway(tmp_path, servers) as opened:
        legacy = (await LegacyCaller(opened.url, http).open()).introduction["capabilities"]
        old = (await LegacyCaller(opened.url, http).open("2025-06-18")).introduction["capabilities"]
        modern = (await ModernCaller(opened.url, http).request("server/discover")).result["capabilities"]

    assert ("tasks" in legacy, EXTENSION in modern.get("extensions", {})) == (offered, offered)
    assert "tasks" not in modern
    assert "tasks" not in old or servers == {"one": stdio("legacy")}  # which says so itself


async def test_a_server_that_ends_with_each_call_has_no_tasks(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy", lifecycle="transient")}) as opened:
        caller = Modern(opened.url, http)
        said = (await caller.caller.request("server/discover")).result["capabilities"]
        answer = await caller.call("job")

    assert "extensions" not in said
    assert answer.text == "Done at once."


async def test_among_several_servers_a_tool_without_tasks_refuses_to_run_as_one(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty(), "two": stdio("legacy")}) as opened:
        refused = (await Legacy(opened.url, http).call("one__echo", text="x")).error
        left_to_it = await Legacy(opened.url, http).call("two__text")

    assert refused["code"] == -32601
    assert "does not run as a task" in refused["message"]
    assert "content" in left_to_it.result  # it has tasks, and knows best which of its tools run as such


async def test_a_lone_server_without_tasks_answers_as_it_would_directly(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        caller = Legacy(opened.url, http)
        answer = await caller.call("echo", text="x")
        listing = await caller.caller.request("tasks/list")

    assert answer.text == "x"
    assert listing.error["code"] == -32601


async def test_a_modern_server_that_answers_at_once_makes_a_task_that_is_over(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": stdio("modern")}) as opened:
        caller = Legacy(opened.url, http)
        made = (await caller.call("marked")).result["task"]
        id = made["taskId"]
        state = (await caller.about("get", id)).result
        result = (await caller.about("result", id)).result
        cancelled = (await caller.about("cancel", id)).error
        listed = await caller.listed()
        plain = (await caller.caller.call("marked")).result

    assert (made["status"], state["status"]) == ("working", "completed")
    assert result["_meta"].pop(RELATED) == {"taskId": id}
    assert result == plain
    assert cancelled["code"] == -32602
    assert listed == [id]


@by_server
async def test_a_caller_that_waits_too_long_is_told_that_the_task_goes_on(
    tmp_path: Path, http: aiohttp.ClientSession, server: str
) -> None:
    async with gateway(tmp_path, {"one": stdio(server, max_timeout=1.0)}) as opened:
        caller = Legacy(opened.url, http)
        id = await caller.begin(key="long")
        error = (await caller.about("result", id)).error
        await caller.call("finish", key="long")
        text = await caller.text(id)

    assert error["code"] == -32001
    assert text == "Done at last – é."


@by_server
async def test_a_caller_waits_for_the_end_of_a_task(tmp_path: Path, http: aiohttp.ClientSession, server: str) -> None:
    async with gateway(tmp_path, {"one": stdio(server)}) as opened:
        caller = Legacy(opened.url, http)
        id = await caller.begin(key="long")
        waiting = asyncio.create_task(caller.text(id))
        state = (await caller.about("get", id)).result["status"]
        await caller.call("finish", key="long")
        text = await waiting

    assert state == "working"
    assert text == "Done at last – é."


async def test_a_modern_caller_cannot_ask_for_a_task(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}) as opened:
        plain = ModernCaller(opened.url, http)
        params = {"name": "job", "arguments": {}, "task": {"ttl": 1000}}
        answer = await plain.request("tools/call", params)
        about = await plain.request("tasks/get", {"taskId": "x"}, headers={"mcp-name": "x"})

    assert answer.text == "Done at once."
    assert about.error["code"] == -32021
    assert about.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
