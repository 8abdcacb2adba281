"""Patterns of servers are matched in bounded time, or not at all."""

from __future__ import annotations

import pytest

from trunkline.questions.patterns import PATTERN_LENGTH, TEXT_LENGTH, has_format, is_checkable, matches


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
