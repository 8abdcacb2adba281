"""Who offers which tool, under which names: one list of the tools of many servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any, Literal

from trunkline.balance.groups import Groups, ServerInfo
from trunkline.errors import ConfigError
from trunkline.tool import Tool

ConflictResolution = Literal["first-wins", "last-wins", "namespace", "prefix", "explicit", "preference", "error"]


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


class Offers:
    """Servers by tool, and what becomes of names that several of them offer."""

    def __init__(
        self,
        roster: Groups,
        healthy: Callable[[str], bool],
        *,
        conflicts: ConflictResolution,
        separator: str,
        auto_namespace: bool,
    ) -> None:
        self._roster = roster
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
        """Take note of a server's tools; what it offered before is forgotten."""
        self._refuse_conflicts(server)
        self._drop(server.id)
        tools = self._by_server[server.id] = {tool.name: tool for tool in server.tools}
        for name, tool in tools.items():
            self._by_tool.setdefault(name, {})[server.id] = tool
        self._full_names = None
        self.forget()

    def remove(self, server_id: str) -> None:
        """Forget a server."""
        self._drop(server_id)
        self._by_server.pop(server_id, None)
        self._full_names = None
        self.forget()

    def forget(self) -> None:
        """Servers, groups, preferences or health have changed: the list must be made anew."""
        self._unified = None

    def names(self) -> tuple[str, ...]:
        """All tools by their own names, in the order they came."""
        return tuple(dict.fromkeys(name for tools in self._by_server.values() for name in tools))

    def servers(self, tool_name: str) -> dict[str, Tool]:
        """Who offers a tool, in the order the servers came."""
        found = self._by_tool.get(tool_name, {})
        if len(found) < 2:
            return dict(found)
        return {server: found[server] for server in self._by_server if server in found}

    def behind(self, name: str) -> tuple[str, dict[str, Tool]]:
        """The tool that a caller means by its own or full name, and who may take its calls outside of any group."""
        if name not in self._by_tool:
            server, tool_name = self.full_names().get(name, ("", name))
            return tool_name, {server: self._by_server[server][tool_name]} if server else {}
        found = self.servers(name)
        if not self._roster.conflict(found):
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
            NamespacedTool(full, name, server, self._roster.servers[server].name, self._by_server[server][name])
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
        ranks = self._roster.ranks()
        for name in self.names():
            offered = self.servers(name)
            healthy = sorted(filter(self._healthy, offered), key=ranks.__getitem__)
            found = {server: offered[server] for server in healthy}
            # Servers that are ill count here too, or names would change with health.
            conflict = self._roster.conflict(offered)
            if self._auto_namespace or (conflict and self._policy in ("namespace", "prefix")):
                kept = "" if self._auto_namespace else self._roster.preferences.get(name, "")
                for server, tool in found.items():
                    shown = name if server == kept else full[server, name]
                    yield self._entry(shown, {server: tool}, server, conflict)
            elif found:
                winner = self._winner(name, offered) if conflict else self._first(name, healthy)
                if winner in found:
                    yield self._entry(name, found, winner, conflict)

    def _entry(self, name: str, found: Mapping[str, Tool], winner: str, conflict: bool) -> UnifiedTool:
        sources = [
            ToolSource(server, self._roster.servers[server].name, place, found[server].input_schema)
            for place, server in enumerate(found)
        ]
        return UnifiedTool(name, found[winner].description, tuple(sources), conflict, winner, found[winner])

    def _first(self, tool_name: str, ranked: Sequence[str]) -> str:
        preferred = self._roster.preferences.get(tool_name, "")
        return preferred if preferred in ranked else ranked[0]

    def _winner(self, tool_name: str, found: Collection[str]) -> str:
        """The server whose tool is meant by a name that several offer; empty when nobody's is."""
        preferred = self._roster.preferences.get(tool_name, "")
        if self._policy in ("explicit", "preference"):
            return preferred if preferred in found else ""
        healthy = [server for server in found if self._healthy(server)] or list(found)
        if preferred in healthy:
            return preferred
        return healthy[-1] if self._policy == "last-wins" else healthy[0]

    def _refuse_conflicts(self, server: ServerInfo) -> None:
        if self._policy != "error":
            return
        for tool in server.tools:
            others = [other for other in self.servers(tool.name) if other != server.id]
            if others:
                raise ConfigError(
                    f"Servers {others[0]!r} and {server.id!r} both offer {tool.name!r}.",
                    hint="Rename one, or choose another `conflict_resolution`.",
                )

    def _drop(self, server_id: str) -> None:
        for name in self._by_server.get(server_id, ()):
            del self._by_tool[name][server_id]
            if not self._by_tool[name]:
                del self._by_tool[name]


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
