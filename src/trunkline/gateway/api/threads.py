"""Threads in the admin API: each user's own; an admin's `user` names another's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec

from trunkline.config.options import Config, Expose, SearchStrategy
from trunkline.gateway.api.routes import Ask, Body, Given, Route, page
from trunkline.identity import Overrides
from trunkline.tenancy.threads import Thread, Threads, check_count


class WantedOverrides(Body, frozen=True):
    """What a thread does otherwise than its user."""

    search_strategy: SearchStrategy | None = None
    disable_tool_search: bool = False
    disable_programmatic_calling: bool = False
    timeout: float = 0.0
    limits: dict[str, float] = {}
    expose: Expose | None = None


class WantedThread(Body, frozen=True):
    """How a thread is to be; what is left out is as its user has it."""

    servers: list[str] | None = None
    tools: list[str] = []
    disabled: list[str] = []
    overrides: WantedOverrides = WantedOverrides()


class WantedClone(Body, frozen=True):
    """Where a thread is copied to."""

    id: str


class ShownOverrides(TypedDict):
    """What a thread does otherwise than its user."""

    search_strategy: str
    disable_tool_search: bool
    disable_programmatic_calling: bool
    timeout: float
    limits: dict[str, float]
    expose: str


class ShownThread(TypedDict):
    """A thread that was configured."""

    id: str
    user: str
    servers: list[str] | None
    tools: list[str]
    disabled: list[str]
    overrides: ShownOverrides
    version: int
    created: float
    updated: float


def routes(threads: Threads, config: Callable[[], Config]) -> list[Route]:
    """What can be done with threads."""
    api = _Threads(threads, config)
    paged, whose, needs = ("cursor", "limit"), ("user",), "a key that writes"
    return [
        Route(
            "GET",
            "threads",
            "The threads that were configured",
            api.list,
            gives=ShownThread,
            pages="threads",
            query=(*whose, *paged),
        ),
        Route("GET", "threads/{id}", "A thread", api.get, gives=ShownThread, query=whose),
        Route(
            "PUT",
            "threads/{id}",
            "Configure a thread",
            api.put,
            WantedThread,
            ShownThread,
            query=whose,
            versioned=True,
            needs=needs,
            or_status=201,
        ),
        Route(
            "DELETE",
            "threads/{id}",
            "Let a thread be as its user again",
            api.remove,
            query=whose,
            status=204,
            versioned=True,
            needs=needs,
        ),
        Route(
            "POST",
            "threads/{id}/clone",
            "Copy a thread",
            api.clone,
            WantedClone,
            ShownThread,
            query=whose,
            status=201,
            needs=needs,
        ),
    ]


class _Threads:
    def __init__(self, threads: Threads, config: Callable[[], Config]) -> None:
        self._threads, self._config = threads, config

    async def list(self, ask: Ask) -> Given:
        found = await self._threads.list(whose(ask), after=ask.cursor, limit=ask.limit + 1)
        return Given(page([shown(one) for one in found], ask.limit, lambda one: one["id"], "threads"))

    async def get(self, ask: Ask) -> Given:
        thread = await self._threads.get(whose(ask), ask.names["id"])
        return Given(shown(thread), version=thread.version)

    async def put(self, ask: Ask) -> Given:
        wanted: WantedThread = ask.body
        check_count(wanted.servers, self._config().limits.servers_per_thread)
        said = wanted.overrides
        overrides = Overrides(
            said.search_strategy or "",
            said.disable_tool_search,
            said.disable_programmatic_calling,
            said.timeout,
            tuple(sorted(said.limits.items())),
            said.expose or "",
        )
        thread = Thread(
            ask.names["id"],
            whose(ask),
            None if wanted.servers is None else tuple(wanted.servers),
            tuple(wanted.tools),
            tuple(wanted.disabled),
            overrides,
            version=ask.if_match,
        )
        made = await self._threads.put(thread, of_user=self._of_user(thread.user))
        return Given(shown(made), 201 if made.version == 1 else 200, made.version)

    async def remove(self, ask: Ask) -> Given:
        await self._threads.remove(whose(ask), ask.names["id"], version=ask.if_match)
        return Given(status=204)

    async def clone(self, ask: Ask) -> Given:
        user = whose(ask)
        made = await self._threads.clone(user, ask.names["id"], ask.body.id, of_user=self._of_user(user))
        return Given(shown(made), 201, made.version)

    def _of_user(self, user: str) -> bool:
        """Whether somebody has to be in the store: not those whom the file names, nor callers without a key."""
        return bool(user) and user not in self._config().gateway.users


def whose(ask: Ask) -> str:
    """The user whose things are meant: who asks, or, for an admin, whom they name."""
    user = ask.query.get("user", ask.scope.user)
    if user != ask.scope.user:
        ask.require()
    return user


def shown(thread: Thread) -> dict[str, Any]:
    """A thread for programs to read."""
    built: dict[str, Any] = msgspec.to_builtins(thread)
    built["overrides"] = {
        **dataclasses.asdict(thread.overrides),
        "limits": dict(thread.overrides.limits),
    }
    built |= {"created": thread.created / 1000, "updated": thread.updated / 1000}
    return built
