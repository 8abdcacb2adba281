"""Calls over the admin API: those that run, past ones, over time, what they used, and as events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.call.stages.till import USERS, Till, teller
from tests.harness import ModernCaller, gateway, until
from tests.tenancy.test_people import Admin

Json = dict[str, Any]
ADMIN = "the-long-token-of-the-house"


@asynccontextmanager
async def house(folder: Path, http: aiohttp.ClientSession, **sections: Json) -> AsyncGenerator[Till]:
    """A gateway with an admin, Ana and Bob."""
    costly = teller(folder, tools={"get_balance": {"cost_hint": 0.25}, "pay": {"requires_confirmation": True}})
    async with gateway(folder / "home", {"till": costly}, sections=sections, users=USERS, token=ADMIN) as opened:
        yield Till(opened, http, folder)


async def get(at: Till, path: str, token: str = ADMIN, status: int = 200) -> Any:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with at.http.get(at.opened.url.removesuffix("/mcp") + path, headers=headers) as response:
        assert response.status == status, await response.text()
        return await (response.json() if "json" in response.content_type else response.text())


async def test_past_calls_are_found_by_what_they_were_and_members_see_their_own(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with house(tmp_path, http) as at:
        for user, tool in (("ana", "get_balance"), ("ana", "get_wrong"), ("bob", "get_balance")):
            await at.modern(user).call(tool, {"account": "x"})
        every = (await get(at, "/api/v1/calls"))["calls"]
        own = (await get(at, "/api/v1/calls", USERS["bob"]))["calls"]
        first = await get(at, "/api/v1/calls?user=ana&limit=1")
        rest = await get(at, f"/api/v1/calls?user=ana&cursor={first['cursor']}")
        failed = (await get(at, "/api/v1/calls?outcome=tool-error&server=till&tool=get_wrong"))["calls"]
        none = await get(at, f"/api/v1/calls?since={every[0]['time'] + 100}")
        quick = (await get(at, "/api/v1/calls?longer=0.000001"))["calls"]
        long = await get(at, "/api/v1/calls?longer=600")
        of_programs = await get(at, "/api/v1/calls?program=some")
        await get(at, "/api/v1/calls?longer=long", status=400)
        one = await get(at, f"/api/v1/calls/{own[0]['id']}", USERS["bob"])
        await get(at, f"/api/v1/calls/{own[0]['id']}", USERS["ana"], status=404)
        await get(at, "/api/v1/calls?user=bob", USERS["ana"], status=403)
        await get(at, "/api/v1/calls?outcome=fine", status=400)

    assert [(call["user"], call["tool"]) for call in every] == [
        ("bob", "get_balance"),
        ("ana", "get_wrong"),
        ("ana", "get_balance"),
    ]
    assert [call["id"] for call in own] == [every[0]["id"]] == [one["id"]]
    assert [call["tool"] for call in first["calls"] + rest["calls"]] == ["get_wrong", "get_balance"]
    assert [call["id"] for call in failed] == [every[1]["id"]]
    assert none == long == of_programs == {"calls": []}
    assert quick == every
    assert [step["what"] for step in one["path"]] == ["entry", "send", "answer"]


async def test_usage_is_summed_by_user_server_and_tool_with_what_tools_cost(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with house(tmp_path, http, limits={"calls_per_hour": 100}) as at:
        for user in ("ana", "ana", "bob"):
            await at.modern(user).call("get_balance", {"account": "x"})
        await at.modern("ana").request("tools/list")
        users = await get(at, "/api/v1/usage")
        tools = await get(at, "/api/v1/usage?by=tool")
        own = await get(at, "/api/v1/usage?by=server", USERS["bob"])
        await get(at, "/api/v1/usage?by=moon", status=400)

    sums = {one["user"]: one for one in users["usage"]}
    assert (sums["ana"]["calls"], sums["ana"]["cost"], sums["bob"]["calls"]) == (2, 0.5, 1)
    assert sums["ana"]["list_tokens"] > 100 > sums["bob"]["list_tokens"] == 0
    assert sums["ana"]["tokens_out"] > sums["bob"]["tokens_out"] > 0
    assert ("till", "get_balance", 3) in [(one["server"], one["tool"], one["calls"]) for one in tools["usage"]]
    assert [(one["server"], one["calls"]) for one in own["usage"]] == [("till", 1)]
    assert own["limits"]["calls_per_hour"]["used"] == 1


async def test_charts_get_calls_errors_and_times_of_each_step(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with house(tmp_path, http) as at:
        await at.modern("ana").call("get_wrong", {"account": "x"})
        await at.modern("bob").call("get_balance", {"account": "x"})
        every, own = await get(at, "/api/v1/series"), await get(at, "/api/v1/series?range=24h", USERS["bob"])
        await get(at, "/api/v1/series?range=9h", status=400)

    assert (every["step"], len(every["calls"]), sum(every["calls"]), sum(every["errors"])) == (10, 360, 2, 1)
    assert 0 < max(every["p50"]) <= max(every["p95"]) < 10
    assert (own["step"], len(own["calls"]), sum(own["calls"]), sum(own["errors"])) == (300, 288, 1, 0)


async def watched(at: Till, token: str, heard: list[Json]) -> None:
    """Read events for as long as they come."""
    headers = {"authorization": f"Bearer {token}"}
    async with at.http.get(at.opened.url.removesuffix("/mcp") + "/api/v1/events", headers=headers) as response:
        async for line in response.content:
            if line.startswith(b"data:"):
                heard.append(json.loads(line.removeprefix(b"data:")))


async def test_who_watches_hears_of_calls_and_servers_but_members_of_their_own_calls(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    every: list[Json] = []
    own: list[Json] = []
    async with house(tmp_path, http) as at:
        readers = [
            asyncio.create_task(watched(at, token, heard)) for token, heard in ((ADMIN, every), (USERS["bob"], own))
        ]
        await until(lambda: bool(every and own))
        await at.modern("ana").call("get_balance", {"account": "the secret of this call"})
        await at.modern("bob").call("get_balance", {"account": "x"})
        await until(lambda: [one["type"] for one in every].count("call.ended") == 2 and len(own) == 3)
        await at.apply({})
        await until(lambda: any(one["type"] == "server.changed" for one in every))
    await asyncio.gather(*readers)  # the end of the gateway ends them

    assert [one["type"] for one in own[:3]] == ["hello", "call.started", "call.ended"]
    assert (own[2]["call"]["user"], own[2]["call"]["outcome"]) == ("bob", "answered")
    assert sorted(one["call"]["user"] for one in every if one["type"] == "call.started") == ["ana", "bob"]
    assert "the secret" not in json.dumps(every)


async def test_metrics_are_what_prometheus_reads_and_are_for_admins_and_collectors(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    collector = "the-long-token-of-prometheus"
    async with house(tmp_path, http, metrics={"token": collector, "tools": 2}, cache={"enabled": True}) as at:
        for tool in ("get_balance", "get_balance", "get_wrong", "get_refused"):
            await at.modern("ana").call(tool, {"account": "x"})
        text = await get(at, "/metrics", collector)
        assert (await get(at, "/metrics", ADMIN)).startswith("# HELP")
        await get(at, "/metrics", USERS["ana"], status=403)
        await get(at, "/metrics", "", status=401)
        await get(at, "/api/v1/calls", collector, status=401)
        await at.apply({}, metrics={"enabled": False})
        await get(at, "/metrics", ADMIN, status=404)

    families = {family.name: family for family in text_string_to_metric_families(text)}
    calls = {(one.labels["tool"], one.labels["outcome"]): one.value for one in families["trunkline_calls"].samples}
    assert calls == {
        ("get_balance", "answered"): 2,
        ("get_wrong", "tool-error"): 1,
        ("(other)", "failed"): 1,
    }
    counts = [one for one in families["trunkline_call_seconds"].samples if one.name.endswith("_count")]
    assert sum(one.value for one in counts) == 4
    assert families["trunkline_server_up"].samples[0].value == 1
    assert families["trunkline_processes"].samples[0].value == 1
    assert "ana" not in text


async def test_past_calls_and_usage_outlive_the_gateway_where_there_is_a_store(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    told: list[Any] = []
    key = ""
    for turn in range(2):
        async with gateway(tmp_path / "home", {"till": teller(tmp_path)}) as opened:
            at = Till(opened, http, tmp_path)
            if not turn:
                await at.modern().call("get_balance", {"account": "before there is a store"})
                key = await Admin(opened, http).key("ana")
            await ModernCaller(opened.url, http, token=key).call("get_balance", {"account": "x"})
            calls = (await get(at, "/api/v1/calls?limit=2", opened.key))["calls"]
            more = (await get(at, f"/api/v1/calls?cursor={calls[-1]['id']}", opened.key))["calls"]
            own = (await get(at, "/api/v1/calls?server=till&outcome=answered", key))["calls"]
            usage = (await get(at, "/api/v1/usage", opened.key))["usage"]
            told.append((len(calls + more), len(own), {one["user"]: one["calls"] for one in usage}))

    assert told == [(2, 1, {"": 1, "ana": 1}), (3, 2, {"": 1, "ana": 2})]
