"""Joins what the servers offer, under the names that callers see, into one frozen snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from trunkline.config.options import Config
from trunkline.model import Entry, Kind, Listing, ServerView, Snapshot, State
from trunkline.tool import NO_OPTIONS, ToolOptions
from trunkline.tools import annotations, builtin, names
from trunkline.tools.convert.definition import hints_of
from trunkline.tools.patterns import Glob
from trunkline.wire.envelope import read_string
from trunkline.wire.headers import HeaderMap, header_map
from trunkline.wire.members import Members, decode, decode_object, encode, read_members, write_members


def join_servers(views: Mapping[str, ServerView], config: Config, version: int) -> Snapshot:
    """What there is at this moment. A group is shown as one server; what any of its members offers, it offers."""
    active = {name: view for name, view in views.items() if view.state is not State.STOPPED}
    shown_as = {member: group.name for group in config.groups.values() for member in group.servers}
    units: dict[str, list[ServerView]] = {}
    for name, view in active.items():
        units.setdefault(shown_as.get(name, name), []).append(view)
    alone = len(units) == 1
    namespace = config.gateway.namespace
    if namespace == "auto":
        namespace = "never" if alone else "always"
    bare = next(iter(active)) if alone and namespace == "never" and not shown_as.keys() & active.keys() else ""
    problems: list[str] = []
    tables: dict[Kind, dict[str, Entry]] = {}
    for kind, key in _NAMED_BY.items():
        offered = {unit: _offered(members, kind, key) for unit, members in units.items()}
        how = {"namespace": namespace, "conflicts": config.gateway.conflicts, "prefer": config.gateway.prefer}
        if key != "name":
            # Addresses are not renamed: what a server links to must stay reachable. The first to offer one has it.
            how = {"namespace": "never", "conflicts": "first-wins", "prefer": config.gateway.prefer}
        shown, clashes = names.show(
            {unit: list(items) for unit, items in offered.items()},
            legalise=key == "name" and not bare,
            reserved=builtin.NAMES if kind is Kind.TOOL and not bare else frozenset(),
            **cast("Any", how),
        )
        problems += clashes
        table: dict[str, Entry] = {}
        for (unit, name), as_shown in shown.items():
            made = _entry(unit, name, as_shown, offered[unit][name], kind, config)
            if isinstance(made, str):
                problems.append(made)
            else:
                table[as_shown] = made
        tables[kind] = table
    return Snapshot(
        version=version,
        servers=dict(views),
        tools=tables[Kind.TOOL],
        prompts=tables[Kind.PROMPT],
        resources=tables[Kind.RESOURCE],
        templates=tuple(tables[Kind.TEMPLATE].values()),
        aliases=_aliases(tables[Kind.TOOL]),
        unlisted={
            tool.page: Entry(tool.page, tool.server, tool.page, b"", members=tool.members)
            for tool in tables[Kind.TOOL].values()
            if tool.page
        },
        bare=bare,
        problems=tuple(problems),
    )


@dataclasses.dataclass(slots=True)
class _Offer:
    """What one server offers, or several of a group."""

    item: bytes
    for_askable: bool
    members: list[str]


def _offered(members: Iterable[ServerView], kind: Kind, key: str) -> dict[str, _Offer]:
    found: dict[str, _Offer] = {}
    for view in members:
        listing = view.lists.get(kind, Listing())
        for item in (*listing.items, *listing.for_askable):
            name = _name_of(item, key)
            if not name:
                continue
            offer = found.setdefault(name, _Offer(item, item in listing.for_askable, []))
            if view.name not in offer.members:
                offer.members.append(view.name)
    return found


_NAMED_BY = {Kind.TOOL: "name", Kind.PROMPT: "name", Kind.RESOURCE: "uri", Kind.TEMPLATE: "uriTemplate"}


def name_of(item: bytes, kind: Kind) -> str:
    """The name (or address) of something that a server lists."""
    return _name_of(item, _NAMED_BY[kind])


@lru_cache(maxsize=50_000)
def _name_of(item: bytes, key: str) -> str:
    try:
        return read_string(read_members(item).get(key, b""))
    except ValueError:
        return ""


def _entry(unit: str, name: str, shown: str, offer: _Offer, kind: Kind, config: Config) -> Entry | str:
    """One entry as shown, or why it cannot be: one odd definition must hide no other."""
    members = () if offer.members == [unit] else tuple(offer.members)
    options = _options(unit, name, config) if kind is Kind.TOOL else NO_OPTIONS
    infer, confirm = config.annotations.auto_infer, config.middleware.confirm
    return _made(unit, name, shown, offer.item, kind, offer.for_askable, members, options, infer, confirm)


def _options(unit: str, tool: str, config: Config) -> ToolOptions:
    """In a group, what is said of one server's tool is said of all: it must not depend on who is there just now."""
    found = NO_OPTIONS
    for server in reversed(config.groups[unit].servers if unit in config.groups else (unit,)):
        spec = config.servers.get(server)
        said = options_of(tool, spec.tools) if spec is not None and spec.tools else NO_OPTIONS
        if said is not NO_OPTIONS:
            found = _over(found, said)
    return found


