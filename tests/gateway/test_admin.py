"""What an operator asks a running gateway: which servers there are, how they fare, and how calls to them went."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.members import Member, serving
from tests.call.stages.till import till
from tests.harness import ModernCaller, faulty, gateway, until
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
TOKEN = "the-long-token-of-the-house"


def address(opened: Gateway, path: str = "servers") -> str:
    return opened.url.removesuffix("/mcp") + "/api/v1/" + path


async def told(opened: Gateway, http: aiohttp.ClientSession) -> Json:
    """The whole answer."""
    async with http.get(address(opened)) as response:
        assert response.status == 200
        return await response.json()


async def servers(opened: Gateway, http: aiohttp.ClientSession) -> dict[str, Json]:
    """The servers by their names."""
    return {server["name"]: server for server in (await told(opened, http))["servers"]}


async def test_it_is_for_those_who_have_a_token(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    users = {"ana": "the-long-token-of-ana"}
    async with gateway(tmp_path, {"one": faulty()}, token=TOKEN, users=users) as opened:
        statuses: list[int] = []
        for sent in ("", "Bearer nonsense", f"Basic {TOKEN}", f"Bearer {TOKEN}", f"Bearer {users['ana']}"):
            async with http.get(address(opened), headers={"authorization": sent} if sent else {}) as response:
                statuses.append(response.status)
                assert ("one" in await response.text()) == (response.status == 200)

    assert statuses == [401, 401, 401, 200, 200]


async def test_tools_come_in_pages_in_their_order_all_or_those_of_one_server(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async def pages(query: str) -> list[str]:
        names, cursor = list[str](), ""
        while True:
            async with http.get(address(opened, f"tools?limit=3{query}&cursor={cursor}")) as response:
                body: Json = await response.json()
            names += [tool["name"] for tool in body["tools"]]
            assert body["total"] >= len(names)
            if "cursor" not in body:
                assert body["total"] == len(names)
                return names
            cursor = body["cursor"]

    async with gateway(tmp_path, {"one": faulty(), "two": faulty()}, namespace="always") as opened:
        known = opened.hub.snapshot.tools
        assert await pages("") == sorted(known)
        assert await pages("&server=two") == sorted(name for name, tool in known.items() if tool.server == "two")
        assert await pages("&server=three") == []


async def test_long_answers_are_compressed_for_those_who_take_them_so(tmp_path: Path) -> None:
    told: dict[tuple[str, str], tuple[str, bytes]] = {}
    async with gateway(tmp_path, {}) as opened, aiohttp.ClientSession(auto_decompress=False) as raw:
        for path in ("openapi.json", "me"):
            for coding in ("gzip", "identity"):
                async with raw.get(address(opened, path), headers={"accept-encoding": coding}) as response:
                    told[path, coding] = response.headers.get("content-encoding", ""), await response.read()

    packed, plain = told["openapi.json", "gzip"], told["openapi.json", "identity"]
    assert (packed[0], plain[0]) == ("gzip", "")
    assert gzip.decompress(packed[1]) == plain[1]
    assert len(packed[1]) < len(plain[1]) / 4
    assert told["me", "gzip"] == told["me", "identity"] == ("", told["me", "gzip"][1])


async def test_it_says_how_every_server_fares(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    gone = {"command": "no-such-program", "args": ["--key", "canary"], "env": {"KEY": "canary"}}
    async with gateway(tmp_path, {"one": faulty(), "gone": gone}) as opened:
        body = await told(opened, http)

    one, other = body["servers"]
    assert (one["name"], one["state"], one["reason"], one["transport"]) == ("one", "ready", "", "stdio")
    assert one["protocol"] == "2026-07-28"
    assert one["tools"] > 5
    assert (other["name"], other["state"], other["tools"]) == ("gone", "unreachable", 0)
    assert "no-such-program" in other["reason"]
    assert "canary" not in str(body)
    assert "cache" not in body


async def test_every_call_counts(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http) as at:
        caller = at.modern()
        before = (await servers(at.opened, http))["till"]
        await caller.call("get_balance", {"account": "x"})
        await caller.call("get_wrong", {"account": "x"})
        await caller.call("get_refused", {"account": "x"})
        await caller.call("crash_after_payment", {"account": "x"})
        after = (await servers(at.opened, http))["till"]

    assert "calls" not in before
    assert (before["in_flight"], before["waiting"]) == (0, 0)
    assert (after["calls"], after["failures"], after["tool_errors"], after["success_rate"]) == (4, 1, 2, 0.25)
    assert after["average_seconds"] > 0


async def test_calls_under_way_are_seen_and_so_are_those_that_wait(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with serving(member := Member("one")) as specs:
        specs["one"] |= {"concurrency": 2}
        async with gateway(tmp_path, specs) as opened, asyncio.TaskGroup() as group:
            member.free.clear()
            for _ in range(3):
                group.create_task(ModernCaller(opened.url, http).call("get_balance"))
            await until(lambda: opened.hub.relay.lane("one").waiting == 1)
            during = (await servers(opened, http))["one"]
            member.free.set()

    assert (during["in_flight"], during["waiting"]) == (2, 1)


async def test_the_standing_of_a_server_in_its_group_is_told(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b, alone = Member("a"), Member("b"), Member("alone")
    a.fails = lambda: True
    sections: Json = {
        "groups": {"bank": {"servers": ["a", "b"], "strategy": "failover-only", "priorities": {"b": 1}}},
        "router": {"eject_after": 2, "eject_seconds": 60},
    }
    async with serving(a, b, alone) as specs, gateway(tmp_path, specs, sections=sections) as opened:
        before = await servers(opened, http)
        for _ in range(2):
            await ModernCaller(opened.url, http).call("bank__get_balance")
        after = await servers(opened, http)

    assert before["a"]["group"] == {"name": "bank", "health": "well"}
    assert after["a"]["group"] == {"name": "bank", "health": "ejected"}
    assert after["b"]["group"] == {"name": "bank", "health": "well"}
    assert "group" not in after["alone"]
    assert (after["a"]["failures"], after["b"]["calls"]) == (2, 2)


async def test_the_cache_says_how_well_it_does(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache={"enabled": True}) as at:
        for _ in range(3):
            await at.modern().call("get_balance", {"account": "x"})
        cache = (await told(at.opened, http))["cache"]

    assert (cache["hits"], cache["misses"], cache["size"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404),
        ("GET", "nothing", 404),
        ("GET", "servers/", 404),
        ("GET", "servers/one", 200),
        ("GET", "servers/none", 404),
        ("POST", "nothing", 404),
        ("POST", "servers", 415),
        ("PUT", "servers", 405),
        ("DELETE", "servers", 405),
        ("HEAD", "servers", 200),
        ("GET", "servers?x=1", 400),
    ],
)
async def test_what_is_not_there_cannot_be_asked(
    tmp_path: Path, http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with (
        gateway(tmp_path, {"one": faulty()}, token=TOKEN) as opened,
        http.request(method, address(opened, path), headers={"authorization": f"Bearer {TOKEN}"}) as response,
    ):
        assert response.status == status
        assert status != 200 or response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(("header", "status"), [({"origin": "https://evil.example"}, 403), ({"host": "evil"}, 421)])
async def test_web_pages_of_others_learn_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, header: dict[str, str], status: int
) -> None:
    async with (
        gateway(tmp_path, {"one": faulty()}) as opened,
        http.get(address(opened), headers=header) as response,
    ):
        assert response.status == status
        assert "one" not in await response.text()
