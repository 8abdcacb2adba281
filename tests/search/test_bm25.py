"""Tools found by their words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.search.tools import TOOLS, filled
from trunkline.search.bm25 import Bm25Index
from trunkline.search.text import ToolText, terms_of


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


@pytest.mark.parametrize("query", ["list_issues", "List issues", "listIssues", "LIST-ISSUES!"])
def test_a_query_that_is_a_tools_name_finds_that_tool_first_however_it_is_spelt(query: str) -> None:
    index = filled(Bm25Index())
    index.add(ToolText("a/list", "list_all_issues", "issues list", description="List issues: list the issues."))

    first = index.search(query)[0]

    assert (first.key, first.score) == ("github/list_issues", 1.0)


def test_a_name_of_common_words_is_a_name_too() -> None:
    index = filled(Bm25Index())
    index.add(ToolText("x/all", "all", description="Everything at once."))

    assert [hit.key for hit in index.search("All")] == ["x/all"]
    assert index.search("All", only={"files/read_file"}, min_score=0) == []


def test_a_tool_without_a_word_in_its_name_is_not_what_an_empty_query_means() -> None:
    index = filled(Bm25Index())
    index.add(ToolText("x/!", "!!!", description="Shout."))

    assert index.search("?", min_score=0) == index.search("", min_score=0) == []


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("wether forcast", "weather/get_forecast"),
        ("forecsat", "weather/get_forecast"),
        ("open a pull reqquest", "github/createPullRequest"),
        ("send a mesage", "mail/send_email"),
    ],
)
def test_a_slip_of_the_finger_does_no_great_harm(query: str, key: str) -> None:
    assert filled(Bm25Index()).search(query)[0].key == key


def test_a_word_that_was_guessed_counts_less_than_one_that_is_there() -> None:
    index = filled(Bm25Index())

    right, wrong = (index.search(query)[0] for query in ("city forecast", "city forecsat"))

    assert right.key == wrong.key
    assert right.score > wrong.score
    assert {reason.word for reason in wrong.reasons} == {"city", "forecsat"}


def test_words_side_by_side_tell_more_than_the_same_words_apart() -> None:
    index = Bm25Index()
    index.add(ToolText("apart", "one", description="Quality of cold water, and fresh air from outside."))
    index.add(ToolText("together", "two", description="Cold water, fresh from outside, and of air quality."))

    scores = index.scores("check air quality", limit=2)

    assert scores["together"] > scores["apart"]


def test_of_two_tools_that_say_the_same_the_one_that_says_less_beside_it_comes_first() -> None:
    index = Bm25Index()
    index.add(ToolText("a", "resize_image", parameter_notes="Where the mill grinds slowly, bakers queue for flour."))
    index.add(ToolText("b", "resize_image"))

    assert list(index.scores("please resize my image", limit=2)) == ["b", "a"]


def test_a_hit_that_stands_clear_scores_more_than_one_among_its_like() -> None:
    index = filled(Bm25Index())
    alone = index.search("weather forecast")[0].score
    index.add(ToolText("other/get_forecast", "get_forecast", "weather", description="Weather forecast for a city."))

    first, second = index.search("weather forecast")[:2]

    assert first.score == second.score < alone


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
    assert by_keys == by_rule


def test_a_single_score_does_not_depend_on_which_tools_are_asked_for() -> None:
    index = filled(Bm25Index())

    alone = index.scores("read a file", limit=5, only={"files/write_file"})

    assert alone == {"files/write_file": index.scores("read a file", limit=5)["files/write_file"]}


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
    assert not any(vars(index)[name] for name in ("_postings", "_entries", "_numbers", "_called"))


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


@pytest.mark.parametrize("query", ["x" * 50_000, "forecast " * 5_000, " ".join(f"qwert{n}" for n in range(5_000))])
def test_the_longest_query_is_answered(query: str) -> None:
    hits = filled(Bm25Index()).search(query)

    assert [hit.key for hit in hits] == (["weather/get_forecast"] if "forecast" in query else [])


def test_a_word_that_few_tools_have_counts_more_than_one_that_many_have() -> None:
    index = Bm25Index()
    for number in range(20):
        index.add(ToolText(f"s/{number}", f"tool{number}", description="Works on a folder."))
    index.add(ToolText("s/rare", "one", description="Works on a glacier."))
    index.add(ToolText("s/common", "two", description="Works on a folder."))

    assert index.search("folder glacier", min_score=0)[0].key == "s/rare"


def test_a_word_among_few_others_counts_more_than_among_many() -> None:
    padding = " ".join(f"sundry{number}" for number in range(60))
    short, long = (terms_of(ToolText("a", "one", description=f"Glacier {words}")) for words in ("melts", padding))

    assert short.strengths["glacier"] > 1.5 * long.strengths["glacier"]
