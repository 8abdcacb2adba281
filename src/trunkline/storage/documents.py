"""What has an owner, a name and a version: servers that were registered, threads, servers that are switched off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from trunkline.storage.engine import Row, Session
from trunkline.storage.people import find_user, no_user
from trunkline.storage.store import Store, now

Noun = Literal["server", "thread", "switch"]


@dataclass(frozen=True)
class Document:
    """One of them; of two who change it at once, one is told by its version."""

    noun: Noun
    owner: str
    """The user whose it is; empty for what is everybody's."""
    name: str
    content: dict[str, Any]
    sealed: bytes = b""
    """What of it is secret, as Trunkline sealed it before there was a vault."""
    version: int = 0
    """0 before it is kept."""
    created: int = 0
    updated: int = 0


_ROW = "noun, owner, name, content, sealed, version, created, updated"
_INSERT = f"INSERT INTO documents ({_ROW}) VALUES (?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING RETURNING {_ROW}"
_UPDATE = (
    "UPDATE documents SET content = ?, sealed = ?, version = version + 1, updated = ? "
    f"WHERE noun = ? AND owner = ? AND name = ? AND version = ? RETURNING {_ROW}"
)
_ONE = "noun = ? AND owner = ? AND name = ?"


async def put(store: Store, document: Document, *, of_user: bool = False) -> Document | None:
    """Keep a new document, or the next version of one; `None` when somebody else was faster.

    `NotFoundError` where it is to be `of_user`, and its owner is none.
    """
    async with store.changing(document.noun, document.owner, document.name) as session:
        if of_user:
            await check_owner(session, document.owner)
        return await put_in(session, document)


async def check_owner(session: Session, owner: str) -> None:
    """`NotFoundError` for an owner who is no user."""
    if await find_user(session, owner) is None:
        raise no_user(owner)


async def put_in(session: Session, document: Document) -> Document | None:
    """The same as part of a larger change."""
    content = msgspec.json.encode(document.content).decode()
    which = (document.noun, document.owner, document.name)
    if document.version:
        rows = await session.fetch(_UPDATE, content, document.sealed, now(), *which, document.version)
    else:
        rows = await session.fetch(_INSERT, *which, content, document.sealed, now(), now())
    return _document(rows[0]) if rows else None


async def find(store: Store | Session, noun: Noun, owner: str, name: str) -> Document | None:
    """One by its owner and name."""
    rows = await store.fetch(f"SELECT {_ROW} FROM documents WHERE {_ONE}", noun, owner, name)
    return _document(rows[0]) if rows else None


async def remove(store: Store, noun: Noun, owner: str, name: str, *, version: int = 0) -> bool:
    """Forget one, of a version if one is given; false when there is none."""
    async with store.changing(noun, owner, name) as session:
        return await remove_in(session, noun, owner, name, version=version)


async def remove_in(session: Session, noun: Noun, owner: str, name: str, *, version: int = 0) -> bool:
    """The same as part of a larger change."""
    sql = f"DELETE FROM documents WHERE {_ONE} AND (version = ? OR ? = 0) RETURNING name"
    return bool(await session.fetch(sql, noun, owner, name, version, version))


async def with_sealed(session: Session, *, owner: str = "", name: str = "", limit: int) -> list[Document]:
    """Servers that an earlier Trunkline sealed secrets in, behind one."""
    which = "noun = 'server' AND sealed <> ? AND (owner, name) > (?, ?)"
    sql = f"SELECT {_ROW} FROM documents WHERE {which} ORDER BY owner, name LIMIT ?"
    return [_document(row) for row in await session.fetch(sql, b"", owner, name, limit)]


async def of_owner(store: Store, noun: Noun, owner: str, *, after: str = "", limit: int = 1000) -> list[Document]:
    """An owner's, by name, those behind one."""
    sql = f"SELECT {_ROW} FROM documents WHERE noun = ? AND owner = ? AND name > ? ORDER BY name LIMIT ?"
    return [_document(row) for row in await store.fetch(sql, noun, owner, after, limit)]


async def owned(store: Store, noun: Noun, after: tuple[str, str], limit: int = 1000) -> list[tuple[str, str]]:
    """Owner and name of those that belong to users, behind one."""
    sql = "SELECT owner, name FROM documents WHERE noun = ? AND (owner, name) > (?, ?) AND owner > '' "
    rows = await store.fetch(f"{sql} ORDER BY owner, name LIMIT ?", noun, *after, limit)
    return [(owner, name) for owner, name in rows]


async def count(store: Store, noun: Noun, owner: str) -> int:
    """How many an owner has."""
    [row] = await store.fetch("SELECT COUNT(*) FROM documents WHERE noun = ? AND owner = ?", noun, owner)
    return int(row[0])


async def owners(store: Store) -> list[str]:
    """Everybody who has something, by name."""
    rows = await store.fetch("SELECT DISTINCT owner FROM documents WHERE owner <> '' ORDER BY owner")
    return [str(row[0]) for row in rows]


def _document(row: Row) -> Document:
    noun, owner, name, content, sealed, version, created, updated = row
    return Document(noun, owner, name, msgspec.json.decode(content), bytes(sealed), version, created, updated)
