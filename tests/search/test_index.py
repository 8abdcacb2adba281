"""The index follows what the servers offer, and is built without keeping anybody waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, gateway, make_config, until
from tests.questions.scene import inside
from tests.search.scene import (
    ERAS,
    SEND,
    SOME,
    Json,
    found,
    plenty,
    refusal,
    requester,
    searched,
    servers,
    shelf,
    tool,
    used,
)
from trunkline import Hub, open_hub

SEARCH: Json = {"expose": "search", "namespace": "always"}
HAMMER = tool("swing_hammer", "Swing a hammer at a nail.")


@ERAS
async def test_a_tool_that_appears_is_found_and_one_that_goes_is_not(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        before = await found(caller, "swing a hammer")
        await one.change([HAMMER, SEND])
        await until(lambda: "one__swing_hammer" in opened.hub.snapshot.tools)
        after = [await found(caller, query) for query in ("swing a hammer", "bake bread", "send a letter")]

    assert before == []
    assert after == [["one__swing_hammer"], [], ["one__send_letter"]]


async def test_a_tool_whose_words_change_is_found_by_the_new_ones(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [tool("thing", "Swing a hammer.")])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        before = await found(caller, "swing a hammer")
        version = opened.hub.snapshot.version
        await one.change([tool("thing", "Bake bread.")])
        await until(lambda: opened.hub.snapshot.version > version)
        after = [await found(caller, query) for query in ("swing a hammer", "bake bread")]

    assert before == ["one__thing"]
    assert after == [[], ["one__thing"]]


async def test_a_server_that_comes_is_found_and_one_that_goes_is_not(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", [HAMMER])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        seen = [await found(caller, "swing a hammer")]
        for given in (servers(one, two), servers(one)):
            await opened.hub.apply(make_config(tmp_path, given, **SEARCH))
            await opened.hub.ready(10)
            seen.append(await found(caller, "swing a hammer"))

    assert seen == [[], ["two__swing_hammer"], []]


@pytest.mark.slow
async def test_a_search_while_thousands_of_tools_are_indexed_answers_and_calls_are_served(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one, quick = shelf(tmp_path, "one", [HAMMER]), shelf(tmp_path, "quick", SOME)
    async with gateway(tmp_path, servers(one, quick), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        await one.change([*plenty(5000), HAMMER])
        await until(lambda: len(opened.hub.snapshot.tools) > 5000, 30)
        searches = asyncio.gather(*(found(caller, query) for query in ("swing a hammer", "send a letter")))
        calls = [(await used(caller, "quick__count_geese")).text for _ in range(5)]
        ended = await searches

    assert calls == ["quick did count_geese"] * 5
    assert ended == [["one__swing_hammer"], ["quick__send_letter"]]


async def test_the_index_is_ready_before_anybody_searches(tmp_path: Path) -> None:
    one = shelf(tmp_path, "one", [HAMMER])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        await until(lambda: indexed(opened.hub) == ["one/swing_hammer"])


def indexed(hub: Hub) -> list[str]:
    """What a hub has in its index, which nothing but a test wants to see."""
    index = inside(hub.relay.finding, "_search").index
    return list(index.tools) if index is not None else []


async def test_where_nobody_searches_no_index_is_made(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [HAMMER])
    async with gateway(tmp_path, servers(one), expose="all") as opened:
        await ModernCaller(opened.url, http).call("swing_hammer")

        assert inside(opened.hub.relay.finding, "_search").index is None


async def test_searching_first_in_a_profile_hides_nothing_from_the_others(tmp_path: Path) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", [HAMMER])
    profiles: Json = {"profiles": {"p": {"servers": ["one"]}}}
    async with open_hub(make_config(tmp_path, servers(one, two), sections=profiles)) as hub:
        await hub.ready(10)
        mine = [hit.tool.shown for hit in await hub.find("swing a hammer", profile="p")]
        everyone = [hit.tool.shown for hit in await hub.find("swing a hammer")]
        again = [hit.tool.shown for hit in await hub.find("send a letter", profile="p")]

    assert (mine, everyone, again) == ([], ["two__swing_hammer"], ["one__send_letter"])


ASKABLE: Json = {"elicitation": {}}


async def test_tools_only_for_those_who_can_be_asked_are_found_by_them_alone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME, era="legacy").put("askable", [*SOME, HAMMER])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        await until(lambda: "one__swing_hammer" in opened.hub.snapshot.tools)
        seen: dict[str, list[object]] = {}
        for who, capabilities in (("mute", {}), ("able", ASKABLE)):
            legacy = await LegacyCaller(opened.url, http, capabilities=capabilities).open()
            read = await legacy.request("resources/read", {"uri": "trunkline://tools/one__swing_hammer"})
            seen[who] = [
                await found(legacy, "swing a hammer"),
                len((await searched(legacy, names=["one__swing_hammer"]))["tools"]),
                "Did you mean one__swing_hammer" in refusal(await used(legacy, "one__swing_hamer")),
                "swing_hammer" in (await legacy.request("resources/read", {"uri": "trunkline://tools"})).raw.decode(),
                "result" in read.message,
            ]

    assert seen == {"mute": [[], 0, False, False, False], "able": [["one__swing_hammer"], 1, True, True, True]}
