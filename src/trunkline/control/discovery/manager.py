"""Discovers the tools of many servers, and answers what there is, how it behaves and how it fares."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from trunkline.balance.groups import ServerInfo
from trunkline.control.change import ToolChange, ToolChanged
from trunkline.control.discovery.criteria import EVERYTHING, ToolSearchCriteria, ToolSearchResult
from trunkline.control.discovery.events import (
    AnnotationsUpdated,
    DiscoveryStatistics,
    ToolDiscovered,
    ToolDiscoveryResult,
)
from trunkline.control.discovery.tool_index import Calls, Key, ToolIndex
from trunkline.control.discovery.tool_info import (
    CompatibilityCheckResult,
    EnhancedToolInfo,
    check_tool,
    read_definition,
    read_entry,
    read_tool,
)
from trunkline.control.history import History
from trunkline.control.listing import as_definition, read_client_tools, version_of
from trunkline.control.multi_server import MultiServerManager
from trunkline.control.unified_tools import UnifiedTool
from trunkline.errors import ConfigError, TrunklineError
from trunkline.events import Emitter
from trunkline.foreign import Raised, attempt
from trunkline.model import Kind, Offer, Snapshot, State
from trunkline.telemetry.tally import BOUNDS, Tally
from trunkline.tool import UNKNOWN, Annotations, Safety
from trunkline.tools.annotations import merge_annotations, validate_annotations
from trunkline.untrusted import as_text
from trunkline.wire.members import decode_object


class EnhancedToolDiscovery:
    """Every tool of every server that was discovered; records are frozen, lists are the caller's own.

    A hub has one that follows its servers and its calls: `hub.discovery`.
    """

    def __init__(
        self,
        manager: MultiServerManager | None = None,
        *,
        calls: Callable[[], Calls] | None = None,
        history: History | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.manager = manager or MultiServerManager()
        self.history = history or History(clock=clock)
        """How tools changed."""
        self._events = Emitter(ToolDiscovered, AnnotationsUpdated, ToolChanged)
        self.on, self.off = self._events.on, self._events.off
        self.history.on(ToolChanged, self._events.emit)
        self._clock = clock
        self._tallies: dict[Key, Tally] = {}
        self._counts_here = calls is None
        self._index = ToolIndex(calls or (lambda: self._tallies))
        self._overrides: dict[Key, _Override] = {}
        self._discovering: set[str] = set()
        self._unfed: set[str] = set()
        """Servers whose tools the manager does not know yet."""
        self._fed: set[str] = set()
        """Servers that the manager knows from here."""
        self._followed: dict[str, tuple[Offer, str]] = {}
        """Of servers of a hub: what was read of each, and its version."""

    # Learning.

    async def discover_tools_with_annotations(
        self, server_id: str, client: Any, timeout: float = 10.0, *, server_version: str = ""
    ) -> ToolDiscoveryResult:
        """Read a server's tools, page by page. Failures are returned and change nothing; cancellation is raised.

        `client` is any object with an async `list_tools(cursor)`, such as the SDK's `Client` and `ClientSession`.
        """
        started = time.monotonic()
        if server_id in self._discovering:
            return ToolDiscoveryResult(False, server_id, error=f"Discovery already in progress for server: {server_id}")

        async def discover() -> ToolDiscoveryResult:
            async with asyncio.timeout(timeout):
                listed, problem = await read_client_tools(client)
            version = server_version or version_of(client)
            # In a thread: ten thousand tools take half a second to read.
            tools, warnings = await asyncio.to_thread(_read_all, server_id, listed, version)
            known = self._take(server_id, tools, whole=not problem)
            await self.history.note(server_id, [tool.definition for tool in tools], whole=not problem)
            took = time.monotonic() - started
            return ToolDiscoveryResult(True, server_id, known, took, warnings=(*filter(None, (problem,)), *warnings))

        self._discovering.add(server_id)
        try:
            outcome = await attempt(discover)
        finally:
            self._discovering.discard(server_id)
        if not isinstance(outcome, Raised):
            return outcome
        match outcome.error:
            case TimeoutError():
                error = f"Discovery timeout: server {server_id!r} did not list its tools within {timeout:g}s."
            case TrunklineError():
                error = str(outcome.error)
            case failure:
                error = f"{type(failure).__name__}: {failure}"
        return ToolDiscoveryResult(False, server_id, duration=time.monotonic() - started, error=error)

    def register_server(self, server: ServerInfo) -> None:
        """Take in a server that is described in Python, with its tools; ConfigError when it is there already."""
        self.manager.add_server(server)
        self._put(server.id, [read_tool(server.id, tool) for tool in server.tools])
        self._unfed.discard(server.id)

    def clear_server_tools(self, server_id: str) -> None:
        """Forget a server's tools, what was said of them, and how their calls went."""
        for name in self._index.servers.get(server_id, {}):
            self._overrides.pop((server_id, name), None)
        self._followed.pop(server_id, None)
        self._put(server_id, [])
        self._feed()

    def set_available(self, server_id: str, available: bool) -> None:
        """Say whether a server can be reached; its tools stay known."""
        away = self._index.away
        self._index.away = away - {server_id} if available else away | {server_id}

    def record_call(self, server_id: str, tool_name: str, seconds: float, *, success: bool = True) -> bool:
        """Count a call that ended; false when there is no such tool. A hub counts its calls itself."""
        if not self._counts_here:
            raise ConfigError("These calls are counted elsewhere.", hint="Do not record them a second time.")
        key = server_id, tool_name
        if key not in self._index.tools:
            return False
        tally = self._tallies.setdefault(key, Tally())
        tally.count(seconds, bisect_left(BOUNDS, seconds), self._clock(), failed=False, tool_error=not success)
        return True

    def update_tool_annotations(
        self, server_id: str, tool_name: str, annotations: Annotations, *, replace_all: bool = False
    ) -> bool:
        """Say how a tool behaves; false when there is no such tool. It outranks its server, also from now on.

        What says nothing erases nothing, and tags are added; with `replace_all` nothing else is kept.
        """
        wrong = validate_annotations(annotations)
        if wrong:
            raise ConfigError(f"These annotations cannot be used: {wrong[0]}", hint="Correct or remove them.")
        key = server_id, tool_name
        tool = self._index.tools.get(key)
        if tool is None:
            return False
        before = _Override(alone=True) if replace_all else self._overrides.get(key, _Override())
        self._overrides[key] = override = before.and_also(annotations)
        changed = tool.annotated(override.over(tool.annotations))
        self._index.change(changed)
        self._unfed.add(server_id)
        self._events.emit(AnnotationsUpdated(server_id, tool_name, changed.annotations, self._clock()))
        return True

    def follow(self, snapshot: Snapshot) -> None:
        """Take over what a hub knows; only what changed is read anew."""
        offered = {server: offer for server, offer in snapshot.offers.items() if offer.tools}
        offered |= {server: Offer(server) for server in self._followed if server not in offered}
        members = {server: offer.members for server, offer in offered.items() if offer.members}
        ready = {name for name, view in snapshot.servers.items() if view.state in (State.READY, State.DEGRADED)}
        away = {server for server in offered if ready.isdisjoint((server, *members.get(server, ())))}
        self._index.away = (self._index.away - offered.keys()) | away
        self._index.members = members
        for server, offer in offered.items():
            version = _version(snapshot, (server, *members.get(server, ())))
            if self._followed.get(server) != (offer, version):
                self._follow_server(offer, version)

    # Looking.

    def search_tools(self, criteria: ToolSearchCriteria = EVERYTHING, **options: Any) -> ToolSearchResult:
        """The tools that meet every criterion; give an object, or the criteria by name, or both."""
        started = time.monotonic()
        criteria = replace(criteria, **options) if options else criteria
        tools, total, scores = self._index.search(criteria)
        fits = tuple(scores[tool.server_id, tool.name] for tool in tools) if scores else ()
        return ToolSearchResult(tuple(tools), total, criteria, time.monotonic() - started, fits)

    def get_tool(self, server_id: str, tool_name: str) -> EnhancedToolInfo | None:
        """One tool, if it is known."""
        tool = self._index.tools.get((server_id, tool_name))
        return self._index.now([tool])[0] if tool is not None else None

    def get_all_tools(self) -> list[EnhancedToolInfo]:
        """Every tool that is known, server by server."""
        return self._index.now(tool for tools in self._index.servers.values() for tool in tools.values())

    def get_server_tools(self, server_id: str) -> list[EnhancedToolInfo]:
        """The tools of one server, in its own order."""
        return self._index.now(self._index.servers.get(server_id, {}).values())

    def get_tools_by_safety_level(self, level: Safety) -> list[EnhancedToolInfo]:
        """The tools of one level, by name; every tool is of one level only."""
        return list(self.search_tools(safety=level, include_unavailable=True).tools)

    def get_tools_requiring_confirmation(self) -> list[EnhancedToolInfo]:
        """The tools to which a person must agree first."""
        return [tool for tool in self.get_all_tools() if tool.needs_confirmation]

    def get_read_only_tools(self) -> list[EnhancedToolInfo]:
        """The tools that only read, by name; none that is also said to destroy."""
        found = self.search_tools(annotations=Annotations(read_only_hint=True), include_unavailable=True).tools
        return [tool for tool in found if not tool.annotations.destructive_hint]

    def get_unified_tools(self) -> list[UnifiedTool]:
        """The tools of all servers as one list, each name once."""
        self._feed()
        return self.manager.get_unified_tools()

    def check_compatibility(self, tool_name: str, server_id: str, target_version: str = "") -> CompatibilityCheckResult:
        """Whether a tool is there and fits a version; the tool's own version counts, or else its server's."""
        tool = self.get_tool(server_id, tool_name)
        if tool is None:
            return CompatibilityCheckResult(False, (f"Tool '{tool_name}' not found on server '{server_id}'",))
        return check_tool(tool, target_version)

    def get_statistics(self) -> DiscoveryStatistics:
        """The catalogue in numbers."""
        return self._index.statistics()

    async def get_changes(self, server_id: str = "", tool_name: str = "", *, limit: int = 0) -> list[ToolChange]:
        """How tools changed, the newest first; 0 sets no limit."""
        return await self.history.changes(server_id, tool_name, limit=limit)

    def _take(self, server_id: str, tools: Sequence[EnhancedToolInfo], *, whole: bool) -> tuple[EnhancedToolInfo, ...]:
        """A discovery came to its end."""
        found = {tool.name: tool for tool in tools}
        before = self._index.servers.get(server_id, {})
        # What a list that does not end left out may still be there.
        self._put(server_id, (found if whole else before | found).values())
        try:
            self._feed()
        except ConfigError:
            self._put(server_id, before.values())
            self._unfed.discard(server_id)
            raise
        self.set_available(server_id, True)
        known = self._index.now(self._index.tools[server_id, name] for name in found)
        self._announce(known)
        return tuple(known)

    def _follow_server(self, offer: Offer, version: str) -> None:
        server, entries = offer.server, offer.own.get(Kind.TOOL, {})
        known = self._index.servers.get(server, {})
        last, last_version = self._followed.get(server, (Offer(server), version))
        before = last.own.get(Kind.TOOL, {})
        self._followed[server] = offer, version
        read = {
            name: read_entry(entry, server_version=version)
            for name, entry in entries.items()
            if before.get(name) != entry or version != last_version
        }
        if not entries:
            del self._followed[server]
        if read or len(before) != len(entries):
            self._put(server, [read.get(name) or known[name] for name in entries])
            self._announce(self._index.tools[server, name] for name in read if name not in known)

    def _put(self, server_id: str, tools: Iterable[EnhancedToolInfo]) -> None:
        overrides = self._overrides
        heeded = [
            tool.annotated(overrides[key].over(tool.annotations))
            if (key := (server_id, tool.name)) in overrides
            else tool
            for tool in tools
        ]
        self._index.put(server_id, heeded)
        self._unfed.add(server_id)
        for key in [key for key in self._tallies if key[0] == server_id and key not in self._index.tools]:
            del self._tallies[key]

    def _feed(self) -> None:
        """Let the manager know the tools of servers that changed."""
        for server_id in tuple(self._unfed):
            tools = [tool.as_tool() for tool in self._index.servers.get(server_id, {}).values()]
            if not tools and server_id in self._fed:
                self._fed.discard(server_id)
                self.manager.remove_server(server_id)
            elif self.manager.get_server(server_id) is not None:
                self.manager.update_server(server_id, tools=tools)
            elif tools:
                self.manager.add_server(ServerInfo(server_id, name=server_id, tools=tools))
                self._fed.add(server_id)
            self._unfed.discard(server_id)

    def _announce(self, tools: Iterable[EnhancedToolInfo]) -> None:
        if self._events.hears(ToolDiscovered):
            now = self._clock()
            for tool in tools:
                self._events.emit(ToolDiscovered(tool.server_id, tool.name, tool.annotations, now))


