"""Scores that mean the same everywhere."""

from __future__ import annotations

import pytest

from tests.search.tools import filled
from trunkline.search.bm25 import Bm25Index
from trunkline.search.calibrate import (
    DEFAULT_MIN_SCORE,
    NAMED,
    calibrated,
    emphasis,
    gained,
    rarity,
)
from trunkline.search.text import ToolText

QUERIES = ("create a pull request", "send an email", "weather forecast for a city", "transmogrify", "read file")


@pytest.mark.parametrize("others", [0, 10, 1000])
def test_a_score_is_between_0_and_1_however_many_tools_there_are(others: int) -> None:
    index = filled(Bm25Index())
    index.add(ToolText("odd/transmogrify", "transmogrify", description="Transmogrify, transmogrify, transmogrify!"))
    for number in range(others):
        index.add(ToolText(f"other/{number}", f"thing_{number}", description="Does a thing."))

    for query in QUERIES:
        best = index.search(query)[0].score
        assert 0.6 < best <= 1.0


def test_a_score_hardly_depends_on_the_rest_of_the_catalogue() -> None:
    small, large = filled(Bm25Index()), filled(Bm25Index())
    for number in range(2000):
        large.add(ToolText(f"other/{number}", f"thing_{number}", description="Does a thing."))

    for query in QUERIES[:3]:
        assert small.search(query)[0].score == pytest.approx(large.search(query)[0].score, abs=0.15)


def test_words_beside_the_point_do_not_bring_a_good_match_below_the_least_score() -> None:
    index = filled(Bm25Index())
    filler = "Hello, could you please help me, I would really like this done today before lunch with Ann and Bob: "

    assert index.search(filler + "create a pull request")[0].key == "github/createPullRequest"


def test_the_words_of_other_tools_do_not_bring_it_there_either() -> None:
    others = "weather city forecast, bar chart numbers, mailbox messages, comment, list, issues, text, read, send"

    hits = filled(Bm25Index()).search(f"create a pull request; {others}", limit=5)

    assert "github/createPullRequest" in {hit.key for hit in hits}


def test_more_evidence_gives_a_higher_score() -> None:
    scores = [calibrated(evidence / 10, 2.0, 0.5) for evidence in range(20)]

    assert scores == sorted(scores)
    assert scores[0] == 0.0
    assert calibrated(0.0, 0.0, 0.0) == 0.0


def test_a_closer_look_takes_nothing_away() -> None:
    plain = gained(1.0, names=0.0, phrase=False, terms=1_000_000)

    assert plain == pytest.approx(1.0)
    assert gained(1.0, names=1.0, phrase=False, terms=1_000_000) > plain
    assert gained(1.0, names=0.0, phrase=True, terms=1_000_000) > plain
    assert gained(1.0, names=0.0, phrase=False, terms=10) > plain
    assert gained(1.0, names=2.0, phrase=True, terms=1) < 2.0


def test_who_bears_the_name_scores_1_whatever_the_query_weighs() -> None:
    assert calibrated(NAMED, 0.001, 0.0) == calibrated(NAMED, 100.0, 100.0) == 1.0


def test_words_that_tell_count_most() -> None:
    assert emphasis("the") < emphasis("pleas") < emphasis("forecast") == 1.0


def test_what_every_tool_says_tells_little() -> None:
    assert rarity("get", 0, 0) < rarity("forecast", 0, 0)
    assert rarity("forecast", 900, 1000) < rarity("forecast", 1, 1000) <= 1.0


def test_the_default_least_score_lets_one_good_word_pass() -> None:
    assert filled(Bm25Index()).search("forecast")[0].score > DEFAULT_MIN_SCORE
