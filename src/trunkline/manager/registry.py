"""The servers of everybody and of each user, and the tools that were loaded of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from trunkline.control import tenants
from trunkline.errors import (
    AuthorizationNeededError,
    NotFoundError,
    UnknownNameError,
    UnreachableError,
    UpstreamError,
)
from trunkline.events import Emitter
from trunkline.hub import Hub
from trunkline.identity import owner_of, unit_name
from trunkline.manager import events
from trunkline.manager.config import TRANSPORTS, McpServerConfig, config_of
from trunkline.manager.proxy_tool import McpProxyTool
from trunkline.model import EMPTY_SNAPSHOT, Entry, Kind, ServerView, Snapshot, State
from trunkline.telemetry.tally import Tally
from trunkline.tenancy.servers import Registration, ServerScope
from trunkline.tool import ToolResult

MOST_LOADED = 100_000
"""Tools that are loaded at once, those of all users together; beyond, the one loaded first is unloaded."""
PATIENCE = 30.0
"""Seconds that a connection is waited for."""

Place = tuple[str, str, str]
"""User, server, and the server's own name for a tool: what it is shown as may change."""

_STATUS: Mapping[State, Literal["connected", "connecting", "error", "disconnected"]] = {
    State.STARTING: "connecting",
    State.READY: "connected",
    State.DEGRADED: "connected",
    State.UNREACHABLE: "error",
    State.NEEDS_AUTHORIZATION: "error",
    State.STOPPED: "disconnected",
}


@dataclass(frozen=True)
class McpServerStatus:
    """How a server fares, and how calls to it went."""

    id: str
    status: Literal["connected", "connecting", "error", "disconnected"]
    reason: str
    """Why it is so; empty when there is nothing to say."""
    tool_count: int
    last_connected: float
    """When its tools were last read, in seconds since the epoch; 0 for never."""
    calls: Tally


@dataclass(frozen=True)
class McpServerConnection:
    """One server for one user, who is connected when this is given; lost connections are made anew by calls."""

    registry: McpRegistry
    server_id: str
    user_id: str

    async def list_tools(self) -> list[McpProxyTool]:
        """The tools that it has."""
        return await self.registry.get_server_tools(self.server_id, self.user_id)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call one by the server's own name for it."""
        tool = await self.registry.load_tool(self.server_id, name, self.user_id)
        return await tool.execute(arguments)


