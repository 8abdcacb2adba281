"""What a profile has not does not exist for its callers, whichever way they ask for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.test_subscriptions import listen
from tests.harness import META, LegacyCaller, ModernCaller, gateway, post, until
from tests.search.scene import (
    ERAS,
    SOME,
    Json,
    Shelf,
    found,
    listed,
    plenty,
    refusal,
    requester,
    searched,
    servers,
    shelf,
    tool,
    used,
)
from trunkline.gateway.serve import Gateway

GHOST = tool("summon_ghost", "Summon a ghost from the attic.")
PROFILES: Json = {
    "open": {},
    "hides": {"hidden": ["*__summon_*"]},
    "without": {"servers": ["one"]},
    "searching": {"servers": ["one"], "expose": "search"},
    "seeking": {"hidden": ["two__summon_ghost"], "expose": "search"},
}
NARROW = pytest.mark.parametrize("profile", ["hides", "without", "searching", "seeking"])
WITHOUT = pytest.mark.parametrize("profile", ["without", "searching"])


def offered(folder: Path) -> tuple[Shelf, Shelf]:
    """Two servers; the second has what some profiles have not."""
    one, two = shelf(folder, "one", SOME), shelf(folder, "two", [GHOST, tool("dust", "Dust the attic.")])
    for server in (one, two):
        server.put("prompts", [{"name": "talk"}])
        server.put("resources", [{"uri": f"{server.name}://page", "name": "page"}])
        server.put("templates", [{"uriTemplate": f"{server.name}://page/{{x}}", "name": "pages"}])
    return one, two


@asynccontextmanager
async def house(folder: Path, **options: Any) -> AsyncGenerator[tuple[Gateway, Shelf, Shelf]]:
    """A gateway with profiles before two servers."""
    one, two = offered(folder)
    async with gateway(folder, servers(one, two), sections={"profiles": PROFILES}, **options) as opened:
        yield opened, one, two


def plain(message: Json, *names: str) -> Json:
    """An answer without the name that was asked for, so that two can be compared."""
    text = str({key: value for key, value in message.items() if key != "id"})
    for name in names:
        text = text.replace(name, "NAME")
    return {"text": text}


@ERAS
@NARROW
async def test_a_hidden_tool_is_as_unknown_as_one_that_never_was(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, profile: str
) -> None:
    async with house(tmp_path) as (opened, _, two):
        caller = await requester(opened, http, era, profile)
        for hidden, never in (("two__summon_ghost", "two__summon_gnome"), ("summon_ghost", "summon_gnome")):
            secret, nothing = await caller.call(hidden), await caller.call(never)

            assert secret.status == nothing.status
            assert secret.error["message"] == f"Unknown tool: {hidden}"
            assert plain(secret.message, hidden) == plain(nothing.message, never)
        names = await listed(caller)

    assert not [name for name in names if "ghost" in name]
    assert two.calls() == []


@ERAS
@pytest.mark.parametrize("profile", ["searching", "seeking"])
async def test_a_hidden_tool_is_not_found_named_suggested_or_read(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, profile: str
) -> None:
    async with house(tmp_path) as (opened, _, two):
        caller = await requester(opened, http, era, profile)
        names = await found(caller, "summon a ghost", limit=50)
        named = await searched(caller, names=["two__summon_ghost", "two__summon_gnome"])
        called = [refusal(await used(caller, name)) for name in ("two__summon_ghost", "two__summon_gnom")]
        catalogue = await caller.request("resources/read", {"uri": "trunkline://tools"})
        pages = [
            await caller.request("resources/read", {"uri": f"trunkline://tools/two__summon_{name}"})
            for name in ("ghost", "gnome")
        ]

    assert "two__summon_ghost" not in names
    assert named == {"tools": [], "unknown": ["two__summon_ghost", "two__summon_gnome"]}
    assert all("Did you mean two__summon_ghost" not in text for text in called)
    assert "ghost" not in catalogue.raw.decode()
    assert pages[0].status == pages[1].status
    assert plain(pages[0].message, "ghost") == plain(pages[1].message, "gnome")
    assert two.calls() == []


@ERAS
@WITHOUT
async def test_prompts_resources_templates_and_completions_of_other_servers_are_unknown(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, profile: str
) -> None:
    prompt, page = {"type": "ref/prompt", "name": "{}__talk"}, {"type": "ref/resource", "uri": "{}://page/{{x}}"}
    asked: list[tuple[str, Json]] = [
        ("prompts/get", {"name": "{}__talk"}),
        ("resources/read", {"uri": "{}://page"}),
        ("resources/read", {"uri": "{}://page/5"}),
        ("completion/complete", {"ref": prompt, "argument": {"name": "x", "value": ""}}),
        ("completion/complete", {"ref": page, "argument": {"name": "x", "value": ""}}),
    ]
    async with house(tmp_path) as (opened, _, _):
        caller = await requester(opened, http, era, profile)
        for method, params in asked:
            own, secret, nothing = [
                await caller.request(method, filled(params, name)) for name in ("one", "two", "xxx")
            ]

            assert "result" in own.message, own.message
            assert (secret.status, plain(secret.message, "two")) == (nothing.status, plain(nothing.message, "xxx"))
            assert "Unknown" in secret.error["message"]
        lists = [await listed(caller, method) for method in LISTS]

    assert not [name for names in lists for name in names if name.startswith("two")]
    assert all(any(name.startswith("one") for name in names) for names in lists)


LISTS = ("prompts/list", "resources/list", "resources/templates/list")


def filled(value: Any, name: str) -> Any:
    """The same with a server's name in its place."""
    if isinstance(value, dict):
        return {key: filled(one, name) for key, one in value.items()}  # type: ignore[reportUnknownVariableType]
    return value.format(name)


