"""How calls went and what searching saved, for a program that shows it as it happens."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from trunkline.model import Kind, ServerView
from trunkline.relay import Relay
from trunkline.telemetry.savings import Saved
from trunkline.telemetry.tally import Tally

TOP = 50
"""Tools that are told of: those with the most calls."""


def statistics(relay: Relay, user: str = "") -> dict[str, Any]:
    """What happened since the start; a user is told of their own calls alone."""
    tallies = relay.tallies.of(user)
    views = relay.servers()
    lanes = [relay.lane(view.name) for view in views]
    age = relay.tallies.now() - relay.tallies.since
    return {
        "since": round(time.time() - age, 3),
        "seconds": round(age, 3),
        **counted(tallies.total()),
        "in_flight": sum(lane.inside for lane in lanes),
        "waiting": sum(lane.waiting for lane in lanes),
        "tokens": _tokens(relay, user),
        "servers": [_server(relay, view, tallies.servers.get(view.name)) for view in views],
        "tools": [{"server": server, "tool": tool, **counted(tally)} for server, tool, tally in tallies.busiest(TOP)],
    }


def counted(tally: Tally | None) -> dict[str, Any]:
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
        "name": view.name,
        "state": view.state.value,
        "reason": view.reason,
        "tools": len(view.lists[Kind.TOOL].items) if Kind.TOOL in view.lists else 0,
        **counted(tally),
        "in_flight": lane.inside,
        "waiting": lane.waiting,
    }


def _tokens(relay: Relay, user: str) -> dict[str, Any]:
    each = [{"profile": profile, "user": own, **_saved(saved)} for profile, own, saved in relay.savings.each(user)]
    return {**_saved(relay.savings.total(user)), "callers": each}


def _saved(saved: Saved) -> dict[str, int]:
    return {"saved": saved.tokens, **dataclasses.asdict(saved)}


_NONE = Tally()
