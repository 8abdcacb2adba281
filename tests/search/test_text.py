"""What can be read about a tool."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from trunkline.search.text import ToolText, field_names, sign_of, terms_of
from trunkline.tool import Annotations, Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "unit": {"enum": ["celsius", "kelvin", 3]},
        "days": {"type": "array", "items": {"type": "object", "properties": {"offset": {"description": "From today"}}}},
    },
}


def test_a_tool_is_read_field_by_field() -> None:
    tool = Tool(
        "forecast",
        "Weather to come",
        SCHEMA,
        Annotations(title="Forecast", tags=("sky",)),
        server="weather",
        category="data",
        meta={"when_to_use": "Before a walk", "examples": ["Oslo tomorrow"]},
    )

    text = ToolText.of(tool, server_title="The Weather")

    assert text.key == "weather/forecast"
    assert text.server == "weather The Weather"
    assert text.title == "Forecast"
    assert text.parameters == "city unit days offset"
    assert text.parameter_notes == "Where celsius kelvin From today"
    assert (text.when_to_use, text.tags, text.examples) == ("Before a walk", "sky data", "Oslo tomorrow")


def test_a_definition_of_mcp_is_read_alike() -> None:
    text = ToolText.parse(
        {"name": "forecast", "description": "Weather to come", "inputSchema": SCHEMA}, server="weather"
    )

    assert text.key == "weather/forecast"
    assert text.parameters == "city unit days offset"


def test_a_definition_that_is_wrong_everywhere_is_read_as_far_as_it_goes() -> None:
    text = ToolText.parse({"name": "x", "description": None, "inputSchema": {"properties": [1]}, "annotations": "no"})

    assert text == ToolText("x", "x")


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["child"] = schema

    assert set(ToolText.of(Tool("tree", input_schema=schema)).parameters.split()) == {"child"}


def test_a_huge_description_is_cut() -> None:
    assert len(ToolText.of(Tool("long", "word " * 100_000)).description) == 4_000


def test_a_term_is_stronger_in_the_name_than_in_a_note() -> None:
    read = terms_of(ToolText("k", "get_forecast", parameter_notes="the city, of a forecast or not"))

    assert read.strengths["forecast"] > read.strengths["get"] > read.strengths["citi"]
    assert field_names(read.fields["forecast"]) == ("name", "parameter_notes")
    assert "the" not in read.strengths


def test_a_tools_text_keeps_its_telling_terms_in_order_and_its_fields_apart() -> None:
    read = terms_of(ToolText("k", "get_forecast", description="The weather of the city"))
    signs = {term: sign_of(place) for place, term in enumerate(read.strengths)}

    assert signs["get"] + signs["forecast"] in read.text
    assert signs["weather"] + signs["citi"] in read.text
    assert signs["forecast"] + signs["weather"] not in read.text


def test_a_term_of_a_text_takes_one_byte() -> None:
    words = " ".join(f"word{chr(97 + n // 10)}{chr(97 + n % 10)}" for n in range(200))

    text = terms_of(ToolText("k", "go", description=words)).text

    assert len(text) > 200
    assert getsizeof(text) < len(text) + 100  # what every string takes


def test_there_is_a_sign_for_every_term_of_a_name_without_end() -> None:
    assert len({sign_of(place) for place in range(100_000)}) > 60_000
