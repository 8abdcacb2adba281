"""Tools for OpenAI in both formats, and what strict mode costs them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.convert.made import PLAIN
from trunkline.errors import ConfigError
from trunkline.tool import Tool
from trunkline.tools.convert.loss import Loss
from trunkline.tools.convert.mcp import from_mcp_tool, to_mcp_tool
from trunkline.tools.convert.openai import from_openai, to_openai

WEATHER = from_mcp_tool(PLAIN).value


def strict(properties: dict[str, Any], **rest: Any) -> tuple[dict[str, Any], dict[str, str]]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    converted = to_openai(Tool("t", input_schema=schema | rest), strict=True)
    return converted.value["function"]["parameters"], {loss.path: loss.what for loss in converted.losses}


def test_the_two_formats() -> None:
    function = {"name": "get_weather", "description": PLAIN["description"], "parameters": PLAIN["inputSchema"]}

    assert to_openai(WEATHER).value == {"type": "function", "function": function}
    assert to_openai(WEATHER, format="responses").value == {"type": "function", **function, "strict": False}


def test_only_responses_can_defer_loading() -> None:
    deferred = from_mcp_tool(PLAIN | {"_meta": {"defer_loading": True}}).value

    responses = to_openai(deferred, format="responses")
    chat = to_openai(deferred)

    assert responses.lossless
    assert responses.value["defer_loading"] is True
    assert to_mcp_tool(from_openai(responses.value).value).value["_meta"] == {"defer_loading": True}
    assert [loss.path for loss in chat.losses] == ["/_meta/defer_loading"]
    assert to_openai(WEATHER, format="responses", defer_loading=True).value["defer_loading"] is True
    with pytest.raises(ConfigError, match="cannot defer loading"):
        to_openai(WEATHER, defer_loading=True)


def test_a_strict_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "pattern": "^x"},
            "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/C"}]},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
        "$defs": {"C": {"type": "string", "enum": ["x"]}},
    }

    converted = to_openai(Tool("t", input_schema=schema), strict=True)

    assert converted.lossless
    assert converted.value["function"] == {"name": "t", "parameters": schema, "strict": True}
    assert from_openai(converted.value).losses == (Loss("/strict", "dropped", "MCP has no place for it."),)


def test_optional_members_become_required_and_nullable() -> None:
    parameters, losses = strict(
        {"a": {"type": "string"}, "b": {"enum": ["x"]}, "c": {"anyOf": [{"type": "integer"}]}, "d": {"type": "null"}},
        required=[],
    )

    assert parameters["required"] == ["a", "b", "c", "d"]
    assert parameters["properties"] == {
        "a": {"type": ["string", "null"]},
        "b": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "d": {"type": "null"},
    }
    assert losses["/inputSchema/properties/a"] == "became required and nullable"


def test_open_objects_are_closed_and_it_is_said() -> None:
    parameters, losses = strict({"m": {"type": "object", "additionalProperties": {"type": "string"}}})

    assert parameters["properties"]["m"] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert losses["/inputSchema/properties/m/additionalProperties"] == "became false"


@pytest.mark.parametrize(
    ("schema", "result", "lost"),
    [
        ({"type": "string", "minLength": 2}, {"type": "string"}, "minLength"),
        ({"type": "string", "format": "uri"}, {"type": "string"}, "format"),
        ({"type": "string", "default": "x"}, {"type": "string"}, "default"),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}, "oneOf"),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, {"$ref": "#/$defs/A"}, "allOf"),
        ({"type": "string", "not": {"const": "x"}}, {"type": "string"}, "not"),
        (
            {"type": "array"},
            {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
            "items",
        ),
    ],
)
def test_what_strict_mode_does_not_know_is_left_out_and_reported(
    schema: dict[str, Any], result: dict[str, Any], lost: str
) -> None:
    parameters, losses = strict({"a": schema})

    assert parameters["properties"]["a"] == result
    assert list(losses) == [f"/inputSchema/properties/a/{lost}"]


def test_a_value_of_any_kind_becomes_a_plain_one() -> None:
    parameters, losses = strict({"a": {}, "b": True})

    assert parameters["properties"]["a"] == {"type": ["string", "number", "boolean", "null"]}
    assert list(losses) == ["/inputSchema/properties/a", "/inputSchema/properties/b"]


def test_other_kinds_of_tools_are_refused() -> None:
    with pytest.raises(ConfigError, match="'web_search' is no function"):
        from_openai({"type": "web_search"})


def test_a_bottomless_schema_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}}

    converted = to_openai(Tool("deep", input_schema=schema), strict=True)

    assert any(loss.why == "It is nested too deep." for loss in converted.losses)