@WITHOUT
async def test_resources_of_other_servers_cannot_be_followed(
    tmp_path: Path, http: aiohttp.ClientSession, profile: str
) -> None:
    async with house(tmp_path) as (opened, _, _):
        legacy = await LegacyCaller(f"{opened.url}/{profile}", http).open()
        own, secret, nothing = [
            await legacy.request("resources/subscribe", {"uri": f"{name}://page"}) for name in ("one", "two", "xxx")
        ]
        wanted = {"resourceSubscriptions": ["one://page", "two://page", "two://page/5"]}
        async with listen(f"{opened.url}/{profile}", http, wanted) as stream:
            granted = (await stream.next())["params"]["notifications"]

    assert own.result == {}
    assert plain(secret.message, "two") == plain(nothing.message, "xxx")
    assert granted == {"resourceSubscriptions": ["one://page"]}


@WITHOUT
async def test_what_other_servers_say_is_not_heard(tmp_path: Path, http: aiohttp.ClientSession, profile: str) -> None:
    async with house(tmp_path) as (opened, one, two):
        whole, narrow = [await LegacyCaller(f"{opened.url}{at}", http).open() for at in ("", f"/{profile}")]
        async with whole.listen() as everything, narrow.listen() as little:
            await two.speak()
            first = await everything.next()
            await one.speak()
            heard = [await everything.next(), await little.next()]

    assert first["params"]["data"] == "two speaks"
    assert [message["params"]["data"] for message in heard] == ["one speaks", "one speaks"]


@WITHOUT
async def test_an_introduction_says_nothing_of_other_servers(
    tmp_path: Path, http: aiohttp.ClientSession, profile: str
) -> None:
    async with house(tmp_path) as (opened, _, _):
        modern = await ModernCaller(f"{opened.url}/{profile}", http).request("server/discover")
        legacy = await LegacyCaller(f"{opened.url}/{profile}", http).open()

    for text in (modern.result["instructions"], legacy.introduction["instructions"]):
        assert "How one is used." in text
        assert "two" not in text


async def test_the_profile_that_has_everything_still_has_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with house(tmp_path) as (opened, _, two):
        for url in (opened.url, f"{opened.url}/open"):
            assert (await ModernCaller(url, http).call("two__summon_ghost")).text == "two did summon_ghost"

    assert len(two.calls()) == 2


