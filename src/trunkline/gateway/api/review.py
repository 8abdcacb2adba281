"""What waits for somebody to agree to it, in the admin API: admins decide, and users for servers of their own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypedDict

from trunkline.control.review import Review, approve, reject, reviews
from trunkline.errors import RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.status import name_for
from trunkline.identity import Scope, owner_of, server_id

if TYPE_CHECKING:
    from trunkline.relay import Relay


class Decision(Body, frozen=True):
    """What is decided on: everything that waits of a server, or what is named."""

    names: list[str] = []
    """Tools, prompts and templates; without any, all of the server."""
    digests: list[str] = []
    """Those of what you saw: if the server changed it since, nothing is decided, and the answer is 412."""


class Decided(TypedDict):
    """What was decided on."""

    server: str
    names: list[str]


class ShownReview(TypedDict):
    """Something that a server says and nobody agreed to, with how it differs from what was agreed to."""

    server: str
    kind: str
    name: str
    state: str
    since: float
    what: list[str]
    why: list[str]
    evidence: list[str]
    digest: str
    diff: list[str]


def routes(relay: Relay) -> list[Route]:
    """What can be done with what waits."""
    api = _Reviews(relay)
    return [
        Route(
            "GET",
            "review",
            "What servers changed, and nobody agreed to yet",
            api.list,
            gives=ShownReview,
            pages="review",
            query=("server", "user"),
        ),
        *(
            Route("POST", f"review/{{server}}/{verb}", words, run, Decision, Decided, query=("user",), refuses=(412,))
            for verb, words, run in (
                ("approve", "Agree to it", api.approve),
                ("reject", "Hold it for good", api.reject),
            )
        ),
    ]


class _Reviews:
    def __init__(self, relay: Relay) -> None:
        self._relay, self._trust = relay, relay.trust

    async def list(self, ask: Ask) -> Given:
        admin, user = ask.scope.role == "admin", ask.query.get("user", "")
        if user:
            ask.require(or_user=user)
        owner = user if admin else ask.scope.user
        if owner:
            for one in await self._relay.tenancy.servers.of(owner):
                await self._trust.load(one.spec.name)
        known = [name for name in self._trust.servers() if owner_of(name) == owner or (admin and not user)]
        wanted = ask.query.get("server", "")
        chosen = [name for name in known if wanted in ("", name, name_for(Scope(role="member"), name))]
        found = await reviews(self._trust, chosen if admin or owner else [])
        return Given({"review": [shown(one, name_for(ask.scope, one.server)) for one in found]})

    async def approve(self, ask: Ask) -> Given:
        server = await self._server(ask)
        by = ask.scope.user or ask.scope.role
        names = await approve(self._trust, server, ask.body.names, digests=ask.body.digests, by=by)
        return Given({"server": name_for(ask.scope, server), "names": names})

    async def reject(self, ask: Ask) -> Given:
        server = await self._server(ask)
        names = await reject(self._trust, server, ask.body.names, digests=ask.body.digests)
        return Given({"server": name_for(ask.scope, server), "names": names})

    async def _server(self, ask: Ask) -> str:
        """The server that is meant; everybody's, and those of others, are an admin's to decide on."""
        name, user = ask.names["server"], ask.query.get("user", "")
        if ask.scope.role != "admin":
            user = user or ask.scope.user
            if not user:
                raise RefusedError("Only an admin may do this.", status=403)
        elif not user:
            user, name = owner_of(name), name_for(Scope(role="member"), name)
        if user:
            ask.require(or_user=user)
        server = server_id(user, name)
        if user:
            await self._relay.tenancy.servers.get(user, name)  # nobody's server is not decided on
            await self._trust.load(server)
        return server


def shown(one: Review, server: str) -> ShownReview:
    """What waits, for programs to read."""
    told = dataclasses.asdict(one) | {"server": server}
    lists = {name: list(told[name]) for name in ("what", "why", "evidence", "diff")}
    made: ShownReview = {**told, **lists}  # type: ignore[typeddict-item] - the fields are the same
    return made
