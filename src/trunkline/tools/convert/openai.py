"""Tools to and from the formats of OpenAI: Chat Completions and Responses, plain and strict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trunkline.errors import ConfigError
from trunkline.tool import Tool
from trunkline.tools.convert.definition import as_object
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.convert.schemas import plain_root
from trunkline.tools.convert.strict import strict_schema
from trunkline.tools.convert.vendor import adopt, definition_of, frame, parameters_of
from trunkline.tools.names import OPENAI

OpenAIFormat = Literal["chat", "responses"]


def to_openai(
    tool: Tool, *, format: OpenAIFormat = "chat", strict: bool = False, defer_loading: bool | None = None
) -> Converted[dict[str, Any]]:
    """The tool for `tools=[...]` of Chat Completions or of Responses; only the latter can defer loading."""
    responses = format == "responses"
    if defer_loading is not None and not responses:
        raise ConfigError("Chat Completions cannot defer loading.", hint="Use `format='responses'`.")
    definition = definition_of(tool)
    ledger = Ledger()
    function = frame(definition, OPENAI, ledger, hints=("defer_loading",) if responses else ())
    schema = plain_root(parameters_of(definition, ledger), OPENAI.format, ledger, ("inputSchema",))
    for keyword in ("enum", "not"):
        if keyword in schema:
            del schema[keyword]
            ledger.add(("inputSchema", keyword), "dropped", f"OpenAI takes no {keyword} at the root.")
    function["parameters"] = strict_schema(schema, ledger, ("inputSchema",)) if strict else schema
    if defer_loading is not None:
        function["defer_loading"] = defer_loading
    if not responses:
        return ledger.close({"type": "function", "function": function | ({"strict": True} if strict else {})})
    # Responses tries strict mode where nothing is said, and so would change schemas behind our back.
    return ledger.close({"type": "function", **function, "strict": strict})


def from_openai(value: Mapping[str, Any]) -> Converted[Tool]:
    """The tool of an entry of `tools`, in either format."""
    function = as_object(value.get("function")) or value
    if value.get("type", "function") != "function":
        raise ConfigError(f"OpenAI's {value['type']!r} is no function.", hint="Only functions are tools of one's own.")
    known = (
        ("type", "function", "parameters") if function.get("strict") else ("type", "function", "parameters", "strict")
    )
    return adopt(OPENAI.format, function, function.get("parameters"), known=known, hints=("defer_loading",))