@ERAS
async def test_the_only_server_hides_too(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", [GHOST, *SOME])
    profiles: Json = {"bare": {}, "p": {"hidden": ["summon_*"]}, "s": {"hidden": ["summon_*"], "expose": "search"}}
    async with gateway(tmp_path, servers(one), sections={"profiles": profiles}) as opened:
        bare = opened.hub.snapshot.bare
        for profile in ("p", "s"):
            caller = await requester(opened, http, era, profile)
            secret, nothing = await caller.call("summon_ghost"), await caller.call("summon_gnome")

            assert secret.error["message"] == "Unknown tool: summon_ghost"
            assert plain(secret.message, "ghost") == plain(nothing.message, "gnome")
            assert "summon_ghost" not in await listed(caller)
        searching = await requester(opened, http, era, "s")
        text = refusal(await used(searching, "summon_ghost"))
        unknown = await caller.request("prompts/get", {"name": "nothing"})

    assert bare == "one"
    assert text.startswith("There is no tool 'summon_ghost'.")
    assert unknown.error["message"] == "Unknown prompt: nothing"
    assert one.calls() == []


@pytest.mark.parametrize("pattern", ["summon_*", "one__summon_*", "*__summon_ghost", "summon_ghost"])
async def test_what_is_hidden_stays_hidden_when_a_second_server_changes_its_name(
    tmp_path: Path, http: aiohttp.ClientSession, pattern: str
) -> None:
    one, two = shelf(tmp_path, "one", [GHOST, *SOME]), shelf(tmp_path, "two", SOME)
    profiles: Json = {"profiles": {"p": {"hidden": [pattern]}}}
    for given in (servers(one), servers(one, two)):
        async with gateway(tmp_path / str(len(given)), given, sections=profiles) as opened:
            assert not [name for name in await listed(ModernCaller(f"{opened.url}/p", http)) if "ghost" in name]


# Sessions.


async def test_a_session_of_one_profile_is_none_at_another(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with house(tmp_path) as (opened, _, _):
        caller = await LegacyCaller(f"{opened.url}/without", http).open()
        for elsewhere in (opened.url, f"{opened.url}/open", f"{opened.url}/searching"):
            caller.url = elsewhere
            heard = await caller.request("tools/list")
            async with http.get(elsewhere, headers={**caller.headers, "accept": "text/event-stream"}) as response:
                streamed = response.status
            async with http.delete(elsewhere, headers=caller.headers) as response:
                ended = response.status

            assert (heard.status, streamed, ended) == (404, 404, 404)
            assert heard.error["message"].startswith("There is no such session.")
        caller.url = f"{opened.url}/without"
        own = await listed(caller)

    assert own == ["one__send_letter", "one__bake_bread", "one__count_geese"]


# Addresses.


PATHS = [
    "/mcp/garbage",
    "/mcp/",
    "/mcp//",
    "/mcp//open",
    "/mcp/open/",
    "/mcp/open/../x",
    "/mcp/open/..",
    "/mcp/..",
    "/mcp/.",
    "/mcp/./",
    "/mcp/%2e%2e",
    "/mcp/%2E%2E/mcp",
    "/mcp/open%2f",
    "/mcp/open%2F..",
    "/mcp%2f",
    "/mcp/%20open",
    "/mcp/Open",
    "/mcp/open%00",
    "/mcp/open;x",
    "/mcp/*",
    "/mcp/default",
    "//mcp",
    "/mcpx",
]
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode()
HEADERS = {"content-type": "application/json", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}


async def raw(port: int, path: str) -> tuple[int, bytes]:
    """Send a list request to an address exactly as it is written; the status and all that came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        own = {"host": "localhost", "connection": "close", "content-length": len(BODY), **HEADERS}
        head = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items()), "", ""]
        writer.write("\r\n".join(head).encode() + BODY)
        async with asyncio.timeout(5):
            answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("path", PATHS)
async def test_an_address_that_names_no_profile_is_nothing(tmp_path: Path, path: str) -> None:
    one = shelf(tmp_path, "one", [GHOST])
    sections: Json = {"profiles": {"open": {}}}
    async with gateway(tmp_path, servers(one), sections=sections, namespace="always") as opened:
        port = int(opened.url.split(":")[2].partition("/")[0])
        good = await raw(port, "/mcp/open")
        status, answer = await raw(port, path)

    assert good[0] == 200
    assert b"ghost" in good[1]
    assert status == 404, answer
    assert b"ghost" not in answer


async def test_a_profile_that_is_taken_out_is_nothing_from_then_on(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), sections={"profiles": {"p": {}}}, namespace="always") as opened:
        legacy = await LegacyCaller(f"{opened.url}/p", http).open()
        modern = ModernCaller(f"{opened.url}/p", http)
        async with legacy.listen():
            config = opened.hub.config
            await opened.hub.apply(type(config)(config.gateway, config.servers, home=config.home))
            await one.change([])
            await until(lambda: not opened.hub.snapshot.tools)
            statuses = [(await legacy.request("tools/list")).status, (await modern.request("tools/list")).status]
        whole = await post(http, opened.url, BODY, HEADERS)

    assert statuses == [404, 404]
    assert whole.status == 200


async def test_a_profile_of_a_group_has_what_its_members_have(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    shelves = [shelf(tmp_path, name, SOME) for name in ("left", "right", "other")]
    sections: Json = {
        "groups": {"pair": {"servers": ["left", "right"]}},
        "profiles": {"p": {"servers": ["pair"]}, "many": {"servers": ["pair"], "expose": "search"}},
    }
    async with gateway(tmp_path, servers(*shelves), sections=sections) as opened:
        caller = ModernCaller(f"{opened.url}/p", http)
        names = await listed(caller)
        own, secret = await caller.call("pair__count_geese"), await caller.call("other__count_geese")
        hits = await found(ModernCaller(f"{opened.url}/many", http), "count geese")

    assert names == ["pair__send_letter", "pair__bake_bread", "pair__count_geese"]
    assert own.text.endswith("did count_geese")
    assert secret.error["message"] == "Unknown tool: other__count_geese Did you mean 'pair__count_geese'?"
    assert hits == ["pair__count_geese"]


async def test_a_profile_searches_among_its_own_and_leaves_the_others_findable(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", [GHOST, *plenty(3)])
    profiles: Json = {"p": {"servers": ["one"]}}
    async with gateway(tmp_path, servers(one, two), sections={"profiles": profiles}, expose="search") as opened:
        mine = await opened.hub.find("summon a ghost", profile="p")
        everyone = await opened.hub.find("summon a ghost")
        again = await opened.hub.find("send a letter", profile="p")

    assert mine == []
    assert [hit.tool.shown for hit in everyone] == ["two__summon_ghost"]
    assert [hit.tool.shown for hit in again] == ["one__send_letter"]
