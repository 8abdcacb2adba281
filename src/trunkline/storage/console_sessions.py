"""Who is signed in to the console, as the store has it: so that it holds on every machine, and over a restart."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trunkline.storage.store import Store, now

NOUN = "session"
MOST = 50
"""Sessions that a user may have; the one that was used longest ago makes room."""


@dataclass(frozen=True)
class SessionRow:
    """A browser that is signed in; what its cookie says is kept as a digest."""

    id: str
    owner: str
    key: str
    """The key that it was signed in with; empty where an issuer said who it is."""
    issued: str
    """What the issuer said, as JSON."""
    created: int
    seen: int
    digest: bytes


_ROW = "id, owner, key_id, issued, created, seen, digest"


async def add(store: Store, row: SessionRow, *, oldest: int, idle: int) -> bool:
    """Note a session, and forget what is over, and the user's oldest beyond `MOST`; false without such a user."""
    async with store.transaction() as session:
        if not await session.fetch("SELECT 1 FROM users WHERE name = ?", row.owner):
            return False
        await session.fetch("DELETE FROM console_sessions WHERE created < ? OR seen < ?", oldest, idle)
        await session.fetch(
            "DELETE FROM console_sessions WHERE id IN "
            "(SELECT id FROM console_sessions WHERE owner = ? ORDER BY seen DESC LIMIT 1000 OFFSET ?)",
            row.owner,
            MOST - 1,
        )
        await session.fetch(
            f"INSERT INTO console_sessions ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            row.id, row.owner, row.key, row.issued, row.created, row.seen, row.digest,
        )  # fmt: skip
    return True


async def find(store: Store, id: str) -> SessionRow | None:
    """A session by its id."""
    rows = await store.fetch(f"SELECT {_ROW} FROM console_sessions WHERE id = ?", id)
    return replace(SessionRow(*rows[0]), digest=bytes(rows[0][-1])) if rows else None


async def touch(store: Store, id: str) -> None:
    """It was used just now."""
    await store.fetch("UPDATE console_sessions SET seen = ? WHERE id = ?", now(), id)


async def remove(store: Store, id: str, owner: str) -> None:
    """Somebody signed out, and every process hears of it."""
    async with store.changing(NOUN, owner, id) as session:
        await session.fetch("DELETE FROM console_sessions WHERE id = ?", id)
