"""The router: which server takes a call, by tool, category, annotations, capabilities, session and strategy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from trunkline.balance.affinity import Affinity, AffinityRule
from trunkline.balance.balancer import Balancer, Lease, Probe, Sleep, open_checks
from trunkline.balance.candidates import ORDINARY_WEIGHT, Candidates
from trunkline.balance.failover import RetryBudget, failover, safe_to_repeat
from trunkline.balance.routing import (
    NO_CONTEXT,
    AffinityExpired,
    AffinitySet,
    HealthUpdated,
    RouteContext,
    RouteDecided,
    RouteFailed,
    RouterConfig,
    RouterStats,
    RoutingDecision,
)
from trunkline.balance.strategies import MemberState, Strategy
from trunkline.errors import ConfigError, NoServerError
from trunkline.events import Emitter
from trunkline.tool import Tool

T = TypeVar("T")


class ToolRouter:
    """Chooses a server for each call; `run` also makes the call, and tries the next server if it fails.

    Filters come first (the tool's own server, who has the tool, category, annotations, capabilities), then affinity,
    then the strategy. Load is a lease: `take` and `run` count it by themselves.
    """

    def __init__(
        self,
        config: RouterConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        **options: Any,
    ) -> None:
        self.config = replace(config, **options) if config else RouterConfig(**options)
        self._events = Emitter(RouteDecided, RouteFailed, AffinitySet, AffinityExpired, HealthUpdated)
        self.on, self.off = self._events.on, self._events.off
        self._sticky = self.config.enable_affinity or self.config.strategy == "affinity"
        self._affinity = Affinity(
            ttl=self.config.affinity_ttl,
            max_entries=self.config.max_affinities,
            clock=clock,
            expired=self._affinity_expired,
        )
        self._balancer = Balancer(
            health=self.config.health,
            clock=clock,
            random=random,
            on_health=self._health_changed,
        )
        self._budget = RetryBudget(ratio=self.config.retry_ratio, clock=clock)
        self._weights = {weight.server_id: weight for weight in self.config.server_weights}
        self._candidates = Candidates(
            self.config.category_mapping,
            self._weights,
            strategy=self.config.fallback_strategy if self.config.strategy == "affinity" else self.config.strategy,
            fallback_strategy=self.config.fallback_strategy,
            destructive_fallback=self.config.destructive_fallback,
        )

    def register_server(
        self, server_id: str, capabilities: Iterable[str] = (), *, tools: Iterable[str] | None = None
    ) -> None:
        """Make a server available. Said again, it keeps its load and its health.

        With `tools` it gets calls of those tools only; without, it is thought to have every tool.
        """
        written = self._weights.get(server_id)
        weight, priority = (written.weight, written.priority) if written else (ORDINARY_WEIGHT, 0.0)
        # Servers of equal priority are asked by weight.
        self._balancer.add(server_id, weight=weight, priority=priority - weight / 1000)
        self._candidates.add(server_id, capabilities, tools)
        self._balancer.close_subsets()

    def unregister_server(self, server_id: str) -> bool:
        """Take a server out, with its affinities; calls under way end in peace."""
        self._candidates.remove(server_id)
        self._affinity.forget_server(server_id)
        return self._balancer.remove(server_id)

    def route(self, tool: Tool, context: RouteContext = NO_CONTEXT) -> RoutingDecision:
        """Say where a call should go, without counting it as load. Raises `NoServerError`."""
        lease = self._choose(tool, context, ())
        lease.cancel()
        decision = _decision(lease)
        if self._events.hears(RouteDecided):
            self._events.emit(RouteDecided(tool.name, decision))
        return decision

    def take(self, tool: Tool, context: RouteContext = NO_CONTEXT, *, exclude: Collection[str] = ()) -> Lease:
        """Choose a server and count the call as its load until the lease is done. Raises `NoServerError`."""
        lease = self._choose(tool, context, exclude)
        if self._events.hears(RouteDecided):
            self._events.emit(RouteDecided(tool.name, _decision(lease)))
        return lease

    async def run(self, tool: Tool, context: RouteContext, attempt: Callable[[str], Awaitable[T]]) -> T:
        """Await `attempt(server_id)`, and on the next server if that one failed and a second call does no harm."""
        return await failover(
            lambda tried: self.take(tool, context, exclude=tried),
            attempt,
            repeatable=safe_to_repeat(tool.annotations),
            max_retries=self.config.max_retries,
            budget=self._budget,
        )

    def route_by_category(self, tool: Tool, category: str) -> list[str]:
        """Servers of a category that are well and may have the tool."""
        return self._well(self._candidates.in_category(self._candidates.having(tool), category))

    def route_by_annotation(self, tool: Tool) -> list[str]:
        """Servers that are well and that the tool's annotations allow or prefer."""
        for layer in self._candidates.layers(self._candidates.having(tool), tool.annotations):
            if well := self._well(layer):
                return well
        return []

    def route_by_capability(self, tool: Tool, required_capabilities: Iterable[str]) -> list[str]:
        """Servers that are well and can do all that is required."""
        return self._well(self._candidates.able(self._candidates.having(tool), required_capabilities))

    def update_server_load(self, server_id: str, delta: int) -> None:
        """Count load by hand, where no lease does; unknown servers are ignored."""
        self._balancer.shift_load(server_id, delta)

    def update_health_status(self, server_id: str, healthy: bool) -> None:
        """Say whether a server is well; unknown servers are ignored."""
        self._balancer.set_healthy(server_id, healthy)

    def report(self, server_id: str, ok: bool) -> None:
        """Say how a call ended that was made without a lease."""
        self._balancer.report(server_id, ok)

    async def check_health(self, probe: Probe) -> dict[str, bool]:
        """Ask every server once, and note who is well."""
        found = await self._balancer.ask(probe, timeout=self.config.health_check_timeout)
        for server_id, healthy in found.items():
            self._balancer.set_healthy(server_id, healthy)
        return found

    def open_health_checks(self, probe: Probe, *, sleep: Sleep = asyncio.sleep) -> AbstractAsyncContextManager[None]:
        """Ask every server now and every `health_check_interval` seconds, as long as the `async with` lasts."""
        return open_checks(lambda: self.check_health(probe), interval=self.config.health_check_interval, sleep=sleep)

    def set_affinity(self, key: str | RouteContext, server_id: str) -> None:
        """Serve a session or user there first: its context, its id, or, within a tenant, its `affinity_key`."""
        if server_id not in self._balancer:
            raise ConfigError(f"There is no server {server_id!r} to keep anybody on.", hint="Register it first.")
        key = key if isinstance(key, str) else key.affinity_key
        if not key:
            raise ConfigError("An affinity needs a key.", hint="Give a context with a `session_id` or a `user_id`.")
        self._affinity.pin(key, server_id)
        self._events.emit(AffinitySet(key, server_id))

    def clear_affinity(self, key: str | RouteContext) -> bool:
        """Forget where a session or user was served."""
        keys = [key, f"session::{key}", f"user::{key}"] if isinstance(key, str) else [key.plain_key, key.affinity_key]
        return sum(self._affinity.forget(one) for one in keys) > 0

    def affinities(self) -> tuple[AffinityRule, ...]:
        """Who is kept where."""
        return self._affinity.rules()

    def get_stats(self) -> RouterStats:
        """Servers, affinities and loads at this moment."""
        states = self._balancer.states()
        return RouterStats(
            available_servers=len(states),
            healthy_servers=sum(self._balancer.is_well(name) for name in states),
            active_affinities=len(self._affinity),
            server_loads={name: state.load for name, state in states.items()},
        )

    def states(self) -> dict[str, MemberState]:
        """How every server fares, in detail."""
        return self._balancer.states()

    def destroy(self) -> None:
        """Forget all affinities; there are no timers to stop."""
        self._affinity.clear()

    def _choose(self, tool: Tool, context: RouteContext, exclude: Collection[str]) -> Lease:
        key = context.affinity_key if self._sticky else ""
        prefer = (*self._affinity.servers(context.plain_key), *self._affinity.servers(key)) if key else ()
        subsets = self._candidates.subsets(tool, context.capabilities, again=bool(exclude))
        lease = self._balancer.take(*subsets, prefer=prefer, exclude=exclude)
        if lease is None:
            asked = dict.fromkeys(name for subset in subsets for name in subset.names)
            raise self._failed(tool, tuple(exclude) or tuple(asked))
        if key and not lease.pinned and self._affinity.remember(key, lease.server):
            self._events.emit(AffinitySet(key, lease.server))
        return lease

    def _well(self, servers: Iterable[str]) -> list[str]:
        return [name for name in servers if self._balancer.is_well(name)]

    def _failed(self, tool: Tool, attempted: tuple[str, ...]) -> NoServerError:
        error = NoServerError(
            f"No server can take {tool.name!r} (strategy {self.config.strategy}, {len(self._balancer)} registered).",
            hint=self._advice(tool),
        )
        if self._events.hears(RouteFailed):
            self._events.emit(RouteFailed(tool.name, error, attempted))
        return error

    def _advice(self, tool: Tool) -> str:
        servers = self._candidates.having(tool)
        if not len(self._balancer):
            return "Register a server."
        if not servers:
            return "No registered server has the tool: check the `tools` they were registered with."
        if tool.annotations.destructive_hint and not self._well(self._candidates.primary(servers)):
            return "It is destructive, and no primary (weight 50 or more) is well; see `destructive_fallback`."
        return "All that could take it are unhealthy, lack a capability, or have failed this call."

    def _affinity_expired(self, key: str) -> None:
        self._events.emit(AffinityExpired(key))

    def _health_changed(self, server_id: str, healthy: bool) -> None:
        self._events.emit(HealthUpdated(server_id, healthy))


def create_tool_router(config: RouterConfig | None = None, **options: Any) -> ToolRouter:
    """A router, from a config or from options."""
    return ToolRouter(config, **options)


def _decision(lease: Lease) -> RoutingDecision:
    strategy: Strategy = "affinity" if lease.pinned else lease.subset.strategy
    weight = lease.subset.weight(lease.member)
    match strategy:
        case "affinity":
            confidence, reason = 1.0, "Served there before"
        case "capability-based":
            confidence, reason = min(1.0, weight / 2), f"Capability score: {weight:.2f}"
        case "priority":
            confidence, reason = min(1.0, weight / 100), f"Priority weight: {weight:g}"
        case "least-loaded":
            confidence, reason = 0.9, f"Least loaded server (load: {lease.member.load})"
        case "weighted":
            confidence, reason = 0.8, f"Weighted turn (weight: {weight:g})"
        case "failover-only":
            confidence, reason = 0.9, "First in order that is well"
        case "random":
            confidence, reason = 0.5, "Random selection"
        case "round-robin":
            confidence, reason = 0.8, "Round-robin selection"
    return RoutingDecision(lease.server, strategy, confidence, reason, lease.subset)
