"""What one key or thread has not, it does not reach by a handle that another gave out, nor under another address."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, gateway
from tests.tenancy.doors import Doors, is_refused_alike
from tests.tenancy.shelf import Shelf, open_shelves
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]


@asynccontextmanager
async def open_house(home: Path, http: aiohttp.ClientSession, **options: Any) -> AsyncGenerator[tuple[Gateway, Admin]]:
    """A gateway before two servers that have everything."""
    shelves = {name: Shelf(f"of {name}") for name in ("one", "two")}
    async with open_shelves(*shelves.values()):
        servers = {name: {"url": shelf.url} for name, shelf in shelves.items()}
        async with gateway(home, servers, **options) as opened:
            yield opened, Admin(opened, http)


@pytest.mark.parametrize("narrowed", [{"servers": ["two"]}, "thread", "another of the name"])
async def test_a_task_is_unknown_where_its_server_does_not_exist(
    tmp_path: Path, http: aiohttp.ClientSession, narrowed: Any
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        ana = Doors(opened, http, await admin.key("ana"))
        id = (await ana.ask("tools/call", name="one__task_note")).result["taskId"]
        assert "of one" in str((await ana.ask("tasks/get", taskId=id)).result)
        if narrowed == "thread":
            await ana.api("PUT", "threads/t", {"servers": ["two"]})
            other = Doors(opened, http, ana.key, "t")
        else:
            if narrowed == "another of the name":
                await admin("DELETE", "users/ana")
            other = Doors(opened, http, await admin.key("ana", **(narrowed if isinstance(narrowed, dict) else {})))

        unknown = await other.ask("tasks/get", taskId="made-up")
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            assert is_refused_alike(await other.ask(method, taskId=id, inputResponses={}), unknown)
        assert "taskIds" not in await other.granted(taskIds=[id])


async def test_at_an_address_that_names_nothing_there_is_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    sections: Json = {"profiles": {"first": {"servers": ["one"]}, "second": {"servers": ["two"]}}}
    async with open_house(tmp_path, http, sections=sections) as (opened, admin):
        keys = {"whole": await admin.key("ana"), "first": await admin.key("ana", profile="first")}
        for key in keys.values():
            for path in ("nothing", "FIRST", "first/", "first%2f..", "..", "", "0", "one", "ana", "first/second"):
                heard = await ModernCaller(f"{opened.url}/{path}", http, token=key).request("tools/list")
                # Clients make `/` of `..`, where the console is, which takes nothing.
                assert heard.status == (405 if path == ".." else 404), (path, heard.message)
                assert "one__" not in str(heard.message)
        bound = ModernCaller(f"{opened.url}/second", http, token=keys["first"])
        assert (await bound.request("tools/list")).status == 404
        heard = await ModernCaller(opened.url, http, token=keys["first"]).request("tools/list")
        assert {tool["name"].partition("__")[0] for tool in heard.result["tools"]} == {"one"}


@pytest.mark.parametrize("role", ["nobody", "reader", "member", "admin"])
async def test_no_route_starts_a_command_unless_the_operator_allows_it(
    tmp_path: Path, http: aiohttp.ClientSession, role: str
) -> None:
    canary = tmp_path / "canary"
    refused: set[tuple[str, str, int]] = set()
    async with open_house(tmp_path / "home", http, sections={"audit": {"enabled": True}}) as (opened, admin):
        key = await admin.key("ana")
        await admin("POST", "servers", {"name": "own", "url": "http://127.0.0.1:1/mcp", "user": "ana"})
        await admin("POST", "servers", {"name": "all", "url": "http://127.0.0.1:1/mcp", "scope": "app"})
        if role != "nobody":
            await admin("PATCH", "users/ana", {"role": role})
        asks = Admin(opened, http, "none" if role == "nobody" else key)
        command: Json = {"command": "sh", "args": ["-c", f"touch {canary}"], "url": ""}
        for method, path, body in (
            ("POST", "servers", {"name": "x", **command}),
            ("POST", "servers", {"name": "x", **command, "scope": "app"}),
            ("PATCH", "servers/own?scope=user&user=ana", command),
            ("PATCH", "servers/all?scope=app", command),
            ("PATCH", "servers/one", command),
        ):
            status, told = await asks(method, path, body)
            expected = (401,) if role == "nobody" else (403, 404)
            assert status in expected, (method, path, told)
            refused |= {(method, f"/api/v1/{path.partition('?')[0]}", status)} if status != 404 else set()
        lines = (await admin("GET", "audit?kind=refusal"))[1]["lines"]
        await opened.hub.ready(5)
        await ModernCaller(opened.url, http, token=key).request("tools/list")

    assert not canary.exists()
    assert refused
    assert {(line["method"], line["path"], line["status"]) for line in lines} == refused
