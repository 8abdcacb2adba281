"""Who is asking, in the admin API, and the cookie by which a browser is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, TypedDict

from trunkline.errors import RefusedError, TokenRefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.cookie import Cookies
from trunkline.tenancy.people import ANYONE, NOBODY, Admission
from trunkline.version import __version__

if TYPE_CHECKING:
    from trunkline.gateway.guard import Guard
    from trunkline.relay import Relay

LONGEST_KEY = 8192


class WantedSession(Body, frozen=True):
    """What somebody signs in with."""

    key: str
    """A key of `trunkline key create`, a token of `[gateway]`, or an access token of an issuer."""


class Rights(TypedDict):
    """What somebody may do, so that nobody is offered what would be refused."""

    write: bool
    """Change anything at all."""
    add_servers: bool
    add_commands: bool
    """Register servers that are started here."""
    see_all: bool
    """See everybody's things."""


class Me(TypedDict, total=False):
    """Who is asking; of nobody, only how they become somebody."""

    signed_in: bool
    """By a cookie, which `DELETE /api/v1/session` ends."""
    needs_key: bool
    """Nobody is let in without a key."""
    issuers: list[str]
    """By whom one can sign in: at `/console/sign-in/NAME`."""
    user: str
    role: Literal["admin", "member", "reader"]
    profile: str
    address: str
    """Where clients reach the gateway."""
    version: str
    profiles: list[str]
    can: Rights


def routes(relay: Relay, guard: Guard, cookies: Cookies, address: str, issuers: Collection[str]) -> list[Route]:
    """What can be done with who one is."""
    api = _Session(relay, guard, cookies, address, issuers)
    return [
        Route("GET", "me", "Who you are, and what you may", api.me, gives=Me, public="to all who come"),
        Route(
            "POST",
            "session",
            "Sign in a browser with a key: its cookie then does what the key does, for pages of this gateway",
            api.begin,
            WantedSession,
            Me,
            public="to all",
            refuses=(401, 503),
        ),
        Route("DELETE", "session", "Sign out a browser", api.end, status=204, needs="any key", refuses=(422,)),
    ]


class _Session:
    def __init__(self, relay: Relay, guard: Guard, cookies: Cookies, address: str, issuers: Collection[str]) -> None:
        self._relay, self._guard, self._cookies = relay, guard, cookies
        self._address, self._issuers = address, issuers

    async def me(self, ask: Ask) -> Given:
        return Given(self._told(ask.request.admission, ask.request.by_cookie))

    async def begin(self, ask: Ask) -> Given:
        key = ask.body.key.strip()
        if not key.isascii() or len(key) > LONGEST_KEY or not key.isprintable():
            raise TokenRefusedError("The key is not one that we know.")
        found = await self._guard.admit({b"authorization": b"Bearer " + key.encode()}, "/mcp")
        if found is None:
            raise TokenRefusedError("The key is not one that we know.", hint="It may have been revoked, or be over.")
        if found is ANYONE:  # nobody has a key here, and nobody needs one
            return Given(self._told(found, False))
        value, seconds = await self._cookies.sessions.begin(found)
        return Given(self._told(found, True), headers=[self._cookies.made(ask.request, value, seconds)])

    async def end(self, ask: Ask) -> Given:
        value = self._cookies.value(ask.request)
        if not value:
            raise RefusedError("There is no cookie to be ended.", status=422, hint="A key is revoked: DELETE keys/ID.")
        await self._cookies.sessions.end(value)
        return Given(status=204, headers=[self._cookies.made(ask.request, "")])

    def _told(self, admission: Admission, signed_in: bool) -> Me:
        public: Me = {
            "signed_in": signed_in,
            "needs_key": self._guard.wants_key,
            "issuers": list(self._issuers),
        }
        if admission is NOBODY:
            return public
        scope, config = admission.scope, self._relay.config
        whole = not scope.rules and not scope.profile
        admin = scope.role == "admin"
        return {
            **public,
            "user": scope.user,
            "role": "admin" if admin else "reader" if scope.role == "reader" else "member",
            "profile": scope.profile,
            "address": f"{self._address}/mcp",
            "version": __version__,
            "profiles": [scope.profile] if scope.profile else list(config.profiles),
            "can": {
                "write": not any(rule.read_only for rule in scope.rules),
                "add_servers": whole and (admin or bool(scope.user)),
                "add_commands": admin and whole and config.gateway.allow_commands,
                "see_all": admin,
            },
        }
