"""A definition comes back from every format as it was, unless the conversion says what it lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings

from tests.tools.convert.made import FULL, PLAIN, definitions
from trunkline.tool import Tool
from trunkline.tools.convert.anthropic import from_anthropic, to_anthropic
from trunkline.tools.convert.gemini import from_gemini, to_gemini
from trunkline.tools.convert.loss import Converted
from trunkline.tools.convert.mcp import from_mcp_tool, to_mcp_tool
from trunkline.tools.convert.openai import from_openai, to_openai

To = Callable[[Tool], Converted[dict[str, Any]]]
From = Callable[[Mapping[str, Any]], Converted[Tool]]


def _responses(tool: Tool) -> Converted[dict[str, Any]]:
    return to_openai(tool, format="responses")


def _strict(tool: Tool) -> Converted[dict[str, Any]]:
    return to_openai(tool, strict=True)


def _whole(tool: Tool) -> Converted[dict[str, Any]]:
    return to_gemini(tool, json_schema=True)


VENDORS: dict[str, tuple[To, From]] = {
    "anthropic": (to_anthropic, from_anthropic),
    "openai-chat": (to_openai, from_openai),
    "openai-responses": (_responses, from_openai),
    "openai-strict": (_strict, from_openai),
    "gemini": (to_gemini, from_gemini),
    "gemini-json-schema": (_whole, from_gemini),
}


def text(value: object) -> str:
    """JSON as text: to Python, 1 and True are equal."""
    return json.dumps(value, sort_keys=True)


@given(definitions)
@settings(max_examples=200)
def test_any_definition_comes_back_from_a_tool_as_it_was(definition: dict[str, Any]) -> None:
    tool = from_mcp_tool(definition).value

    assert text(to_mcp_tool(tool).value) == text(definition)


@pytest.mark.parametrize("vendor", VENDORS)
@given(definition=definitions)
@settings(max_examples=120)
def test_what_no_loss_is_reported_for_comes_back_as_it_was(vendor: str, definition: dict[str, Any]) -> None:
    convert, back = VENDORS[vendor]
    before = text(definition)

    converted = convert(from_mcp_tool(definition).value)
    json.dumps(converted.value)
    returned = to_mcp_tool(back(converted.value).value).value

    assert text(definition) == before
    assert converted.losses or text(returned) == text(definition)


@pytest.mark.parametrize("vendor", [name for name in VENDORS if name != "openai-strict"])
def test_a_plain_tool_loses_nothing_anywhere(vendor: str) -> None:
    convert, back = VENDORS[vendor]

    converted = convert(from_mcp_tool(PLAIN).value)

    assert converted.lossless
    assert to_mcp_tool(back(converted.value).value).value == PLAIN


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_member_that_a_vendor_has_no_place_for_is_reported(vendor: str) -> None:
    convert, _ = VENDORS[vendor]

    paths = {loss.path for loss in convert(from_mcp_tool(FULL).value).losses}

    assert {"/name", "/title", "/annotations", "/icons", "/execution", "/x-unknown", "/_meta/tags"} <= paths
    assert ("/outputSchema" in paths) == (not vendor.startswith("gemini"))
