"""Programs in the admin API: those that run and those that wait for a person, to be looked at and ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypedDict

from trunkline.gateway.api.routes import Ask, Given, Route, page

if TYPE_CHECKING:
    from trunkline.relay import Relay
    from trunkline.sandbox.programs import UnderWay


class ShownProgram(TypedDict):
    """A program: running, or waiting for a person to agree to calls of these tools."""

    id: str
    user: str
    state: str
    started: float
    seconds: float
    calls: int
    tools: list[str]
    expires: float


def routes(relay: Relay) -> list[Route]:
    """What can be done with programs; admins see everybody's, others their own."""

    async def listed(ask: Ask) -> Given:
        whose = None if ask.scope.role == "admin" else ask.scope.user
        running = [] if ask.cursor else [_running(one) for one in relay.programs.running(whose)]
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
            }
            for row in rows
        ]
        shown = page(waiting, ask.limit, lambda one: one["id"], "programs")
        return Given({**shown, "programs": [*running, *shown["programs"]]})

    async def end(ask: Ask) -> Given:
        whose = None if ask.scope.role == "admin" else ask.scope.user
        if not relay.programs.end(ask.names["id"], whose):
            await relay.programs.waiting.remove(ask.names["id"], whose)
        return Given(status=204)

    def _running(one: UnderWay) -> ShownProgram:
        return {
            "id": one.id,
            "user": one.user,
            "state": "running",
            "started": one.since,
            "seconds": round(time.time() - one.since, 3),
            "calls": one.run.made,
            "tools": [],
            "expires": 0.0,
        }

    words = "Programs over tools that run, or wait for a person"
    return [
        Route("GET", "programs", words, listed, gives=ShownProgram, pages="programs", query=("limit", "cursor")),
        Route("DELETE", "programs/{id}", "End a program that runs, or drop one that waits", end, status=204),
    ]
