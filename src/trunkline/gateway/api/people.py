"""People and keys in the admin API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypedDict

from trunkline.errors import ConfigError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route, page
from trunkline.storage.people import Key, Rights, Role, User
from trunkline.tenancy.people import People, expiry_of
from trunkline.tools.names import did_you_mean

NAMED = 20
"""Names that an error says."""


class NewUser(Body, frozen=True):
    """A user to be made."""

    name: str
    role: Role = "member"
    limits: dict[str, float] = {}


class UserChange(Body, frozen=True):
    """What is to be changed of a user."""

    role: Role | None = None
    limits: dict[str, float] | None = None


class WantedKey(Body, frozen=True):
    """A key to be made."""

    user: str = ""
    """Whose; default is who asks."""
    name: str = ""
    expires: str | float = ""
    """When it ends: in seconds from now, as `30d`, or as a date; never by default."""
    profile: str = ""
    servers: list[str] = []
    tools: list[str] = []
    read_only: bool = False


class ShownUser(TypedDict):
    """A user."""

    name: str
    role: Role
    limits: Mapping[str, float]
    version: int
    created: float
    updated: float


class ShownKey(TypedDict):
    """A key without its secret."""

    id: str
    user: str
    name: str
    profile: str
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    read_only: bool
    created: float
    expires: float | None


class MadeKey(ShownKey):
    """A key with its secret."""

    key: str


@dataclass(frozen=True)
class KnownNames:
    """What a key may name; `None` where that cannot be known."""

    profiles: Collection[str] | None = None
    servers: Collection[str] | None = None

    def check(self, rights: Rights) -> None:
        """Refuse what is not there: a key that names it lets its user do less than was meant, or nothing."""
        wanted = (("profile", (rights.profile,), self.profiles), ("server", rights.servers, self.servers))
        for what, names, known in wanted:
            for name in names:
                if name and known is not None and name not in known:
                    raise _no_such(what, name, known)


def _no_such(what: str, name: str, known: Collection[str]) -> ConfigError:
    listed = f"There are: {', '.join(sorted(known)[:NAMED])}." if known else "There are none."
    return ConfigError(f"There is no {what} {name!r}.", hint=did_you_mean(name, known) or listed)


def routes(people: People, known: Callable[[str], Awaitable[KnownNames]]) -> list[Route]:
    """What can be done with people and keys; `known` says what a user's keys may name."""
    api = _People(people, known)
    paged = ("cursor", "limit")
    return [
        Route("GET", "users", "Everybody", api.list_users, gives=ShownUser, pages="users", query=paged),
        Route("POST", "users", "Take in somebody", api.add_user, NewUser, ShownUser, status=201),
        Route("GET", "users/{name}", "Somebody", api.user, gives=ShownUser),
        Route(
            "PATCH",
            "users/{name}",
            "Change somebody's role or limits",
            api.change_user,
            UserChange,
            ShownUser,
            versioned=True,
        ),
        Route(
            "DELETE",
            "users/{name}",
            "Forget somebody with all that is theirs",
            api.remove_user,
            status=204,
            versioned=True,
        ),
        Route(
            "GET",
            "keys",
            "Keys, without their secrets",
            api.list_keys,
            gives=ShownKey,
            pages="keys",
            query=("user", *paged),
        ),
        Route("POST", "keys", "Make a key; it is shown this once", api.make_key, WantedKey, MadeKey, status=201),
        Route("DELETE", "keys/{id}", "Revoke a key", api.revoke_key, status=204),
    ]


class _People:
    def __init__(self, people: People, known: Callable[[str], Awaitable[KnownNames]]) -> None:
        self._people, self._known = people, known

    async def list_users(self, ask: Ask) -> Given:
        ask.require()
        found = await self._people.users(after=ask.cursor, limit=ask.limit + 1)
        return Given(page([_user(user) for user in found], ask.limit, lambda user: user["name"], "users"))

    async def add_user(self, ask: Ask) -> Given:
        ask.require()
        user = await self._people.add_user(ask.body.name, ask.body.role, ask.body.limits)
        return Given(_user(user), 201, user.version)

    async def user(self, ask: Ask) -> Given:
        ask.require(or_user=ask.names["name"])
        user = await self._people.user(ask.names["name"])
        return Given(_user(user), version=user.version)

    async def change_user(self, ask: Ask) -> Given:
        ask.require()
        changed = await self._people.update_user(
            ask.names["name"], role=ask.body.role or "", limits=ask.body.limits, version=ask.if_match
        )
        return Given(_user(changed), version=changed.version)

    async def remove_user(self, ask: Ask) -> Given:
        ask.require()
        await self._people.remove_user(ask.names["name"], version=ask.if_match)
        return Given(status=204)

    async def list_keys(self, ask: Ask) -> Given:
        user = ask.query.get("user", "")
        if ask.scope.role != "admin":
            user = user or ask.scope.user
            ask.require(or_user=user)
        found = await self._people.keys(user, after=ask.cursor, limit=ask.limit + 1)
        return Given(page([_key(key) for key in found], ask.limit, lambda key: key["id"], "keys"))

    async def make_key(self, ask: Ask) -> Given:
        body: WantedKey = ask.body
        user = body.user or ask.scope.user
        ask.require(or_user=user)
        if not user:
            raise RefusedError("Whose key is it to be?", status=422, hint="Give `user`.")
        rights = Rights(body.profile, tuple(body.servers), tuple(body.tools), body.read_only)
        await self._people.user(user)
        (await self._known(user)).check(rights)
        expires = expiry_of(body.expires)
        key, text = await self._people.make_key(user, name=body.name, rights=rights, expires=expires)
        return Given({**_key(key), "key": text}, 201)

    async def revoke_key(self, ask: Ask) -> Given:
        own = "" if ask.scope.role == "admin" else ask.scope.user
        ask.require(or_user=own)
        await self._people.revoke_key(ask.names["id"], user=own)
        return Given(status=204)


def _user(user: User) -> ShownUser:
    return {
        "name": user.name,
        "role": user.role,
        "limits": user.limits,
        "version": user.version,
        "created": user.created / 1000,
        "updated": user.updated / 1000,
    }


def _key(key: Key) -> ShownKey:
    return {
        "id": key.id,
        "user": key.user,
        "name": key.name,
        "profile": key.rights.profile,
        "servers": key.rights.servers,
        "tools": key.rights.tools,
        "read_only": key.rights.read_only,
        "created": key.created / 1000,
        "expires": key.expires / 1000 if key.expires else None,
    }
