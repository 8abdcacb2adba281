"""Tools for Gemini: in its part of OpenAPI, with every loss named, or whole as JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.convert.made import FULL, PLAIN
from trunkline.tool import Tool
from trunkline.tools.convert.gemini import from_gemini, to_gemini
from trunkline.tools.convert.mcp import from_mcp_tool, to_mcp_tool


def convert(member: Any, **root: Any) -> tuple[Any, dict[str, str]]:
    schema = {"type": "object", "properties": {"a": member}, **root}
    converted = to_gemini(Tool("t", input_schema=schema))
    losses = {loss.path.removeprefix("/inputSchema/properties/a"): loss.what for loss in converted.losses}
    return converted.value["parameters"]["properties"]["a"], losses


def test_a_plain_tool() -> None:
    assert to_gemini(from_mcp_tool(PLAIN).value).value == {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "OBJECT",
            "properties": {
                "city": {"type": "STRING", "description": "A city."},
                "days": {"type": "INTEGER", "minimum": 1},
            },
            "required": ["city"],
        },
    }


def test_a_function_without_arguments_has_no_parameters() -> None:
    converted = to_gemini(Tool("now"))

    assert converted.lossless
    assert converted.value == {"name": "now"}
    assert from_gemini(converted.value).value.input_schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "result", "losses"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, {}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            {},
        ),
        ({"type": ["null", "string"]}, {"type": "STRING", "nullable": True}, {"/type": "written otherwise"}),
        (
            {"type": ["string", "number"], "minLength": 1, "title": "T"},
            {"anyOf": [{"title": "T", "minLength": 1, "type": "STRING"}, {"title": "T", "type": "NUMBER"}]},
            {"/type": "became anyOf", "/anyOf": "took in what stood beside it"},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "A"},
            {"type": "STRING", "nullable": True, "default": None, "title": "A"},
            {"/anyOf": "became nullable"},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "number"}]},
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
            {"/oneOf": "became anyOf"},
        ),
        ({"const": "x"}, {"enum": ["x"], "type": "STRING"}, {"/const": "became enum"}),
        ({"type": "string", "enum": ["", "x"]}, {"type": "STRING", "enum": ["x"]}, {"/enum": "became enum"}),
        (
            {"type": "integer", "enum": [1, 2], "description": "How many."},
            {"type": "INTEGER", "description": "How many. One of: 1, 2."},
            {"/enum": "moved into the description"},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "INTEGER", "minimum": 1, "maximum": 8},
            {"/exclusiveMinimum": "became minimum", "/exclusiveMaximum": "became maximum"},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "NUMBER"}, {"/exclusiveMinimum": "dropped"}),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}, {"/format": "dropped"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}, {}),
        (
            {
                "type": "object",
                "additionalProperties": False,
                "patternProperties": {},
                "properties": {"b": {"not": {}}},
            },
            {
                "type": "OBJECT",
                "properties": {"b": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]}},
            },
            {
                "/additionalProperties": "dropped",
                "/patternProperties": "dropped",
                "/properties/b/not": "dropped",
                "/properties/b": "became a text, a number or a boolean",
            },
        ),
        (
            {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b", "c"]},
            {"type": "OBJECT", "properties": {"b": {"type": "NULL"}}, "required": ["b"]},
            {"/required": "shortened"},
        ),
        ({"type": "STRING"}, {"type": "STRING"}, {"/type": "written otherwise"}),
        (
            {"properties": {"b": {"type": "string"}}},
            {"properties": {"b": {"type": "STRING"}}, "type": "OBJECT"},
            {"/type": "became OBJECT"},
        ),
        (
            {"allOf": [{"type": "object", "properties": {"b": {"type": "string"}}}, {"required": ["b"]}]},
            {"type": "OBJECT", "properties": {"b": {"type": "STRING"}}, "required": ["b"]},
            {"/allOf": "merged"},
        ),
        (
            {"type": ["string", "null"], "enum": ["x"]},
            {"type": "STRING", "nullable": True, "enum": ["x"]},
            {"/enum": "read otherwise"},
        ),
    ],
)
def test_what_gemini_cannot_say_is_written_as_well_as_can_be_and_reported(
    schema: dict[str, Any], result: dict[str, Any], losses: dict[str, str]
) -> None:
    assert convert(schema) == (result, losses)


def test_references_are_inlined_and_what_stands_beside_them_wins() -> None:
    result, losses = convert(
        {"$ref": "#/$defs/L", "description": "Mine."},
        **{"$defs": {"L": {"type": "object", "description": "Its.", "properties": {"n": {"type": "string"}}}}},
    )

    assert result == {"type": "OBJECT", "description": "Mine.", "properties": {"n": {"type": "STRING"}}}
    assert losses == {"/$ref": "inlined", "/inputSchema/$defs": "dropped"}


def test_a_tree_is_cut_off_where_it_repeats_itself() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Tree"}}}

    result, losses = convert({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}})

    assert result == {"type": "OBJECT", "properties": {"child": {"type": "OBJECT"}}}
    assert losses["/properties/child/$ref"] == "cut off"


@pytest.mark.parametrize("reference", ["#/$defs/None", "https://example.org/schema.json"])
def test_a_reference_that_leads_nowhere_is_cut_off(reference: str) -> None:
    _, losses = convert({"$ref": reference})

    assert losses["/$ref"] == "cut off"


@pytest.mark.parametrize(
    "definitions",
    [
        {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)},
        {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)},
        {"d0": {"allOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d0"}]}},
        {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(2000)},
    ],
    ids=["doubling", "chain", "itself", "chain of allOf"],
)
def test_schemas_made_to_exhaust_their_reader_do_not(definitions: dict[str, Any]) -> None:
    result, losses = convert({"$ref": "#/$defs/d0"}, **{"$defs": definitions})

    assert result
    assert losses


def test_json_schema_travels_whole() -> None:
    converted = to_gemini(from_mcp_tool(FULL).value, json_schema=True)

    assert converted.value["parametersJsonSchema"] == FULL["inputSchema"]
    assert converted.value["responseJsonSchema"] == FULL["outputSchema"]
    assert not any("Schema" in loss.path for loss in converted.losses)


def test_the_result_is_described_in_both_ways() -> None:
    definition = PLAIN | {"outputSchema": {"type": "object", "properties": {"t": {"type": "number"}}}}

    converted = to_gemini(from_mcp_tool(definition).value)

    assert converted.lossless
    assert converted.value["response"] == {"type": "OBJECT", "properties": {"t": {"type": "NUMBER"}}}
    assert to_mcp_tool(from_gemini(converted.value).value).value == definition


def test_members_that_mcp_has_no_place_for_are_reported_on_the_way_back() -> None:
    value: dict[str, Any] = {
        "name": "t",
        "behavior": "BLOCKING",
        "parameters": {"type": "OBJECT", "properties": {}, "x": 1},
    }

    converted = from_gemini(value)

    assert {loss.path for loss in converted.losses} == {"/behavior", "/parameters/x"}
