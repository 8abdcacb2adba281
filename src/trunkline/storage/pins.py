"""What was agreed to of servers' definitions, and what waits to be, as the store has it: a row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from trunkline.storage.engine import Session, Value
from trunkline.storage.store import Store, now

PAGE = 1_000
"""Rows that are read at once."""
ROWS = 200
"""Rows that are written at once."""
BYTES = 2**20
"""Bytes of definitions that are written at once."""

ServerOf = tuple[str, str]
"""Whose server, and its name."""
Key = tuple[str, str]
"""A kind and a name."""


@dataclass(frozen=True)
class PinRow:
    """A definition that was agreed to; or with an empty pin, what waits."""

    key: Key
    pin: bytes
    content: bytes
    place: int = 0
    """Of those of one name that are written at once, the last is the newest."""


_THIS = "owner = ? AND server = ?"
_TABLES = ("agreed_servers", "pins", "waiting")


async def servers(store: Store) -> list[ServerOf]:
    """Of which anything is kept."""
    rows = await store.fetch("SELECT owner, server FROM agreed_servers ORDER BY owner, server")
    return [(owner, server) for owner, server in rows]


async def head(store: Store | Session, server: ServerOf) -> tuple[str, str] | None:
    """Who a server was when it was agreed to, and which of its lists were seen whole; `None` for a stranger."""
    rows = await store.fetch(f"SELECT identity, begun FROM agreed_servers WHERE {_THIS}", *server)
    return (rows[0][0], rows[0][1]) if rows else None


async def put_head(session: Session, server: ServerOf, identity: str, begun: str) -> None:
    """Say who a server is."""
    await session.fetch(
        "INSERT INTO agreed_servers (owner, server, identity, begun) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (owner, server) DO UPDATE SET identity = excluded.identity, begun = excluded.begun",
        *(*server, identity, begun),
    )


async def pins(store: Store, server: ServerOf) -> list[tuple[bytes, int, bytes, Key]]:
    """Every pin behind what its name is known by and minus its time, and what it is of; in no order."""
    found: list[tuple[bytes, int, bytes, Key]] = []
    last, pin = b"", b""
    while True:
        sql = f"SELECT item, pin, kind, name, agreed FROM pins WHERE {_THIS} AND (item, pin) > (?, ?)"
        rows = await store.fetch(f"{sql} ORDER BY item, pin LIMIT ?", *server, last, pin, PAGE)
        found += [(bytes(item), -agreed, bytes(one), (kind, _text(name))) for item, one, kind, name, agreed in rows]
        if len(rows) < PAGE:
            return found
        last, pin = bytes(rows[-1][0]), bytes(rows[-1][1])


async def size(session: Session, server: ServerOf) -> int:
    """Bytes of all definitions of a server that are kept."""
    [row] = await session.fetch(f"SELECT SUM(LENGTH(definition)) FROM pins WHERE {_THIS}", *server)
    return int(row[0] or 0)


async def count(session: Session, server: ServerOf) -> int:
    """How many definitions of a server were agreed to."""
    [row] = await session.fetch(f"SELECT COUNT(*) FROM pins WHERE {_THIS}", *server)
    return int(row[0])


async def definition(store: Store, server: ServerOf, key: Key) -> bytes:
    """What was agreed to last; empty where nothing was."""
    sql = f"SELECT definition FROM pins WHERE {_THIS} AND item = ? ORDER BY agreed DESC LIMIT 1"
    rows = await store.fetch(sql, *server, _item(key))
    return bytes(rows[0][0]) if rows else b""


async def definitions(store: Store | Session, server: ServerOf) -> list[tuple[Key, bytes, bytes]]:
    """Every pin with what it is of; those of one name behind each other, the newest last."""
    sql = f"SELECT kind, name, pin, definition FROM pins WHERE {_THIS} ORDER BY kind, name, agreed, pin"
    return [
        ((kind, _text(name)), bytes(pin), bytes(content))
        for kind, name, pin, content in await store.fetch(sql, *server)
    ]


async def names(store: Store | Session, owner: str, kind: str) -> list[tuple[str, str]]:
    """The names of one kind of which anything was agreed to, behind whose they are."""
    sql = "SELECT DISTINCT server, name FROM pins WHERE owner = ? AND kind = ?"
    return [(server, _text(name)) for server, name in await store.fetch(sql, owner, kind)]


async def knows(store: Store | Session, server: ServerOf) -> bool:
    """Whether anything of a server was agreed to, or waits."""
    every = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {_THIS}" for table in _TABLES)
    return bool(await store.fetch(f"SELECT 1 FROM ({every}) AS found LIMIT 1", *server, *server, *server))


async def pinned(session: Session, server: ServerOf, keys: Sequence[Key]) -> dict[Key, list[bytes]]:
    """What was agreed to of some names, the newest first."""
    found: dict[Key, list[bytes]] = {}
    for some in _some(keys):
        sql = f"SELECT kind, name, pin FROM pins WHERE {_THIS} AND item IN ({_marks('?', len(some))})"
        for kind, name, pin in await session.fetch(f"{sql} ORDER BY agreed DESC, pin", *server, *map(_item, some)):
            found.setdefault((kind, _text(name)), []).append(bytes(pin))
    return found


async def put_pins(session: Session, server: ServerOf, rows: Iterable[PinRow]) -> None:
    """Agree to definitions."""
    for some in _by_size(rows):
        values: list[Value] = []
        for one in some:
            kind, name = one.key
            values += (*server, _item(one.key), one.pin, kind, _bytes(name), one.content, now() + one.place)
        await session.fetch(
            "INSERT INTO pins (owner, server, item, pin, kind, name, definition, agreed) "
            f"VALUES {_marks('(?, ?, ?, ?, ?, ?, ?, ?)', len(some))} "
            "ON CONFLICT (owner, server, item, pin) DO UPDATE SET agreed = excluded.agreed",
            *values,
        )


async def remove_pins(session: Session, server: ServerOf, key: Key, pins: Sequence[bytes]) -> None:
    """Agree no longer to some definitions of a name."""
    sql = f"DELETE FROM pins WHERE {_THIS} AND item = ? AND pin IN ({_marks('?', len(pins))})"
    await session.fetch(sql, *server, _item(key), *pins)


async def keep_newest(session: Session, server: ServerOf, kind: str, names: int) -> None:
    """Forget the names of one kind that were agreed to before so many others."""
    sql = f"SELECT item FROM pins WHERE {_THIS} AND kind = ? GROUP BY item ORDER BY MAX(agreed) DESC, item"
    found = [bytes(row[0]) for row in await session.fetch(f"{sql} LIMIT ? OFFSET ?", *server, kind, PAGE, names)]
    for at in range(0, len(found), ROWS):
        some = found[at : at + ROWS]
        await session.fetch(f"DELETE FROM pins WHERE {_THIS} AND item IN ({_marks('?', len(some))})", *server, *some)


async def waiting(store: Store | Session, server: ServerOf) -> list[tuple[Key, bytes]]:
    """What waits."""
    rows = await store.fetch(f"SELECT kind, name, content FROM waiting WHERE {_THIS} ORDER BY kind, name", *server)
    return [((kind, _text(name)), bytes(content)) for kind, name, content in rows]


async def waiting_of(session: Session, server: ServerOf, keys: Sequence[Key]) -> list[tuple[Key, bytes]]:
    """What waits of some names."""
    found: list[tuple[Key, bytes]] = []
    for some in _some(keys):
        sql = f"SELECT kind, name, content FROM waiting WHERE {_THIS} AND item IN ({_marks('?', len(some))})"
        rows = await session.fetch(sql, *server, *map(_item, some))
        found += [((kind, _text(name)), bytes(content)) for kind, name, content in rows]
    return found


async def put_waiting(session: Session, server: ServerOf, rows: Iterable[PinRow]) -> None:
    """Have something wait, in the place of what waits under its name."""
    for some in _by_size(rows):
        values: list[Value] = []
        for one in some:
            kind, name = one.key
            values += (*server, _item(one.key), kind, _bytes(name), one.content)
        await session.fetch(
            f"INSERT INTO waiting (owner, server, item, kind, name, content) "
            f"VALUES {_marks('(?, ?, ?, ?, ?, ?)', len(some))} "
            "ON CONFLICT (owner, server, item) DO UPDATE SET content = excluded.content",
            *values,
        )


async def remove_waiting(session: Session, server: ServerOf, keys: Sequence[Key]) -> None:
    """It waits no more."""
    for some in _some(keys):
        sql = f"DELETE FROM waiting WHERE {_THIS} AND item IN ({_marks('?', len(some))})"
        await session.fetch(sql, *server, *map(_item, some))


async def forget(session: Session, owner: str, server: str | None = None) -> None:
    """Whoever has the name next is seen for the first time; without a server, the same for all of an owner."""
    for table in _TABLES:
        if server is None:
            await session.fetch(f"DELETE FROM {table} WHERE owner = ?", owner)
        else:
            await session.fetch(f"DELETE FROM {table} WHERE {_THIS}", owner, server)


def _item(key: Key) -> bytes:
    """What stands for a name in an index: names are the servers' to choose, of any length."""
    kind, name = key
    return blake2b(_bytes(name), digest_size=16, person=kind.encode()[:16]).digest()


def _bytes(name: str) -> bytes:
    """A name as it is kept: a database does not take every character in a text."""
    return name.encode("utf-8", "surrogatepass")


def _text(name: bytes) -> str:
    return bytes(name).decode("utf-8", "surrogatepass")


def _marks(row: str, count: int) -> str:
    return ", ".join([row] * count)


def _some(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    return (keys[at : at + ROWS] for at in range(0, len(keys), ROWS))


def _by_size(rows: Iterable[PinRow]) -> Iterator[list[PinRow]]:
    some: list[PinRow] = []
    held = 0
    for one in rows:
        if some and (len(some) >= ROWS or held + len(one.content) > BYTES):
            yield some
            some, held = [], 0
        some.append(one)
        held += len(one.content)
    if some:
        yield some