def options_of(tool: str, said: Mapping[str, ToolOptions]) -> ToolOptions:
    """What the operator said of a tool, by its name or by patterns; of two that speak, the later one counts."""
    found = NO_OPTIONS
    for text, options in said.items():
        if pattern(text).matches(tool):
            found = _over(found, options)
    return found


@lru_cache(maxsize=10_000)
def pattern(text: str) -> Glob:
    """What a pattern for names of tools matches."""
    return Glob(text.replace("*", "**"))  # a name of a tool has no parts that a star would stop at


def _over(first: ToolOptions, then: ToolOptions) -> ToolOptions:
    given = {
        field.name: getattr(then, field.name)
        for field in dataclasses.fields(then)
        if getattr(then, field.name) != field.default
    }
    return dataclasses.replace(first, **given)


@lru_cache(maxsize=50_000)
def _made(
    unit: str, name: str, shown: str, item: bytes, kind: Kind, for_askable: bool,
    members: tuple[str, ...], options: ToolOptions, infer: bool, confirm: str,
) -> Entry | str:  # fmt: skip
    try:
        if kind is not Kind.TOOL:
            named = item if shown == name or kind in (Kind.RESOURCE, Kind.TEMPLATE) else renamed(item, shown)
            return Entry(shown, unit, name, named, members=members, for_askable=for_askable)
        return _tool(unit, name, shown, item, for_askable, members, options, infer, confirm)
    except ValueError as error:
        return f"{name!r} of server {unit!r} is not shown: {error}."


def _tool(
    unit: str, name: str, shown: str, item: bytes, for_askable: bool,
    members: tuple[str, ...], options: ToolOptions, infer: bool, confirm: str,
) -> Entry:  # fmt: skip
    read = read_members(item)
    definition = item if shown == name else renamed(item, shown)
    if options is not NO_OPTIONS:
        definition = _annotated(definition, options)
    headers: HeaderMap = header_map(decode(read.get("inputSchema", b"{}"))) if b"x-mcp-header" in item else {}
    page, app_only = _app(read) if b'"_meta"' in item else ("", False)
    tasks = _task_support(read) if b'"taskSupport"' in item else ""
    hints, meta = decode_object(read.get("annotations", b"")), decode_object(read.get("_meta", b""))
    declared = hints_of({"annotations": hints}, meta) if meta else annotations.from_mcp(hints)
    said = known = annotations.merge_annotations(declared, options)
    if infer:
        description = read_string(read.get("description", b""))
        schema = decode_object(read.get("inputSchema", b""))
        known = annotations.effective(declared, name, description, schema, configured=options)
    return Entry(
        shown,
        unit,
        name,
        definition,
        headers,
        annotations.is_safe_to_retry(said) or annotations.only_reads(known),
        app_only=app_only,
        for_askable=for_askable,
        page=page,
        tasks=tasks,
        annotations=annotations.as_asked(known, said, options.requires_confirmation, confirm),
        options=options,
        members=members,
    )


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


def _aliases(tools: Mapping[str, Entry]) -> dict[str, Entry]:
    """Own names that belong to one server alone, and to nothing that is shown, nor to tools of ours."""
    claims: dict[str, list[Entry]] = {}
    for entry in tools.values():
        claims.setdefault(entry.name, []).append(entry)
    taken = tools.keys() | builtin.NAMES
    # One that looks prefixed may be how a tool is called of a server that is away: it must never mean another's.
    return {
        name: found[0] for name, found in claims.items() if len(found) == 1 and name not in taken and "__" not in name
    }


def renamed(item: bytes, shown: str) -> bytes:
    """A definition under another name."""
    return write_members({**read_members(item), "name": encode(shown)})


def _annotated(definition: bytes, options: ToolOptions) -> bytes:
    """What the operator says, callers see as well."""
    said = annotations.to_mcp(options)
    if not said and not options.tags:
        return definition
    members = read_members(definition)
    if said:
        own = read_members(members["annotations"]) if "annotations" in members else {}
        members["annotations"] = write_members({**own, **read_members(encode(said))})
    if options.tags:
        meta = decode_object(members.get("_meta", b""))
        theirs = hints_of({}, meta).tags
        members["_meta"] = encode({**meta, "tags": list(dict.fromkeys((*theirs, *options.tags)))})
    return write_members(members)
