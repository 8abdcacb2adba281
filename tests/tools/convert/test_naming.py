"""Names are valid by each format's own rule, and two tools never share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.convert.naming import (
    ANTHROPIC,
    GEMINI,
    MCP,
    OPENAI,
    PORTABLE,
    NameRule,
    collisions,
    distinct,
    sanitize_tool_name,
    validate_tool_name,
    with_prefix,
    without_prefix,
)

RULES = [MCP, ANTHROPIC, OPENAI, GEMINI, PORTABLE]


@pytest.mark.parametrize("name", ["my-tool", "a.b", "9lives", "x" * 128, "_"])
def test_what_the_specification_allows_is_valid(name: str) -> None:
    assert validate_tool_name(name) == (True, ())


@pytest.mark.parametrize(
    ("name", "rule", "error"),
    [
        ("", MCP, "needs a name"),
        ("x" * 129, MCP, "129 letters"),
        ("a b!", MCP, "no ' ', '!' in a name"),
        ("a.b", OPENAI, "OpenAI takes no '.'"),
        ("x" * 65, ANTHROPIC, "takes 64"),
        ("9lives", GEMINI, "begins with a letter"),
        ("tool\n", MCP, "no '\\n'"),
    ],
)
def test_an_error_says_what_is_wrong(name: str, rule: NameRule, error: str) -> None:
    valid, errors = validate_tool_name(name, rule=rule)

    assert not valid
    assert any(error in found for found in errors)


@pytest.mark.parametrize(
    ("name", "safe"),
    [("My Tool Name!", "My_Tool_Name_"), ("a/b", "a_b"), ("a.b", "a.b"), ("müll", "m_ll"), ("ok", "ok")],
)
def test_a_name_is_made_valid_by_changing_little(name: str, safe: str) -> None:
    assert sanitize_tool_name(name) == safe


def test_names_without_a_usable_letter_stay_apart() -> None:
    shown = {sanitize_tool_name(name) for name in ("", "😀", "検索", "翻訳", "_ _")}

    assert len(shown) == 5


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.format)
@given(name=st.text(max_size=200))
def test_a_sanitised_name_is_valid_and_stays(rule: NameRule, name: str) -> None:
    safe = sanitize_tool_name(name, rule=rule)

    assert validate_tool_name(safe, rule=rule).valid
    assert sanitize_tool_name(safe, rule=rule) == safe


def test_collisions_are_named() -> None:
    assert collisions(["a/b", "a b", "c"]) == {"a_b": ("a/b", "a b")}


@given(st.lists(st.sampled_from(["a b", "a/b", "a_b", "a_b", "x" * 200, "x" * 201]), max_size=6), st.randoms())
def test_distinct_names_do_not_depend_on_the_order(names: list[str], random: object) -> None:
    unique = list(dict.fromkeys(names))
    wanted = [sanitize_tool_name(name) for name in unique]

    forwards = dict(zip(unique, distinct(wanted, unique), strict=True))
    backwards = dict(zip(unique[::-1], distinct(wanted[::-1], unique[::-1]), strict=True))

    assert forwards == backwards
    assert len(set(forwards.values())) == len(unique)


def test_twins_get_names_of_their_own_too() -> None:
    names = distinct(["a", "a", "a"], ["a", "a", "a"])

    assert len(set(names)) == 3


@pytest.mark.parametrize("prefix", ["myapp", "myapp_", "files__", "a-b"])
@given(name=st.text(min_size=1, max_size=20))
def test_a_prefix_comes_off_again(prefix: str, name: str) -> None:
    assert without_prefix(prefix, with_prefix(prefix, name)) == name


def test_a_prefix_with_or_without_its_underscore_is_the_same() -> None:
    assert with_prefix("myapp", "tool") == with_prefix("myapp_", "tool") == "myapp_tool"
    assert without_prefix("external", "external_tool") == without_prefix("external_", "external_tool") == "tool"
    assert without_prefix("external", "other_tool") == "other_tool"
