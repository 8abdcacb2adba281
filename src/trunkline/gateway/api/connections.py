"""Sign-ins in the admin API: begun for whoever asks, shown to them without a token in sight, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from trunkline.errors import NotFoundError
from trunkline.gateway.api.routes import Ask, Given, Route
from trunkline.gateway.api.status import views_of
from trunkline.identity import Scope, server_id
from trunkline.tenancy.sign_ins import SIGNED_IN, WAITING

if TYPE_CHECKING:
    from trunkline.config.server import ServerSpec
    from trunkline.relay import Relay
    from trunkline.tenancy.sign_ins import Connected


PATIENCE = 2.0
"""Seconds that a request waits for a sign-in to be done, so that nobody has to ask all the time."""


class SignInState(TypedDict, total=False):
    """Where to go to sign in; or that nothing is missing."""

    url: str
    attempt: str
    state: str
    reason: str


class ShownConnection(TypedDict, total=False):
    """A sign-in at a server."""

    server: str
    state: str
    reason: str
    issuer: str
    account: str
    scopes: list[str]
    since: float
    expires: float
    renewable: bool
    shared: bool


def routes(relay: Relay) -> list[Route]:
    """What can be done with sign-ins."""
    api = _Connections(relay)
    return [
        Route(
            "POST",
            "servers/{name}/login",
            "Begin to sign in to a server; the address is for your browser",
            api.login,
            gives=SignInState,
            query=("user",),
            refuses=(502,),
        ),
        Route(
            "GET",
            "servers/{name}/login",
            "How a sign-in that was begun goes: `waiting`, `signed-in`, or `failed` with the reason",
            api.outcome,
            gives=SignInState,
            query=("attempt", "user"),
        ),
        Route(
            "GET",
            "connections",
            "Where you are signed in",
            api.list,
            gives=ShownConnection,
            query=("user",),
            pages="connections",
        ),
        Route(
            "DELETE",
            "connections/{server}",
            "Sign out of a server; its tokens are revoked where that can be asked for",
            api.remove,
            query=("user",),
            status=204,
        ),
    ]


class _Connections:
    def __init__(self, relay: Relay) -> None:
        self._relay, self._sign_ins = relay, relay.tenancy.sign_ins

    async def login(self, ask: Ask) -> Given:
        await self._relay.welcome(self._for(ask))
        scope, spec = await self._at(ask)
        if spec.oauth.shared:
            ask.require()
        begun = await self._relay.signing_in.begin(scope, spec, by_operator=not ask.scope.user)
        told = {"url": begun.url, "attempt": begun.state} if begun is not None else {"state": SIGNED_IN}
        return Given(told)

    async def outcome(self, ask: Ask) -> Given:
        scope, spec = await self._at(ask)
        owner = self._sign_ins.owner(spec, scope.user)
        found = await self._sign_ins.outcome(ask.query.get("attempt", ""), owner, spec.name, PATIENCE)
        if found is None:
            raise NotFoundError("There is no such sign-in.", hint="Begin one: `POST` the same address.")
        state = "waiting" if found == WAITING else "failed" if found else SIGNED_IN
        return Given({"state": state} | ({"reason": found} if state == "failed" else {}))

    async def _at(self, ask: Ask) -> tuple[Scope, ServerSpec]:
        """For whom, and at which server: one that exists for whoever asks."""
        scope = self._for(ask)
        spec = self._relay.signing_in.spec(scope, ask.names["name"])
        if all(view.name != spec.name for view in await views_of(self._relay, ask.scope)):
            raise NotFoundError(f"There is no server {ask.names['name']!r}.")
        return scope, spec

    @staticmethod
    def _for(ask: Ask) -> Scope:
        """Whoever asks, or the user for whom an admin does."""
        user = ask.query.get("user", ask.scope.user)
        if user == ask.scope.user:
            return ask.scope
        ask.require()
        return Scope(user=user)

    async def list(self, ask: Ask) -> Given:
        user, own = self._for(ask).user, await self._sign_ins.connections(self._for(ask).user)
        shared = await self._sign_ins.connections("") if user and ask.scope.role == "admin" else []
        shown = [_shown(one) for one in own] + [_shown(one) | {"shared": True} for one in shared]
        return Given({"connections": shown})

    async def remove(self, ask: Ask) -> Given:
        name, user = ask.names["server"], self._for(ask).user
        for server in {server_id(user, name), name}:
            if await self._sign_ins.sign_out(user, server):
                return Given(status=204)
        if user and ask.scope.role == "admin" and await self._sign_ins.sign_out("", name):
            return Given(status=204)
        raise NotFoundError(f"You are not signed in to {name!r}.")


def _shown(one: Connected) -> dict[str, object]:
    return {
        "server": one.server,
        "state": one.state,
        **({"reason": one.reason} if one.reason else {}),
        "issuer": one.issuer,
        **({"account": one.account} if one.account else {}),
        "scopes": list(one.scopes),
        "since": one.since,
        "expires": one.expires,
        "renewable": one.renewable,
    }
