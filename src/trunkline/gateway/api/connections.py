"""Sign-ins in the admin API: begun for whoever asks, shown to them without a token in sight, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from trunkline.errors import NotFoundError
from trunkline.gateway.api.routes import Ask, Given, Route
from trunkline.gateway.api.status import views_of
from trunkline.identity import server_id

if TYPE_CHECKING:
    from trunkline.relay import Relay
    from trunkline.tenancy.sign_ins import Connected


class SignInState(TypedDict, total=False):
    """Where to go to sign in; or that nothing is missing."""

    url: str
    state: str


class ShownConnection(TypedDict, total=False):
    """A sign-in at a server."""

    server: str
    state: str
    reason: str
    issuer: str
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
        ),
        Route("GET", "connections", "Where you are signed in", api.list, gives=ShownConnection, pages="connections"),
        Route(
            "DELETE",
            "connections/{server}",
            "Sign out of a server; its tokens are revoked where that can be asked for",
            api.remove,
            status=204,
        ),
    ]


class _Connections:
    def __init__(self, relay: Relay) -> None:
        self._relay, self._sign_ins = relay, relay.tenancy.sign_ins

    async def login(self, ask: Ask) -> Given:
        await self._relay.welcome(ask.scope)
        spec = self._relay.signing_in.spec(ask.scope, ask.names["name"])
        if all(view.name != spec.name for view in await views_of(self._relay, ask.scope)):
            raise NotFoundError(f"There is no server {ask.names['name']!r}.")
        if spec.oauth.shared:
            ask.require()
        begun = await self._relay.signing_in.begin(ask.scope, spec)
        return Given({"url": begun.url} if begun is not None else {"state": "signed-in"})

    async def list(self, ask: Ask) -> Given:
        own = await self._sign_ins.connections(ask.scope.user)
        shared = await self._sign_ins.connections("") if ask.scope.user and ask.scope.role == "admin" else []
        shown = [_shown(one) for one in own] + [_shown(one) | {"shared": True} for one in shared]
        return Given({"connections": shown})

    async def remove(self, ask: Ask) -> Given:
        name, user = ask.names["server"], ask.scope.user
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
        "scopes": list(one.scopes),
        "since": one.since,
        "expires": one.expires,
        "renewable": one.renewable,
    }
