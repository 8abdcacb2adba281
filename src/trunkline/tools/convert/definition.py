"""A tool and its MCP definition: what is read from it, and what is written back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from trunkline.errors import ConfigError
from trunkline.model import Entry
from trunkline.tool import UNKNOWN, Annotations, Tool
from trunkline.tools.annotations import from_mcp, merge_annotations, to_mcp, validate_annotations
from trunkline.tools.convert.loss import Ledger
from trunkline.tools.convert.matrix import REVISIONS
from trunkline.tools.guidance import OWN, said_in
from trunkline.untrusted import as_object, as_text


@dataclass(frozen=True, slots=True)
class ToolConverterOptions:
    """The options of a conversion."""

    infer_annotations: bool | None = None
    """Whether the four standard hints are told from the words; by default only for tools that no server declared."""
    namespace_prefix: str = ""
    """Put before the names on the way to MCP: `myapp` and `myapp_` give `myapp_tool`."""
    remove_namespace_prefix: str = ""
    """Taken off the names on the way from MCP."""
    preserve_metadata: bool = True
    """Whether metadata, category, tags and our own hints travel in `_meta`."""
    default_annotations: Annotations = UNKNOWN
    """Hints for tools that do not say otherwise: explicit wins over default, default over inferred."""
    revision: str = ""
    """The revision of MCP to write for, such as `2025-06-18`; members that it does not know are left out."""

    def __post_init__(self) -> None:
        if self.revision and self.revision not in REVISIONS:
            raise ConfigError(
                f"There is no MCP revision {self.revision!r}.", hint=f"`revision` is one of {', '.join(REVISIONS)}."
            )
        wrong = validate_annotations(self.default_annotations)
        if wrong:
            raise ConfigError(f"`default_annotations` cannot be used: {wrong[0]}", hint="Correct or remove it.")


DEFAULT_TOOL_CONVERTER_OPTIONS = ToolConverterOptions()


DEFINITION = "trunkline/definition"
"""The key of `Tool.meta` under which the definition that a tool was read from is kept; it never travels."""
HINTS = "trunkline/annotations"
"""The key of `_meta` for the hints that MCP has no words for."""
NAME = "trunkline/name"
"""The key of `_meta` for a name that had to be changed."""

_STANDARD = ("title", "read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")
_OURS = tuple(field.name for field in dataclasses.fields(Annotations) if field.name not in (*_STANDARD, "tags"))
# Members of `annotations` that we read; when the hints change, the others stay.
_READ = {
    *("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "requiresConfirmation"),
    *("auditRequired", "estimatedDuration", "rateLimitHint", "costHint", "complexity", "securityLevel", "tags"),
    "volatileHint",
}


def read(definition: Mapping[str, Any], ledger: Ledger) -> Tool:
    """The definition as a tool that remembers it."""
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError("A tool definition has no name.", hint="Give it a `name` that is a text.")
    if object_or_none(definition.get("inputSchema")) is None:
        ledger.add(("inputSchema",), "taken for an object without members", "It is missing, or no schema.")
    tool = tool_from(definition, name, hints_of(definition, as_object(definition.get("_meta"))))
    return dataclasses.replace(tool, meta={**tool.meta, DEFINITION: definition})


def tool_from(
    definition: Mapping[str, Any], name: str, hints: Annotations, *, server: str = "", category: str = ""
) -> Tool:
    """A tool as its definition describes it, under this name and with these hints; what is no MCP there is left out."""
    meta, schema = as_object(definition.get("_meta")), object_or_none(definition.get("inputSchema"))
    given: dict[str, Any] = {} if schema is None else {"input_schema": schema}
    return Tool(
        name,
        as_text(definition.get("description")),
        annotations=hints,
        server=server,
        category=category or as_text(meta.get("category")),
        output_schema=object_or_none(definition.get("outputSchema")),
        meta=meta,
        **given,
    )


def tool_of(given: Tool | Entry) -> Tool:
    """A tool as it is, or one of the hub's, by the name that it is shown under and as its server describes it."""
    if isinstance(given, Entry):
        # Half a character, which msgspec refuses, is no reason to refuse the tool.
        definition = as_object(json.loads(given.definition or b"{}"))
        return dataclasses.replace(read({**definition, "name": given.shown}, Ledger()), server=given.server)
    if not isinstance(cast("object", given), Tool):
        what = type(given).__name__
        raise ConfigError(f"{what} is no tool.", hint="Give a `Tool`, or one of what `hub.tools()` gives.")
    return given


def write(tool: Tool, said: Annotations, options: ToolConverterOptions, ledger: Ledger) -> dict[str, Any]:
    """The definition of a tool; `said` are its hints before anything was inferred or taken by default."""
    kept = origin(tool)
    result: dict[str, Any] = {"name": tool.name} if kept is None else dict(kept)
    before = Tool("", input_schema={}) if kept is None else read(kept, Ledger())
    if tool.description != before.description:
        result["description"] = tool.description
    if kept is None or tool.input_schema != before.input_schema:
        result["inputSchema"] = tool.input_schema
    if tool.output_schema != before.output_schema:
        result["outputSchema"] = tool.output_schema
    if tool.output_schema is None and before.output_schema is not None:
        del result["outputSchema"]
    meta = {key: value for key, value in tool.meta.items() if key != DEFINITION}
    if tool.category != before.category:
        _put(meta, "category", tool.category)
    if tool.annotations != before.annotations:
        _write_hints(result, tool.annotations)
        _put(meta, "tags", list(tool.annotations.tags))
        _put(meta, HINTS, {name: value for name in _OURS if (value := getattr(said, name)) not in (None, "")})
    if not options.preserve_metadata:
        for key in meta:
            ledger.add(("_meta", key), "dropped", "Metadata is not preserved.")
        result.pop("_meta", None)
    elif meta != as_object(result.get("_meta")):
        _put(result, "_meta", meta)
    return result


def origin(tool: Tool) -> Mapping[str, Any] | None:
    """The definition that a tool was read from, if it was read from one."""
    return object_or_none(tool.meta.get(DEFINITION))


def object_or_none(value: Any) -> Mapping[str, Any] | None:
    """A JSON object, or nothing."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else None


def hints_of(definition: Mapping[str, Any], meta: Mapping[str, Any]) -> Annotations:
    """What a definition says of how the tool behaves: by its `annotations`, and by ours and the tags in `_meta`."""
    ours = as_object(meta.get(HINTS))
    good = {name: ours[name] for name in _OURS if name in ours and not validate_annotations({name: ours[name]})}
    cost = said_in(meta, "cost_hint")
    if cost is not None and "cost_hint" not in good and not validate_annotations({"cost_hint": cost}):
        good["cost_hint"] = cost
    words: dict[str, None] = {}
    for tags in (meta.get("tags"), meta.get(OWN + "tags")):
        if isinstance(tags, list):
            words |= dict.fromkeys(tag for tag in cast(list[Any], tags) if isinstance(tag, str) and tag)
    return merge_annotations(
        from_mcp(as_object(definition.get("annotations"))),
        dataclasses.replace(UNKNOWN, **good, tags=tuple(words), title=as_text(definition.get("title"))),
    )


def _write_hints(result: dict[str, Any], hints: Annotations) -> None:
    if "title" in result:
        # It is the first that clients show, so a changed title belongs there.
        _put(result, "title", hints.title)
    others = {key: value for key, value in as_object(result.get("annotations")).items() if key not in _READ}
    _put(result, "annotations", others | to_mcp(hints))


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    if value:
        target[key] = value
    else:
        target.pop(key, None)
