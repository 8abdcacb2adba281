"""Patterns of all kinds: what they match, and that none of them can stall."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.tools.patterns import PATTERN_LENGTH, TEXT_LENGTH, Glob, has_format, is_checkable, matches

CASES = [
    ("user:*", "user:1", True),
    ("user:*", "user:", True),
    ("user:*", "user:1:profile", False),
    ("user:*", "users:1", False),
    ("user:**", "user:1:profile", True),
    ("user:**", "user:", True),
    ("user:**", "user", False),
    ("*", "plain", True),
    ("*", "a:b", False),
    ("**", "a:b:c", True),
    ("**", "", True),
    ("", "", True),
    ("", "a", False),
    ("*:*", "a:b", True),
    ("*:*", "a:b:c", False),
    ("**:get:*", "tenant:server:get:abc", True),
    ("**:get:*", "get:get:abc", True),
    ("**:get:*", "tenant:get:abc:more", False),
    ("a**b**c", "a:b:b:c", True),
    ("a*b", "a\nb", True),
    ("user:?", "user:1", True),
    ("user:?", "user:12", False),
    ("user:?", "user:", False),
    ("a?c", "a:c", False),
    ("colou?r", "color", False),
    ("a.c", "abc", False),
    ("a.c", "a.c", True),
    ("[ab]", "a", False),
    ("[ab]", "[ab]", True),
    ("a+(b|c)$^{2}\\", "a+(b|c)$^{2}\\", True),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_pattern_matches_what_it_says(pattern: str, text: str, expected: bool) -> None:
    assert Glob(pattern).matches(text) is expected


@given(st.text("ab:*?", max_size=14), st.text("ab:", max_size=14))
@example("**a*b:**b", "ab:aab:bb")
@example("a*a**a*a", "a:aaa:a")
@example("**a*b", "a:ab")
def test_every_pattern_agrees_with_the_plain_definition(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) is slowly(pattern, text)


@given(st.text(max_size=20))
def test_a_text_without_wildcards_matches_itself_alone(text: str) -> None:
    pattern = text.replace("*", "").replace("?", "")

    assert Glob(pattern).literal
    assert Glob(pattern).matches(pattern)
    assert not Glob(pattern).matches(pattern + "x")


@pytest.mark.parametrize(
    "pattern", ["*" + "a*" * 30 + "x", "**" + "a**" * 30 + "x", "**" + "a*a**" * 15 + "x", "a*?" * 20 + "x"]
)
@pytest.mark.parametrize("text", ["a" * 20_000, "a:" * 10_000, "aaaaaaaaa:" * 2_000])
def test_no_pattern_stalls(pattern: str, text: str) -> None:
    # With backtracking this would take years, and the test would time out.
    assert not Glob(pattern).matches(text)


@pytest.mark.parametrize("pattern", ["**a*b", "a*b", "**a**b*c", "**:a*b:**"])
def test_time_grows_with_the_text_and_not_with_its_square(pattern: str) -> None:
    assert not Glob(pattern).matches("a" * 1_000_000)


def test_a_pattern_says_what_it_is() -> None:
    assert repr(Glob("user:*")) == "Glob('user:*')"
    assert not Glob("user:*").literal


def slowly(pattern: str, text: str) -> bool:
    """The definition, tried out for every way to share the text among the wildcards."""
    reach = {0}
    for token in re.findall(r"\*\*+|.", pattern, re.DOTALL):
        reach = {end for start in reach for end in ends(token, text, start)}
    return len(text) in reach


def ends(token: str, text: str, start: int) -> set[int]:
    rest = text[start:]
    if token.startswith("**"):
        return set(range(start, len(text) + 1))
    if token == "*":
        return set(range(start, start + len(rest.split(":")[0]) + 1))
    if token == "?":
        return {start + 1} if rest and rest[0] != ":" else set()
    return {start + 1} if rest.startswith(token) else set()


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abC", False),
        ("b", "abc", True),
        (r"^\d{4}$", "2025", True),
        (r"^\d{4}$", "٢٠٢٥", False),
        ("^a$", "a\n", False),
        ("^.$", "\ud800", False),
        ("^a*$", "a" * (TEXT_LENGTH + 1), False),
    ],
)
def test_a_pattern_is_read_as_in_json_schema(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


@pytest.mark.timeout(10)
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(a*)*b$", "(x+x+)+y"])
def test_a_pattern_made_to_take_forever_takes_no_time(pattern: str) -> None:
    assert not matches(pattern, "a" * 50_000 + "!")


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "[", "(a{1000}){1000}", "a" * (PATTERN_LENGTH + 1), "\ud800"])
def test_a_pattern_that_cannot_be_bounded_is_refused(pattern: str) -> None:
    assert not is_checkable(pattern)
    assert not matches(pattern, "a")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("email", "ana@example.org", "ana"),
        ("uri", "https://example.org/x", "not a uri"),
        ("date", "2024-02-29", "2025-02-29"),
        ("date-time", "2025-01-01T10:00:00Z", "10:00"),
    ],
)
def test_formats_are_checked(name: str, good: str, bad: str) -> None:
    assert has_format(name, good)
    assert not has_format(name, bad)
