"""As much of the definitions as a budget allows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.brief import complete, one_line, within
from trunkline.tools.tokens import estimated

Json = dict[str, Any]


def tool(name: str, words: int = 3, properties: int = 1, depth: int = 1) -> Json:
    """A definition that says so much."""
    inner: Json = {"type": "string", "description": "what it is about " * words, "title": "Title", "default": "x"}
    for _ in range(depth - 1):
        inner = {"type": "object", "properties": {"inner": inner}}
    found = {f"argument_{number}": inner for number in range(properties)}
    schema = {"type": "object", "properties": found, "required": list(found)[:1]}
    return {"name": name, "description": "does something useful " * words, "inputSchema": schema}


SIZES = st.tuples(st.integers(1, 60), st.integers(0, 30), st.integers(1, 12))


def cost(made: Json) -> int:
    return estimated(msgspec.json.encode(made))


@given(st.lists(SIZES, min_size=1, max_size=25), st.integers(100, 5000))
def test_what_is_given_fits_into_the_budget(sizes: list[tuple[int, int, int]], budget: int) -> None:
    tools = [tool(f"tool_{number}", *size) for number, size in enumerate(sizes)]

    briefs = within(tools, budget)

    assert cost({"tools": briefs.tools, "left_out": briefs.left_out}) <= budget
    names = [brief["name"] for brief in briefs.tools] + briefs.left_out
    assert names == [one["name"] for one in tools][: len(names)]
    assert briefs.tools
    for brief, whole in zip(briefs.tools, tools, strict=False):
        assert "shortened" in brief or brief == whole


@given(st.lists(SIZES, min_size=1, max_size=10))
def test_what_fits_is_given_whole(sizes: list[tuple[int, int, int]]) -> None:
    tools = [tool(f"tool_{number}", *size) for number, size in enumerate(sizes)]

    briefs = within(tools, sum(map(cost, tools)) + 8 * len(tools))

    assert briefs.tools == tools
    assert briefs.left_out == []


def test_nothing_is_made_of_nothing() -> None:
    assert within([], 100).tools == []


def test_what_is_small_leaves_its_share_to_what_is_large() -> None:
    small, large = [tool(f"small_{number}", 1) for number in range(4)], tool("large", 40, 4)
    budget = sum(map(cost, small)) + cost(large) + 50

    assert cost(large) > budget / 2
    assert within([large, *small], budget).tools == [large, *small]


def test_a_line_too_many_shortens_others_and_not_the_budget() -> None:
    wide = {"name": "wide", "description": "日" * 120, "inputSchema": {"description": "日" * 5000}}
    tools = [tool("a", 10), tool("b", 10), wide]

    assert cost({"tools": within(tools, 330).tools}) <= 330


def test_texts_go_first_then_depth_then_the_schema() -> None:
    whole = tool("tool", 200, 5, 3)
    lengths = {budget: within([whole], budget).tools[0] for budget in (100_000, 1200, 200, 60)}

    assert lengths[100_000] == whole
    inner = lengths[1200]["inputSchema"]["properties"]["argument_0"]["properties"]["inner"]["properties"]["inner"]
    assert set(inner) == {"type", "description"}
    assert inner["description"].endswith("…")
    assert lengths[200]["inputSchema"]["properties"]["argument_0"] == {"type": "object"}
    assert lengths[200]["inputSchema"]["required"] == ["argument_0"]
    assert set(lengths[60]) == {"name", "description", "shortened"}
    assert all(brief["shortened"] is True for budget, brief in lengths.items() if budget < 100_000)


def test_an_argument_that_is_called_like_a_word_of_the_language_stays() -> None:
    names = ("title", "default", "examples", "description", "$id")
    schema = {"type": "object", "properties": {name: {"type": "string", "title": "x" * 500} for name in names}}

    brief = within([{"name": "tool", "inputSchema": schema}], 120).tools[0]

    assert set(brief["inputSchema"]["properties"]) == set(names)
    assert brief["inputSchema"]["properties"]["title"] == {"type": "string"}


def test_few_values_are_kept_and_many_are_not() -> None:
    kinds = {"few": {"enum": ["a", "b"]}, "many": {"enum": list(range(1000))}}
    whole = {"name": "tool", "inputSchema": {"type": "object", "properties": kinds, "required": ["few", "none"]}}

    brief = within([whole], 100).tools[0]

    assert brief["inputSchema"]["properties"] == {"few": {"enum": ["a", "b"]}, "many": {}}
    assert brief["inputSchema"]["required"] == ["few"]


def test_guidance_and_examples_are_told() -> None:
    meta = {"when_to_use": "In the morning.", "input_examples": [1, 2, 3, 4], "other": 5}
    found = within([{"name": "tool", "inputSchema": {"type": "object"}, "_meta": meta}], 1000).tools[0]

    assert found["when_to_use"] == "In the morning."
    assert found["examples"] == [1, 2, 3]
    assert "_meta" not in found


def test_what_was_left_out_before_is_marked_but_for_the_whole() -> None:
    definition: Json = {"name": "tool", "description": "x", "shortened": True}

    assert within([definition], 1000).tools[0]["shortened"] is True
    assert "shortened" not in complete(definition)


def test_the_whole_has_what_comes_out_as_well() -> None:
    definition = {**tool("tool"), "outputSchema": {"type": "object"}, "annotations": {}}

    assert complete(definition) == {key: value for key, value in definition.items() if key != "annotations"}


ODD: list[Json] = [
    {},
    {"name": 5},
    {"name": "a", "description": 5},
    {"name": "a", "description": ["x"] * 5000},
    {"name": "a", "inputSchema": 5},
    {"name": "a", "inputSchema": ["x" * 10_000]},
    {"name": "a", "inputSchema": {"properties": ["x" * 10_000], "required": [{}, [], None, 5]}},
    {"name": "a", "inputSchema": {"properties": {"b": 5, "c": None, "d": "x" * 10_000}, "required": "b"}},
    {"name": "a", "inputSchema": {"properties": {"b": {"type": ["x" * 10_000], "enum": 5}}}},
    {"name": "a", "inputSchema": {"x" * 10_000: 1}, "_meta": 5},
    {"name": "a", "_meta": {"when_to_use": 5, "input_examples": {}}, "inputSchema": {"$defs": 5}},
]


@pytest.mark.parametrize("definition", ODD, ids=lambda value: str(value)[:40])
def test_odd_definitions_are_told_too(definition: Json) -> None:
    for budget in (10, 50, 100_000):
        assert len(within([definition, tool("good")], budget).tools) >= 1
    assert isinstance(complete(definition), dict)
    assert isinstance(one_line(definition), str)


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        ({"description": "  First line.\nSecond."}, "First line."),
        ({"title": "A title"}, "A title"),
        ({"description": "", "title": "A title"}, "A title"),
        ({"description": "x" * 200}, "x" * 159 + "…"),
        ({"description": " \n "}, ""),
        ({}, ""),
    ],
)
def test_a_tool_in_a_line(definition: Json, line: str) -> None:
    assert one_line(definition) == line
