"""What an operator may ask a running gateway: its servers, how they fare, and how calls to them went."""

from __future__ import annotations

from typing import Any

from trunkline.errors import RefusedError
from trunkline.gateway import stats
from trunkline.gateway.request import JSON, Request
from trunkline.model import Kind, ServerView
from trunkline.relay import Relay
from trunkline.wire.members import encode

PATH = "/api/v1/"
SERVERS, STATS = f"{PATH}servers", f"{PATH}stats"


def answer(relay: Relay, request: Request) -> None:
    """Answer one request below `/api/v1/`."""
    if request.path not in (SERVERS, STATS):
        raise RefusedError("There is nothing here.", status=404, hint=f"There are {SERVERS} and {STATS}.")
    if request.method not in ("GET", "HEAD"):
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    body = _servers(relay) if request.path == SERVERS else stats.statistics(relay, request.scope.user)
    request.answer(200, encode(body), [JSON, (b"cache-control", b"no-store")])


def _servers(relay: Relay) -> dict[str, Any]:
    body: dict[str, Any] = {"servers": [described(relay, view) for view in relay.servers()]}
    if relay.cache_stats is not None:
        body["cache"] = relay.cache_stats
    return body


def described(relay: Relay, view: ServerView) -> dict[str, Any]:
    """A server for programs to read."""
    return {**summary(view), **statistics(relay, view.name)}


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


def statistics(relay: Relay, server: str) -> dict[str, Any]:
    """How calls to a server went, and how many it has now."""
    found: dict[str, Any] = {}
    tally = relay.tallies.servers.get(server)
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
