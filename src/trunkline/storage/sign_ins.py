"""Sign-ins under way, each used once, and who of all processes renews a credential at this moment."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.storage.store import Store, now

FORGET = 3_600_000
"""Milliseconds after which nobody asks how a sign-in came out."""


@dataclass(frozen=True)
class SignInRow:
    """A sign-in that somebody began; what is secret of it is in the vault."""

    state: str
    """A digest of what the authorization server hands back."""
    owner: str
    server: str
    issuer: str
    until: int
    outcome: str = ""
    """Empty while it is under way, `signed-in`, or why it failed."""


_ROW = "state, owner, server, issuer, until, outcome"


async def begin(store: Store, row: SignInRow) -> list[SignInRow]:
    """Note a sign-in; gives those that are over for long, and forgets them."""
    await store.fetch(
        f"INSERT INTO sign_ins ({_ROW}, used) VALUES (?, ?, ?, ?, ?, ?, 0)",
        row.state, row.owner, row.server, row.issuer, row.until, row.outcome,
    )  # fmt: skip
    old = await store.fetch(f"DELETE FROM sign_ins WHERE until < ? RETURNING {_ROW}", now() - FORGET)
    return [SignInRow(*one) for one in old]


async def use(store: Store, state: str) -> SignInRow | None:
    """The sign-in of a state, once; `None` when there is none, it was used, or its time is up."""
    rows = await store.fetch(
        f"UPDATE sign_ins SET used = 1 WHERE state = ? AND used = 0 AND until >= ? RETURNING {_ROW}", state, now()
    )
    return SignInRow(*rows[0]) if rows else None


async def use_once(store: Store, row: SignInRow) -> bool:
    """Note that a sign-in is used of which nothing was kept; false when it was already."""
    await store.fetch("DELETE FROM sign_ins WHERE until < ?", now() - FORGET)
    rows = await store.fetch(
        f"INSERT INTO sign_ins ({_ROW}, used) VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING RETURNING state",
        row.state, row.owner, row.server, row.issuer, row.until, row.outcome,
    )  # fmt: skip
    return bool(rows)


async def end(store: Store, state: str, outcome: str) -> None:
    """Say how a sign-in came out."""
    await store.fetch("UPDATE sign_ins SET outcome = ? WHERE state = ?", outcome, state)


async def find(store: Store, state: str) -> SignInRow | None:
    """A sign-in, used or not."""
    rows = await store.fetch(f"SELECT {_ROW} FROM sign_ins WHERE state = ?", state)
    return SignInRow(*rows[0]) if rows else None


async def is_unanswered(store: Store, owner: str, server: str, issuer: str) -> bool:
    """Whether somebody was sent to an authorization server not long ago who never came back."""
    asked = "SELECT 1 FROM sign_ins WHERE owner = ? AND server = ? AND issuer = ? AND used = 0 LIMIT 1"
    return bool(await store.fetch(asked, owner, server, issuer))


async def take_lease(store: Store, name: str, holder: str, seconds: float) -> bool:
    """Have something to oneself for a while, unless somebody has it."""
    until = now() + int(seconds * 1000)
    rows = await store.fetch(
        "INSERT INTO leases (name, holder, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
        "SET holder = excluded.holder, until = excluded.until WHERE leases.until < ? RETURNING holder",
        name, holder, until, now(),
    )  # fmt: skip
    return bool(rows)


async def end_lease(store: Store, name: str, holder: str) -> None:
    """Let others have it."""
    await store.fetch("DELETE FROM leases WHERE name = ? AND holder = ?", name, holder)
