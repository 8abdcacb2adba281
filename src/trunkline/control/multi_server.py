"""Many servers as one: groups that share calls, one list of tools, failover, and figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Any, TypeVar

from trunkline.balance.balancer import Balancer
from trunkline.balance.budget import RetryBudget
from trunkline.balance.failover import failover, safe_to_repeat
from trunkline.balance.groups import CONNECTED, Groups, LoadBalancingStrategy, ServerGroup, ServerInfo
from trunkline.balance.health_checks import Probe, Sleep, check, open_checks
from trunkline.balance.lease import Lease, Outcome
from trunkline.balance.member import MemberState
from trunkline.balance.metrics import ServerMetrics, Tally
from trunkline.balance.offers import NamespacedTool, Offers, UnifiedTool
from trunkline.balance.strategies import Value
from trunkline.control.multi_server_options import (
    GroupCreated,
    GroupDegraded,
    GroupRemoved,
    ManagerStatistics,
    MetricsUpdated,
    MultiServerConfig,
    ServerAdded,
    ServerAddedToGroup,
    ServerRemoved,
    ServerRemovedFromGroup,
    ServerUpdated,
    ToolPreferenceSet,
)
from trunkline.errors import ConfigError, NoServerError, UnknownNameError
from trunkline.events import Emitter

T = TypeVar("T")


class Selection:
    """The server for one call; leave its `with` block, or say `done`, when the call has ended."""

    __slots__ = ("lease", "server", "server_id", "tool_name")

    def __init__(self, lease: Lease, server: ServerInfo, tool_name: str) -> None:
        self.lease = lease
        self.server_id = lease.server
        self.server = server
        self.tool_name = tool_name
        """The server's own name for the tool."""

    def done(self, ok: bool | None = True) -> None:
        """The call ended."""
        self.lease.done(ok)

    def __enter__(self) -> Selection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.lease.__exit__(kind, error, traceback)


@dataclass(frozen=True, slots=True)
class _Way:
    """How calls of one name in one group are shared out."""

    tool_name: str
    key: tuple[str | None, frozenset[str]]
    names: tuple[str, ...]
    strategy: LoadBalancingStrategy
    weight: Value
    priority: Value
    health_aware: bool
    prefer: tuple[str, ...]
    repeatable: bool


