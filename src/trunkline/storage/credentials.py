"""Credentials as the store has them: sealed records, and the wrapped keys that they are sealed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from trunkline.storage.engine import Session
from trunkline.storage.sealing import WrappedKey
from trunkline.storage.store import Store, now


@dataclass(frozen=True, order=True)
class CredentialName:
    """What a credential is for."""

    user: str = ""
    """Whose it is; empty for what the operator shares with all."""
    server: str = ""
    issuer: str = ""
    """Who gave it, such as an authorization server; empty for what was typed."""
    field: str = ""
    """What it is, such as `tokens`, `client`, `headers`."""

    def __str__(self) -> str:
        whose = f" of {self.user}" if self.user else ""
        server = f" for server {self.server}" if self.server else ""
        return f"{self.field}{whose}{server}{f' from {self.issuer}' if self.issuer else ''}"


@dataclass(frozen=True)
class Sealed:
    """A credential as it is kept."""

    name: CredentialName
    record: bytes
    disabled: bool
    """It did not open once; only another in its place is used."""
    keys: tuple[WrappedKey, ...] = ()
    """The key that it wants, once for each master key that wrapped it."""


_NAME = "owner, server, issuer, field"
_THIS = "owner = ? AND server = ? AND issuer = ? AND field = ?"


async def find(store: Store | Session, name: CredentialName) -> Sealed | None:
    """One with its keys, as they were at one moment."""
    found = await _select(store, "WHERE c.owner = ? AND c.server = ? AND c.issuer = ? AND c.field = ?", *astuple(name))
    return found[0] if found else None


async def of_owner(store: Store | Session, user: str, *, fields: Sequence[str]) -> list[Sealed]:
    """All of an owner that are of some fields."""
    marks = ", ".join("?" for _ in fields)
    return await _select(store, f"WHERE c.owner = ? AND c.field IN ({marks})", user, *fields)


async def sealed_otherwise(session: Session, kid: str, after: CredentialName, *, limit: int) -> list[Sealed]:
    """Some of those that are sealed with another key than this and can be opened, behind one."""
    which = f"kid <> ? AND disabled = 0 AND ({_NAME}) > (?, ?, ?, ?)"
    some = f"SELECT {_NAME} FROM credentials WHERE {which} ORDER BY {_NAME} LIMIT ?"
    return await _select(
        session, f"WHERE (c.owner, c.server, c.issuer, c.field) IN ({some})", kid, *astuple(after), limit
    )


async def count_otherwise(store: Store | Session, kid: str) -> int:
    """How many those are."""
    [row] = await store.fetch("SELECT COUNT(*) FROM credentials WHERE kid <> ? AND disabled = 0", kid)
    return int(row[0])


async def _select(store: Store | Session, which: str, *values: str | int) -> list[Sealed]:
    rows = await store.fetch(
        "SELECT c.owner, c.server, c.issuer, c.field, c.record, c.disabled, k.kid, k.master, k.wrapped, k.created "
        f"FROM credentials c LEFT JOIN data_keys k ON k.kid = c.kid {which} "
        "ORDER BY c.owner, c.server, c.issuer, c.field",
        *values,
    )
    found: dict[CredentialName, Sealed] = {}
    for *name, record, disabled, kid, master, wrapped, created in rows:
        this = CredentialName(*name)
        keys = found[this].keys if this in found else ()
        if kid is not None:
            keys = (*keys, WrappedKey(kid, master, bytes(wrapped), created))
        found[this] = Sealed(this, bytes(record), bool(disabled), keys)
    return list(found.values())


async def names(store: Store, *, user: str | None = None, server: str | None = None) -> list[CredentialName]:
    """What is kept, without a secret."""
    where, values = _where(owner=user, server=server)
    rows = await store.fetch(f"SELECT {_NAME} FROM credentials {where} ORDER BY {_NAME}", *values)
    return [CredentialName(*row) for row in rows]


async def put(session: Session, name: CredentialName, kid: str, record: bytes) -> None:
    """Keep one, in the place of what was there."""
    await session.fetch(
        f"INSERT INTO credentials ({_NAME}, kid, record, disabled, updated) VALUES (?, ?, ?, ?, ?, ?, 0, ?) "
        f"ON CONFLICT ({_NAME}) DO UPDATE SET kid = excluded.kid, record = excluded.record, disabled = 0, "
        "updated = excluded.updated",
        *(*astuple(name), kid, record, now()),
    )


async def replace(session: Session, before: Sealed, kid: str, record: bytes) -> bool:
    """The same content sealed anew, unless it was changed meanwhile."""
    sql = f"UPDATE credentials SET kid = ?, record = ? WHERE {_THIS} AND record = ? RETURNING field"
    return bool(await session.fetch(sql, kid, record, *astuple(before.name), before.record))


async def disable(session: Store | Session, broken: Sealed) -> bool:
    """Never open a record again; false when it is disabled already, or no longer there."""
    sql = f"UPDATE credentials SET disabled = ? WHERE {_THIS} AND record = ? AND disabled = 0 RETURNING field"
    return bool(await session.fetch(sql, now(), *astuple(broken.name), broken.record))


async def remove(
    session: Session, *, user: str | None, server: str | None, issuer: str | None, field: str | None
) -> int:
    """Forget all that fit what is given."""
    where, values = _where(owner=user, server=server, issuer=issuer, field=field)
    return len(await session.fetch(f"DELETE FROM credentials {where} RETURNING field", *values))


async def data_keys(store: Store | Session) -> list[WrappedKey]:
    """All keys, the one that new records are sealed with first."""
    rows = await store.fetch("SELECT kid, master, wrapped, created FROM data_keys ORDER BY created DESC, kid, master")
    return [WrappedKey(kid, master, bytes(wrapped), created) for kid, master, wrapped, created in rows]


async def add_key(session: Session, key: WrappedKey) -> None:
    """Keep a wrapped key."""
    sql = "INSERT INTO data_keys (kid, master, wrapped, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    await session.fetch(sql, key.kid, key.master, key.wrapped, key.created)


async def forget_keys(session: Session, *, kid: str, master: str) -> None:
    """Keep of all keys that no record wants this one alone, and of all wraps those by this master key."""
    await session.fetch(
        "DELETE FROM data_keys WHERE created > 0 AND kid <> ? AND kid NOT IN (SELECT kid FROM credentials)", kid
    )
    await session.fetch(
        "DELETE FROM data_keys WHERE master <> ? AND kid IN (SELECT kid FROM data_keys WHERE master = ?)",
        *(master, master),
    )


async def setting(store: Store | Session, name: str) -> bytes:
    """What the store knows about its keys; empty when it knows nothing."""
    rows = await store.fetch("SELECT value FROM settings WHERE name = ?", name)
    return bytes(rows[0][0]) if rows else b""


async def set_setting(session: Session, name: str, value: bytes) -> None:
    """Change it; empty to forget it."""
    await session.fetch("DELETE FROM settings WHERE name = ?", name)
    if value:
        await session.fetch("INSERT INTO settings (name, value) VALUES (?, ?)", name, value)


def _where(**columns: str | None) -> tuple[str, list[str]]:
    given = {name: value for name, value in columns.items() if value is not None}
    return ("WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else ""), list(given.values())
