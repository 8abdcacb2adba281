"""What all vendors have in common: the frame of a tool, and the members of MCP that none of them has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from trunkline.errors import ConfigError
from trunkline.tool import Tool
from trunkline.tools.convert.definition import as_object, write
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.convert.mcp import from_mcp_tool
from trunkline.tools.convert.options import DEFAULT_TOOL_CONVERTER_OPTIONS
from trunkline.tools.convert.schemas import EMPTY, Schema
from trunkline.tools.names import NameRule, sanitize_tool_name, validate_tool_name

HINTS: Mapping[str, Callable[[Any], bool]] = {
    "defer_loading": lambda value: isinstance(value, bool),
    "allowed_callers": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),  # pyright: ignore[reportUnknownVariableType] # JSON on its way through
    "input_examples": lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),  # pyright: ignore[reportUnknownVariableType] # JSON on its way through
}
"""What a definition's `_meta` may say for vendors, and when it is well said."""

_GUIDANCE = ("when_to_use", "whenToUse")


def definition_of(tool: Tool) -> dict[str, Any]:
    """The tool's definition as it stands: nothing inferred, and under its own name."""
    return write(tool, tool.annotations, DEFAULT_TOOL_CONVERTER_OPTIONS, Ledger()) | {"name": tool.name}


def frame(
    definition: Mapping[str, Any],
    rule: NameRule,
    ledger: Ledger,
    *,
    hints: Collection[str] = (),
    members: Collection[str] = (),
) -> dict[str, Any]:
    """Name, description and the hints that the vendor takes; all else but `members` is lost."""
    name = str(definition["name"])
    safe = sanitize_tool_name(name, rule=rule)
    if safe != name:
        ledger.add(("name",), f"became {safe!r}", " ".join(validate_tool_name(name, rule=rule).errors))
    result: dict[str, Any] = {"name": safe}
    description = definition.get("description")
    if isinstance(description, str):
        result["description"] = description
    elif "description" in definition:
        ledger.add(("description",), "dropped", "It is no text.")
    for member in definition:
        if member not in ("name", "description", "inputSchema", "_meta", *members):
            ledger.add((member,), "dropped", f"{rule.format} has no place for it.")
    result.update(_hinted(definition, rule, ledger, hints, result))
    return result


def parameters_of(definition: Mapping[str, Any], ledger: Ledger) -> Schema:
    """The input schema; one for no arguments where there is none."""
    schema = as_object(definition.get("inputSchema"))
    if schema is None:
        ledger.add(("inputSchema",), "became a schema without members", "It is missing, or no schema.")
        return EMPTY
    return schema


def adopt(
    vendor: str,
    value: Mapping[str, Any],
    schema: Any,
    *,
    known: Collection[str],
    hints: Collection[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> Converted[Tool]:
    """The tool that a vendor's definition describes; members that are about asking, not about the tool, are lost."""
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"The {vendor} tool has no name.", hint="Give it a `name` that is a text.")
    ledger = Ledger()
    for member in value:
        if member not in ("name", "description", *known, *hints):
            ledger.add((member,), "dropped", "MCP has no place for it.")
    definition: dict[str, Any] = {"name": name}
    if "description" in value:
        definition["description"] = value["description"]
    definition["inputSchema"] = EMPTY if schema is None else schema
    definition.update(extra or {})
    meta = {hint: value[hint] for hint in hints if hint in value}
    if meta:
        definition["_meta"] = meta
    tool = from_mcp_tool(definition)
    ledger.extend(tool.losses)
    return ledger.close(tool.value)


def _hinted(
    definition: Mapping[str, Any], rule: NameRule, ledger: Ledger, hints: Collection[str], so_far: dict[str, Any]
) -> dict[str, Any]:
    meta = as_object(definition.get("_meta"))
    if not meta and "_meta" in definition:
        ledger.add(("_meta",), "dropped", f"{rule.format} has no place for it.")
    result: dict[str, Any] = {}
    for key, value in (meta or {}).items():
        if key in hints and HINTS[key](value):
            result[key] = value
        elif key in _GUIDANCE and isinstance(value, str) and value:
            text = f"{so_far.get('description', '')}\n\nWhen to use: {value}".strip()
            result["description"] = text
            ledger.add(("_meta", key), "moved into the description", f"{rule.format} has no place of its own for it.")
        else:
            why = "It is not well formed." if key in hints else f"{rule.format} has no place for it."
            ledger.add(("_meta", key), "dropped", why)
    return result
