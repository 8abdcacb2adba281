"""The one door to searching."""

from __future__ import annotations

from typing import Any

import pytest

from tests.search.tools import TOOLS
from trunkline.errors import ConfigError
from trunkline.search.finder import DEFAULT_SEARCH_CONFIG, Finder, SearchConfig
from trunkline.search.text import ToolText
from trunkline.search.usage import Usage


@pytest.mark.parametrize("strategy", ["regex", "bm25", "semantic", "hybrid"])
def test_every_strategy_finds_the_tool(strategy: str) -> None:
    assert stocked(strategy=strategy).search("read file")[0].key == "files/read_file"


def test_options_are_taken_at_their_word() -> None:
    finder = stocked(limit=1, min_score=0.9)

    assert finder.search("something about a file") == []
    assert len(finder.search("file", min_score=0.3)) == 1
    assert len(finder.search("file", min_score=0.3, limit=2)) == 2


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        Finder(maxResults=1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"strategy": "magic"}, "strategy"),
        ({"limit": 0}, "limit"),
        ({"min_score": 5}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"query_timeout": -1.0}, "query_timeout"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SearchConfig(**options)


def test_the_defaults_are_as_documented() -> None:
    assert SearchConfig("hybrid", 10, 0.25, True, 0.3) == DEFAULT_SEARCH_CONFIG


def test_several_queries_can_be_asked_at_once() -> None:
    found = {hit.key for hit in stocked().search(["weather forecast", "bar chart"], limit=2)}

    assert found == {"weather/get_forecast", "charts/bar_chart"}


def test_a_removed_tool_is_found_no_more() -> None:
    finder = stocked()
    finder.remove("files/read_file")

    assert len(finder) == len(TOOLS) - 1
    assert "files/read_file" not in {hit.key for hit in finder.search("read file", min_score=0)}


async def test_find_is_search_where_there_are_no_vectors() -> None:
    finder = stocked()

    assert await finder.find("read file") == finder.search("read file")


def test_of_tools_that_fit_alike_the_one_that_served_comes_first() -> None:
    usage = Usage()
    finder = Finder(usage=usage)
    for key in ("a", "b", "c"):
        finder.add(ToolText(key, "resize_image"))
    usage.record("b", ok=True)
    usage.record("c", ok=False)

    hits = finder.search("resize an image")

    assert [hit.key for hit in hits] == ["b", "a", "c"]
    assert hits[0].reasons[-1].word == "(used lately)"


def test_no_use_lifts_a_tool_over_a_better_match_or_into_the_answer() -> None:
    usage = Usage()
    plain, taught = stocked(), stocked(usage=usage)
    for _ in range(1000):
        usage.record("files/write_file", ok=True)
        usage.record("weather/get_forecast", ok=True)

    hits = taught.search("read a file")

    assert [hit.key for hit in hits] == [hit.key for hit in plain.search("read a file")]
    assert usage.boost("files/write_file") <= usage.most


def test_what_was_learned_fades() -> None:
    now = [0.0]
    usage = Usage(half_life=10.0, clock=lambda: now[0])
    usage.record("a", ok=True)
    fresh = usage.boost("a")
    now[0] = 100.0

    assert usage.boost("a") < fresh / 100
    assert usage.boost("unknown") == 0.0


def stocked(**options: Any) -> Finder:
    finder = Finder(**options)
    for tool in TOOLS:
        finder.add(tool)
    return finder
