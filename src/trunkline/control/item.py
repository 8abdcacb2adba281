"""One thing that a server lists: its name, what the operator says of it, and how it is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.model import NOTHING, Entry, Kind
from trunkline.tool import DIRECT, NO_OPTIONS, PROGRAM, Annotations, ToolOptions
from trunkline.tools import annotations, guidance
from trunkline.tools.convert.definition import hints_of
from trunkline.tools.patterns import Glob
from trunkline.wire.envelope import read_string
from trunkline.wire.headers import header_map
from trunkline.wire.members import Members, decode, decode_object, encode, read_members, write_members

NAMED_BY = {Kind.TOOL: "name", Kind.PROMPT: "name", Kind.RESOURCE: "uri", Kind.TEMPLATE: "uriTemplate"}
"""What tells things of a kind apart, in their definitions."""


def name_of(item: bytes, kind: Kind) -> str:
    """The name (or address) of something that a server lists; empty when it has none."""
    try:
        return read_string(bytes(_read_name[kind](item).name))
    except (msgspec.DecodeError, RecursionError):
        pass  # half a surrogate pair somewhere: read the slow way
    try:
        return read_string(read_members(item).get(NAMED_BY[kind], b""))
    except ValueError:
        return ""


def _name_reader(member: str) -> Callable[[bytes], Any]:
    """Reads one member of an object, and makes nothing of the others, which may be large."""
    fields = [("name", msgspec.Raw, msgspec.field(default=msgspec.Raw(b""), name=member))]
    return msgspec.json.Decoder(msgspec.defstruct("Named", fields)).decode


_read_name = {kind: _name_reader(member) for kind, member in NAMED_BY.items()}


def options_of(tool: str, said: Mapping[str, ToolOptions]) -> ToolOptions:
    """What the operator said of a tool, by its name or by patterns; of two that speak, the later one counts."""
    found = NO_OPTIONS
    for text, options in said.items():
        if pattern(text).matches(tool):
            found = said_over(found, options)
    return found


def spec_options(spec: ServerSpec) -> Mapping[str, ToolOptions]:
    """What is said of a server's tools; what is said of all of them counts less than what is said of one."""
    if spec.defer_loading is None:
        return spec.tools
    # As good as `*`, but no key that an operator writes.
    return {"***": ToolOptions(defer_loading=spec.defer_loading), **spec.tools}


def overruled(spec: ServerSpec, operator: Mapping[str, ToolOptions]) -> ServerSpec:
    """A server that was registered: where the operator speaks of tools of every server, that counts."""
    if not operator:
        return spec
    own = {name: options for name, options in spec.tools.items() if name not in operator}
    both = {name: said_over(spec.tools.get(name, NO_OPTIONS), options) for name, options in operator.items()}
    return dataclasses.replace(spec, tools={**own, **both})


@lru_cache(maxsize=10_000)
def pattern(text: str) -> Glob:
    """What a pattern for names of tools matches."""
    return Glob(text.replace("*", "**"))  # a name of a tool has no parts that a star would stop at


def said_over(first: ToolOptions, then: ToolOptions) -> ToolOptions:
    """What two said of a tool; where both speak, the second counts."""
    given = {
        field.name: getattr(then, field.name)
        for field in dataclasses.fields(then)
        if getattr(then, field.name) != field.default
    }
    return dataclasses.replace(first, **given)


