"""`search_tools`: what is found, how much of it is told, and what is said to those who ask badly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, gateway
from tests.search.scene import (
    BAKE,
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
from trunkline.tools.tokens import can_count, counted, estimated

SEARCH: Json = {"expose": "search", "namespace": "always"}
tokens = counted if can_count() else estimated


@ERAS
async def test_one_query_finds_the_tool_with_its_description_and_schema(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        answer = await searched(await requester(opened, http, era), "post a letter")

    best = answer["tools"][0]
    assert (best["name"], best["description"]) == ("one__send_letter", SEND["description"])
    assert best["inputSchema"] == SEND["inputSchema"]
    assert 0 < best["score"] <= 1
    assert "shortened" not in best


async def test_several_queries_find_the_best_of_each_in_turn(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        both = await searched(caller, queries=["bake bread", "send a letter", "fly to the moon"])
        joined = await searched(caller, "bake bread", queries=["send a letter"])
        text = await searched(caller, queries="bake bread")

    assert [one["name"] for one in both["tools"]] == ["one__bake_bread", "one__send_letter"]
    assert both["nothing_fits"] == ["fly to the moon"]
    assert [one["name"] for one in joined["tools"]] == ["one__bake_bread", "one__send_letter"]
    assert [one["name"] for one in text["tools"]] == ["one__bake_bread"]


async def test_names_give_whole_definitions_and_say_which_are_unknown(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    bake = {**BAKE, "outputSchema": {"type": "object", "properties": {"loaf": {"type": "string"}}}}
    one = shelf(tmp_path, "one", [SEND, bake])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        answer = await searched(caller, names=["one__bake_bread", "one__fly", "search_tools", "bake_bread"])
        both = await searched(caller, "send a letter", names=["one__bake_bread", "one__bake_bread"])

    assert answer["tools"] == [{**bake, "name": "one__bake_bread"}]
    assert answer["unknown"] == ["one__fly", "search_tools"]
    assert [one["name"] for one in both["tools"]] == ["one__bake_bread", "one__send_letter"]


@pytest.mark.parametrize(("arguments", "count"), [({}, 5), ({"limit": 1}, 1), ({"limit": 12}, 12), ({"limit": 3.0}, 3)])
async def test_a_limit_is_kept(tmp_path: Path, http: aiohttp.ClientSession, arguments: Json, count: int) -> None:
    one = shelf(tmp_path, "one", plenty(20, "letter"))
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        names = await found(ModernCaller(opened.url, http), "letter thing", **arguments)

    assert len(names) == len(set(names)) == count


async def test_the_usual_limit_is_an_option(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", plenty(20, "letter"))
    async with gateway(tmp_path, servers(one), sections={"search": {"limit": 2}}, **SEARCH) as opened:
        assert len(await found(ModernCaller(opened.url, http), "letter thing")) == 2


@ERAS
async def test_nothing_fits_is_an_answer_with_advice(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        answer = await searched(await requester(opened, http, era), "quantum chromodynamics")

    assert answer["tools"] == []
    assert answer["nothing_fits"] == ["quantum chromodynamics"]
    assert "other words" in answer["hint"]


# The budget.


def wordy(name: str, words: int, properties: int = 40) -> Json:
    """A tool with so much to say about letters."""
    text = "A letter goes by post to whoever it may concern. " * words
    found = {f"argument_{number}": {"type": "string", "description": text} for number in range(properties)}
    return tool(name, f"Send a letter by post. {text}", found)


async def test_a_tool_beyond_all_measure_is_shortened_and_given_whole_on_demand(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    monster = wordy("send_letter", 40)
    one = shelf(tmp_path, "one", [monster, BAKE])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        heard = await caller.call("search_tools", {"query": "send a letter by post"})
        whole = await searched(caller, names=["one__send_letter"])

    answer = json.loads(heard.text)
    assert tokens(json.dumps(monster)) > 13_000
    assert tokens(heard.text) <= 4000
    assert answer["tools"][0]["shortened"] is True
    assert set(answer["tools"][0]["inputSchema"]["properties"]) == set(monster["inputSchema"]["properties"])
    assert '{"names": [...]}' in answer["hint"]
    assert whole["tools"][0]["inputSchema"] == monster["inputSchema"]
    assert whole["tools"][0]["description"] == monster["description"]


@pytest.mark.parametrize("budget", [300, 1000, 4000])
async def test_the_budget_is_kept_however_much_is_asked(
    tmp_path: Path, http: aiohttp.ClientSession, budget: int
) -> None:
    tools = [wordy(f"letter_{number}", number % 9, number % 30) for number in range(120)]
    tools += [tool(f"letter_to_the_editor_of_the_morning_paper_{number}", "手紙を送る。" * 20) for number in range(20)]
    one = shelf(tmp_path, "one", tools)
    sections: Json = {"search": {"budget": budget, "min_score": 0}}
    queries = [f"letter post {word}" for word in ["send", "argument", "whoever", "concern", "goes", "thing"]]
    async with gateway(tmp_path, servers(one), sections=sections, **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        texts = [
            (await caller.call("search_tools", {"query": "a letter"})).text,
            (await caller.call("search_tools", {"query": "a letter", "limit": 50})).text,
            (await caller.call("search_tools", {"queries": queries, "limit": 50})).text,
            (await caller.call("search_tools", {"query": "手紙 letter", "limit": 30})).text,
            (
                await caller.call("search_tools", {"queries": ["quantum chromodynamics " * 500] * 9, "query": "letter"})
            ).text,
        ]

    assert [json.loads(text)["tools"] != [] for text in texts] == [True] * 5
    assert max(map(estimated, texts)) <= budget
    assert all(tokens(text) <= budget for text in texts if text.isascii())


async def test_small_tools_leave_their_share_to_larger_ones(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [wordy("letter_long", 20, 2), *plenty(4, "letter")])
    async with gateway(tmp_path, servers(one), sections={"search": {"min_score": 0}}, **SEARCH) as opened:
        answer = await searched(ModernCaller(opened.url, http), "letter")

    assert len(answer["tools"]) == 5
    assert all("shortened" not in one for one in answer["tools"])


@pytest.mark.slow
async def test_a_list_of_two_thousand_tools_costs_a_hundredth(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [wordy(f"letter_{number}", 1, 3) for number in range(2000)])
    async with gateway(tmp_path, servers(one), expose="auto", sections=OPEN, namespace="always") as opened:
        few = await ModernCaller(opened.url, http).request("tools/list")
        caller = ModernCaller(f"{opened.url}/open", http)
        every = [await caller.request("tools/list")]
        every.append(await caller.request("tools/list", {"cursor": every[0].result["nextCursor"]}))
        names = await found(ModernCaller(opened.url, http), "letter 1234")

    assert sum(len(heard.result["tools"]) for heard in every) == 2000
    assert tokens(few.raw) <= 0.01 * sum(tokens(heard.raw) for heard in every)
    assert "one__letter_1234" in names


OPEN: Json = {"profiles": {"open": {"expose": "all"}}}


# Who asks badly.


BAD: list[tuple[Any, str]] = [
    ({}, "Say what you want to do"),
    ({"query": ""}, "Say what you want to do"),
    ({"query": "  ", "queries": []}, "Say what you want to do"),
    ({"query": 5}, "'query' must be of type string"),
    ({"queries": [1]}, "must be of type string"),
    ({"queries": ["a"] * 11}, "queries"),
    ({"names": "one__send_letter"}, "'names' must be of type array"),
    ({"names": ["a"] * 11}, "names"),
    ({"query": "a", "limit": 0}, "'limit' must be at least 1"),
    ({"query": "a", "limit": 51}, "'limit' must be at most 50"),
    ({"query": "a", "limit": "many"}, "'limit' must be of type integer"),
    ({"query": "a", "limit": 1.5}, "'limit' must be of type integer"),
    ({"question": "a"}, "'question' is not taken"),
]


@ERAS
async def test_bad_arguments_are_told_in_a_result_that_helps(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        for arguments, told in BAD:
            text = refusal(await caller.call("search_tools", arguments))

            assert told in text, (arguments, text)
        for params in ({"name": "search_tools"}, {"name": "search_tools", "arguments": [1]}):
            assert "Say what you want to do" in refusal(await caller.request("tools/call", params))


async def test_where_every_tool_is_listed_there_is_nothing_to_search_with(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), expose="all", namespace="always") as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await caller.call("search_tools", {"query": "letter"}), await used(caller, "one__send_letter")]

    assert [one.error["message"] for one in heard] == ["Unknown tool: search_tools", "Unknown tool: call_tool"]


# Who may find what.


async def test_tools_for_apps_are_neither_found_nor_called_by_models(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    app = {**GHOST, "_meta": {"ui": {"visibility": ["app"], "resourceUri": "ui://x"}}}
    one = shelf(tmp_path, "one", [app, BAKE])
    async with gateway(tmp_path, servers(one), pinned=["*"], **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        names = await found(caller, "summon a ghost")
        named = await searched(caller, names=["one__summon_ghost"])
        called = refusal(await used(caller, "one__summon_ghost"))
        read = await caller.request("resources/read", {"uri": "trunkline://tools"})
        one_read = await caller.request("resources/read", {"uri": "trunkline://tools/one__summon_ghost"})
        direct = await caller.call("one__summon_ghost")

    assert names == []
    assert named["unknown"] == ["one__summon_ghost"]
    assert called.startswith("There is no tool 'one__summon_ghost'.")
    assert "Did you mean one__summon_ghost" not in called
    assert "ghost" not in read.result["contents"][0]["text"]
    assert one_read.error["message"].startswith("Unknown resource")
    assert direct.text == "one did summon_ghost"


GHOST = tool("summon_ghost", "Summon a ghost.")


async def test_a_strategy_can_be_chosen_for_one_search(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        by_pattern = await searched(caller, "^bake_.*", strategy="regex")
        by_words = await searched(caller, "bake bread", strategy="bm25")
        unknown = refusal(await caller.call("search_tools", {"query": "bake", "strategy": "magic"}))

    assert [each["name"] for each in by_pattern["tools"]] == ["one__bake_bread"]
    assert by_words["tools"][0]["name"] == "one__bake_bread"
    assert "strategy" in unknown


@pytest.mark.parametrize("strategy", ["hybrid", "bm25"])
async def test_what_was_found_by_words_alone_says_so_where_meaning_was_to_count(
    tmp_path: Path, http: aiohttp.ClientSession, strategy: str
) -> None:
    away = {"embeddings_url": "http://127.0.0.1:9/v1/embeddings", "embeddings_model": "small", "query_timeout": 0.0}
    async with gateway(tmp_path, servers(shelf(tmp_path, "one", SOME)), sections={"search": away}, **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        answers = [await searched(caller, "bake bread", strategy=strategy) for _ in range(3)]

    assert [each["tools"][0]["name"] for each in answers] == ["one__bake_bread"] * 3
    assert [("by words alone" in each.get("note", "")) for each in answers] == [strategy == "hybrid"] * 3
