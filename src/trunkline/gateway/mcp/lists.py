"""What callers are told about the servers: lists, page by page, and the introduction of either era."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Sequence
from typing import Any

from trunkline.call.stages.send import ROUTED
from trunkline.call.stages.tasks import runs_tasks
from trunkline.errors import RefusedError
from trunkline.model import Entry, Introduction, Kind, Listing, ServerView, Snapshot, State, View
from trunkline.telemetry.savings import Savings, Weights, weight
from trunkline.tools.builtin import CALL, SEARCH
from trunkline.upstream import connection_key
from trunkline.version import __version__
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import Members, decode, encode, is_object, read_members, write_members
from trunkline.wire.meta import PREFIX, SERVER_INFO, plain
from trunkline.wire.tasks import EXTENSION, OFFER

OWN_INFO = encode({"name": "trunkline", "title": "Trunkline", "version": __version__})
APPS = b'"io.modelcontextprotocol/ui"'
UNAVAILABLE = "dev.trunkline/unavailable"
"""Where a list says which servers are missing from it, and why."""

SEARCHING = (
    f"Not every tool is listed. Before you say that something cannot be done, look for a tool with `{SEARCH}`, "
    f"one query for each step; then use `{CALL}`."
)
"""What callers are told who search."""

TASKS_SINCE = "2025-11-25"
"""The first version with tasks."""
OUR_LISTS: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
"""What is announced in any case: servers come and go, and callers hear of it by what they listen to."""
THEIR_OWN: dict[str, Any] = {"completions": {}, "logging": {}}
"""What is announced if a server has it, or may have it once it is there."""


class Lists:
    """Makes list results, and keeps those of the newest snapshot."""

    def __init__(self, page_size: int, savings: Savings) -> None:
        self._size, self._savings = page_size, savings
        self._made: dict[tuple[Hashable, Kind, bool, bool, bool, bytes], tuple[bytes, int]] = {}
        self._version = -1
        self._weights = Weights()

    def page(
        self, view: View, kind: Kind, cursor: bytes, *, modern: bool, capabilities: bytes, user: str = ""
    ) -> bytes:
        """One page of a list, as a result of the caller's era, with what its capabilities make it see."""
        snapshot = view.snapshot
        apps = bool(snapshot.bare) or APPS in capabilities
        askable = connection_key.askable(capabilities) != b"{}"
        if snapshot.version != self._version:
            self._made.clear()
            self._version = snapshot.version
        key = (view.audience, kind, modern, apps, askable, cursor)
        made = self._made.get(key) if not view.own else None
        if made is None:
            entries = tuple(
                entry
                for entry in view.entries(kind)
                if (apps or not entry.app_only) and (askable or not entry.for_askable)
            )
            avoided = 0
            if view.searching and kind is Kind.TOOL and not cursor:
                offers = view.snapshot.offers.values()
                avoided = self._weights.of(offers, askable=askable) - weight(entries)
            made = _page(snapshot, entries, kind, cursor, modern, self._size), avoided
            if len(self._made) < 100 and not view.own:
                self._made[key] = made
        if view.searching and kind is Kind.TOOL and not cursor:  # further pages belong to the same list
            self._savings.listed(view.profile, user, made[1])
        return made[0]


def _page(snapshot: Snapshot, entries: Sequence[Entry], kind: Kind, cursor: bytes, modern: bool, size: int) -> bytes:
    start = _start(entries, cursor)
    shown = entries[start : start + size]
    shapes = [entry.definition if modern or kind is not Kind.TOOL else legacy_tool(snapshot, entry) for entry in shown]
    result: Members = {kind.value: b"[" + b",".join(shapes) + b"]"}
    if start + size < len(entries):
        result["nextCursor"] = encode(_cursor(start + size, shown[-1].shown))
    views = [view for view in snapshot.servers.values() if view.state is not State.STOPPED]
    extras = dict(views[0].lists[kind].extras) if snapshot.bare and kind in views[0].lists else {}
    meta = read_members(extras.pop("_meta", b"{}"))
    if modern:
        listings = [view.lists[kind] for view in views if kind in view.lists]
        ttl = min((listing.ttl for listing in listings), default=0.0)
        scope = "public" if listings and all(listing.public for listing in listings) else "private"
        extras |= {"resultType": b'"complete"', "ttlMs": b"%d" % (ttl * 1000), "cacheScope": encode(scope)}
        meta.setdefault(SERVER_INFO, OWN_INFO if not snapshot.bare else _info(views[0]))
    else:
        meta = {name: value for name, value in meta.items() if not name.startswith(PREFIX)}
    away = unavailable(views, kind)
    if away:
        meta[UNAVAILABLE] = encode(away)
    if meta:
        extras["_meta"] = write_members(meta)
    return write_members({**result, **extras})