def tool_of(unit: str, name: str, shown: str, item: bytes, options: ToolOptions, config: Config) -> Entry:
    """A tool as a server lists it, with what is known of it; ValueError when it cannot be read."""
    read = read_members(item)
    headers: Mapping[tuple[str, ...], str] = (
        header_map(decode(read.get("inputSchema", b"{}"))) if b"x-mcp-header" in item else NOTHING
    )
    page, app_only = _app(read) if b'"_meta"' in item else ("", False)
    tasks = _task_support(read) if b'"taskSupport"' in item else ""
    hints, meta = decode_object(read.get("annotations", b"")), decode_object(read.get("_meta", b""))
    declared = hints_of({"annotations": hints}, meta) if meta else annotations.from_mcp(hints)
    deferred, callers, options = _guided(meta, options)
    said = known = annotations.merge_annotations(declared, options)
    if config.annotations.auto_infer:
        description = read_string(read.get("description", b""))
        schema = decode_object(read.get("inputSchema", b""))
        known = annotations.effective(declared, name, description, schema, configured=options)
    asked = annotations.as_asked(known, said, options.requires_confirmation, config.middleware.confirm)
    return Entry(
        shown,
        unit,
        name,
        definition_of(item, name, shown, options),
        headers,
        annotations.is_safe_to_retry(said) or annotations.only_reads(known),
        app_only=app_only,
        page=page,
        tasks=tasks,
        annotations=_shared(asked),
        options=options,
        deferred=deferred,
        callers=callers,
    )


def _guided(meta: Mapping[str, Any], options: ToolOptions) -> tuple[bool, tuple[str, ...], ToolOptions]:
    """Whether lists leave a tool out, who may call it, and the options with what its server narrowed of them."""
    theirs, allowed = guidance.callers_of(meta) if meta else None, options.allowed_callers
    if allowed is not None and theirs is not None:
        options = dataclasses.replace(options, allowed_callers=tuple(one for one in allowed if one in theirs))
    defer, callers = options.defer_loading, options.allowed_callers
    if defer is None:
        defer = guidance.said_in(meta, "defer_loading") is True
    if callers is None:
        callers = _USUAL if theirs is None else theirs
    return defer, callers, options


_USUAL = (DIRECT, PROGRAM)


@lru_cache(maxsize=1_000)
def _shared(known: Annotations) -> Annotations:
    """One object for all that are equal: most tools behave in one of a few ways."""
    return known


def _task_support(members: Members) -> str:
    said = decode_object(members.get("execution", b"")).get("taskSupport")
    return str(said) if said in ("optional", "required") else ""


def _app(members: Members) -> tuple[str, bool]:
    """What a tool says about the MCP App that goes with it."""
    meta = decode_object(members.get("_meta", b""))
    ui: Any = meta.get("ui")
    if not isinstance(ui, dict):
        return str(meta.get("ui/resourceUri", "")), False
    shown = cast("dict[str, Any]", ui)
    return str(shown.get("resourceUri", "")), shown.get("visibility") == ["app"]


def renamed(item: bytes, shown: str) -> bytes:
    """A definition under another name."""
    return write_members({**read_members(item), "name": encode(shown)})


MARK = "dev.trunkline/changed"
"""In `_meta`: what of a definition differs from the one that was agreed to."""


def marked(definition: bytes, changed: tuple[str, ...]) -> bytes:
    """A definition that says what of it was not agreed to."""
    if not changed:
        return definition
    members = read_members(definition)
    meta = decode_object(members.get("_meta", b""))
    return write_members({**members, "_meta": encode({**meta, MARK: list(changed)})})


def definition_of(item: bytes, name: str, shown: str, options: ToolOptions = NO_OPTIONS) -> bytes:
    """What lists show: what the server sent, to the byte, but for the shown name and what the operator says."""
    definition = item if shown == name else renamed(item, shown)
    return definition if options is NO_OPTIONS else _annotated(definition, options)


def _annotated(definition: bytes, options: ToolOptions) -> bytes:
    """What the operator says, callers see as well."""
    said, guided = annotations.to_mcp(options), guidance.meta_of(options)
    if not said and not options.tags and not guided:
        return definition
    members = read_members(definition)
    if said:
        own = read_members(members["annotations"]) if "annotations" in members else {}
        members["annotations"] = write_members({**own, **read_members(encode(said))})
    if options.tags or guided:
        meta = decode_object(members.get("_meta", b""))
        tags = {"tags": list(dict.fromkeys((*hints_of({}, meta).tags, *options.tags)))} if options.tags else {}
        members["_meta"] = encode({**meta, **tags, **guided})
    return write_members(members)
