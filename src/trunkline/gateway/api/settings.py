"""What the configuration says of callers, in the admin API: profiles and what they show, limits and what is used."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, TypedDict

from trunkline.gateway.api.routes import Ask, Given, Route
from trunkline.gateway.api.threads import whose
from trunkline.tenancy.limits import PERIODS, Limiter

if TYPE_CHECKING:
    from trunkline.relay import Relay

MOST = 1000
"""Limits that are told of."""


class ShownProfile(TypedDict):
    """A view with a name and an address of its own."""

    name: str
    address: str
    expose: str
    searching: bool
    """Its callers search, and are shown some tools alone."""
    tool_count: int
    listed: int
    servers: list[str]
    """Empty for every one."""
    pinned: list[str]
    hidden: list[str]


class ShownLimit(TypedDict):
    """A limit, and what was used of it."""

    what: str
    """Its name in `[limits]`."""
    of: Literal["user", "key", "thread"]
    name: str
    """The user, the id of the key, or the thread."""
    user: str
    most: float
    used: float
    left: float
    per: float
    """Seconds for which it is counted."""
    resets: float
    """When it is counted anew."""


def routes(relay: Relay, address: str) -> list[Route]:
    """What can be seen of profiles and limits."""
    api = _Settings(relay, address)
    return [
        Route(
            "GET", "profiles", "The views that there are for you", api.profiles, gives=ShownProfile, pages="profiles"
        ),
        Route(
            "GET",
            "limits",
            "What you may use, and what you used of it; admins see everybody's",
            api.limits,
            gives=ShownLimit,
            pages="limits",
            query=("user",),
        ),
    ]


class _Settings:
    def __init__(self, relay: Relay, address: str) -> None:
        self._relay, self._address = relay, address

    async def profiles(self, ask: Ask) -> Given:
        scope, config = ask.scope, self._relay.config
        await self._relay.welcome(scope)
        names = [scope.profile] if scope.profile else list(config.profiles)
        return Given({"profiles": [self._profile(ask, name) for name in names]})

    def _profile(self, ask: Ask, name: str) -> ShownProfile:
        config = self._relay.config
        spec = config.profiles.get(name)
        view = self._relay.view(dataclasses.replace(ask.scope, profile=name))
        return {
            "name": name,
            "address": f"{self._address}/mcp/{name}" if name else f"{self._address}/mcp",
            "expose": (spec.expose if spec is not None else "") or config.gateway.expose,
            "searching": view.searching,
            "tool_count": len(view.snapshot.tools),
            "listed": len(view.tools),
            "servers": list(spec.servers) if spec is not None else [],
            "pinned": list((spec.pinned if spec is not None else ()) or config.gateway.pinned),
            "hidden": list(spec.hidden) if spec is not None else [],
        }

    async def limits(self, ask: Ask) -> Given:
        user, scope, limiter = whose(ask), ask.scope, self._relay.limiter
        if user != scope.user:
            await self._relay.tenancy.people.user(user)
            scope = await self._relay.tenancy.people.scope(user)
        places = dict(limiter.plan(scope))
        if ask.scope.role == "admin" and "user" not in ask.query:
            places |= limiter.places()
        return Given({"limits": [_shown(limiter, place, most) for place, most in list(places.items())[:MOST]]})


def _shown(limiter: Limiter, place: tuple[str, str, str], most: float) -> ShownLimit:
    holder, thread, limit = place
    used, left, resets = limiter.state(place, most)
    of = "thread" if thread else "key" if limit.startswith("key_") else "user"
    return {
        "what": limit,
        "of": of,
        "name": thread or holder,
        "user": "" if of == "key" else holder,
        "most": most,
        "used": used,
        "left": left,
        "per": PERIODS[limit][0],
        "resets": resets,
    }
