"""Tools are found for what people say, in catalogues as people have them."""

from __future__ import annotations

from statistics import fmean

import pytest
from bench.everyday import catalogues, held_out, measured, read_queries, read_tools

from trunkline.search.finder import Finder
from trunkline.search.text import ToolText

TOOLS = read_tools()
QUERIES = read_queries()


def found(query: str, tools: list[ToolText] = TOOLS, *, min_score: float = 0.25) -> list[str]:
    finder = Finder(strategy="bm25")
    for tool in tools:
        finder.add(tool)
    return [hit.key for hit in finder.search(query, min_score=min_score)]


@pytest.mark.parametrize(
    ("size", "first", "five", "auroc"), [(10, 0.7, 0.88, 0.88), (30, 0.66, 0.86, 0.86), (0, 0.58, 0.8, 0.82)]
)
async def test_words_alone_find_what_is_said(size: int, first: float, five: float, auroc: float) -> None:
    score = await measured(TOOLS, QUERIES, size, "bm25")

    assert fmean(score.first) >= first
    assert fmean(score.five) >= five
    assert fmean(score.aurocs) >= auroc


def test_the_set_is_what_it_says() -> None:
    keys = {tool.key for tool in TOOLS}

    assert len({tool.server for tool in TOOLS}) >= 20
    assert len(QUERIES) >= 300
    assert sum(not query["gold"] for query in QUERIES) >= 60
    assert all(keys.issuperset(query["gold"]) for query in QUERIES)
    assert 0.25 < fmean(held_out(query) for query in QUERIES) < 0.42
    assert [len(each) for each in catalogues(TOOLS, 10)] == [10] * 12


FOURTEEN = [
    *("brave-search", "everything", "fetch", "filesystem", "git", "github", "google-maps", "memory", "playwright"),
    *("postgres", "sequential-thinking", "slack", "sqlite", "time"),
]


@pytest.mark.parametrize("servers", [FOURTEEN, sorted({tool.server for tool in TOOLS})], ids=["fourteen", "all"])
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("what time is it", {"time/get_current_time", "google-calendar/get-current-time"}),
        ("open a PR", {"github/create_pull_request"}),
        ("open an issue on github", {"github/issue_write"}),
        ("remember a fact about a person", {"memory/add_observations", "memory/create_entities"}),
    ],
)
def test_what_people_say_finds_the_tool_first(said: str, meant: set[str], servers: list[str]) -> None:
    assert found(said, [tool for tool in TOOLS if tool.server in servers])[0] in meant


def test_another_word_for_it_finds_the_tool() -> None:
    assert "weather/get_forecast" in found("will it rain in Bergen")[:2]


def test_what_only_shows_notes_does_not_stand_in_for_deleting_one() -> None:
    notes = [tool for tool in TOOLS if tool.server == "obsidian" and "delete" not in tool.name]

    assert found("delete a note", notes) == []
    assert found("delete a note", notes, min_score=0.0)


def test_what_says_that_it_also_deletes_is_found_for_deleting() -> None:
    described = "Handles a to-do list: add, delete, update or complete items."
    manager = ToolText("todo/handle_action", "handle_action", server="todo", description=described)

    assert found("delete an item", [manager]) == [manager.key]


async def test_words_alone_find_what_is_said_tersely_and_at_length() -> None:
    score = await measured(TOOLS, read_queries("everyday-second.jsonl"), 0, "bm25")

    assert fmean(score.first) >= 0.62
    assert fmean(score.five) >= 0.85


def test_a_file_is_meant_by_its_name() -> None:
    assert found("show me budget.txt")[0].startswith("filesystem/read_")