def unavailable(views: Sequence[ServerView], kind: Kind) -> dict[str, str]:
    """Servers whose part of a list is missing or not fresh, with the reason."""
    found: dict[str, str] = {}
    for view in views:
        problem = view.lists.get(kind, Listing()).problem
        if problem:
            found[view.name] = problem
        elif view.state not in (State.READY, State.DEGRADED) and view.introduction is None:
            found[view.name] = f"{view.state.value}: {view.reason}" if view.reason else view.state.value
    return found


def introduce_modern(view: View) -> bytes:
    """The answer to `server/discover`."""
    snapshot = view.snapshot
    bare = _bare_introduction(snapshot)
    own: Members = {
        "supportedVersions": encode(list(MODERN_VERSIONS)),
        "capabilities": encode(_capabilities(snapshot) | _extensions(snapshot)),
        "resultType": b'"complete"',
        "ttlMs": b"0",
        "cacheScope": b'"private"',
    }
    if bare is None:
        text = instructions(view)
        return write_members(
            own | {"_meta": write_members({SERVER_INFO: OWN_INFO})} | ({"instructions": encode(text)} if text else {})
        )
    spoken = _spoken(view, bare)
    if bare.modern:
        theirs = read_members(bare.result) | (spoken if view.searching else {})
        return write_members({**own, **theirs, "supportedVersions": own["supportedVersions"]})
    theirs = {name: value for name, value in read_members(bare.result).items() if name not in _OF_INITIALIZE}
    said = read_members(theirs["_meta"]) if is_object(theirs.get("_meta", b"")) else {}
    capabilities = {name: value for name, value in bare.capabilities.items() if name != "tasks"}
    capabilities |= _extensions(snapshot)
    made = own | {"capabilities": encode(capabilities), "_meta": write_members({**said, SERVER_INFO: bare.info})}
    return write_members({**theirs, **made, **spoken})


def _capabilities(snapshot: Snapshot) -> dict[str, Any]:
    """What all servers can do together."""
    views = snapshot.servers.values()
    met = [view.introduction.capabilities for view in views if view.introduction is not None]
    if any(view.state is State.STARTING and view.introduction is None for view in views):
        return OUR_LISTS | THEIR_OWN
    return OUR_LISTS | {name: value for name, value in THEIR_OWN.items() if any(name in one for one in met)}


def _extensions(snapshot: Snapshot) -> dict[str, Any]:
    """The extensions that some server offers and that we can route; no other is announced."""
    offered: dict[str, Any] = {}
    for view in snapshot.servers.values():
        if view.introduction is not None and view.introduction.modern:
            theirs: Any = view.introduction.capabilities.get("extensions")
            if isinstance(theirs, dict):
                offered.update({key: value for key, value in theirs.items() if key in ROUTED})  # type: ignore[reportUnknownVariableType]
        elif runs_tasks(view):
            offered[EXTENSION] = {}
    return {"extensions": offered} if offered else {}


