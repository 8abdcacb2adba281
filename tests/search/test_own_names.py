"""Names lead to the tool that they were given to, and never to one of ours or of another server."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, faulty, gateway, make_config
from tests.search.scene import (
    AUTO,
    ERAS,
    OWN,
    Json,
    found,
    listed,
    plenty,
    requester,
    searched,
    servers,
    shelf,
    tool,
    used,
)
from trunkline.tools.names import prefixed

DUCK = "🦆" * 5
LONG = "x" * 200


@ERAS
@pytest.mark.parametrize("expose", ["all", "search"])
async def test_names_that_look_alike_lead_to_their_own_servers(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, expose: str
) -> None:
    offers = {
        "a": ["b__c", "_b", "same", LONG, DUCK, "x.y"],
        "a__b": ["c", "same"],
        "a_": ["b", "same"],
        "ä.b": ["same", "a__same", DUCK],
    }
    shelves = {name: shelf(tmp_path, name, [tool(one) for one in tools]) for name, tools in offers.items()}
    async with gateway(tmp_path, servers(*shelves.values()), expose=expose) as opened:
        caller = await requester(opened, http, era)
        shown = {(entry.server, entry.name): name for name, entry in opened.hub.snapshot.tools.items()}
        for (server, own), name in shown.items():
            heard = await (used(caller, name) if expose == "search" else caller.call(name))

            assert heard.text == f"{server} did {own}"

    assert len(set(shown.values())) == len(shown) == sum(map(len, offers.values()))


@ERAS
@pytest.mark.parametrize("namespace", ["auto", "always", "never"])
@pytest.mark.parametrize("expose", ["auto", "search", "all"])
async def test_a_tool_that_is_called_as_ours_is_reached_under_another_name(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, namespace: str, expose: str
) -> None:
    one = shelf(tmp_path, "one", [tool("search_tools"), tool("call_tool"), *plenty(31)])
    two = shelf(tmp_path, "two", [tool("other", "Quite another thing.")])
    async with gateway(tmp_path, servers(one, two), namespace=namespace, expose=expose) as opened:
        caller = await requester(opened, http, era)
        names = await listed(caller)
        for name in OWN:
            direct = await caller.call(f"one__{name}")

            assert direct.text == f"one did {name}"
        if expose == "all":
            assert not set(OWN) & set(names)
            assert {"one__search_tools", "one__call_tool"} <= set(names)
            return
        through = [(await used(caller, f"one__{name}")).text for name in OWN]
        hits = await found(caller, "quite another thing")

    assert names == (AUTO if expose == "auto" else OWN)
    assert through == ["one did search_tools", "one did call_tool"]
    assert hits == ["two__other" if namespace != "never" else "other"]


@ERAS
async def test_a_server_that_stands_alone_keeps_its_names_unless_search_is_wanted(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", [tool("search_tools"), tool("call_tool"), *plenty(40)])
    async with gateway(tmp_path, servers(one), expose="auto") as opened:
        caller = await requester(opened, http, era)
        names = await listed(caller)
        heard = [await caller.call(name) for name in OWN]

    assert names[:2] == OWN
    assert len(names) == 42
    assert [one.text for one in heard] == ["one did search_tools", "one did call_tool"]


@ERAS
async def test_a_server_that_stands_alone_is_searched_though_its_names_are_ours(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", [tool("search_tools", "Look for hammers."), *plenty(2)])
    async with gateway(tmp_path, servers(one), expose="search") as opened:
        caller = await requester(opened, http, era)
        names = await listed(caller)
        hits = await found(caller, "look for hammers")
        through = await used(caller, "one__search_tools")
        direct = await caller.call("one__search_tools")

    assert names == OWN
    assert hits == ["one__search_tools"]
    assert (through.text, direct.text) == ("one did search_tools", "one did search_tools")


async def test_a_name_of_a_removed_server_leads_nowhere(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    shelves = [shelf(tmp_path, "a", [tool("b__c"), tool("echo")]), shelf(tmp_path, "a__b", [tool("c"), tool("echo")])]
    shelves.append(shelf(tmp_path, "z", [tool("echo")]))
    async with gateway(tmp_path, servers(*shelves), expose="search") as opened:
        caller = ModernCaller(opened.url, http)
        before = {name: entry.server for name, entry in opened.hub.snapshot.tools.items()}
        for gone in ("a", "a__b"):
            shelves = [one for one in shelves if one.name != gone]
            options: Json = {"expose": "search", "namespace": "always"}
            await opened.hub.apply(make_config(tmp_path, servers(*shelves), **options))
            for name, server in before.items():
                direct, through = await caller.call(name), await used(caller, name)
                there = server in {one.name for one in shelves}

                assert ("result" in direct.message) == there
                assert (through.result.get("isError") is not True) == there
                assert not there or through.text == direct.text
                assert not there or direct.text.startswith(f"{server} did ")


async def test_no_server_takes_the_names_of_one_that_is_away(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    away = faulty("--start", "exit")
    thief, other = shelf(tmp_path, "thief", [tool("bank__pay")]), shelf(tmp_path, "other", [tool("bank__pay_all")])
    async with gateway(tmp_path, {"bank": away, **servers(thief, other)}) as opened:
        heard = await ModernCaller(opened.url, http).call("bank__pay")

    assert heard.error["message"].startswith("Unknown tool: bank__pay")
    assert thief.calls() == []


async def test_servers_that_come_and_go_change_no_name(tmp_path: Path) -> None:
    shelves = [shelf(tmp_path, name, [tool("echo"), tool(DUCK), tool(LONG)]) for name in ("a", "a_", "a__b", "b")]
    options: Json = {"namespace": "always"}
    seen: dict[tuple[str, str], set[str]] = {}
    async with gateway(tmp_path, servers(*shelves), **options) as opened:
        for some in (shelves, shelves[1:], shelves[::-1], shelves[:2], shelves[2:], shelves):
            await opened.hub.apply(make_config(tmp_path, servers(*some), **options))
            await opened.hub.ready(10)
            for name, entry in opened.hub.snapshot.tools.items():
                seen.setdefault((entry.server, entry.name), set()).add(name)

    assert len(seen) == 12
    assert all(len(names) == 1 for names in seen.values())


async def test_tools_of_one_name_in_two_servers_are_both_found(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    fly = tool("fly_kite", "Fly a kite.")
    one, two = shelf(tmp_path, "one", [fly]), shelf(tmp_path, "two", [fly])
    async with gateway(tmp_path, servers(one, two), expose="search") as opened:
        caller = await LegacyCaller(opened.url, http).open()
        answer = await searched(caller, "fly a kite")
        told = [(await used(caller, hit["name"])).text for hit in answer["tools"]]

    assert sorted(told) == ["one did fly_kite", "two did fly_kite"]


@ERAS
async def test_a_name_that_was_given_out_goes_on_to_work(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", [tool("read"), tool("both"), tool("far__away"), tool(LONG)])
    one.put("prompts", [{"name": "greet"}])
    two = shelf(tmp_path, "two", [tool("both"), tool("other")])
    async with gateway(tmp_path, servers(one)) as opened:
        caller = await requester(opened, http, era)
        alone = await listed(caller)
        asked = ["read", "one__read", "one__both", "one__far__away"]
        first = [(await caller.call(name)).text for name in asked]
        prompts = [await caller.request("prompts/get", {"name": name}) for name in ("greet", "one__greet")]

        await opened.hub.apply(make_config(tmp_path, servers(one, two)))
        await opened.hub.ready(10)
        merged = [name for name in opened.hub.snapshot.tools if name.startswith("one__")]
        then = [(await caller.call(name)).text for name in [*asked, "far__away", LONG, *merged]]
        prompts += [await caller.request("prompts/get", {"name": name}) for name in ("greet", "one__greet")]
        several = await caller.call("both")

    assert alone == ["read", "both", "far__away", LONG]
    assert first == ["one did read", "one did read", "one did both", "one did far__away"]
    assert then[:6] == [*first, "one did far__away", f"one did {LONG}"]
    assert then[6:] == [f"one did {name}" for name in alone]
    assert all("result" in prompt.message for prompt in prompts)
    assert "one__both, two__both" in several.error["message"]


async def test_a_whole_name_is_found_however_it_was_shortened(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    names = ["x" * 64, "ä" * 3, "read"]
    async with gateway(tmp_path, servers(shelf(tmp_path, "one", [tool(name) for name in names]))) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await caller.call(prefixed("one", name)) for name in names]
        annotations = opened.hub.annotations("one__read")

    assert [one.text for one in heard] == [f"one did {name}" for name in names]
    assert annotations == opened.hub.annotations("read") != None  # noqa: E711
