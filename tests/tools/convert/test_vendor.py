"""Many tools for one model: every name leads to one tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trunkline.tool import Tool
from trunkline.tools.convert.anthropic import to_anthropic
from trunkline.tools.convert.gemini import to_gemini
from trunkline.tools.convert.loss import Converted
from trunkline.tools.convert.openai import to_openai
from trunkline.tools.convert.vendor import batch_convert


@pytest.mark.parametrize("convert", [to_anthropic, to_openai, to_gemini])
def test_every_name_leads_back_to_its_tool(convert: Callable[[Tool], Converted[dict[str, Any]]]) -> None:
    tools = [Tool("a.b"), Tool("a/b"), Tool("a_b"), Tool("find", server="x"), Tool("find", server="y"), Tool("9")]

    converted = batch_convert(tools, convert)

    names = [(value.get("function") or value)["name"] for value in converted.value.definitions]
    assert [converted.value.by_name[name] for name in names] == tools
    assert names[2] == "a_b"
    assert all(len(name) <= 64 for name in names)
    assert {"/0/name", "/1/name", "/3/name", "/4/name"} <= {loss.path for loss in converted.losses}