def introduce_legacy(view: View, version: str, introduction: Introduction | None) -> bytes:
    """The answer to `initialize`; in bare mode `introduction` is what the server itself said to this kind of caller."""
    snapshot = view.snapshot
    if not snapshot.bare or introduction is None:
        text = instructions(view)
        own: Members = {
            "protocolVersion": encode(version),
            "capabilities": encode(
                _capabilities(snapshot) | _tasks(any(map(runs_tasks, snapshot.servers.values())), version)
            ),
            "serverInfo": OWN_INFO,
        }
        return write_members(own | ({"instructions": encode(text)} if text else {}))
    spoken = _spoken(view, introduction)
    if not introduction.modern:
        theirs = read_members(introduction.result) | (spoken if view.searching else {})
        return write_members({**theirs, "protocolVersion": encode(version)})
    capabilities = {name: value for name, value in introduction.capabilities.items() if name != "extensions"}
    capabilities |= _tasks(runs_tasks(snapshot.servers[snapshot.bare]), version)
    theirs = plain(read_members(introduction.result))
    theirs = {name: value for name, value in theirs.items() if name not in ("supportedVersions", "instructions")}
    made: Members = {
        "protocolVersion": encode(version),
        "capabilities": encode(capabilities),
        "serverInfo": introduction.info if is_object(introduction.info) and introduction.info != b"{}" else OWN_INFO,
    }
    return write_members({**theirs, **made, **spoken})


_OF_INITIALIZE = frozenset(("protocolVersion", "serverInfo", "capabilities", "instructions"))
"""What the era before says of a server in places of its own; all else that a server says of itself passes."""


def _tasks(some: bool, version: str) -> dict[str, Any]:
    return {"tasks": OFFER} if some and version >= TASKS_SINCE else {}


def legacy_tool(snapshot: Snapshot, entry: Entry) -> bytes:
    """A tool as legacy callers see it: one of a modern server may run as a task, which only they must be told."""
    view = snapshot.servers.get(entry.server)
    if (
        b'"taskSupport"' in entry.definition
        or view is None
        or view.introduction is None
        or not view.introduction.modern
    ):
        return entry.definition
    if not runs_tasks(view):
        return entry.definition
    return write_members({**read_members(entry.definition), "execution": b'{"taskSupport":"optional"}'})


def instructions(view: View) -> str:
    """How tools are found, what the servers say about their use, and which of them are missing."""
    snapshot = view.snapshot
    parts: list[str] = [SEARCHING] if view.searching else []
    for server in snapshot.servers.values():
        if server.introduction is not None and server.introduction.instructions:
            parts.append(f"# {server.name}\n{server.introduction.instructions}")
    away = [
        f"- {server.name} is {server.state.value}{': ' + server.reason if server.reason else ''}"
        for server in snapshot.servers.values()
        if server.state in (State.UNREACHABLE, State.NEEDS_AUTHORIZATION)
        or (server.state is State.STARTING and server.introduction is None)
    ]
    if away:
        parts.append("# Not available now\n" + "\n".join(away))
    return "\n\n".join(parts)


def _spoken(view: View, introduction: Introduction) -> Members:
    """What a server that stands alone says about its use, and how its tools are found if they are not listed."""
    if view.searching:
        return {"instructions": encode("\n\n".join(filter(None, (SEARCHING, introduction.instructions))))}
    return {"instructions": encode(introduction.instructions)} if introduction.instructions else {}


def _bare_introduction(snapshot: Snapshot) -> Introduction | None:
    return snapshot.servers[snapshot.bare].introduction if snapshot.bare else None


def _info(view: ServerView) -> bytes:
    return view.introduction.info if view.introduction is not None and view.introduction.info != b"{}" else OWN_INFO


def _cursor(index: int, last: str) -> str:
    return base64.urlsafe_b64encode(encode([index, last])).decode()


def _start(entries: Sequence[Entry], cursor: bytes) -> int:
    """Where a page begins: behind the last entry of the one before, wherever that stands now."""
    if not cursor or cursor == b"null":
        return 0
    try:
        index, last = decode(base64.urlsafe_b64decode(read_string(cursor)))
        if not isinstance(index, int) or index < 0:
            raise ValueError
    except (ValueError, TypeError, binascii.Error):
        raise RefusedError("The cursor is not one of ours.", code=INVALID_PARAMS) from None
    if 0 < index <= len(entries) and entries[index - 1].shown == last:
        return index
    for position, entry in enumerate(entries):
        if entry.shown == last:
            return position + 1
    return 0  # where we were is gone: better to show something twice than to leave something out
