"""What an operator may ask a running gateway: its servers, how they fare, and how calls to them went."""

from __future__ import annotations

from typing import Any

from trunkline.errors import RefusedError
from trunkline.gateway.http import JSON, Request
from trunkline.hub import Hub
from trunkline.model import Kind, ServerView
from trunkline.wire.members import encode

PATH = "/api/v1/"


def answer(hub: Hub, request: Request) -> None:
    """Answer one request below `/api/v1/`."""
    if request.path != f"{PATH}servers":
        raise RefusedError("There is nothing here.", status=404, hint=f"There is {PATH}servers.")
    if request.method not in ("GET", "HEAD"):
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    body: dict[str, Any] = {"servers": [described(hub, view) for view in hub.servers()]}
    if hub.cache_stats is not None:
        body["cache"] = hub.cache_stats
    request.answer(200, encode(body), [JSON, (b"cache-control", b"no-store")])


def described(hub: Hub, view: ServerView) -> dict[str, Any]:
    """A server for programs to read."""
    return {**summary(view), **statistics(hub, view.name)}


def summary(view: ServerView) -> dict[str, Any]:
    """What a server is and offers."""
    return {
        "name": view.name,
        "state": view.state.value,
        "reason": view.reason,
        "transport": view.transport,
        "address": view.address,
        "protocol": view.profile.version if view.profile else "",
        **{kind.value: count(view, kind) for kind in Kind},
    }


def count(view: ServerView, kind: Kind) -> int:
    """How many a server offers of one kind."""
    return len(view.lists[kind].items) if kind in view.lists else 0


def statistics(hub: Hub, server: str) -> dict[str, Any]:
    """How calls to a server went, and how many it has now."""
    found: dict[str, Any] = {}
    tally = hub.tallies.servers.get(server)
    if tally is not None:
        found = {
            "calls": tally.calls,
            "failures": tally.failures,
            "tool_errors": tally.tool_errors,
            "success_rate": round(tally.success_rate, 4),
            "average_seconds": round(tally.average, 6),
        }
    lane = hub.lane(server)
    found |= {"in_flight": lane.inside, "waiting": lane.waiting}
    standing = hub.standing(server)
    return found | ({"group": standing} if standing else {})
