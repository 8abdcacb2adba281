"""`GET /api/v1/stats`: how calls went and what searching saved, for those who may know."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.call.stages.members import Member, serving
from tests.call.stages.till import till
from tests.harness import ModernCaller, faulty, gateway, until
from tests.search.scene import ERAS, SOME, plenty, requester, searched, servers, shelf
from trunkline.gateway.serve import Gateway
from trunkline.telemetry.savings import weight

Json = dict[str, Any]
TOKEN, ANA, BOB = "the-long-token-of-the-house", "the-long-token-of-ana", "the-long-token-of-bob"


async def stats(opened: Gateway, http: aiohttp.ClientSession, token: str = "") -> Json:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with http.get(opened.url.removesuffix("/mcp") + "/api/v1/stats", headers=headers) as response:
        assert response.status == 200
        return await response.json()


async def test_calls_errors_and_times_are_told_by_server_and_by_tool(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http) as at:
        caller = at.modern()
        for name in ("get_balance", "get_balance", "get_wrong", "get_refused", "crash_after_payment"):
            await caller.call(name, {"account": "x"})
        told = await stats(at.opened, http)

    (server,) = told["servers"]
    for counted in (told, server):
        assert (counted["calls"], counted["failures"], counted["tool_errors"]) == (5, 1, 2)
        assert 0 < counted["p50_seconds"] <= counted["p95_seconds"]
        assert (counted["in_flight"], counted["waiting"]) == (0, 0)
    assert (server["name"], server["tools"] > 5) == ("till", True)
    best = told["tools"][0]
    assert (best["server"], best["tool"], best["calls"]) == ("till", "get_balance", 2)
    assert len(told["tools"]) == 4
    assert told["seconds"] > 0
    assert told["tokens"] == {
        "saved": 0,
        "lists": 0,
        "avoided": 0,
        "searches": 0,
        "spent": 0,
        "programs": 0,
        "read": 0,
        "answered": 0,
        "previews": 0,
        "kept_aside": 0,
        "reads": 0,
        "read_back": 0,
        "callers": [],
    }


@ERAS
async def test_a_list_that_leaves_tools_out_saves_what_they_would_have_taken(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", [*SOME, *plenty(40)])
    async with gateway(tmp_path, servers(one), expose="auto") as opened:
        caller = await requester(opened, http, era)
        view = opened.hub.view()
        left_out = weight(list(view.snapshot.tools.values())) - weight(view.tools)
        before = (await stats(opened, http))["tokens"]
        await caller.request("tools/list")
        await caller.request("tools/list")
        await caller.request("prompts/list")
        listed = (await stats(opened, http))["tokens"]
        await searched(caller, "post a letter")
        paid = (await stats(opened, http))["tokens"]

    assert before["saved"] == 0
    assert listed["lists"] == 2
    assert listed["saved"] == listed["avoided"] == 2 * left_out > 1000
    assert paid["searches"] == 1
    assert paid["saved"] == paid["avoided"] - paid["spent"] < listed["saved"]


async def test_where_every_tool_is_listed_nothing_is_saved(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        await ModernCaller(opened.url, http).request("tools/list")
        told = await stats(opened, http)

    assert (told["tokens"]["lists"], told["tokens"]["saved"]) == (0, 0)


async def test_users_learn_nothing_of_each_other_and_the_operator_all(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", [*SOME, *plenty(40)])
    async with gateway(
        tmp_path,
        servers(one),
        expose="auto",
        token=TOKEN,
        users={"ana": ANA, "bob": BOB},
        sections={"profiles": {"few": {"expose": "search", "hidden": ["tool_*"]}}},
    ) as opened:
        await ModernCaller(opened.url, http, token=ANA).call("send_letter", {"to": "x"})
        await ModernCaller(opened.url, http, token=ANA).request("tools/list")
        await ModernCaller(f"{opened.url}/few", http, token=BOB).request("tools/list")
        house, ana, bob = [await stats(opened, http, token) for token in (TOKEN, ANA, BOB)]

    assert [tool["tool"] for tool in house["tools"]] == [tool["tool"] for tool in ana["tools"]] == ["send_letter"]
    assert bob["tools"] == []
    assert (house["calls"], ana["calls"], bob["calls"]) == (1, 1, 0)
    assert (ana["servers"][0]["calls"], bob["servers"][0]["calls"]) == (1, 0)
    callers = [[(one["profile"], one["user"]) for one in told["tokens"]["callers"]] for told in (house, ana, bob)]
    assert callers == [[("", "ana"), ("few", "bob")], [("", "ana")], [("few", "bob")]]
    assert house["tokens"]["saved"] == ana["tokens"]["saved"] + bob["tokens"]["saved"]
    assert "send_letter" not in str(bob)


async def test_calls_under_way_and_those_that_wait_are_told(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with serving(member := Member("one")) as specs:
        specs["one"] |= {"concurrency": 2}
        async with gateway(tmp_path, specs) as opened, asyncio.TaskGroup() as group:
            member.free.clear()
            for _ in range(3):
                group.create_task(ModernCaller(opened.url, http).call("get_balance"))
            await until(lambda: opened.hub.relay.lane("one").waiting == 1)
            during = await stats(opened, http)
            member.free.set()

    assert (during["in_flight"], during["waiting"]) == (2, 1)


async def test_it_is_for_those_who_have_a_token(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with (
        gateway(tmp_path, {"one": faulty()}, token=TOKEN) as opened,
        http.get(opened.url.removesuffix("/mcp") + "/api/v1/stats") as response,
    ):
        assert response.status == 401
        assert "one" not in await response.text()
