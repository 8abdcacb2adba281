"""Tools found by a pattern."""

from __future__ import annotations

import re

import pytest

from tests.search.tools import filled
from trunkline.search.regex import RegexIndex
from trunkline.search.text import ToolText
from trunkline.tools.patterns import translated


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("^(read|write)_file$", ["files/read_file", "files/write_file"]),
        ("create.*request", ["github/createPullRequest"]),
        (r"\bbar\b", ["charts/bar_chart"]),
        ("[lL]ist_i", ["github/list_issues"]),
        ("READ file", ["files/read_file", "files/write_file"]),
        ("request", ["github/createPullRequest"]),
        ("(", []),
    ],
)
def test_a_pattern_or_plain_words_find_tools(pattern: str, keys: list[str]) -> None:
    assert [hit.key for hit in filled(RegexIndex()).search(pattern)] == keys


def test_a_whole_name_scores_one_and_a_description_less() -> None:
    index = filled(RegexIndex())

    assert index.search("read_.ile$|read_file")[0].score == 1.0
    assert 0.0 < index.search("mailbo[x]")[0].score < 1.0


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        "(a|aa)+$",
        ".*.*.*.*x",
        "a?" * 30 + "a" * 30,
        r"(?=a)b",
        r"(?P<x>a)(?P=x)",
        r"(a)\1",
        "a{1,99}",
        "a{9,2}",
        "a**",
        "*a",
        "(",
        ")",
        "[",
        "a" * 5_000,
        "(?i)a",
        "x{1000000000}",
    ],
)
def test_a_pattern_that_is_dangerous_or_wrong_is_looked_for_letter_by_letter(pattern: str) -> None:
    assert translated(pattern) == re.escape(pattern[:200])


@pytest.mark.parametrize(
    "pattern", ["a.*b.*c", "(get|list|find)_(user|team)s?", r"^\w+$", "[^a-z]x", "a{2,3}", "x|" * 50]
)
def test_a_harmless_pattern_is_kept(pattern: str) -> None:
    assert re.compile(translated(pattern))
    assert translated(pattern) != re.escape(pattern)


def test_a_search_ends_at_its_deadline_with_what_it_has() -> None:
    ticks = iter(range(1000))
    index = RegexIndex(deadline=4.5, clock=lambda: float(next(ticks)))
    for number in range(100):
        index.add(ToolText(f"{number:03}", "thing"))

    assert [hit.key for hit in index.search("thing")] == ["000", "001", "002", "003", "004"]


def test_tools_are_replaced_removed_and_chosen() -> None:
    index = filled(RegexIndex())
    index.add(ToolText("files/read_file", "peruse"))
    index.remove("files/write_file")
    index.remove("files/write_file")

    assert index.search("_file$") == []
    assert [hit.key for hit in index.search("mail", only=["mail/search_mail"])] == ["mail/search_mail"]
    assert index.search("mail", only=lambda key: False) == []
