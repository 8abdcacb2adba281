"""How calls went and what searching saved, for a program that shows it as it happens."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from trunkline.hub import Hub
from trunkline.model import Kind, ServerView
from trunkline.telemetry.savings import Saved
from trunkline.telemetry.tally import Tally

TOP = 50
"""Tools that are told of: those with the most calls."""


def statistics(hub: Hub, user: str = "") -> dict[str, Any]:
    """What happened since the start; a user is told of their own calls alone."""
    tallies = hub.tallies.of(user)
    views = hub.servers()
    lanes = [hub.lane(view.name) for view in views]
    age = hub.tallies.now() - hub.tallies.since
    return {
        "since": round(time.time() - age, 3),
        "seconds": round(age, 3),
        **counted(tallies.total()),
        "in_flight": sum(lane.inside for lane in lanes),
        "waiting": sum(lane.waiting for lane in lanes),
        "tokens": _tokens(hub, user),
        "servers": [_server(hub, view, tallies.servers.get(view.name)) for view in views],
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


def _server(hub: Hub, view: ServerView, tally: Tally | None) -> dict[str, Any]:
    lane = hub.lane(view.name)
    return {
        "name": view.name,
        "state": view.state.value,
        "reason": view.reason,
        "tools": len(view.lists[Kind.TOOL].items) if Kind.TOOL in view.lists else 0,
        **counted(tally),
        "in_flight": lane.inside,
        "waiting": lane.waiting,
    }


def _tokens(hub: Hub, user: str) -> dict[str, Any]:
    each = [{"profile": profile, "user": own, **_saved(saved)} for profile, own, saved in hub.savings.each(user)]
    return {**_saved(hub.savings.total(user)), "callers": each}


def _saved(saved: Saved) -> dict[str, int]:
    return {"saved": saved.tokens, **dataclasses.asdict(saved)}


_NONE = Tally()
