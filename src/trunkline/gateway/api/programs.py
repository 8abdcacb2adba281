"""Programs in the admin API: those that run, wait for a person or ended lately, to be looked at and ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypedDict

from trunkline.gateway.api.routes import Ask, Given, Route, page

if TYPE_CHECKING:
    from trunkline.relay import Relay
    from trunkline.sandbox.known import EndedProgram, RunningProgram


class ShownProgram(TypedDict):
    """A program: running, waiting for a person to agree to calls of these tools, ended or failed.

    `code` (its first part) and `error` are shown to its own user alone.
    """

    id: str
    user: str
    state: str
    started: float
    seconds: float
    calls: int
    tools: list[str]
    expires: float
    code: str
    error: str


def routes(relay: Relay) -> list[Route]:
    """What can be done with programs; admins see everybody's, others their own."""

    async def listed(ask: Ask) -> Given:
        whose = None if ask.scope.role == "admin" else ask.scope.user
        user, known = ask.scope.user, relay.programs.known
        running = [] if ask.cursor else [_running(one, user) for one in known.running(whose)]
        ended = [] if ask.cursor else [_ended(one, user) for one in known.ended(whose)]
        rows = await relay.programs.waiting.listed(whose, after=ask.cursor, limit=ask.limit + 1)
        waiting: list[ShownProgram] = [
            {
                "id": row.id,
                "user": row.owner,
                "state": "waiting",
                "started": row.created / 1000,
                "seconds": round(time.time() - row.created / 1000, 3),
                "calls": 0,
                "tools": row.tools.split(","),
                "expires": row.until / 1000,
                "code": "",
                "error": "",
            }
            for row in rows
        ]
        shown = page(waiting, ask.limit, lambda one: one["id"], "programs")
        return Given({**shown, "programs": [*running, *shown["programs"], *ended]})

    async def end(ask: Ask) -> Given:
        whose = None if ask.scope.role == "admin" else ask.scope.user
        await relay.programs.remove(ask.names["id"], whose)
        return Given(status=204)

    words = "Programs over tools that run, wait for a person or ended lately"
    return [
        Route("GET", "programs", words, listed, gives=ShownProgram, pages="programs", query=("limit", "cursor")),
        Route("DELETE", "programs/{id}", "End a program that runs, or drop one that waits", end, status=204),
    ]


def _running(one: RunningProgram, user: str) -> ShownProgram:
    return {
        "id": one.id,
        "user": one.user,
        "state": "running",
        "started": one.since,
        "seconds": round(time.time() - one.since, 3),
        "calls": one.run.made,
        "tools": [],
        "expires": 0.0,
        "code": one.code if one.user == user else "",
        "error": "",
    }


def _ended(one: EndedProgram, user: str) -> ShownProgram:
    return {
        "id": one.id,
        "user": one.user,
        "state": "failed" if one.error else "ended",
        "started": one.since,
        "seconds": one.seconds,
        "calls": one.calls,
        "tools": [],
        "expires": 0.0,
        "code": one.code if one.user == user else "",
        "error": one.error if one.user == user else "",
    }
