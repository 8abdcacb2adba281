"""The catalogue as a resource, what callers are told at the beginning, and a server that stands alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import mcp
import pytest

from tests.gateway.test_subscriptions import listen
from tests.harness import LegacyCaller, ModernCaller, gateway, until
from tests.search.scene import (
    AUTO,
    ERAS,
    SEND,
    SOME,
    Json,
    found,
    listed,
    plenty,
    refusal,
    requester,
    servers,
    shelf,
    tool,
    used,
)

SEARCH: Json = {"expose": "search", "namespace": "always"}
URI = "trunkline://tools"


@ERAS
async def test_the_catalogue_is_listed_and_read(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", SOME).put("resources", [{"uri": "one://page", "name": "page"}])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        resources = await listed(caller, "resources/list")
        templates = await listed(caller, "resources/templates/list")
        read = await caller.request("resources/read", {"uri": URI})
        one_tool = await caller.request("resources/read", {"uri": f"{URI}/one__send_letter"})
        encoded = await caller.request("resources/read", {"uri": f"{URI}/one%5F%5Fsend_letter"})
        theirs = await caller.request("resources/read", {"uri": "one://page"})
        nothing = await caller.request("resources/read", {"uri": f"{URI}/one__fly"})

    assert resources == [URI, "one://page"]
    assert templates == ["trunkline://tools/{name}"]
    lines = json.loads(read.result["contents"][0]["text"])["tools"]
    assert [line["name"] for line in lines] == ["one__send_letter", "one__bake_bread", "one__count_geese"]
    assert lines[0] == {"name": "one__send_letter", "server": "one", "description": SEND["description"]}
    assert json.loads(one_tool.result["contents"][0]["text"]) == {**SEND, "name": "one__send_letter"}
    assert encoded.result["contents"][0]["text"] == one_tool.result["contents"][0]["text"]
    assert theirs.result["contents"][0]["text"] == "one has one://page"
    assert nothing.error["message"].startswith("Unknown resource")
    assert ("ttlMs" in read.result) == (era == "modern")


async def test_a_modern_caller_follows_the_catalogue(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with (
        gateway(tmp_path, servers(one), **SEARCH) as opened,
        listen(opened.url, http, {"resourceSubscriptions": [URI], "toolsListChanged": True}) as stream,
    ):
        granted = await stream.next()
        await one.change([*SOME, tool("new")])
        told = await stream.next()

    assert granted["params"]["notifications"]["resourceSubscriptions"] == [URI]
    assert told["method"] == "notifications/resources/updated"
    assert told["params"]["uri"] == URI


async def test_a_legacy_caller_follows_the_catalogue_until_it_does_not(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.listen() as stream:
            assert (await caller.request("resources/subscribe", {"uri": URI})).result == {}
            await one.change([*SOME, tool("new")])
            told = await stream.next()
            assert (await caller.request("resources/unsubscribe", {"uri": URI})).result == {}
            await one.change(SOME)
            await until(lambda: "one__new" not in opened.hub.snapshot.tools)
            await one.speak()
            after = await stream.next()

    assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": URI})
    assert after["method"] == "notifications/message"


async def test_the_catalogue_of_a_profile_changes_only_with_what_the_profile_has(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", SOME)
    sections: Json = {"profiles": {"p": {"servers": ["one"]}}}
    wanted = {"resourceSubscriptions": [URI]}
    async with (
        gateway(tmp_path, servers(one, two), expose="search", sections=sections) as opened,
        listen(opened.url, http, wanted) as whole,
        listen(f"{opened.url}/p", http, wanted) as narrow,
    ):
        await whole.next()
        await narrow.next()
        await two.change([*SOME, tool("new")])
        heard = await whole.next()
        opened.app.drain()
        last = await narrow.next()

    assert heard["params"]["uri"] == URI
    assert "result" in last


@ERAS
async def test_where_every_tool_is_listed_a_servers_own_resource_has_the_address(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME).put("resources", [{"uri": URI, "name": "mine"}])
    one.put("templates", [{"uriTemplate": "trunkline://tools/{x}", "name": "mine"}])
    async with gateway(tmp_path, servers(one), expose="all", namespace="always") as opened:
        caller = await requester(opened, http, era)
        resources = await listed(caller, "resources/list")
        read = [await caller.request("resources/read", {"uri": uri}) for uri in (URI, f"{URI}/one__send_letter")]

    assert resources == [URI]
    assert [heard.result["contents"][0]["text"] for heard in read] == [
        f"one has {URI}",
        f"one has {URI}/one__send_letter",
    ]


@ERAS
async def test_where_every_tool_is_listed_there_is_no_catalogue(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), expose="all", namespace="always") as opened:
        caller = await requester(opened, http, era)
        resources = await listed(caller, "resources/list")
        read = await caller.request("resources/read", {"uri": URI})

    assert resources == []
    assert read.error["message"].startswith("Unknown resource")


# The beginning.


@pytest.mark.parametrize("namespace", ["always", "auto"])
@pytest.mark.parametrize("served", ["modern", "legacy"])
async def test_callers_who_search_are_told_so_at_the_beginning(
    tmp_path: Path, http: aiohttp.ClientSession, namespace: str, served: str
) -> None:
    one = shelf(tmp_path, "one", plenty(40), era=served)
    profiles: Json = {"profiles": {"open": {"expose": "all"}}}
    async with gateway(tmp_path, servers(one), expose="auto", namespace=namespace, sections=profiles) as opened:
        told = {profile: await introductions(f"{opened.url}{profile}", http) for profile in ("", "/open")}

    assert all("search_tools" in text and "How one is used." in text for text in told[""])
    assert all("search_tools" not in text and "How one is used." in text for text in told["/open"])


async def introductions(url: str, http: aiohttp.ClientSession) -> list[str]:
    """What callers of either era are told first."""
    modern = await ModernCaller(url, http).request("server/discover")
    legacy = await LegacyCaller(url, http).open()
    return [modern.result["instructions"], legacy.introduction["instructions"]]


@ERAS
async def test_a_server_of_forty_tools_that_stands_alone_is_searched(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", [*SOME, *plenty(37)]).put("resources", [{"uri": "one://page", "name": "page"}])
    async with gateway(tmp_path, servers(one), expose="auto") as opened:
        caller = await requester(opened, http, era)
        names = await listed(caller)
        resources = await listed(caller, "resources/list")
        hits = await found(caller, "send a letter")
        through = await used(caller, "send_letter", {"to": "Ann"})
        direct = await caller.call("send_letter", {"to": "Ann"})
        unknown = refusal(await used(caller, "send_leter"))
        read = await caller.request("resources/read", {"uri": URI})

    assert names == AUTO
    assert resources == ["one://page"]
    assert hits == ["send_letter"]
    assert through.text == direct.text == "one did send_letter"
    assert "Did you mean send_letter" in unknown
    assert read.result["contents"][0]["text"] == f"one has {URI}"


# The official client.


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_searches_and_calls(tmp_path: Path, mode: Any) -> None:
    one = shelf(tmp_path, "one", [*SOME, *plenty(40)])
    async with (
        gateway(tmp_path, servers(one), expose="auto", namespace="always") as opened,
        mcp.Client(opened.url, mode=mode) as client,
    ):
        tools = (await client.list_tools()).tools
        answer: Any = (await client.call_tool("search_tools", {"query": "send a letter"})).content[0]
        name = json.loads(answer.text)["tools"][0]["name"]
        result = await client.call_tool("call_tool", {"name": name, "arguments": {"to": "Ann"}})
        wrong = await client.call_tool("call_tool", {"name": name, "arguments": {}})
        catalogue: Any = (await client.read_resource(URI)).contents[0]

    said: Any = result.content[0]
    assert [one.name for one in tools] == AUTO
    assert said.text == "one did send_letter"
    assert wrong.is_error
    assert len(json.loads(catalogue.text)["tools"]) == 43
    assert [call.replace(" ", "") for call in one.calls()] == ['send_letter{"to":"Ann"}']
