"""Many servers as one: groups that share calls, one list of tools, failover, and figures."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Any, TypeVar

from trunkline.balance.balancer import Balancer, Lease, Outcome, Probe, Sleep, Subset, open_checks
from trunkline.balance.failover import RetryBudget, failover, safe_to_repeat
from trunkline.balance.groups import CONNECTED, ServerGroup, ServerInfo
from trunkline.balance.strategies import MemberState
from trunkline.control.multi_server_options import (
    GroupCreated,
    GroupDegraded,
    GroupRemoved,
    ManagerStatistics,
    MetricsUpdated,
    MultiServerConfig,
    ServerAdded,
    ServerAddedToGroup,
    ServerMetrics,
    ServerRemoved,
    ServerRemovedFromGroup,
    ServerUpdated,
    ToolPreferenceSet,
)
from trunkline.control.unified_tools import NamespacedTool, UnifiedTool, UnifiedTools
from trunkline.errors import ConfigError, NoServerError, UnknownNameError
from trunkline.events import Emitter, Event
from trunkline.telemetry.tally import Tallies, Tally
from trunkline.tool import Tool

T = TypeVar("T")

UNLISTED_WEIGHT = 1.0
NO_CALLS = Tally()


@dataclass(eq=False, slots=True)
class Selection:
    """The server for one call; leave its `with` block, or say `done`, when the call has ended."""

    lease: Lease
    server: ServerInfo
    tool_name: str
    """The server's own name for the tool."""

    @property
    def server_id(self) -> str:
        """The server."""
        return self.lease.server

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
class _Route:
    """Who takes the calls of one name in one group."""

    tool_name: str
    subset: Subset
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
        self._balancer = Balancer(
            health=self.config.health,
            clock=clock,
            random=random,
            on_health=self._health_changed,
            on_end=self._ended,
        )
        self._budget = RetryBudget(ratio=self.config.retry_ratio, clock=clock)
        self._tools = UnifiedTools(
            self._balancer.is_healthy,
            conflicts=self.config.conflict_resolution,
            separator=self.config.namespace_separator,
            auto_namespace=self.config.auto_namespace,
        )
        self._tallies = Tallies(clock)
        self._checked: dict[str, float] = {}
        self._by_hand: Counter[str] = Counter()
        """Of the requests under way, those that somebody counts by hand, and not with a lease."""
        self._degraded: set[str] = set()
        self._routes: dict[tuple[str, str | None], _Route] = {}
        self._subsets: dict[tuple[str | None, frozenset[str]], Subset] = {}

    def add_server(self, server: ServerInfo) -> None:
        """Let a server take part; to change one, say `update_server`."""
        if server.id in self._tools.servers:
            raise ConfigError(f"There is a server {server.id!r} already.", hint="Use `update_server` to change it.")
        self._tools.put(server)
        self._balancer.add(server.id)
        self._balancer.set_healthy(server.id, server.status == CONNECTED)
        self._forget()
        self._events.emit(ServerAdded(server.id, server))

    def remove_server(self, server_id: str) -> bool:
        """Take a server out of everything; a group that it leaves empty goes too."""
        if server_id not in self._tools.servers:
            return False
        for group in self._tools.groups_of(server_id):
            self.remove_server_from_group(server_id, group.id)
        self._tools.remove(server_id)
        self._balancer.remove(server_id)
        self._tallies.forget(server_id)
        self._checked.pop(server_id, None)
        del self._by_hand[server_id]
        self._forget()
        self._events.emit(ServerRemoved(server_id))
        return True

    def update_server(self, server_id: str, **updates: Any) -> ServerInfo:
        """Change fields of a server; a new `status` says whether it is healthy."""
        server = self._tools.known(server_id)
        if updates.get("id", server_id) != server_id:
            raise ConfigError("A server keeps its id.", hint="Remove it, and add the other one.")
        changed = replace(server, **updates)
        self._tools.put(changed)
        self._forget()
        if changed.status != server.status:
            self.update_health(server_id, changed.status == CONNECTED)
        self._events.emit(ServerUpdated(server_id, changed))
        return changed

    def get_servers(self) -> list[ServerInfo]:
        """All servers, in the order they came."""
        return list(self._tools.servers.values())

    def get_server(self, server_id: str) -> ServerInfo | None:
        """One server, if it takes part."""
        return self._tools.servers.get(server_id)

    def create_group(self, group: ServerGroup) -> None:
        """Let servers share calls; a group of the same id is replaced."""
        for server_id in group.servers:
            self._tools.known(server_id)
        self._put_group(group, GroupCreated(group))

    def remove_group(self, group_id: str) -> bool:
        """Dissolve a group; its servers stay."""
        if self._tools.groups.pop(group_id, None) is None:
            return False
        self._degraded.discard(group_id)
        self._forget()
        self._events.emit(GroupRemoved(group_id))
        return True

    def add_server_to_group(self, server_id: str, group_id: str) -> None:
        """Let a server join a group."""
        self._tools.known(server_id)
        group = self._tools.groups.get(group_id)
        if group is None:
            raise ConfigError(f"There is no group {group_id!r}.", hint="Create it with `create_group`.")
        if server_id not in group.members:
            joined = replace(group, servers=(*group.servers, server_id))
            self._put_group(joined, ServerAddedToGroup(server_id, group_id))

    def remove_server_from_group(self, server_id: str, group_id: str) -> bool:
        """Let a server leave a group; the last one takes the group with it."""
        group = self._tools.groups.get(group_id)
        if group is None or server_id not in group.members:
            return False
        rest = replace(group, servers=[server for server in group.servers if server != server_id])
        self._put_group(rest, ServerRemovedFromGroup(server_id, group_id))
        return True

    def get_groups(self) -> list[ServerGroup]:
        """All groups."""
        return list(self._tools.groups.values())

    def get_group(self, group_id: str) -> ServerGroup | None:
        """One group, if there is one."""
        return self._tools.groups.get(group_id)

    def select_server(
        self, tool_name: str, group_id: str | None = None, *, exclude: Collection[str] = ()
    ) -> Selection | None:
        """Choose a server for a call, by the tool's own or full name; `None` when no server can take it."""
        route = self._route(tool_name, group_id)
        if route is None:
            return None
        lease = self._balancer.take(route.subset, prefer=route.prefer, exclude=exclude)
        if lease is None:
            return None
        self._announce(lease.server)
        return Selection(lease, self._tools.servers[lease.server], route.tool_name)

    async def execute_tool(
        self, tool_name: str, attempt: Callable[[str], Awaitable[T]], group_id: str | None = None
    ) -> T:
        """Await `attempt(server_id)`, and on the next server if that one failed and a second call does no harm."""
        route = self._route(tool_name, group_id)
        if route is None:
            raise UnknownNameError(
                f"No server takes calls of {tool_name!r}.",
                hint="Set a preference, or use a full name: several servers offer it."
                if tool_name in self._tools
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
            repeatable=route.repeatable,
            max_retries=self.config.max_failover_retries,
            budget=self._budget,
        )

    def set_tool_preference(self, tool_name: str, server_id: str) -> None:
        """Let a tool go to this server first, as long as the server has it and is well."""
        self._tools.known(server_id)
        self._tools.preferences[tool_name] = server_id
        self._forget(subsets=False)
        self._events.emit(ToolPreferenceSet(tool_name, server_id))

    def clear_tool_preference(self, tool_name: str) -> bool:
        """Let a tool go anywhere again."""
        found = self._tools.preferences.pop(tool_name, None)
        self._forget(subsets=False)
        return found is not None

    def get_unified_tools(self) -> list[UnifiedTool]:
        """The tools of all healthy servers as one list; equal names are resolved as configured."""
        return self._tools.unified()

    def get_namespaced_tools(self) -> list[NamespacedTool]:
        """Every tool of every healthy server under its full name."""
        return self._tools.namespaced()

    def resolve_namespaced(self, full_name: str) -> tuple[str, str] | None:
        """The server and the tool behind a full name."""
        return self._tools.full_names().get(full_name)

    def request_started(self, server_id: str) -> None:
        """Count a request that is made without a selection's lease; unknown servers are ignored."""
        if server_id in self._balancer:
            self._by_hand[server_id] += 1
            self._balancer.shift_load(server_id, 1)
            self._announce(server_id)

    def request_completed(self, server_id: str, duration: float, success: bool) -> None:
        """Count its end, after `duration` seconds; unknown servers are ignored."""
        if server_id not in self._balancer:
            return
        if self._by_hand[server_id]:
            self._by_hand[server_id] -= 1
            self._balancer.shift_load(server_id, -1)
        since = self._clock() - max(0.0, duration)
        self._tallies.count(server_id, "", since, failed=not success, tool_error=False)
        self._balancer.report(server_id, success)
        self._announce(server_id)

    def update_health(self, server_id: str, healthy: bool) -> None:
        """Say whether a server is well; unknown servers are ignored."""
        if self._balancer.is_healthy(server_id) != healthy:
            self._forget(subsets=False)
            self._balancer.set_healthy(server_id, healthy)

    def get_server_metrics(self, server_id: str) -> ServerMetrics | None:
        """A server's figures, as a copy."""
        if server_id not in self._balancer:
            return None
        tally, active = self._tallies.servers.get(server_id, NO_CALLS), self._balancer.load(server_id)
        return ServerMetrics(
            active_requests=active,
            total_requests=tally.calls + active,
            completed_requests=tally.calls,
            average_response_time=tally.average,
            error_rate=tally.error_rate,
            last_health_check=self._checked.get(server_id, 0.0),
            is_healthy=self._balancer.is_well(server_id),
        )

    def get_all_metrics(self) -> dict[str, ServerMetrics]:
        """All servers' figures."""
        found = {server_id: self.get_server_metrics(server_id) for server_id in self._tools.servers}
        return {server_id: metrics for server_id, metrics in found.items() if metrics is not None}

    def get_statistics(self) -> ManagerStatistics:
        """Sums over all servers."""
        names, figures = self._tools.names(), self.get_all_metrics().values()
        return ManagerStatistics(
            total_servers=len(self._tools.servers),
            healthy_servers=sum(metrics.is_healthy for metrics in figures),
            total_groups=len(self._tools.groups),
            degraded_groups=len(self._degraded),
            total_tools=len(names),
            conflicting_tools=sum(self._tools.conflict(self._tools.offering(name)) for name in names),
            total_requests=sum(metrics.total_requests for metrics in figures),
            active_requests=sum(metrics.active_requests for metrics in figures),
        )

    def states(self) -> dict[str, MemberState]:
        """How every server fares, in detail."""
        return self._balancer.states()

    async def check_health(self, probe: Probe) -> dict[str, bool]:
        """Ask every server once, and note who is well."""
        found = await self._balancer.ask(probe, timeout=self.config.health_check_timeout)
        for server_id, healthy in found.items():
            if server_id in self._balancer:
                self._checked[server_id] = self._clock()
                self.update_health(server_id, healthy)
                self._announce(server_id)
        return found

    def open_health_checks(self, probe: Probe, *, sleep: Sleep = asyncio.sleep) -> AbstractAsyncContextManager[None]:
        """Ask every server now and every `health_check_interval` seconds, as long as the `async with` lasts."""
        return open_checks(lambda: self.check_health(probe), interval=self.config.health_check_interval, sleep=sleep)

    def _route(self, name: str, group_id: str | None) -> _Route | None:
        route = self._routes.get((name, group_id))
        if route is not None:
            return route
        group = self._tools.groups.get(group_id or "")
        tool_name, found = self._tools.behind(name)
        if group_id is not None:
            # Within a group there is no conflict: its servers share the calls of every name that they share.
            offered = self._tools.offering(name) or found
            found = {server: tool for server, tool in offered.items() if group and server in group.members}
        if not found:
            return None
        preferred = self._tools.preferences.get(tool_name, "")
        route = self._routes[name, group_id] = _Route(
            tool_name=tool_name,
            subset=self._subset(group_id, group, found),
            prefer=(preferred,) if preferred in found else (),
            repeatable=all(safe_to_repeat(tool.annotations) for tool in found.values()),
        )
        return route

    def _subset(self, group_id: str | None, group: ServerGroup | None, found: Mapping[str, Tool]) -> Subset:
        """Those that offer a tool; tools of the same servers share their turns."""
        key = (group_id, frozenset(found))
        if key not in self._subsets:
            ranks = self._tools.ranks(group)
            weights = {weight.server_id: weight.weight for weight in (group.weights if group else ())}
            aware = group.health_aware if group else None
            self._subsets[key] = Subset(
                tuple(found),
                (group.strategy if group else None) or self.config.default_strategy,
                weight=lambda member: weights.get(member.name, UNLISTED_WEIGHT),
                priority=lambda member: ranks[member.name],
                health_aware=self.config.health_aware_routing if aware is None else aware,
            )
        return self._subsets[key]

    def _put_group(self, group: ServerGroup, event: Event) -> None:
        self._tools.groups[group.id] = group
        self._forget()
        self._events.emit(event)
        if group.servers or isinstance(event, GroupCreated):
            self._weigh(group)
        else:
            self.remove_group(group.id)

    def _health_changed(self, server_id: str, well: bool) -> None:
        self._announce(server_id)
        for group in self._tools.groups_of(server_id):
            self._weigh(group)

    def _weigh(self, group: ServerGroup) -> None:
        """Notice when a group has fewer healthy servers than it should."""
        healthy = sum(self._balancer.is_well(server_id) for server_id in group.servers)
        if healthy >= group.min_healthy_servers:
            self._degraded.discard(group.id)
        elif group.id not in self._degraded:
            self._degraded.add(group.id)
            self._events.emit(GroupDegraded(group.id, healthy, group.min_healthy_servers))

    def _ended(self, lease: Lease, outcome: Outcome) -> None:
        if outcome != "unused":
            self._tallies.count(lease.server, "", lease.started, failed=outcome == "failed", tool_error=False)
        self._announce(lease.server)

    def _announce(self, server_id: str) -> None:
        if self._events.hears(MetricsUpdated):
            metrics = self.get_server_metrics(server_id)
            if metrics is not None:
                self._events.emit(MetricsUpdated(server_id, metrics))

    def _forget(self, *, subsets: bool = True) -> None:
        """What was worked out from servers, groups and preferences must be worked out again."""
        self._routes.clear()
        self._tools.forget()
        if subsets:
            self._subsets.clear()
            self._balancer.close_subsets()


global_multi_server_manager = MultiServerManager()
"""One for the whole program, for those who want one."""
