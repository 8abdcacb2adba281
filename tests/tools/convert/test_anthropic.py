"""Tools for Anthropic: deferred, with examples and callers, and never such that the whole request is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.convert.made import PLAIN
from trunkline.errors import ConfigError
from trunkline.tool import Tool
from trunkline.tools.convert.anthropic import from_anthropic, to_anthropic
from trunkline.tools.convert.mcp import from_mcp_tool, to_mcp_tool

HINTS = {
    "defer_loading": True,
    "allowed_callers": ["code_execution_20250825"],
    "input_examples": [{"city": "Oslo"}, {"city": "Bergen", "days": 2}],
}


def test_the_three_hints_come_from_the_metadata_and_go_back_there() -> None:
    definition = PLAIN | {"_meta": HINTS}

    converted = to_anthropic(from_mcp_tool(definition).value)

    assert converted.lossless
    assert converted.value == {
        "name": "get_weather",
        "description": PLAIN["description"],
        "input_schema": PLAIN["inputSchema"],
        **HINTS,
    }
    assert to_mcp_tool(from_anthropic(converted.value).value).value == definition


def test_the_hints_can_be_given_with_the_call() -> None:
    value = to_anthropic(
        from_mcp_tool(PLAIN).value, defer_loading=False, allowed_callers=("direct",), input_examples=({"city": "Oslo"},)
    ).value

    assert value["defer_loading"] is False
    assert value["allowed_callers"] == ["direct"]
    assert value["input_examples"] == [{"city": "Oslo"}]


def test_malformed_hints_are_dropped_and_reported() -> None:
    meta = {"defer_loading": "yes", "allowed_callers": [1], "input_examples": "x"}

    converted = to_anthropic(Tool("look", meta=meta))

    assert not set(meta) & set(converted.value)
    assert {loss.path for loss in converted.losses} == {f"/_meta/{key}" for key in meta}


@pytest.mark.parametrize("key", ["when_to_use", "whenToUse"])
def test_when_to_use_is_told_to_the_model(key: str) -> None:
    converted = to_anthropic(Tool("look", "Look.", meta={key: "At night."}))

    assert converted.value["description"] == "Look.\n\nWhen to use: At night."
    assert [loss.what for loss in converted.losses] == ["moved into the description"]


def test_alternatives_at_the_root_are_gathered_into_one_object() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "oneOf": [
            {"properties": {"id": {"type": "integer"}, "x": {"type": "string"}}, "required": ["id", "kind"]},
            {"$ref": "#/$defs/ByName"},
        ],
        "$defs": {
            "ByName": {"properties": {"name": {"type": "string"}, "x": {"type": "null"}}, "required": ["name", "kind"]}
        },
    }

    converted = to_anthropic(Tool("find", input_schema=schema))

    result = converted.value["input_schema"]
    assert "oneOf" not in result
    assert set(result["properties"]) == {"kind", "id", "name", "x"}
    assert result["properties"]["x"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert result["required"] == ["kind"]
    assert [loss.path for loss in converted.losses] == ["/inputSchema/oneOf"]


def test_an_argument_whose_name_is_refused_does_not_spoil_the_request() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"$filter": {}, "top": {}},
        "required": ["$filter", "top"],
    }

    converted = to_anthropic(Tool("query", input_schema=schema))

    assert converted.value["input_schema"] == {"type": "object", "properties": {"top": {}}, "required": ["top"]}
    assert [loss.path for loss in converted.losses] == ["/inputSchema/properties/$filter"]


def test_what_is_about_asking_and_not_about_the_tool_is_reported_on_the_way_back() -> None:
    value = {"type": "custom", "name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "x"}}

    converted = from_anthropic(value)

    assert [loss.path for loss in converted.losses] == ["/cache_control"]
    assert to_mcp_tool(converted.value).value == {"name": "look", "inputSchema": {"type": "object"}}


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="The Anthropic tool has no name"):
        from_anthropic({"input_schema": {}})


def test_a_root_that_points_to_itself_ends() -> None:
    doubling = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": doubling | {"d60": {"$ref": "#"}}}

    assert to_anthropic(Tool("bomb", input_schema=schema)).value["input_schema"]["type"] == "object"


def test_a_description_that_is_no_text_is_dropped_and_reported() -> None:
    converted = to_anthropic(from_mcp_tool(PLAIN | {"description": None}).value)

    assert "description" not in converted.value
    assert [loss.path for loss in converted.losses] == ["/description"]