@dataclass(frozen=True, slots=True)
class _Override:
    """What somebody said of a tool's behaviour, which outranks what its server says."""

    annotations: Annotations = UNKNOWN
    alone: bool = False
    """Nothing else counts."""

    def and_also(self, more: Annotations) -> _Override:
        """The same with more said; the later wins."""
        return replace(self, annotations=_overlaid(self.annotations, more))

    def over(self, known: Annotations) -> Annotations:
        """What is to be gone by."""
        return self.annotations if self.alone else _overlaid(known, self.annotations)


def _overlaid(below: Annotations, above: Annotations) -> Annotations:
    """Both merged; where they contradict each other, what lies below gives way."""
    drop: dict[str, Any] = {}
    if above.read_only_hint and above.destructive_hint is None and below.destructive_hint:
        drop = {"destructive_hint": False, "requires_confirmation": None}
    if above.destructive_hint and above.read_only_hint is None and below.read_only_hint:
        drop = {"read_only_hint": False, "requires_confirmation": None}
    return merge_annotations(replace(below, **drop) if drop else below, above)


def _read_all(server_id: str, listed: Iterable[Any], version: str) -> tuple[list[EnhancedToolInfo], list[str]]:
    """The tools that were listed; one odd definition must hide no other."""
    found: dict[str, EnhancedToolInfo] = {}
    warnings: list[str] = []
    for one in listed:
        try:
            tool = read_definition(server_id, as_definition(one), server_version=version)
        except TrunklineError as error:
            warnings.append(str(error))
        else:
            found.setdefault(tool.name, tool)
    return list(found.values()), warnings


def _version(snapshot: Snapshot, servers: Iterable[str]) -> str:
    """What the first server that says so says about its version."""
    for server in servers:
        view = snapshot.servers.get(server)
        version = _said_version(view.introduction.info) if view is not None and view.introduction is not None else ""
        if version:
            return version
    return ""


@lru_cache(maxsize=10_000)
def _said_version(info: bytes) -> str:
    return as_text(decode_object(info).get("version"))
