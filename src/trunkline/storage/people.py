"""People and their keys, as the store has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from trunkline.errors import NotFoundError
from trunkline.storage import pins
from trunkline.storage.engine import Row, Session
from trunkline.storage.store import Store, now

Role = Literal["admin", "member", "reader", "issuer", "blocked"]
"""`issuer`: what the tokens of their identity provider say; `blocked`: they are not let in at all."""
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class User:
    """Somebody who may call."""

    name: str
    role: Role = "member"
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """What they may use, where that is not what `[limits]` says."""
    version: int = 1
    created: int = 0
    updated: int = 0


@dataclass(frozen=True)
class Rights:
    """What a key may, of all that its user may; empty means all of it."""

    profile: str = ""
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Patterns of tools."""
    read_only: bool = False


@dataclass(frozen=True)
class Key:
    """A key, without the secret that only its user has."""

    id: str
    user: str
    name: str = ""
    rights: Rights = Rights()
    created: int = 0
    expires: int = 0
    """Milliseconds since the epoch; 0 for never."""


GONE = "gone"
"""What the news of a user say who was removed: somebody else may have the name already."""
_USER = "name, role, limits, version, created, updated"
_KEY = "id, owner, label, rights, created, expires"


async def add_user(store: Store, user: User) -> User | None:
    """Take in a user; `None` when there is one of that name."""
    async with store.changing("user", user.name, "") as session:
        rows = await session.fetch(
            f"INSERT INTO users ({_USER}) VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING {_USER}",
            *(user.name, user.role, _json(user.limits), now(), now()),
        )
    return _user(rows[0]) if rows else None


async def update_user(store: Store, user: User) -> User | None:
    """Change a user whose version is still the one given; `None` when it is not."""
    async with store.changing("user", user.name, "") as session:
        rows = await session.fetch(
            "UPDATE users SET role = ?, limits = ?, updated = ?, version = version + 1 "
            f"WHERE name = ? AND version = ? RETURNING {_USER}",
            *(user.role, _json(user.limits), now(), user.name, user.version),
        )
    return _user(rows[0]) if rows else None


async def remove_user(store: Store, name: str, *, version: int = 0) -> bool:
    """Forget a user with all that is theirs, of a version if one is given; false when there is none."""
    async with store.changing("user", name, GONE) as session:
        sql = "DELETE FROM users WHERE name = ? AND (version = ? OR ? = 0) RETURNING name"
        if not await session.fetch(sql, name, version, version):
            return False
        await session.fetch("DELETE FROM documents WHERE owner = ?", name)
        await session.fetch("DELETE FROM credentials WHERE owner = ?", name)
        await session.fetch("DELETE FROM spent WHERE owner = ?", name)
        await pins.forget(session, name)
        return True


def no_user(name: str) -> NotFoundError:
    """What is said of a name that nobody has."""
    return NotFoundError(f"There is no user {name!r}.", hint="See `trunkline user list`.")


async def find_user(store: Store | Session, name: str) -> User | None:
    """A user by name."""
    rows = await store.fetch(f"SELECT {_USER} FROM users WHERE name = ?", name)
    return _user(rows[0]) if rows else None


async def list_users(store: Store, *, after: str = "", limit: int = 1000) -> list[User]:
    """Users by name, those behind one."""
    rows = await store.fetch(f"SELECT {_USER} FROM users WHERE name > ? ORDER BY name LIMIT ?", after, limit)
    return [_user(row) for row in rows]


async def put_user(session: Session, user: User) -> None:
    """Have a user be so, whether or not there is one, as part of a larger change."""
    await session.fetch(
        f"INSERT INTO users ({_USER}) VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (name) DO UPDATE "
        "SET role = excluded.role, limits = excluded.limits, updated = excluded.updated, version = users.version + 1",
        *(user.name, user.role, _json(user.limits), now(), now()),
    )


async def put_key(session: Session, key: Key, digest: bytes) -> None:
    """Have a key, unless there is one of its id, as part of a larger change."""
    await session.fetch(
        f"INSERT INTO keys ({_KEY}, digest) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        *(key.id, key.user, key.name, _json(key.rights), key.created, key.expires, digest),
    )


async def all_keys(store: Store) -> list[tuple[Key, bytes]]:
    """Every key with its digest, by id."""
    rows = await store.fetch(f"SELECT {_KEY}, digest FROM keys ORDER BY id")
    return [(_key(row), bytes(row[-1])) for row in rows]


async def any_user(store: Store) -> bool:
    """Whether there is anybody."""
    return bool(await store.fetch("SELECT 1 FROM users LIMIT 1"))


async def add_key(store: Store, key: Key, digest: bytes) -> Key | None:
    """Take in a key; `None` when there is no such user."""
    async with store.changing("key", key.user, key.id) as session:
        if await find_user(session, key.user) is None:
            return None
        rows = await session.fetch(
            f"INSERT INTO keys ({_KEY}, digest) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_KEY}",
            *(key.id, key.user, key.name, _json(key.rights), now(), key.expires, digest),
        )
    return _key(rows[0])


async def remove_key(store: Store, id: str, user: str = "") -> Key | None:
    """Revoke a key, of a user if one is given; `None` when there is none."""
    found = await find_key(store, id)
    if found is None or (user and found[0].user != user):
        return None
    async with store.changing("key", found[0].user, id) as session:
        await session.fetch("DELETE FROM keys WHERE id = ?", id)
    return found[0]


async def find_key(store: Store, id: str) -> tuple[Key, bytes] | None:
    """A key by its id, and the digest of its secret."""
    rows = await store.fetch(f"SELECT {_KEY}, digest FROM keys WHERE id = ?", id)
    return (_key(rows[0]), bytes(rows[0][-1])) if rows else None


async def list_keys(store: Store, user: str = "", *, after: str = "", limit: int = 1000) -> list[Key]:
    """Keys by id, those behind one, of a user if one is given."""
    rows = await store.fetch(
        f"SELECT {_KEY} FROM keys WHERE id > ? AND (owner = ? OR ? = '') ORDER BY id LIMIT ?", after, user, user, limit
    )
    return [_key(row) for row in rows]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _user(row: Row) -> User:
    name, role, limits, version, created, updated = row
    return User(name, role, msgspec.json.decode(limits), version, created, updated)


def _key(row: Row) -> Key:
    id, user, label, rights, created, expires = row[:6]
    return Key(id, user, label, msgspec.json.decode(rights, type=Rights), created, expires)
