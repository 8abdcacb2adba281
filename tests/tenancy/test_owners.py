"""Whose something may be, what a key may name, and what a change must have seen: refused before anything is kept."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, gateway, make_config
from tests.tenancy.test_access import open_house
from tests.tenancy.test_hub import open_house as open_hub_with_notes
from tests.tenancy.test_people import Admin
from trunkline.errors import ConfigError, NotFoundError
from trunkline.tenancy.portable import Import, read
from trunkline.tenancy.tenancy import open_tenancy

Json = dict[str, Any]
URL = "http://127.0.0.1:1/mcp"
FILE = {"carl": "0123456789abcdef-of-carl"}


@pytest.mark.parametrize("people", [True, False])
async def test_nothing_is_kept_for_somebody_who_does_not_exist(
    tmp_path: Path, http: aiohttp.ClientSession, people: bool
) -> None:
    async with open_house(tmp_path, http, users=FILE) as (opened, admin):
        asks = admin
        if people:
            await admin("POST", "users", {"name": "root", "role": "admin"})
            asks = Admin(opened, http, (await admin("POST", "keys", {"user": "root"}))[1]["key"])
        for method, path, body in (
            ("PUT", "threads/t?user=ghost", {"servers": ["one"]}),
            ("POST", "servers", {"name": "x", "url": URL, "user": "ghost"}),
            ("POST", "keys", {"user": "ghost"}),
        ):
            status, told = await asks(method, path, body)
            assert (status, told["error"]["code"]) == (404, "not-found"), told
            assert told["error"]["message"] == "There is no user 'ghost'."
            assert "trunkline user list" in told["error"]["hint"]
        assert (await asks("PUT", "threads/t?user=carl", {"servers": ["one"]}))[0] == 201
        assert (await asks("PUT", "threads/t?user=", {"servers": ["one"]}))[0] == 201
        assert (await asks("POST", "servers", {"name": "x", "url": URL, "user": "carl"}))[0] == 201

        await asks("POST", "users", {"name": "ghost"})
        assert (await asks("GET", "threads?user=ghost"))[1]["threads"] == []
        assert (await asks("GET", "servers?user=ghost"))[1]["servers"] == []


async def test_a_program_that_knows_people_keeps_nothing_for_others(tmp_path: Path) -> None:
    async with open_hub_with_notes(tmp_path) as hub:
        wanted = {"name": "x", "url": URL}
        await hub.register_server(wanted, "user", "free")
        await hub.thread("t", "free").set_thread_servers(["one"])
        await hub.relay.tenancy.people.add_user("ana")

        await hub.register_server(wanted, "user", "ana")
        await hub.thread("t", "ana").set_thread_servers(["one"])
        with pytest.raises(NotFoundError, match="no user 'ghost'"):
            await hub.register_server(wanted, "user", "ghost")
        with pytest.raises(NotFoundError, match="no user 'ghost'"):
            await hub.thread("t", "ghost").set_thread_servers(["one"])
        with pytest.raises(NotFoundError, match="no user 'free'"):
            await hub.thread("t", "free").clone("t2")


@pytest.mark.parametrize("noun", ["threads", "servers"])
async def test_a_document_brings_nothing_for_somebody_who_is_not_in_it(tmp_path: Path, noun: str) -> None:
    thing = {"name": "x", "content": {"url": URL} if noun == "servers" else {}, "user": "ghost"}
    document = {"format": "trunkline-store", "version": 1, "users": [{"name": "ana"}], noun: [thing]}
    async with open_tenancy(make_config(tmp_path, {}).store, tmp_path) as tenancy:
        with pytest.raises(ConfigError, match="has things of 'ghost', who is not in it"):
            Import(tenancy, read(json.dumps(document).encode()))


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ({"profile": "redr"}, "There is no profile 'redr'.", "Did you mean 'read'?"),
        ({"profile": "zzzzzz"}, "There is no profile 'zzzzzz'.", "There are: read."),
        ({"servers": ["one", "twoo"]}, "There is no server 'twoo'.", "Did you mean 'two'?"),
        ({"servers": ["bobs"]}, "There is no server 'bobs'.", "There are: hers, one, two."),
    ],
)
async def test_a_key_names_only_what_its_user_has(
    tmp_path: Path, http: aiohttp.ClientSession, wanted: Json, message: str, hint: str
) -> None:
    async with open_house(tmp_path, http, sections={"profiles": {"read": {"hidden": ["*__delete_*"]}}}) as (
        opened,
        admin,
    ):
        for user, server in (("ana", "hers"), ("bob", "bobs")):
            await admin.key(user)
            assert (await admin("POST", "servers", {"name": server, "url": URL, "user": user}))[0] == 201
        own = Admin(opened, http, await admin.key("ana"))

        for asks in (admin, own):
            status, told = await asks("POST", "keys", {"user": "ana", **wanted})
            assert (status, told["error"]) == (422, {"code": "config", "message": message, "hint": hint})
        assert (await own("POST", "keys", {"profile": "read", "servers": ["one", "hers"]}))[0] == 201
        assert len((await own("GET", "keys"))[1]["keys"]) == 3


@pytest.mark.parametrize(
    ("path", "put", "patch"),
    [
        ("users/ana", None, {"role": "reader"}),
        ("threads/t?user=ana", {"servers": ["one"]}, None),
        ("servers/x?user=ana", None, {"description": "d"}),
    ],
)
async def test_a_change_that_saw_an_older_version_is_refused_whatever_it_does(
    tmp_path: Path, http: aiohttp.ClientSession, path: str, put: Json | None, patch: Json | None
) -> None:
    async with open_house(tmp_path, http) as (_, admin):
        await admin.key("ana")
        await admin("POST", "servers", {"name": "x", "url": URL, "user": "ana"})
        await admin("PUT", "threads/t?user=ana", {"tools": ["*"]})
        method, body = ("PATCH", patch) if patch else ("PUT", put)
        seen = {"if-match": f'"{(await admin("GET", path))[1]["version"]}"'}

        assert (await admin(method, path, body, **seen))[0] == 200
        for again in (method, "DELETE"):
            status, told = await admin(again, path, body if again == method else None, **seen)
            assert (status, told["error"]["code"]) == (412, "version-conflict")
        assert (await admin("GET", path))[1]["version"] == 2
        assert (await admin("DELETE", path, None, **{"if-match": "nonsense"}))[0] == 412
        assert (await admin("DELETE", path, None, **{"if-match": '"2"'}))[0] == 204
        assert (await admin("GET", path))[0] == 404
        assert (await admin("DELETE", path, None, **{"if-match": '"2"'}))[0] == 404


async def test_how_many_servers_a_thread_may_have_changes_with_the_configuration(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        wanted = {"servers": ["one", "two"]}
        assert (await admin("PUT", "threads/t", wanted))[0] == 201

        config = opened.hub.config
        limits = dataclasses.replace(config.limits, servers_per_thread=1)
        await opened.hub.apply(dataclasses.replace(config, limits=limits))

        status, told = await admin("PUT", "threads/t", wanted)
        assert (status, told["error"]["message"]) == (422, "A thread may have 1 servers.")


async def test_what_is_wrong_with_a_users_own_server_is_said_by_the_name_that_they_gave_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}, allow_private=True) as opened:
        key = await Admin(opened, http).key("ana")
        ana = Admin(opened, http, key)
        tools = [{"name": "push", "inputSchema": {"type": "object"}}]
        wanted = {"name": "git", "url": "http://127.0.0.1:1/mcp", "minimal_tools": tools}
        assert (await ana("POST", "servers", wanted))[0] == 201
        caller = ModernCaller(opened.url, http, token=key)
        refused = (await caller.call("push")).error["message"]
        shown = (await ana("GET", "servers/git"))[1]["reason"]
        status, told = await ana("POST", "tools/push/call", {"arguments": {}})

    assert (status, "Server 'git'" in told["error"]["message"], "ana/" in str(told)) == (502, True, False), told
    assert ("Server 'git'" in refused, "ana/" in refused) == (True, False), refused
    assert ("Server 'git'" in shown, "ana/" in shown) == (True, False), shown
