"""Programs that wait for a person: whose they are, for which request, and until when; each is taken up once."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from trunkline.storage.engine import Session
from trunkline.storage.store import Store, now


@dataclass(frozen=True)
class ProgramRow:
    """A program that waits; what it holds is sealed in the vault."""

    id: str
    owner: str
    """The user's name; empty where nobody is known."""
    member: str
    """The user, told from all others who ever had the name."""
    bound: bytes
    """A digest of the request that it belongs to."""
    tools: str
    """The tools that it waits to call, parted by commas."""
    created: int
    until: int


_ROW = "id, owner, member, bound, tools, created, until"


async def add(session: Session, row: ProgramRow) -> None:
    """Keep one."""
    await session.fetch(f"INSERT INTO programs ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)", *astuple(row))


async def find(store: Store | Session, id: str) -> ProgramRow | None:
    """One whose time is not up."""
    rows = await store.fetch(f"SELECT {_ROW} FROM programs WHERE id = ? AND until >= ?", id, now())
    return _row(rows[0]) if rows else None


async def take(session: Session, id: str) -> ProgramRow | None:
    """One whose time is not up, which nobody else can take from now on; `None` when somebody did."""
    rows = await session.fetch(f"DELETE FROM programs WHERE id = ? AND until >= ? RETURNING {_ROW}", id, now())
    return _row(rows[0]) if rows else None


async def listed(store: Store, owner: str | None, *, after: str, limit: int) -> list[ProgramRow]:
    """Some of those that wait, of one user or of all, by their ids."""
    whose, values = ("AND owner = ?", (owner,)) if owner is not None else ("", ())
    rows = await store.fetch(
        f"SELECT {_ROW} FROM programs WHERE id > ? AND until >= ? {whose} ORDER BY id LIMIT {int(limit)}",
        after, now(), *values,
    )  # fmt: skip
    return [_row(row) for row in rows]


async def count(store: Store | Session, owner: str) -> int:
    """How many of a user wait."""
    [row] = await store.fetch("SELECT COUNT(*) FROM programs WHERE owner = ? AND until >= ?", owner, now())
    return int(row[0])


async def remove(session: Session, id: str, owner: str | None) -> ProgramRow | None:
    """Drop one, of a user if one is given."""
    whose, values = (" AND owner = ?", (owner,)) if owner is not None else ("", ())
    rows = await session.fetch(f"DELETE FROM programs WHERE id = ?{whose} RETURNING {_ROW}", id, *values)
    return _row(rows[0]) if rows else None


async def expire(session: Session, owner: str | None = None) -> list[ProgramRow]:
    """Drop those whose time is up; or all of a user who is gone."""
    which, value = ("until < ?", now()) if owner is None else ("owner = ?", owner)
    return [_row(row) for row in await session.fetch(f"DELETE FROM programs WHERE {which} RETURNING {_ROW}", value)]


def _row(row: tuple[object, ...]) -> ProgramRow:
    id, owner, member, bound, tools, created, until = row
    return ProgramRow(
        str(id), str(owner), str(member), bytes(bound), str(tools), int(str(created)), int(str(until))  # type: ignore[reportArgumentType]
    )  # fmt: skip
