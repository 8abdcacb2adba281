"""Tools to and from the definitions of MCP's `tools/list`, without loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from trunkline.model import Entry
from trunkline.tool import Annotations, Tool
from trunkline.tools.annotations import effective, merge_annotations
from trunkline.tools.convert.definition import (
    DEFAULT_TOOL_CONVERTER_OPTIONS,
    DEFINITION,
    NAME,
    ToolConverterOptions,
    object_or_none,
    origin,
    read,
    tool_of,
    write,
)
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.convert.matrix import compatibility_of
from trunkline.tools.names import distinct, sanitize_tool_name, validate_tool_name, with_prefix, without_prefix
from trunkline.untrusted import as_object

Execute = Callable[[dict[str, Any]], Any | Awaitable[Any]]
Definition = dict[str, Any]


def to_mcp_tool(
    tool: Tool | Entry, options: ToolConverterOptions = DEFAULT_TOOL_CONVERTER_OPTIONS, **changes: Any
) -> Converted[Definition]:
    """The tool's MCP definition: what its server sent, but for what was changed since.

    The function and the server of a tool say where it lives, not what it is: they do not travel.
    """
    own, options = tool_of(tool), dataclasses.replace(options, **changes)
    ledger = Ledger()
    definition = write(_hinted(own, options), own.annotations, options, ledger)
    _rename(definition, own, options, ledger)
    if options.revision:
        _fit(definition, options.revision, ledger)
    return ledger.close(definition)


def from_mcp_tool(
    definition: Mapping[str, Any],
    options: ToolConverterOptions = DEFAULT_TOOL_CONVERTER_OPTIONS,
    *,
    server: str = "",
    execute: Execute | None = None,
    **changes: Any,
) -> Converted[Tool]:
    """The tool of an MCP definition; members that a `Tool` has no field for are kept for the way back."""
    options = dataclasses.replace(options, **changes)
    ledger = Ledger()
    tool = dataclasses.replace(read(definition, ledger), server=server, execute=execute)
    said = merge_annotations(options.default_annotations, tool.annotations)
    if options.infer_annotations:
        said = effective(said, tool.name, tool.description, tool.input_schema)
    tool = tool.annotated(said)
    if not options.preserve_metadata:
        for key in object_or_none(definition.get("_meta")) or ():
            ledger.add(("_meta", key), "dropped", "Metadata is not preserved.")
        rest = {member: value for member, value in definition.items() if member != "_meta"}
        tool = dataclasses.replace(tool, meta={DEFINITION: rest}, category="")
    return ledger.close(dataclasses.replace(tool, name=_bare_name(definition, options)))


def batch_convert_to_mcp(
    tools: Iterable[Tool], options: ToolConverterOptions = DEFAULT_TOOL_CONVERTER_OPTIONS, **changes: Any
) -> Converted[list[Definition]]:
    """The definitions of several tools, each with a name of its own."""
    options = dataclasses.replace(options, **changes)
    listed = list(tools)
    ledger = Ledger()
    result = [ledger.take(place, to_mcp_tool(tool, options)) for place, tool in enumerate(listed)]
    wanted = [definition["name"] for definition in result]
    given = [with_prefix(options.namespace_prefix, tool.name) for tool in listed]
    for place, name in enumerate(distinct(wanted, given, [tool.server for tool in listed])):
        if name != wanted[place]:
            _note_collision(place, wanted[place], name, ledger)
            result[place] = result[place] | {"name": name}
            _remember(result[place], listed[place].name, options)
    return ledger.close(result)


def batch_convert_from_mcp(
    definitions: Iterable[Mapping[str, Any]],
    options: ToolConverterOptions = DEFAULT_TOOL_CONVERTER_OPTIONS,
    *,
    server: str = "",
    **changes: Any,
) -> Converted[list[Tool]]:
    """The tools of several definitions; two that would have one name without their prefix are told apart."""
    options = dataclasses.replace(options, **changes)
    listed = list(definitions)
    ledger = Ledger()
    result = [ledger.take(place, from_mcp_tool(one, options, server=server)) for place, one in enumerate(listed)]
    wanted = [tool.name for tool in result]
    for place, name in enumerate(distinct(wanted, [str(definition["name"]) for definition in listed])):
        if name != wanted[place]:
            _note_collision(place, wanted[place], name, ledger)
            result[place] = dataclasses.replace(result[place], name=name)
    return ledger.close(result)


def _hinted(tool: Tool, options: ToolConverterOptions) -> Tool:
    said = merge_annotations(options.default_annotations, tool.annotations)
    infer = origin(tool) is None if options.infer_annotations is None else options.infer_annotations
    if infer:
        told = effective(said, tool.name, tool.description, tool.input_schema)
        hints = Annotations(told.read_only_hint, told.destructive_hint, told.idempotent_hint, told.open_world_hint)
        said = merge_annotations(said, hints)
    return tool.annotated(said)


def _rename(definition: Definition, tool: Tool, options: ToolConverterOptions, ledger: Ledger) -> None:
    """Give the definition its prefixed and legal name; one that a server chose itself is not ours to correct."""
    full = with_prefix(options.namespace_prefix, tool.name)
    kept = origin(tool)
    if kept is not None and kept.get("name") == full:
        return
    name = sanitize_tool_name(full)
    definition["name"] = name
    if name != full:
        ledger.add(("name",), f"{full!r} became {name!r}", " ".join(validate_tool_name(full).errors))
        _remember(definition, tool.name, options)


def _remember(definition: Definition, name: str, options: ToolConverterOptions) -> None:
    if options.preserve_metadata and (not options.revision or compatibility_of(options.revision).meta):
        definition["_meta"] = {**definition.get("_meta", {}), NAME: name}


def _bare_name(definition: Mapping[str, Any], options: ToolConverterOptions) -> str:
    name = str(definition["name"])
    prefix = options.remove_namespace_prefix
    bare = without_prefix(prefix, name)
    original = as_object(definition.get("_meta")).get(NAME)
    return original if bare != name and isinstance(original, str) and original else bare


def _note_collision(place: int, wanted: str, name: str, ledger: Ledger) -> None:
    ledger.add((place, "name"), f"{wanted!r} became {name!r}", "Another tool has, or would get, the same name.")


def _fit(definition: Definition, revision: str, ledger: Ledger) -> None:
    known = compatibility_of(revision)
    for member, fits in (
        ("title", known.title),
        ("annotations", known.annotations),
        ("outputSchema", known.output_schema),
        ("icons", known.icons),
        ("execution", known.execution),
        ("_meta", known.meta),
    ):
        if member in definition and not fits:
            del definition[member]
            ledger.add((member,), "dropped", f"MCP {revision} has no such member.")
    output = object_or_none(definition.get("outputSchema"))
    if output is not None and output.get("type") != "object" and not known.any_output:
        del definition["outputSchema"]
        ledger.add(("outputSchema",), "dropped", f"In MCP {revision} a result is an object.")
