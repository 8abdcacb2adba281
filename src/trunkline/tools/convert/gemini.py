"""Tools to and from the function declarations of Gemini: its part of OpenAPI, or JSON Schema as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trunkline.tool import Tool
from trunkline.tools.convert.definition import as_object
from trunkline.tools.convert.gemini_schema import GeminiSchema
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.convert.openapi import to_json_schema
from trunkline.tools.convert.schemas import EMPTY, plain_root
from trunkline.tools.convert.vendor import adopt, definition_of, frame, parameters_of
from trunkline.tools.names import GEMINI


def to_gemini(tool: Tool, *, json_schema: bool = False) -> Converted[dict[str, Any]]:
    """The tool for `functionDeclarations`; with `json_schema` its schemas travel whole, where the model takes them."""
    definition = definition_of(tool)
    ledger = Ledger()
    result = frame(definition, GEMINI, ledger, members=("outputSchema",))
    schema = parameters_of(definition, ledger)
    output = as_object(definition.get("outputSchema"))
    if output is None and "outputSchema" in definition:
        ledger.add(("outputSchema",), "dropped", "It is no schema.")
    if json_schema:
        result["parametersJsonSchema"] = schema
        if output is not None:
            result["responseJsonSchema"] = output
        return ledger.close(result)
    # Gemini refuses an object without members; a function without arguments has no parameters.
    if schema != EMPTY:
        root = plain_root(schema, GEMINI.format, ledger, ("inputSchema",))
        result["parameters"] = GeminiSchema(root, ledger).of(root, ("inputSchema",))
    if output is not None:
        result["response"] = GeminiSchema(output, ledger).of(output, ("outputSchema",))
    return ledger.close(result)


def from_gemini(value: Mapping[str, Any]) -> Converted[Tool]:
    """The tool of one function declaration."""
    ledger = Ledger()
    whole, part = value.get("parametersJsonSchema"), value.get("parameters")
    schema = to_json_schema(part, ledger, ("parameters",)) if whole is None and part is not None else whole
    output, response = value.get("responseJsonSchema"), value.get("response")
    if output is None and response is not None:
        output = to_json_schema(response, ledger, ("response",))
    extra = {} if output is None else {"outputSchema": output}
    known = ("parameters", "parametersJsonSchema", "response", "responseJsonSchema")
    tool = adopt(GEMINI.format, value, schema, known=known, extra=extra)
    ledger.extend(tool.losses)
    return ledger.close(tool.value)