class McpRegistry:
    """Registers servers while everything runs, and tells of what happens to them."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._events = Emitter(*events.EVENTS)
        self.on, self.off = self._events.on, self._events.off
        self._last = EMPTY_SNAPSHOT
        self._loaded: OrderedDict[Place, McpProxyTool] = OrderedDict()
        self._news = asyncio.Event()
        self._stop: list[Callable[[], None]] = [
            hub.on(tenants.ServerRegistered, self._registered),
            hub.on(tenants.ServerUnregistered, self._unregistered),
            hub.relay.follow(self._learn),
        ]

    async def shutdown(self) -> None:
        """Hear of nothing any more; servers belong to the hub, and end with it."""
        while self._stop:
            self._stop.pop()()
        self._loaded.clear()

    # Servers.

    async def register_server(
        self, config: McpServerConfig | Mapping[str, Any], scope: ServerScope = "user", user_id: str = ""
    ) -> Registration:
        """Take in a server; the same once more changes nothing, another of the same id is a `ConfigError`.

        Unless its loading is deferred, its tools are loaded for the user before this returns, if it can be reached.
        """
        config, owner = McpServerConfig.parse(config), user_id if scope == "user" else ""
        wanted, kept = config.written(), self.hub.relay.tenancy.servers
        with suppress(NotFoundError):
            said, _ = await kept.wanted(owner, config.id)
            if {"oauth": {}, **said, "name": config.id} == wanted:
                return await kept.get(owner, config.id)
        made = await self.hub.register_server(wanted, scope, owner, replace=False)
        if config.enabled and not config.defer_loading:
            with suppress(UpstreamError):  # it is tried again, and `server_error` tells of it
                await self.load_server_tools(config.id, user_id)
        return made

    async def update_server(
        self,
        server_id: str,
        updates: Mapping[str, Any],
        scope: ServerScope = "user",
        user_id: str = "",
        *,
        version: int = 0,
    ) -> Registration:
        """Change some fields of a server; `VersionConflictError` when somebody else did since, or since `version`."""
        owner = user_id if scope == "user" else ""
        present = await self.hub.relay.tenancy.servers.get(owner, server_id)
        before = config_of(present)
        wanted = McpServerConfig.parse({**vars(before), **updates, "id": server_id}).written()
        known = before.written() if before.type in TRANSPORTS else {}
        changes = {key: value for key, value in wanted.items() if value != known.get(key)}
        return await self.hub.update_server(server_id, changes, scope, owner, version=version or present.version)

    async def unregister_server(self, server_id: str, scope: ServerScope = "user", user_id: str = "") -> None:
        """Take a server out, with its connections, credentials and tools, and nobody else's."""
        await self.hub.unregister_server(server_id, scope, user_id if scope == "user" else "")

    async def get_server(self, server_id: str, user_id: str = "") -> McpServerConfig | None:
        """A registered server, the user's own before everybody's; `None` when there is none."""
        for owner in dict.fromkeys((user_id, "")):
            with suppress(NotFoundError):
                return config_of(await self.hub.relay.tenancy.servers.get(owner, server_id))
        return None

    async def get_server_status(self, server_id: str, user_id: str = "") -> McpServerStatus:
        """How a server that the user has fares; `NotFoundError` when there is none."""
        view = _view(await self.snapshot(user_id), server_id)
        tools = view.lists.get(Kind.TOOL)
        return McpServerStatus(
            server_id,
            _STATUS[view.state],
            view.reason,
            len(tools.items) if tools is not None else 0,
            view.known_since,
            self.hub.relay.tallies.of(user_id).servers.get(view.name, Tally()),
        )

    async def get_connection(self, server_id: str, user_id: str = "") -> McpServerConnection:
        """Have a server connected for a user; `UnreachableError` says why it cannot be now."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    news = self._news
                    view = _view(await self.snapshot(user_id), server_id)
                    if _STATUS[view.state] == "connected":
                        return McpServerConnection(self, server_id, user_id)
                    if view.state is State.NEEDS_AUTHORIZATION:
                        raise AuthorizationNeededError(view.reason)
                    if view.state is not State.STARTING:
                        raise UnreachableError(f"Server {server_id!r} is {view.state.value}. {view.reason}".strip())
                    await news.wait()
        except TimeoutError:
            raise UnreachableError(f"Server {server_id!r} is still starting.", hint="Try again later.") from None

    # Tools.

    async def snapshot(self, user_id: str = "", thread_id: str = "", program: str = "") -> Snapshot:
        """What a user has, in a thread where one is named, after a moment for servers that only just start."""
        relay = self.hub.relay
        scope = replace(await relay.scope_of(user_id, thread_id), program=program)
        await relay.settle(user_id)
        return relay.view(scope).snapshot

    async def get_server_tools(self, server_id: str, user_id: str = "") -> list[McpProxyTool]:
        """The tools of a server that the user has, loaded or not; `NotFoundError` when there is no such server."""
        return [McpProxyTool(self, entry, user_id) for entry in await self._entries(server_id, user_id)]

    async def load_server_tools(self, server_id: str, user_id: str = "") -> list[McpProxyTool]:
        """Load all tools of a server for a user, once it can be reached."""
        await self.get_connection(server_id, user_id)
        return [self.load(entry, user_id) for entry in await self._entries(server_id, user_id)]

    async def load_tool(self, server_id: str, tool_name: str, user_id: str = "") -> McpProxyTool:
        """Load one tool for a user, by the server's own name for it; `UnknownNameError` when there is none."""
        for entry in await self._entries(server_id, user_id):
            if entry.name == tool_name:
                return self.load(entry, user_id)
        raise UnknownNameError(f"There is no tool {tool_name!r} on server {server_id!r}.")

    def load(self, entry: Entry, user_id: str = "", thread_id: str = "") -> McpProxyTool:
        """Have a tool loaded for a user."""
        tool = McpProxyTool(self, entry, user_id, thread_id)
        if not self.is_loaded(tool):
            self._loaded[_place(tool)] = tool
            if len(self._loaded) > MOST_LOADED:
                self._unload(next(iter(self._loaded)))
            self._events.emit(events.ToolLoaded(tool.name, tool.server_id, entry.name, user_id, tool))
        return tool

    def unload_tool(self, tool_key: str, user_id: str = "") -> bool:
        """Unload a tool of a user, by the name that it is called by; false when it was not loaded."""
        places = [place for place, tool in self._loaded.items() if (tool.name, place[0]) == (tool_key, user_id)]
        for place in places:
            self._unload(place)
        return bool(places)

    def get_loaded_tools(self, user_id: str = "") -> list[McpProxyTool]:
        """The tools that are loaded for a user."""
        return [tool for place, tool in self._loaded.items() if place[0] == user_id]

    def is_loaded(self, tool: McpProxyTool) -> bool:
        """Whether a tool is loaded for its user."""
        return _place(tool) in self._loaded

    def called(self, tool: McpProxyTool, seconds: float) -> None:
        """Tell of a call."""
        if self._events.hears(events.ToolCalled):
            self._events.emit(events.ToolCalled(tool.name, tool.user_id, seconds))

    def _unload(self, place: Place) -> None:
        tool = self._loaded.pop(place)
        self._events.emit(events.ToolUnloaded(tool.name, tool.user_id))

    async def _entries(self, server: str, user: str) -> list[Entry]:
        snapshot = await self.snapshot(user)
        found = [entry for entry in snapshot.tools.values() if unit_name(entry.server) == server]
        if not found:
            _view(snapshot, server)
        return found

    # What the hub tells.

    def _registered(self, event: tenants.ServerRegistered) -> None:
        made = event.registration
        kind = events.ServerRegistered if made.version == 1 else events.ServerUpdated
        self._events.emit(kind(unit_name(made.spec.name), made.scope, made.user))

    def _unregistered(self, event: tenants.ServerUnregistered) -> None:
        scope: ServerScope = "user" if event.user else "app"
        self._events.emit(events.ServerUnregistered(event.name, scope, event.user))

    def _learn(self, snapshot: Snapshot) -> None:
        last, self._last = self._last, snapshot
        for before, now in snapshot.since(last):
            for name, view in now.servers.items():
                was = before.servers.get(name)
                if was is None or was.state is not view.state:
                    self._changed(view, was.state if was is not None else None)
            for name in before.servers.keys() - now.servers.keys():
                if _STATUS[before.servers[name].state] == "connected":
                    self._events.emit(events.ServerDisconnected(unit_name(name), owner_of(name)))
        for place, tool in list(self._loaded.items()):
            offer = snapshot.offer(tool.entry.server)
            if offer is None or tool.entry.name not in offer.own.get(Kind.TOOL, {}):
                self._unload(place)
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _changed(self, view: ServerView, before: State | None) -> None:
        """A server's state is another."""
        named = unit_name(view.name), owner_of(view.name)
        match _STATUS[view.state]:
            case "connected" if before is None or _STATUS[before] != "connected":
                self._events.emit(events.ServerConnected(*named))
            case "disconnected" if before is not None:
                self._events.emit(events.ServerDisconnected(*named))
            case "error":
                self._events.emit(events.ServerError(*named, view.reason))
            case _:
                pass


def _place(tool: McpProxyTool) -> Place:
    return tool.user_id, tool.entry.server, tool.entry.name


def _view(snapshot: Snapshot, server: str) -> ServerView:
    """A server by the name that the user has for it."""
    for name, view in snapshot.servers.items():
        if unit_name(name) == server:
            return view
    raise NotFoundError(f"There is no server {server!r}.")
