"""The stage that shares the calls of a group among its servers, and has the next one try what one could not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from trunkline.balance.balancer import DEFAULT_HEALTH
from trunkline.balance.groups import ServerWeight
from trunkline.balance.health import HealthOptions
from trunkline.balance.router import ToolRouter
from trunkline.balance.routing import RouteContext, RouterConfig
from trunkline.call.stage import REPEATABLE, Handler
from trunkline.config.options import GroupSpec, RouterSection, RoutingOptions
from trunkline.errors import RefusedError
from trunkline.model import Call, Kind, Offer, Reply, ServerView, Snapshot, State
from trunkline.tool import Annotations, Tool
from trunkline.tools.categories import infer_category
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.members import encode, read_members, write_members

READS = Annotations(read_only_hint=True)
STATE = "trunkline-group:"
"""Begins a state that a server of a group gave out, with the server's name: only that one may know it."""


class RouteStage:
    """One router for each group; calls of servers that are in none pass."""

    def __init__(self, groups: Mapping[str, GroupSpec], config: RouterSection) -> None:
        self.groups, self.config = groups, config
        self.routers = {name: _router(group, config) for name, group in groups.items()}
        self._offered: dict[str, tuple[Offer, dict[str, set[str]]]] = {}

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        router = self.routers.get(call.server)
        if router is None or call.parked is not None:
            return await call_next(call)
        if told := _server_in_state(call, self.groups[call.server].servers):
            call.server = told
            call.note("route", told)
            return _tell(await call_next(call), told)

        async def attempt(server: str) -> Reply:
            call.note("route", server)
            return _tell(await call_next(msgspec.structs.replace(call, server=server, elsewhere=True)), server)

        whose = RouteContext(session_id=call.scope.session, user_id=call.scope.user, tenant=call.scope.app)
        return await router.run(_tool(call, by_category=bool(self.config.category_mapping)), whose, attempt)

    def learn(self, snapshot: Snapshot) -> None:
        """Which server has which tools, and how each fares."""
        for name, router in self.routers.items():
            offer = snapshot.offers.get(name, _NONE)
            known = self._offered.get(name)
            if known is None or known[0] is not offer:
                known = self._offered[name] = offer, _offered(offer)
            offered = known[1]
            views = {server: snapshot.servers.get(server) for server in self.groups[name].servers}
            well = _usable([view for view in views.values() if view is not None])
            for server, view in views.items():
                if view is None:
                    router.unregister_server(server)  # whoever comes back under its name starts afresh
                else:
                    router.register_server(server, tools=offered.get(server, set()))
                    router.update_health_status(server, server in well)


_NONE = Offer("")


def _offered(offer: Offer) -> dict[str, set[str]]:
    """What each server of a group has."""
    found: dict[str, set[str]] = {}
    for entry in offer.tools.values():
        for server in entry.members:
            found.setdefault(server, set()).add(entry.name)
    others = [entry for kind, table in offer.tables.items() if kind is not Kind.TOOL for entry in table.values()]
    for members in {entry.members for entry in (*others, *offer.pages.values())}:
        for server in members:
            found.setdefault(server, set()).add(_had_by(members))
    return found


def _usable(views: Sequence[ServerView]) -> set[str]:
    """Who can take calls; while nobody can yet, those that are starting, so that the call waits for one of them."""
    ready = {view.name for view in views if view.state in (State.READY, State.DEGRADED)}
    return ready or {view.name for view in views if view.state is State.STARTING}


def _router(group: GroupSpec, config: RouterSection) -> ToolRouter:
    weights = [
        ServerWeight(server, group.weights.get(server, 50.0), priority=group.priorities.get(server, 0))
        for server in group.servers
        if group.weights or group.priorities
    ]
    health = HealthOptions(
        consecutive_errors=config.eject_after,
        error_rate=config.eject_error_rate,
        ejection=config.eject_seconds,
        max_ejection=max(DEFAULT_HEALTH.max_ejection, config.eject_seconds),
        slow_start=config.slow_start,
    )
    options: dict[str, Any] = {
        option.name: getattr(config, option.name) for option in dataclasses.fields(RoutingOptions)
    }
    options["strategy"] = group.strategy or config.strategy
    return ToolRouter(RouterConfig(**options, server_weights=weights, health=health))


def _tool(call: Call, *, by_category: bool) -> Tool:
    """What is routed."""
    entry = call.entry
    if entry is None or call.method != "tools/call":
        members = entry.members if entry is not None else ()
        return Tool(_had_by(members), annotations=READS if call.method in REPEATABLE else Annotations())
    known = Annotations(
        destructive_hint=entry.annotations.destructive_hint, idempotent_hint=entry.safe_to_repeat or None
    )
    category = (entry.options.category or _category(entry.name, entry.definition)) if by_category else ""
    return Tool(entry.name, annotations=known, category=category)


@lru_cache(maxsize=10_000)
def _category(name: str, definition: bytes) -> str:
    return infer_category(name, read_string(read_members(definition).get("description", b"")))


def _had_by(members: Sequence[str]) -> str:
    """How prompts and resources are known to the router: by who has them, for an address may come of a template."""
    return f"what {' '.join(members)} have"


def _server_in_state(call: Call, members: Sequence[str]) -> str:
    """The server that a call's state names, taken out of it; empty when the call has no state."""
    if "requestState" not in call.params:
        return ""
    state = read_string(call.params["requestState"])
    name, _, own = state.removeprefix(STATE).partition(":")
    server = unquote(name)
    if not state.startswith(STATE) or server not in members:
        # To run it as if it had none would be to do what nobody was asked about.
        raise RefusedError("`requestState` does not belong to this request.", code=INVALID_PARAMS)
    call.params = {**call.params, "requestState": encode(own)}
    call.raw_params = b""
    return server


def _tell(reply: Reply, server: str) -> Reply:
    """Put the server's name before the state that it gave out."""
    if not reply.modern or b"input_required" not in reply.result:
        return reply
    members = read_members(reply.result)
    own = read_string(members.get("requestState", b""))
    if own and read_string(members.get("resultType", b"")) == "input_required":
        members["requestState"] = encode(f"{STATE}{quote(server, safe='')}:{own}")
        reply.result = write_members(members)
    return reply
