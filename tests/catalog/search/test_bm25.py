"""Tools found by their words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.catalog.search.tools import TOOLS, filled
from trunkline.catalog.search.bm25 import Bm25Index
from trunkline.catalog.search.text import ToolText


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("PR", "github/createPullRequest"),
        ("Create a PR to fix the bug in login flow", "github/createPullRequest"),
        ("issue", "github/list_issues"),
        ("listing issues", "github/list_issues"),
        ("comment on github.", "github/add-comment"),
        ("pull request", "github/createPullRequest"),
        ("will it rain? forecasts, please!", "weather/get_forecast"),
        ("send an e-mail", "mail/send_email"),
        ("writing files", "files/write_file"),
        ("农历", "calendar/黄历"),
    ],
)
def test_the_tool_that_is_meant_comes_first(query: str, key: str) -> None:
    assert filled(Bm25Index()).search(query)[0].key == key


@pytest.mark.parametrize("query", ["a", "the", "", "   ", "?!", "xylophone quartz", "and or if"])
def test_nothing_is_found_when_nothing_fits(query: str) -> None:
    assert filled(Bm25Index()).search(query) == []


def test_a_hit_says_which_words_it_has_and_where() -> None:
    hit = filled(Bm25Index()).search("sending messages by mail")[0]

    assert hit.key == "mail/send_email"
    assert {reason.word: reason.fields for reason in hit.reasons}["sending"] == ("name", "description")
    assert sum(reason.share for reason in hit.reasons) == pytest.approx(1.0)


def test_equal_tools_come_in_the_order_of_their_keys_whatever_the_order_they_came_in() -> None:
    index = Bm25Index()
    for key in ("c", "a", "b"):
        index.add(ToolText(key, "resize_image"))

    assert [hit.key for hit in index.search("resize an image")] == ["a", "b", "c"]


def test_only_some_tools_can_be_asked_for() -> None:
    index = filled(Bm25Index())

    by_keys = index.search("file", only={"files/read_file", "unknown"}, min_score=0)
    by_rule = index.search("file", only=lambda key: key.endswith("read_file"), min_score=0)

    assert [hit.key for hit in by_keys] == [hit.key for hit in by_rule] == ["files/read_file"]
    assert by_keys[0].score == next(hit.score for hit in index.search("file") if hit.key == "files/read_file")


def test_the_limit_and_the_least_score_are_kept() -> None:
    index = filled(Bm25Index())

    assert len(index.search("file", limit=1)) == 1
    assert index.search("file", limit=0) == []
    assert index.search("file", min_score=1.0) == []


def test_an_index_that_was_changed_answers_like_a_new_one() -> None:
    changed = filled(Bm25Index())
    for tool in TOOLS:
        changed.add(replace(tool, description="Something else about a repository."))
    changed.remove("mail/send_email")
    changed.remove("mail/send_email")
    for tool in TOOLS:
        changed.add(tool)

    assert len(changed) == len(TOOLS)
    for query in ("issues of a repository", "write a message to a file", "something"):
        assert changed.search(query, min_score=0) == filled(Bm25Index()).search(query, min_score=0)


def test_an_index_that_was_emptied_holds_nothing() -> None:
    index = filled(Bm25Index())
    for tool in TOOLS:
        index.remove(tool.key)

    assert len(index) == 0
    assert index.search("file", min_score=0) == []
    assert not any(vars(index)[name] for name in ("_postings", "_entries", "_numbers"))


def test_leaving_out_the_hopeless_changes_no_answer() -> None:
    index = Bm25Index()
    for number in range(400):
        index.add(
            ToolText(f"s/{number:03}", f"get_data_{number % 7}", description="Get user data " + "x " * (number % 9))
        )
    index.add(ToolText("s/rare", "transmogrify", description="Get user data and transmogrify it."))

    for query in ("get user data 3", "transmogrify user data", "get data"):
        few = index.search(query, limit=5, min_score=0)
        assert few == index.search(query, limit=1000, min_score=0)[:5]