class MultiServerManager:
    """Servers, groups and tools; `select_server` chooses a server, `execute_tool` also makes the call."""

    def __init__(
        self,
        config: MultiServerConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        **options: Any,
    ) -> None:
        self.config = replace(config, **options) if config else MultiServerConfig(**options)
        self._events = Emitter(
            ServerAdded,
            ServerRemoved,
            ServerUpdated,
            GroupCreated,
            GroupRemoved,
            ServerAddedToGroup,
            ServerRemovedFromGroup,
            GroupDegraded,
            MetricsUpdated,
            ToolPreferenceSet,
        )
        self.on, self.off = self._events.on, self._events.off
        self._clock = clock
        self._circle = Balancer(
            health=self.config.health,
            clock=clock,
            random=random,
            on_health=self._health_changed,
            on_end=self._ended,
        )
        self._budget = RetryBudget(ratio=self.config.retry_ratio, clock=clock)
        self._roster = Groups()
        self._offers = Offers(
            self._roster,
            self._circle.is_healthy,
            conflicts=self.config.conflict_resolution,
            separator=self.config.namespace_separator,
            auto_namespace=self.config.auto_namespace,
        )
        self._tallies: dict[str, Tally] = {}
        self._degraded: set[str] = set()
        self._ways: dict[tuple[str, str | None], _Way] = {}

    def add_server(self, server: ServerInfo) -> None:
        """Let a server take part; to change one, say `update_server`."""
        if server.id in self._roster.servers:
            raise ConfigError(f"There is a server {server.id!r} already.", hint="Use `update_server` to change it.")
        self._offers.put(server)
        self._roster.servers[server.id] = server
        self._tallies[server.id] = Tally()
        self._circle.add(server.id)
        self._circle.set_healthy(server.id, server.status == CONNECTED)
        self._forget()
        self._events.emit(ServerAdded(server.id, server))

    def remove_server(self, server_id: str) -> bool:
        """Take a server out of everything; a group that it leaves empty goes too."""
        if server_id not in self._roster.servers:
            return False
        for group in self._roster.groups_of(server_id):
            self.remove_server_from_group(server_id, group.id)
        for tool_name in [tool for tool, server in self._roster.preferences.items() if server == server_id]:
            del self._roster.preferences[tool_name]
        del self._roster.servers[server_id]
        self._offers.remove(server_id)
        self._circle.remove(server_id)
        del self._tallies[server_id]
        self._forget()
        self._events.emit(ServerRemoved(server_id))
        return True

    def update_server(self, server_id: str, **updates: Any) -> ServerInfo:
        """Change fields of a server; a new `status` says whether it is healthy."""
        server = self._roster.known(server_id)
        if updates.get("id", server_id) != server_id:
            raise ConfigError("A server keeps its id.", hint="Remove it, and add the other one.")
        changed = replace(server, **updates)
        self._offers.put(changed)
        self._roster.servers[server_id] = changed
        self._forget()
        if changed.status != server.status:
            self.update_health(server_id, changed.status == CONNECTED)
        self._events.emit(ServerUpdated(server_id, changed))
        return changed

    def get_servers(self) -> list[ServerInfo]:
        """All servers, in the order they came."""
        return list(self._roster.servers.values())

    def get_server(self, server_id: str) -> ServerInfo | None:
        """One server, if it takes part."""
        return self._roster.servers.get(server_id)

    def create_group(self, group: ServerGroup) -> None:
        """Let servers share calls; a group of the same id is replaced."""
        for server_id in group.servers:
            self._roster.known(server_id)
        self._roster.groups[group.id] = group
        self._forget()
        self._events.emit(GroupCreated(group))
        self._weigh(group)

    def remove_group(self, group_id: str) -> bool:
        """Dissolve a group; its servers stay."""
        if self._roster.groups.pop(group_id, None) is None:
            return False
        self._degraded.discard(group_id)
        self._forget()
        self._events.emit(GroupRemoved(group_id))
        return True

    def add_server_to_group(self, server_id: str, group_id: str) -> None:
        """Let a server join a group."""
        self._roster.known(server_id)
        group = self._roster.groups.get(group_id)
        if group is None:
            raise ConfigError(f"There is no group {group_id!r}.", hint="Create it with `create_group`.")
        if server_id in group.members:
            return
        group = self._roster.groups[group_id] = replace(group, servers=(*group.servers, server_id))
        self._forget()
        self._events.emit(ServerAddedToGroup(server_id, group_id))
        self._weigh(group)

    def remove_server_from_group(self, server_id: str, group_id: str) -> bool:
        """Let a server leave a group; the last one takes the group with it."""
        group = self._roster.groups.get(group_id)
        if group is None or server_id not in group.members:
            return False
        rest = tuple(server for server in group.servers if server != server_id)
        group = self._roster.groups[group_id] = replace(group, servers=rest)
        self._forget()
        self._events.emit(ServerRemovedFromGroup(server_id, group_id))
        if rest:
            self._weigh(group)
        else:
            self.remove_group(group_id)
        return True

    def get_groups(self) -> list[ServerGroup]:
        """All groups."""
        return list(self._roster.groups.values())

    def get_group(self, group_id: str) -> ServerGroup | None:
        """One group, if there is one."""
        return self._roster.groups.get(group_id)

    def select_server(
        self, tool_name: str, group_id: str | None = None, *, exclude: Collection[str] = ()
    ) -> Selection | None:
        """Choose a server for a call, by the tool's own or full name; `None` when no server can take it."""
        way = self._way(tool_name, group_id)
        return None if way is None else self._select(way, exclude)

    async def execute_tool(
        self, tool_name: str, attempt: Callable[[str], Awaitable[T]], group_id: str | None = None
    ) -> T:
        """Await `attempt(server_id)`, and on the next server if that one failed and a second call does no harm."""
        way = self._way(tool_name, group_id)
        if way is None:
            raise UnknownNameError(
                f"No server takes calls of {tool_name!r}.",
                hint="Set a preference, or use a full name: several servers offer it."
                if tool_name in self._offers
                else "See `get_unified_tools` for what there is.",
            )

        def take(tried: tuple[str, ...]) -> Lease:
            # Servers may have come or gone since the last attempt.
            selection = self.select_server(tool_name, group_id, exclude=tried)
            if selection is None:
                raise NoServerError(
                    f"No server can take {tool_name!r} now.", hint="See `get_all_metrics` for how they fare."
                )
            return selection.lease

        return await failover(
            take,
            attempt,
            repeatable=way.repeatable,
            max_retries=self.config.max_failover_retries,
            budget=self._budget,
        )

    def set_tool_preference(self, tool_name: str, server_id: str) -> None:
        """Let a tool go to this server first, as long as the server has it and is well."""
        self._roster.known(server_id)
        self._roster.preferences[tool_name] = server_id
        self._forget(slates=False)
        self._events.emit(ToolPreferenceSet(tool_name, server_id))

    def clear_tool_preference(self, tool_name: str) -> bool:
        """Let a tool go anywhere again."""
        found = self._roster.preferences.pop(tool_name, None)
        self._forget(slates=False)
        return found is not None

    def get_unified_tools(self) -> list[UnifiedTool]:
        """The tools of all healthy servers as one list; equal names are resolved as configured."""
        return self._offers.unified()

    def get_namespaced_tools(self) -> list[NamespacedTool]:
        """Every tool of every healthy server under its full name."""
        return self._offers.namespaced()

    def resolve_namespaced(self, full_name: str) -> tuple[str, str] | None:
        """The server and the tool behind a full name."""
        return self._offers.full_names().get(full_name)

    def request_started(self, server_id: str) -> None:
        """Count a request that is made without a selection's lease; unknown servers are ignored."""
        tally = self._tallies.get(server_id)
        if tally is None:
            return
        tally.start()
        tally.by_hand += 1
        self._circle.shift_load(server_id, 1)
        self._tell(server_id)

    def request_completed(self, server_id: str, duration: float, success: bool) -> None:
        """Count its end, after `duration` seconds; unknown servers are ignored."""
        tally = self._tallies.get(server_id)
        if tally is None:
            return
        if tally.by_hand:
            tally.by_hand -= 1
            self._circle.shift_load(server_id, -1)
        else:
            tally.start()
        tally.complete(duration, success)
        self._circle.report(server_id, success)
        self._tell(server_id)

    def update_health(self, server_id: str, healthy: bool) -> None:
        """Say whether a server is well; unknown servers are ignored."""
        if self._circle.is_healthy(server_id) != healthy:
            self._forget(slates=False)
            self._circle.set_healthy(server_id, healthy)

    def get_server_metrics(self, server_id: str) -> ServerMetrics | None:
        """A server's figures, as a copy."""
        tally = self._tallies.get(server_id)
        return None if tally is None else tally.metrics(healthy=self._circle.is_well(server_id))

    def get_all_metrics(self) -> dict[str, ServerMetrics]:
        """All servers' figures."""
        return {
            server_id: tally.metrics(healthy=self._circle.is_well(server_id))
            for server_id, tally in self._tallies.items()
        }

    def get_statistics(self) -> ManagerStatistics:
        """Sums over all servers."""
        tallies = self._tallies.values()
        names = self._offers.names()
        return ManagerStatistics(
            total_servers=len(self._roster.servers),
            healthy_servers=sum(self._circle.is_well(server_id) for server_id in self._roster.servers),
            total_groups=len(self._roster.groups),
            degraded_groups=len(self._degraded),
            total_tools=len(names),
            conflicting_tools=sum(self._roster.conflict(self._offers.servers(name)) for name in names),
            total_requests=sum(tally.total for tally in tallies),
            active_requests=sum(tally.active for tally in tallies),
        )

    def states(self) -> dict[str, MemberState]:
        """How every server fares, in detail."""
        return self._circle.states()

    async def check_health(self, probe: Probe) -> dict[str, bool]:
        """Ask every server once, and note who is well."""
        found = await check(tuple(self._roster.servers), probe, timeout=self.config.health_check_timeout)
        for server_id, healthy in found.items():
            if server_id in self._tallies:
                self._tallies[server_id].checked = self._clock()
                self.update_health(server_id, healthy)
                self._tell(server_id)
        return found

    def open_health_checks(self, probe: Probe, *, sleep: Sleep = asyncio.sleep) -> AbstractAsyncContextManager[None]:
        """Ask every server now and every `health_check_interval` seconds, as long as the `async with` lasts."""
        return open_checks(lambda: self.check_health(probe), interval=self.config.health_check_interval, sleep=sleep)

    def _select(self, way: _Way, exclude: Collection[str]) -> Selection | None:
        slate = self._circle.slate(
            way.key,
            way.names,
            strategy=way.strategy,
            weight=way.weight,
            priority=way.priority,
            health_aware=way.health_aware,
        )
        lease = self._circle.take_from(slate, way.prefer, exclude)
        if lease is None:
            return None
        self._tallies[lease.server].start()
        self._tell(lease.server)
        return Selection(lease, self._roster.servers[lease.server], way.tool_name)

    def _way(self, name: str, group_id: str | None) -> _Way | None:
        way = self._ways.get((name, group_id))
        if way is None:
            way = self._find_way(name, group_id)
            if way is not None:
                self._ways[name, group_id] = way
        return way

    def _find_way(self, name: str, group_id: str | None) -> _Way | None:
        group = self._roster.groups.get(group_id or "")
        tool_name, found = self._offers.behind(name)
        if group_id is not None:
            # Within a group there is no conflict: its servers share the calls of every name that they share.
            offered = self._offers.servers(name) or found
            found = {server: tool for server, tool in offered.items() if group and server in group.members}
        if not found:
            return None
        preferred = self._roster.preferences.get(tool_name, "")
        aware = group.health_aware if group else None
        return _Way(
            tool_name=tool_name,
            key=(group_id, frozenset(found)),
            names=tuple(found),
            strategy=(group.strategy if group else None) or self.config.default_strategy,
            weight=self._roster.weights(group),
            priority=self._roster.priorities(group),
            health_aware=self.config.health_aware_routing if aware is None else aware,
            prefer=(preferred,) if preferred in found else (),
            repeatable=all(safe_to_repeat(tool.annotations) for tool in found.values()),
        )

    def _health_changed(self, server_id: str, well: bool) -> None:
        self._tell(server_id)
        for group in self._roster.groups_of(server_id):
            self._weigh(group)

    def _weigh(self, group: ServerGroup) -> None:
        """Notice when a group has fewer healthy servers than it should."""
        healthy = sum(self._circle.is_well(server_id) for server_id in group.servers)
        if healthy >= group.min_healthy_servers:
            self._degraded.discard(group.id)
        elif group.id not in self._degraded:
            self._degraded.add(group.id)
            self._events.emit(GroupDegraded(group.id, healthy, group.min_healthy_servers))

    def _ended(self, lease: Lease, outcome: Outcome) -> None:
        tally = self._tallies[lease.server]
        if outcome == "unused":
            tally.unmake()
        else:
            tally.complete(self._clock() - lease.started, outcome != "failed")
        self._tell(lease.server)

    def _tell(self, server_id: str) -> None:
        if self._events.hears(MetricsUpdated):
            metrics = self.get_server_metrics(server_id)
            if metrics is not None:
                self._events.emit(MetricsUpdated(server_id, metrics))

    def _forget(self, *, slates: bool = True) -> None:
        """What was worked out from servers, groups and preferences must be worked out again."""
        self._ways.clear()
        self._offers.forget()
        if slates:
            self._circle.forget_slates()


global_multi_server_manager = MultiServerManager()
"""One for the whole program, for those who want one."""
