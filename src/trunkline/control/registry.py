"""The servers there are, how they fare, and what they offer, joined into one frozen snapshot."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from trunkline.catalog import names
from trunkline.config import GatewayConfig, ServerSpec
from trunkline.model import EMPTY_SNAPSHOT, Entry, Kind, Listing, ServerView, Snapshot, State
from trunkline.wire.envelope import read_string
from trunkline.wire.headers import HeaderMap, header_map
from trunkline.wire.members import Members, decode, decode_object, encode, read_members, write_members

ALONE = 3.0
"""Seconds that a first list waits for the only server: there is nothing else to show."""

Changed = Callable[[frozenset[Kind]], None]
"""Told which lists changed."""


class Registry:
    """Holds one view for each server; every change publishes a new snapshot."""

    def __init__(self, gateway: GatewayConfig) -> None:
        self.gateway = gateway
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        self._views: dict[str, ServerView] = {}
        self._listeners: list[Changed] = []
        self._settled = asyncio.Event()

    def add(self, spec: ServerSpec) -> None:
        """Show a server, of which nothing is known yet."""
        self._views[spec.name] = ServerView(
            name=spec.name,
            transport=spec.kind,
            address=spec.address,
            timeout=spec.timeout,
            max_timeout=spec.max_timeout,
            concurrency=spec.concurrency,
            lasting=spec.lifecycle != "transient" or spec.kind != "stdio",
        )
        self._publish()

    def remove(self, server: str) -> None:
        """Forget a server."""
        if self._views.pop(server, None) is not None:
            self._publish(told=frozenset(Kind))

    def order(self, servers: Iterable[str]) -> None:
        """Show servers in the order of the configuration, whenever they were added."""
        self._views = {name: self._views[name] for name in servers if name in self._views}
        self._publish()

    def update(self, server: str, *, told: Iterable[Kind] = (), **changes: Any) -> None:
        """Change what is known of a server, and tell of the lists that changed."""
        view = self._views.get(server)
        if view is None:
            return
        changed = dataclasses.replace(view, **changes)
        if changed == view and not told:
            return
        self._views[server] = changed
        differing = {kind for kind in Kind if _items(view, kind) != _items(changed, kind)}
        self._publish(told=frozenset(differing | set(told)))

    def view(self, server: str) -> ServerView | None:
        """One server now."""
        return self._views.get(server)

    def listen(self, listener: Changed) -> Callable[[], None]:
        """Hear of changed lists; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def settle(self, seconds: float) -> None:
        """Wait, not long, for servers of which nothing at all is known; for one that stands alone, somewhat longer."""
        if self._settled.is_set():
            return
        if self.snapshot.bare:
            seconds = max(seconds, ALONE)
        try:
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        except TimeoutError:
            pass

    def _publish(self, told: frozenset[Kind] = frozenset()) -> None:
        self.snapshot = build_snapshot(self._views, self.gateway, self.snapshot.version + 1)
        unknown = any(v.state is State.STARTING and v.profile is None for v in self._views.values())
        if unknown:
            self._settled.clear()
        else:
            self._settled.set()
        if told:
            for listener in list(self._listeners):
                listener(told)


def build_snapshot(views: Mapping[str, ServerView], gateway: GatewayConfig, version: int) -> Snapshot:
    """Join what the servers offer under the names that callers see."""
    active = {name: view for name, view in views.items() if view.state is not State.STOPPED}
    alone = len(active) == 1
    namespace = gateway.namespace
    if namespace == "auto":
        namespace = "never" if alone else "always"
    bare = next(iter(active)) if alone and namespace == "never" else ""
    problems: list[str] = []
    tables: dict[Kind, dict[str, Entry]] = {}
    for kind, key in _NAMED_BY.items():
        offered = {name: _offered(view, kind, key) for name, view in active.items()}
        how = {"namespace": namespace, "conflicts": gateway.conflicts, "prefer": gateway.prefer}
        if key != "name":
            # Addresses are not renamed: what a server links to must stay reachable. The first to offer one has it.
            how = {"namespace": "never", "conflicts": "first-wins", "prefer": gateway.prefer}
        shown, clashes = names.show(
            {server: list(items) for server, items in offered.items()},
            legalise=key == "name" and not bare,
            **cast("Any", how),
        )
        problems += clashes
        table: dict[str, Entry] = {}
        for (server, name), as_shown in shown.items():
            item = offered[server][name]
            made = _entry(server, name, as_shown, item, kind, item in active[server].lists[kind].for_askable)
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
            tool.page: Entry(tool.page, tool.server, tool.page, b"") for tool in tables[Kind.TOOL].values() if tool.page
        },
        bare=bare,
        problems=tuple(problems),
    )


def _items(view: ServerView, kind: Kind) -> tuple[bytes, ...]:
    listing = view.lists.get(kind)
    return listing.items + listing.for_askable if listing is not None and view.state is not State.STOPPED else ()


def _offered(view: ServerView, kind: Kind, key: str) -> dict[str, bytes]:
    listing = view.lists.get(kind, Listing())
    found: dict[str, bytes] = {}
    for item in (*listing.items, *listing.for_askable):
        name = _name_of(item, key)
        if name:
            found.setdefault(name, item)
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


@lru_cache(maxsize=50_000)
def _entry(server: str, name: str, shown: str, item: bytes, kind: Kind, for_askable: bool) -> Entry | str:
    """One entry as shown, or why it cannot be: one odd definition must hide no other."""
    try:
        made = _made_entry(server, name, shown, item, kind)
        return dataclasses.replace(made, for_askable=True) if for_askable else made
    except ValueError as error:
        return f"{name!r} of server {server!r} is not shown: {error}."


def _made_entry(server: str, name: str, shown: str, item: bytes, kind: Kind) -> Entry:
    members = read_members(item)
    definition = item if shown == name or kind in (Kind.RESOURCE, Kind.TEMPLATE) else _renamed(members, shown)
    if kind is not Kind.TOOL:
        return Entry(shown, server, name, definition)
    headers: HeaderMap = header_map(decode(members.get("inputSchema", b"{}"))) if b"x-mcp-header" in item else {}
    page, app_only = _app(members) if b'"_meta"' in item else ("", False)
    tasks = _task_support(members) if b'"taskSupport"' in item else ""
    safe = _safe_to_repeat(members)
    return Entry(shown, server, name, definition, headers, safe, app_only=app_only, page=page, tasks=tasks)


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
    """Own names that belong to one server alone, and to nothing that is shown."""
    claims: dict[str, list[Entry]] = {}
    for entry in tools.values():
        claims.setdefault(entry.name, []).append(entry)
    return {name: found[0] for name, found in claims.items() if len(found) == 1 and name not in tools}


def _renamed(members: Members, shown: str) -> bytes:
    return write_members({**members, "name": encode(shown)})


def _safe_to_repeat(members: Members) -> bool:
    hints = decode_object(members.get("annotations", b""))
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
