"""Tools given by hand and searched: what ART's service promises, and what it got wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.manager.house import house, manager
from tests.search.small_model import Model
from trunkline import Annotations, Tool, ToolSearchService
from trunkline.errors import ConfigError
from trunkline.search.vectors import open_vectors

GIVEN = [
    Tool("createPullRequest", "Create a new pull request", annotations=Annotations(tags=("pr",))),
    Tool("list_issues", "List the issues of a repository (on GitHub)."),
    Tool("send_mail", "Send a message to somebody"),
]


def names(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools]


async def test_tools_are_ranked_and_bounded_by_each_strategy() -> None:
    search = ToolSearchService()

    for strategy in ("regex", "bm25", "semantic", "hybrid"):
        found = await search.search("pull request", GIVEN, strategy=strategy)
        assert names(found)[0] == "createPullRequest", strategy
    assert names(await search.search("a pull request, or an issue", GIVEN, max_results=1)) == ["createPullRequest"]
    assert await search.search("cook dinner", GIVEN) == []
    with pytest.raises(ConfigError, match="strategy 'magic'"):
        await search.search("x", GIVEN, strategy="magic")  # pyright: ignore[reportArgumentType] - what a program may do


async def test_scores_come_with_the_words_that_were_found() -> None:
    [best, *_] = await ToolSearchService().search_scored("create a pull request", GIVEN)

    assert best.tool is GIVEN[0]
    assert 0.9 < best.score <= 1.0
    assert {"create", "pull", "request"} <= {*best.matched_keywords}


# What the original got wrong.


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("PR", "createPullRequest"),
        ("issue", "list_issues"),
        ("github", "list_issues"),
        ("What about GitHub?", "list_issues"),
        ("pull requests", "createPullRequest"),
        ("sending mails", "send_mail"),
    ],
)
async def test_short_words_other_forms_punctuation_and_parts_of_names_are_found(query: str, tool: str) -> None:
    assert names(await ToolSearchService().search(query, GIVEN))[:1] == [tool]


async def test_a_score_stays_between_0_and_1_and_means_the_same_among_a_thousand_others() -> None:
    others = [Tool(f"tool_{number}", f"Does thing number {number}") for number in range(1000)]
    search = ToolSearchService()

    [alone] = await search.search_scored("create pull request", GIVEN, max_results=1)
    [among] = await search.search_scored("create pull request", [*GIVEN, *others], max_results=1)

    assert among.tool is alone.tool
    assert alone.score <= 1.0
    assert among.score == pytest.approx(alone.score, abs=0.1)


async def test_filler_words_do_not_push_a_tool_below_the_bar() -> None:
    prompt = "Could you please create a PR so that the bug in the login flow is fixed"

    found = await ToolSearchService().search(prompt, GIVEN, min_score=0.25)

    assert names(found) == ["createPullRequest"]


async def test_the_bar_is_heeded_and_one_letter_finds_nothing() -> None:
    search = ToolSearchService()

    assert names(await search.search("issue", GIVEN, min_score=0.0))[:1] == ["list_issues"]
    assert await search.search("message issue", GIVEN, min_score=1.0) == []
    assert await search.search("a", GIVEN) == []


async def test_tools_that_come_change_and_go_between_searches_are_seen_so() -> None:
    search = ToolSearchService()
    await search.search("mail", GIVEN)

    changed = [Tool("send_mail", "Feed the cat"), Tool("post_letter", "Send a letter by mail")]

    assert names(await search.search("letter", changed)) == ["post_letter"]
    assert names(await search.search("feed the cat", changed)) == ["send_mail"]
    assert await search.search("pull request", changed) == []


async def test_searches_at_once_among_different_tools_do_not_mix() -> None:
    search = ToolSearchService()
    places = ["here", "there"]
    given = {
        place: [Tool(f"{place}_{number}", f"Does thing {number} of those {place}") for number in range(300)]
        for place in places
    }

    found = await asyncio.gather(*(search.search("thing 7", given[place]) for place in places * 3))

    assert [tools[0].name for tools in found] == ["here_7", "there_7"] * 3


async def test_what_a_manager_gives_can_be_searched_further(tmp_path: Path) -> None:
    async with house(tmp_path, "github", "linear") as hub, manager(hub) as ana:
        tools = await ana.get_thread_tools("t")

        [found] = await ana.tool_search.search("comment on it", tools)

        assert found.name == "linear__addComment"
        assert found in tools


async def test_meaning_counts_where_there_are_vectors() -> None:
    tools = [Tool("get_forecast", "Tells the weather of a city"), Tool("send_mail", "Sends a letter")]
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        search = ToolSearchService(vectors=vectors)
        await search.search("umbrella", tools, strategy="semantic")  # they are read now, and known a moment later
        await vectors.settled()

        [found] = await search.search_scored("umbrella", tools, strategy="semantic")

    assert (found.tool.name, found.matched_keywords) == ("get_forecast", ())
