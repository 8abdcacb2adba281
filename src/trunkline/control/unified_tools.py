"""Who offers which tool, under which names: the tools of many servers as one list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any, Literal

from trunkline.balance.groups import ServerGroup, ServerInfo
from trunkline.errors import ConfigError
from trunkline.tool import Tool
from trunkline.tools.names import conflict_winner

ConflictResolution = Literal["first-wins", "last-wins", "namespace", "prefix", "explicit", "preference", "error"]
CALLED: Mapping[ConflictResolution, ConflictResolution | Literal["prefer"]] = {
    "namespace": "first-wins",
    "prefix": "first-wins",
    "explicit": "prefer",
    "preference": "prefer",
}
"""The rule by which a bare name is called, where it is not the one by which it is shown."""
LAST = 1e9
"""The rank of servers without a priority: after all others, in the order they came."""


@dataclass(frozen=True, slots=True)
class ToolSource:
    """One server of a unified tool."""

    server_id: str
    server_name: str
    priority: int
    """Its place in the order in which the servers are asked."""
    input_schema: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class UnifiedTool:
    """A tool as callers see it, and the servers behind it."""

    name: str
    description: str
    servers: tuple[ToolSource, ...]
    """Those that are healthy, in the order in which they are asked."""
    has_conflict: bool
    """Servers that share no group offer this name."""
    preferred_server_id: str
    """The server whose definition is shown."""
    tool: Tool = field(repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class NamespacedTool:
    """A tool of one server under a name that no other has."""

    full_name: str
    tool_name: str
    server_id: str
    server_name: str
    tool: Tool = field(repr=False, hash=False)


class UnifiedTools:
    """Servers, their groups and the preferences of tools, and what becomes of names that several servers offer."""

    def __init__(
        self,
        healthy: Callable[[str], bool],
        *,
        conflicts: ConflictResolution,
        separator: str,
        auto_namespace: bool,
    ) -> None:
        self.servers: dict[str, ServerInfo] = {}
        self.groups: dict[str, ServerGroup] = {}
        self.preferences: dict[str, str] = {}
        """The server that a tool goes to first, by the tool's name."""
        self._healthy = healthy
        self._policy: ConflictResolution = conflicts
        self._separator = separator
        self._auto_namespace = auto_namespace
        self._by_tool: dict[str, dict[str, Tool]] = {}
        self._by_server: dict[str, dict[str, Tool]] = {}
        self._full_names: dict[str, tuple[str, str]] | None = None
        self._unified: tuple[UnifiedTool, ...] | None = None

    def __contains__(self, tool_name: object) -> bool:
        return tool_name in self._by_tool

    def put(self, server: ServerInfo) -> None:
        """Take in a server with its tools; what it offered before is forgotten."""
        for tool in server.tools if self._policy == "error" else ():
            others = [other for other in self.offering(tool.name) if other != server.id]
            if others:
                raise ConfigError(
                    f"Servers {others[0]!r} and {server.id!r} both offer {tool.name!r}.",
                    hint="Rename one, or choose another `conflict_resolution`.",
                )
        self._drop_tools(server.id)
        self.servers[server.id] = server
        tools = self._by_server[server.id] = {tool.name: tool for tool in server.tools}
        for name, tool in tools.items():
            self._by_tool.setdefault(name, {})[server.id] = tool

    def remove(self, server_id: str) -> None:
        """Forget a server, and that tools preferred it."""
        self._drop_tools(server_id)
        del self.servers[server_id], self._by_server[server_id]
        self.preferences = {tool: server for tool, server in self.preferences.items() if server != server_id}

    def forget(self) -> None:
        """Servers, groups, preferences or health have changed: the list must be made anew."""
        self._unified = None

    def known(self, server_id: str) -> ServerInfo:
        """A server that takes part; raises `ConfigError` for any other."""
        server = self.servers.get(server_id)
        if server is None:
            raise ConfigError(f"There is no server {server_id!r}.", hint="Add it with `add_server`.")
        return server

    def groups_of(self, server_id: str) -> list[ServerGroup]:
        """The groups that a server is in."""
        return [group for group in self.groups.values() if server_id in group.members]

    def ranks(self, group: ServerGroup | None = None) -> dict[str, float]:
        """How early servers are asked: as their group says, else as any group says, else as they came."""
        ranks = {server_id: LAST + index for index, server_id in enumerate(self.servers)}
        for other in (*self.groups.values(), *((group,) if group else ())):
            ranks |= {weight.server_id: weight.priority for weight in other.weights}
        return ranks

    def names(self) -> tuple[str, ...]:
        """All tools by their own names, in the order they came."""
        return tuple(dict.fromkeys(name for tools in self._by_server.values() for name in tools))

    def offering(self, tool_name: str) -> dict[str, Tool]:
        """Who offers a tool, in the order the servers came."""
        found = self._by_tool.get(tool_name, {})
        if len(found) < 2:
            return dict(found)
        return {server: found[server] for server in self._by_server if server in found}

    def conflict(self, servers: Collection[str]) -> bool:
        """Whether these are several servers that do not share a group."""
        return len(servers) > 1 and not any(group.members.issuperset(servers) for group in self.groups.values())

    def behind(self, name: str) -> tuple[str, dict[str, Tool]]:
        """The tool that a caller means by its own or full name, and who may take its calls outside of any group."""
        if name not in self._by_tool:
            server, tool_name = self.full_names().get(name, ("", name))
            return tool_name, {server: self._by_server[server][tool_name]} if server else {}
        found = self.offering(name)
        if not self.conflict(found):
            return name, found
        winner = self._winner(name, found)
        if not winner:
            return name, {}
        # Who shows another tool under this name must not get its calls.
        return name, {server: tool for server, tool in found.items() if tool.input_schema == found[winner].input_schema}

    def full_names(self) -> dict[str, tuple[str, str]]:
        """A name of its own for each tool of each server."""
        if self._full_names is None:
            pairs = [(server, name) for server, tools in self._by_server.items() for name in tools]
            self._full_names = _full_names(pairs, self._separator, self._by_tool)
        return self._full_names

    def namespaced(self) -> list[NamespacedTool]:
        """Every tool of every healthy server under its full name."""
        return [
            NamespacedTool(full, name, server, self.servers[server].name, self._by_server[server][name])
            for full, (server, name) in self.full_names().items()
            if self._healthy(server)
        ]

    def unified(self) -> list[UnifiedTool]:
        """The tools of all healthy servers as one list, each name once."""
        if self._unified is None:
            self._unified = tuple(self._unify())
        return list(self._unified)

    def _unify(self) -> Iterator[UnifiedTool]:
        full = {pair: name for name, pair in self.full_names().items()}
        ranks = self.ranks()
        for name in self.names():
            offered = self.offering(name)
            healthy = sorted(filter(self._healthy, offered), key=ranks.__getitem__)
            found = {server: offered[server] for server in healthy}
            # Servers that are ill count here too, or names would change with health.
            conflict = self.conflict(offered)
            preferred = self.preferences.get(name, "")
            if self._auto_namespace or (conflict and self._policy in ("namespace", "prefix")):
                for server, tool in found.items():
                    bare = server == preferred and not self._auto_namespace
                    yield self._entry(name if bare else full[server, name], {server: tool}, server, conflict)
            elif found:
                first = conflict_winner(healthy, "first-wins", (preferred,))
                winner = self._winner(name, offered) if conflict else first
                if winner in found:
                    yield self._entry(name, found, winner, conflict)

    def _entry(self, name: str, found: Mapping[str, Tool], winner: str, conflict: bool) -> UnifiedTool:
        sources = [
            ToolSource(server, self.servers[server].name, place, found[server].input_schema)
            for place, server in enumerate(found)
        ]
        return UnifiedTool(name, found[winner].description, tuple(sources), conflict, winner, found[winner])

    def _winner(self, tool_name: str, found: Collection[str]) -> str:
        """The server whose tool is meant by a name that several offer; empty when nobody's is."""
        policy = CALLED.get(self._policy, self._policy)
        healthy = [] if policy == "prefer" else [server for server in found if self._healthy(server)]
        return conflict_winner(healthy or list(found), policy, (self.preferences.get(tool_name, ""),))

    def _drop_tools(self, server_id: str) -> None:
        for name in self._by_server.get(server_id, ()):
            del self._by_tool[name][server_id]
            if not self._by_tool[name]:
                del self._by_tool[name]
        self._full_names = None


def _full_names(pairs: Iterable[tuple[str, str]], separator: str, taken: Collection[str]) -> dict[str, tuple[str, str]]:
    """`server.tool`, with a mark where that is not unique.

    Nothing is ever told by taking a name apart: server "a" with tool "b.c" and server "a.b" with tool "c" differ.
    """
    found: dict[str, tuple[str, str]] = {}
    for server, tool in sorted(pairs):
        name = f"{server}{separator}{tool}"
        mark = 0
        while name in found or name in taken:
            digest = blake2s(f"{mark}:{len(server)}:{server}{tool}".encode(), digest_size=4).hexdigest()
            name = f"{server}{separator}{tool}~{digest}"
            mark += 1
        found[name] = (server, tool)
    return found
