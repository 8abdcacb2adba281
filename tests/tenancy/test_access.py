"""What exists for whom: keys, roles, threads and servers of one's own, through every door."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, gateway
from tests.tenancy.test_people import Admin
from trunkline.authoring.server import MCPServerBase
from trunkline.gateway.serve import Gateway
from trunkline.tool import Annotations

Json = dict[str, Any]


def notes(id: str, said: str) -> MCPServerBase:
    """A server with one tool that reads and one that does not."""
    server = MCPServerBase(id=id, name=id)

    def read_note() -> str:
        """Read a note."""
        return said

    def delete_note() -> str:
        """Delete a note."""
        return f"deleted {said}"

    server.register_tool(read_note, annotations=Annotations(read_only_hint=True))
    server.register_tool(delete_note, annotations=Annotations(read_only_hint=False, destructive_hint=True))
    return server


@asynccontextmanager
async def open_house(home: Path, http: aiohttp.ClientSession, **options: Any) -> AsyncGenerator[tuple[Gateway, Admin]]:
    """A gateway with two servers, and its admin; members may register servers that are on this machine."""
    async with gateway(home, {}, **{"allow_private": True, **options}) as opened:
        for name in ("one", "two"):
            await opened.hub.mount(notes(name, f"of {name}"))
        yield opened, Admin(opened, http)


async def tools(opened: Gateway, http: aiohttp.ClientSession, key: str, **headers: str) -> set[str]:
    """What a modern caller is shown."""
    heard = await ModernCaller(opened.url, http, token=key).request("tools/list", headers=headers)
    return {tool["name"] for tool in heard.result["tools"]}


async def call(opened: Gateway, http: aiohttp.ClientSession, key: str, tool: str, **rest: Any) -> Json:
    return (await ModernCaller(opened.url, http, token=key).call(tool, **rest)).message


ALL = {"one__read_note", "one__delete_note", "two__read_note", "two__delete_note"}


@pytest.mark.parametrize(
    ("rights", "seen"),
    [
        ({}, ALL),
        ({"servers": ["two"]}, {"two__read_note", "two__delete_note"}),
        ({"tools": ["*__read_*"]}, {"one__read_note", "two__read_note"}),
        ({"tools": ["one__*"], "read_only": True}, {"one__read_note"}),
        ({"servers": ["three"]}, set[str]()),
    ],
)
async def test_what_a_key_has_not_does_not_exist_through_any_door(
    tmp_path: Path, http: aiohttp.ClientSession, rights: Json, seen: set[str]
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana", **rights)
        legacy = LegacyCaller(opened.url, http)
        legacy.headers["authorization"] = f"Bearer {key}"
        await legacy.open()

        assert await tools(opened, http, key) == seen
        assert {one["name"] for one in (await legacy.request("tools/list")).result["tools"]} == seen
        own = Admin(opened, http, key)
        assert {one["name"] for one in (await own("GET", "tools"))[1]["tools"]} == seen
        found = (await own("GET", "tools?q=read+or+delete+a+note"))[1]["tools"]
        assert {one["name"] for one in found} <= seen
        for tool in ALL:
            answer = await call(opened, http, key, tool)
            status, _ = await own("POST", f"tools/{tool}/call", {})
            if tool in seen:
                assert "result" in answer
                assert status == 200
            else:
                missing = (await call(opened, http, key, "one__nothing"))["error"]
                assert answer["error"]["code"] == missing["code"]
                assert answer["error"]["message"].startswith(f"Unknown tool: {tool}")
                assert not any(other in answer["error"]["message"] for other in ALL - seen - {tool})
                assert status == 404


async def test_a_reader_reads_and_changes_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana")
        await admin("PATCH", "users/ana", {"role": "reader"})

        assert await tools(opened, http, key) == {"one__read_note", "two__read_note"}
        assert "error" in await call(opened, http, key, "two__delete_note")


async def test_a_thread_has_what_its_user_has_until_it_is_configured(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana")
        bobs = await admin.key("bob")
        own = Admin(opened, http, key)
        header = {"trunkline-thread": "t1"}
        assert await tools(opened, http, key, **header) == ALL

        assert (await own("PUT", "threads/t1", {"servers": ["one"], "overrides": {"timeout": 5}}))[0] == 201

        assert await tools(opened, http, key, **header) == {"one__read_note", "one__delete_note"}
        assert await tools(opened, http, key) == ALL
        assert await tools(opened, http, key, **{"trunkline-thread": "t2"}) == ALL
        assert await tools(opened, http, bobs, **header) == ALL
        said = {"meta": {"dev.trunkline/thread": "t1"}}
        assert "error" in await call(opened, http, key, "two__read_note", **said)
        assert "result" in await call(opened, http, key, "one__read_note", **said)
        bob = Admin(opened, http, bobs)
        assert (await bob("GET", "threads/t1"))[0] == 404
        assert (await bob("GET", "threads/t1?user=ana"))[0] == 403
        assert (await own("POST", "threads/t1/clone", {"id": "t2"}))[0] == 201
        assert await tools(opened, http, key, **{"trunkline-thread": "t2"}) == {"one__read_note", "one__delete_note"}
        assert (await own("DELETE", "threads/t1"))[0] == 204
        assert await tools(opened, http, key, **header) == ALL


async def test_a_session_in_a_thread_sees_what_the_thread_has(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana")
        await Admin(opened, http, key)("PUT", "threads/t1", {"servers": ["two"]})
        caller = LegacyCaller(opened.url, http)
        caller.headers |= {"authorization": f"Bearer {key}", "trunkline-thread": "t1"}
        await caller.open()

        listed = (await caller.request("tools/list")).result["tools"]
        assert {one["name"] for one in listed} == {"two__read_note", "two__delete_note"}
        assert "error" in (await caller.call("one__read_note")).message
        assert (await caller.call("two__read_note")).text == "of two"


async def test_a_users_server_is_seen_called_and_named_by_that_user_alone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with (
        open_house(tmp_path / "house", http) as (opened, admin),
        gateway(tmp_path / "ana", {}) as hers,
        gateway(tmp_path / "bob", {}) as his,
    ):
        await hers.hub.mount(notes("n", "hers"))
        await his.hub.mount(notes("n", "his"))
        keys = {name: await admin.key(name) for name in ("ana", "bob", "eve")}
        for name, url in (("ana", hers.url), ("bob", his.url)):
            status, made = await Admin(opened, http, keys[name])("POST", "servers", {"name": "mine", "url": url})
            assert (status, made["scope"], made["user"]) == (201, "user", name), made

        mine = {"mine__read_note", "mine__delete_note"}
        assert await tools(opened, http, keys["ana"]) == ALL | mine
        assert await tools(opened, http, keys["eve"]) == ALL
        answers = [await call(opened, http, keys[name], "mine__read_note") for name in ("ana", "bob")]
        assert [answer["result"]["content"][0]["text"] for answer in answers] == ["hers", "his"]
        eve = Admin(opened, http, keys["eve"])
        assert "mine" not in str(await call(opened, http, keys["eve"], "one__nothing"))
        assert (await call(opened, http, keys["eve"], "mine__read_note"))["error"]["code"] == -32602
        assert "mine" not in str(await eve("GET", "servers"))
        assert "mine" not in str((await eve("GET", "tools?q=read+a+note"))[1])
        assert (await eve("DELETE", "servers/mine?user=ana"))[0] == 403
        assert (await eve("GET", "servers/mine"))[0] == 404

        own = Admin(opened, http, keys["ana"])
        assert (await own("DELETE", "servers/mine"))[0] == 204
        assert await tools(opened, http, keys["ana"]) == ALL
        assert await tools(opened, http, keys["bob"]) == ALL | mine


async def test_what_a_member_registers_is_reached_at_public_addresses_alone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with (
        open_house(tmp_path / "house", http, allow_private=False) as (opened, admin),
        gateway(tmp_path / "near", {}) as near,
    ):
        await near.hub.mount(notes("n", "canary"))
        key = await admin.key("ana")
        ana = Admin(opened, http, key)
        assert (await ana("POST", "servers", {"name": "mine", "url": near.url}))[0] == 201
        assert await tools(opened, http, key) == ALL
        told = (await ana("GET", "servers/mine"))[1]
        await admin("POST", "servers", {"name": "given", "url": near.url, "scope": "user", "user": "ana"})
        answer = await call(opened, http, key, "given__read_note")

    assert told["state"] == "unreachable"
    assert "is not a public address" in told["reason"]
    assert answer["result"]["content"][0]["text"] == "canary"  # what an admin registers may be anywhere


async def test_a_users_server_stands_before_everybodys_of_the_same_name_for_that_user(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path / "house", http) as (opened, admin), gateway(tmp_path / "ana", {}) as hers:
        await hers.hub.mount(notes("n", "hers"))
        keys = {name: await admin.key(name) for name in ("ana", "bob")}
        await Admin(opened, http, keys["ana"])("POST", "servers", {"name": "one", "url": hers.url})

        answers = [await call(opened, http, keys[name], "one__read_note") for name in ("ana", "bob")]

    assert [answer["result"]["content"][0]["text"] for answer in answers] == ["hers", "of one"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"name": "x", "command": "touch", "args": ["canary"]},
        {"name": "x", "url": "https://x.example/${secret:TOKEN}"},
        {"name": "x", "url": "https://x.example", "headers": {"authorization": "${env:HOME}"}},
        {"name": "x", "url": "https://x.example", "env": {"A": "b"}},
        {"name": "x", "url": "https://x.example", "scope": "app"},
        {"name": "x", "url": "https://x.example", "user": "bob"},
    ],
)
async def test_a_member_registers_nothing_that_would_run_here_or_read_what_is_the_operators(
    tmp_path: Path, http: aiohttp.ClientSession, wanted: Json
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        await admin.key("bob")
        own = Admin(opened, http, await admin.key("ana"))

        assert (await own("POST", "servers", wanted))[0] == 403
        assert (await own("GET", "servers"))[1]["servers"][2:] == []


async def test_an_admins_server_is_everybodys_and_is_there_after_a_restart(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path / "far", {}) as far:
        await far.hub.mount(notes("n", "far"))
        async with open_house(tmp_path / "house", http) as (opened, admin):
            wanted = {"name": "far", "url": far.url, "scope": "app", "headers": {"x-secret": "canary"}}
            status, made = await admin("POST", "servers", wanted)
            assert (status, made["headers"]) == (201, ["x-secret"]), made
            again = await admin("POST", "servers", {"name": "one", "url": far.url, "scope": "app"})
            key = await admin.key("ana")
            await opened.hub.ready(5)
            assert "far__read_note" in await tools(opened, http, key)
            changed = await admin("PATCH", "servers/far", {"description": "d"}, **{"if-match": '"1"'})
            stale = await admin("PATCH", "servers/far", {"description": "e"}, **{"if-match": '"1"'})
        assert again[0] == 422
        assert (changed[0], changed[1]["headers"], stale[0]) == (200, ["x-secret"], 412)
        async with gateway(tmp_path / "house", {}) as opened:
            assert "read_note" in str(await tools(opened, http, key))
        assert b"canary" not in (tmp_path / "house" / "trunkline.db").read_bytes()


async def test_a_registration_is_shown_to_those_for_whom_its_server_exists(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path / "house", http) as (opened, admin), gateway(tmp_path / "far", {}) as far:
        await far.hub.mount(notes("n", "far"))
        ana = Admin(opened, http, await admin.key("ana"))
        narrow = Admin(opened, http, await admin.key("ana", servers=["one"]))
        await admin("POST", "servers", {"name": "extra", "url": far.url, "scope": "app"})
        await ana("POST", "servers", {"name": "mine", "url": far.url})

        seen = [
            [server["name"] for server in (await who("GET", f"servers?{query}"))[1]["servers"]]
            for who, query in ((admin, "scope=app"), (ana, "scope=app"), (narrow, "scope=app"))
        ]

        assert seen == [["extra"], ["extra"], []]
        assert [(await who("GET", "servers/extra?scope=app"))[0] for who in (admin, ana, narrow)] == [200, 200, 404]
        assert [(await who("GET", "servers/mine?scope=user"))[0] for who in (ana, narrow)] == [200, 404]
        assert [one["name"] for one in (await admin("GET", "servers?user=ana"))[1]["servers"]] == ["mine"]
        assert (await ana("GET", "servers?user=bob"))[0] == 403
        await tools(opened, http, await admin.key("ana"))
        assert (await admin("GET", "servers/mine?user=bob"))[0] == 404


async def test_a_limit_that_is_reached_is_an_error_that_says_when_there_is_more(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key, other = await admin.key("ana"), await admin.key("bob")
        await admin("PATCH", "users/ana", {"limits": {"calls_per_hour": 2}})
        caller = ModernCaller(opened.url, http, token=key)

        heard = [await caller.call("one__read_note") for _ in range(3)]

        assert ["result" in one.message for one in heard] == [True, True, False]
        assert "2 calls in an hour" in heard[2].error["message"]
        assert heard[2].status == 429
        assert 3500 < int(heard[2].headers["retry-after"]) <= 3600
        assert "result" in (await ModernCaller(opened.url, http, token=other).call("one__read_note")).message


async def test_what_was_used_of_a_limit_is_used_after_a_restart(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana")
        await admin("PATCH", "users/ana", {"limits": {"calls_per_hour": 1}})
        assert "result" in (await ModernCaller(opened.url, http, token=key).call("one__read_note")).message

    async with open_house(tmp_path, http) as (opened, _):
        again = await ModernCaller(opened.url, http, token=key).call("one__read_note")

    assert "1 calls in an hour" in again.error["message"]
