"""Text as terms."""

from __future__ import annotations

import pytest

from trunkline.search.tokens import bare, is_filler, is_stop, is_telling, slips, spellings, stem, telling, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create_pull_request", ["creat", "pull", "request"]),
        ("createPullRequest", ["creat", "pull", "request"]),
        ("add-comment", ["add", "comment", "addcom"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("github.", ["github"]),
        ("GitHub", ["git", "hub", "github"]),
        ("PR", ["pr"]),
        ("open PRs", ["open", "pr"]),
        ("getURLs", ["get", "url"]),
        ("base64", ["base", "64", "base64"]),
        ("e-mail", ["e", "mail", "email"]),
        ("résumé", ["resum"]),
        ("ＡＢＣ", ["abc"]),
        ("", []),
        ("?!…", []),
    ],
)
def test_identifiers_and_words_become_terms(text: str, expected: list[str]) -> None:
    assert terms(text)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("农历日期", ["农历", "历日", "日期"]),
        ("天", ["天"]),
        ("创建workspace吗", ["创建", "workspac", "吗"]),
        ("погода в Москве", ["погода", "в", "москве"]),
    ],
)
def test_other_scripts_become_terms_too(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    "words",
    [
        ("issue", "issues"),
        ("create", "creates", "created", "creating"),
        ("query", "queries"),
        ("translate", "translation", "translating"),
        ("plan", "planned", "planning"),
        ("file", "files", "filing"),
        ("status",),
    ],
)
def test_the_forms_of_a_word_share_one_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


@pytest.mark.parametrize(("one", "other"), [("new", "newt"), ("list", "lost"), ("read", "ready")])
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize("word", ["", "a", "is", "yy", "sss", "ing", "ed", "eed", "aeiou", "x" * 500])
def test_no_word_breaks_the_stemmer(word: str) -> None:
    assert isinstance(stem(word), str)


def test_verbs_are_no_stop_words() -> None:
    assert not [word for word in ("get", "find", "list", "do", "make", "run", "open", "set") if is_stop(stem(word))]
    assert is_stop("the")
    assert is_filler(stem("please"))
    assert is_filler("2024")


def test_what_is_neither_a_stop_word_nor_a_courtesy_tells() -> None:
    assert [term for term in terms("Please list the 3 issues") if is_telling(term)] == ["list", "issu"]
    assert telling("list_of_the_issues_list") == ("list", "issu")


@pytest.mark.parametrize(
    "name", ["createPullRequest", "create_pull_request", "Create pull-request!", "ＣＲÉATE pullrequest"]
)
def test_a_name_is_the_same_in_every_spelling(name: str) -> None:
    assert bare(name) == "createpullrequest"


@pytest.mark.parametrize("typed", ["forcast", "forrecast", "froecast", "forecaat", "forecas", "forecastt"])
def test_a_slip_is_one_letter_away_from_what_was_meant(typed: str) -> None:
    assert "forecast" in slips(typed)


@pytest.mark.parametrize("typed", ["orecast", "xorecast", "forcats", "weather"])
def test_the_first_letter_and_all_but_one_are_right(typed: str) -> None:
    assert "forecast" not in slips(typed)


def test_a_term_remembers_the_word_it_was_made_of() -> None:
    assert spellings("Listing issues") == [("list", "listing"), ("issu", "issues")]
