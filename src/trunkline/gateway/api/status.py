"""What an operator may ask a running gateway: its servers, how they fare, how calls went, and what searching saved."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, TypedDict

from trunkline.gateway.api.routes import Ask, Given, Route
from trunkline.identity import Scope, in_words_of, unit_name
from trunkline.model import Kind, ServerView
from trunkline.telemetry.savings import Saved
from trunkline.telemetry.tally import Tally

if TYPE_CHECKING:
    from trunkline.relay import Relay

TOP = 50
"""Tools that are told of: those with the most calls."""


class Counted(TypedDict):
    """How calls went."""

    calls: int
    failures: int
    tool_errors: int
    average_seconds: float
    p50_seconds: float
    p95_seconds: float


class Statistics(Counted):
    """What happened since the start."""

    since: float
    seconds: float
    in_flight: int
    waiting: int
    tokens: dict[str, Any]
    programs: dict[str, Any]
    servers: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def routes(relay: Relay) -> list[Route]:
    """What can be seen of a running gateway."""

    async def stats(ask: Ask) -> Given:
        return Given(statistics(relay, await views_of(relay, ask.scope), ask.scope))

    return [
        Route(
            "GET",
            "stats",
            "What happened since the start: calls, errors, time, tokens saved",
            stats,
            gives=Statistics,
        ),
    ]


async def views_of(relay: Relay, scope: Scope) -> list[ServerView]:
    """An admin sees every server, others those that exist for them."""
    if scope.role == "admin":
        return relay.servers()
    await relay.welcome(scope)
    return list(relay.view(scope).snapshot.servers.values())


def described(relay: Relay, view: ServerView, scope: Scope) -> dict[str, Any]:
    """A server for programs to read, with how calls of it went: to all but admins, their own."""
    calls = _calls(relay, view.name, "" if scope.role == "admin" else scope.user)
    user = "" if scope.role == "admin" else scope.user
    held = {name: in_words_of(user, why) for name, why in relay.trust.kept(view.name).held.items()}
    named = {"name": name_for(scope, view.name), "reason": in_words_of(user, view.reason)}
    return {**summary(view), **named, **({"held": held} if held else {}), **calls}


def name_for(scope: Scope, server: str) -> str:
    """What a server is called: to admins, who see those of all, with its owner before its name."""
    return server if scope.role == "admin" else unit_name(server)


def summary(view: ServerView) -> dict[str, Any]:
    """What a server is and offers."""
    return {
        "name": view.name,
        "state": view.state.value,
        "reason": view.reason,
        "transport": view.transport,
        "address": view.address,
        "protocol": view.introduction.version if view.introduction else "",
        **{kind.value: count(view, kind) for kind in Kind},
    }


def count(view: ServerView, kind: Kind) -> int:
    """How many a server offers of one kind."""
    return len(view.lists[kind].items) if kind in view.lists else 0


def _calls(relay: Relay, server: str, user: str) -> dict[str, Any]:
    """How calls to a server went, and how many it has now."""
    found: dict[str, Any] = {}
    tally = relay.tallies.of(user).servers.get(server)
    if tally is not None:
        found = {
            "calls": tally.calls,
            "failures": tally.failures,
            "tool_errors": tally.tool_errors,
            "success_rate": round(tally.success_rate, 4),
            "average_seconds": round(tally.average, 6),
        }
    lane = relay.lane(server)
    found |= {"in_flight": lane.inside, "waiting": lane.waiting}
    group = relay.group_of(server)
    return found | ({"group": group} if group else {})


def statistics(relay: Relay, views: list[ServerView], scope: Scope) -> dict[str, Any]:
    """What happened since the start; all but admins are told of their own calls alone, of servers that they have."""
    user = "" if scope.role == "admin" else scope.user
    tallies = relay.tallies.of(user)
    seen = {view.name for view in views}
    lanes = [relay.lane(view.name) for view in views]
    age = relay.tallies.now() - relay.tallies.since
    return {
        "since": round(time.time() - age, 3),
        "seconds": round(age, 3),
        **counted(tallies.total()),
        "in_flight": sum(lane.inside for lane in lanes),
        "waiting": sum(lane.waiting for lane in lanes),
        "tokens": _tokens(relay, user),
        "programs": _programs(relay, user),
        "servers": [
            _server(relay, view, tallies.servers.get(view.name)) | {"name": name_for(scope, view.name)}
            for view in views
        ],
        "tools": [
            {"server": name_for(scope, server), "tool": tool, **counted(tally)}
            for server, tool, tally in tallies.busiest(TOP)
            if not user or server in seen
        ],
    }


def counted(tally: Tally | None) -> Counted:
    """How calls went, for programs to read."""
    tally = tally or _NONE
    return {
        "calls": tally.calls,
        "failures": tally.failures,
        "tool_errors": tally.tool_errors,
        "average_seconds": round(tally.average, 6),
        "p50_seconds": round(tally.within(0.5), 6),
        "p95_seconds": round(tally.within(0.95), 6),
    }


def _server(relay: Relay, view: ServerView, tally: Tally | None) -> dict[str, Any]:
    lane = relay.lane(view.name)
    return {
        "state": view.state.value,
        "reason": view.reason,
        "tools": count(view, Kind.TOOL),
        **counted(tally),
        "in_flight": lane.inside,
        "waiting": lane.waiting,
    }


def _tokens(relay: Relay, user: str) -> dict[str, Any]:
    each = [{"profile": profile, "user": own, **_saved(saved)} for profile, own, saved in relay.savings.each(user)]
    return {**_saved(relay.savings.total(user)), "callers": each}


def _programs(relay: Relay, user: str) -> dict[str, Any]:
    """How many programs run, and what is around their workers; the latter once one ran."""
    told: dict[str, Any] = {"running": len(relay.programs.running(user or None))}
    runtime = relay.programs.pool.runtime
    return told | ({"isolation": runtime.isolation, "reason": runtime.reason} if runtime is not None else {})


def _saved(saved: Saved) -> dict[str, int]:
    return {"saved": saved.tokens, **dataclasses.asdict(saved)}


_NONE = Tally()
