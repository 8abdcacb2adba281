"""The store: what outlives the process and belongs to somebody, in SQLite or PostgreSQL."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from trunkline.errors import ConfigError, StoreError
from trunkline.storage.engine import Engine, Row, Session, Value
from trunkline.storage.files import STORE, write_private
from trunkline.storage.postgres import open_postgres
from trunkline.storage.schema import migrate
from trunkline.storage.sqlite import SqliteEngine, open_sqlite
from trunkline.workers import in_thread

KEPT_CHANGES = 10_000
"""News that are kept; whoever missed more forgets all that it knew."""


@dataclass(frozen=True)
class Place:
    """Where a store is."""

    url: str
    file: Path | None
    """The file, where it is embedded."""

    @property
    def shown(self) -> str:
        """The place for people: never with a password."""
        if self.file is not None:
            return str(self.file)
        parts = urlsplit(self.url)
        return f"postgresql://{parts.hostname or 'localhost'}{f':{parts.port}' if parts.port else ''}{parts.path}"

    @property
    def exists(self) -> bool:
        """Whether something may be there: a server is not asked, and an empty file is nothing."""
        try:
            return self.file is None or self.file.stat().st_size > 0
        except OSError:
            return False


def place_of(url: str, home: Path) -> Place:
    """Where an address leads; without one, into a file in the home folder."""
    if not url:
        return Place("", home / STORE)
    if url.startswith("sqlite:///"):
        return Place(url, Path(url.removeprefix("sqlite:///")).expanduser())
    if re.match(r"postgres(ql)?://", url):
        return Place(url, None)
    scheme = url.partition(":")[0] if re.match(r"[a-z+]+:", url) else "no scheme"
    raise ConfigError(
        f"The store's `url` has {scheme}, which is no database that we know.",
        hint="Write `sqlite:///path/of/a/file` or `postgresql://user@host/database`.",
    )


@dataclass(frozen=True)
class Change:
    """One thing that somebody changed."""

    revision: int
    noun: str
    """`user`, `key`, `server`, `thread`, `credential`, `session` or `pin`."""
    owner: str
    name: str
    own: bool = False
    """Whether it was made through this very store: whoever made it knows."""


class Store:
    """An open store. Its statements are the named queries of the modules beside this one."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine, self.place = engine, place
        self._own: set[int] = set()

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run a statement that changes nothing others must hear of."""
        return await self._engine.fetch(sql, *values)

    @asynccontextmanager
    async def changing(self, noun: str, owner: str, name: str) -> AsyncGenerator[Session]:
        """Statements that are one change, and the news of it."""
        revision, made = 0, False
        try:
            async with self._engine.transaction() as session:
                yield session
                revision = await note(session, noun, owner, name)
                self._own.add(revision)  # before others see it, and so before we read it
            made = True
        finally:
            if not made:
                self._own.discard(revision)

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """Statements that are one change, which nobody else needs to hear of."""
        return self._engine.transaction()

    async def revision(self) -> int:
        """The number of the newest change."""
        [row] = await self._engine.fetch("SELECT MAX(revision) FROM changes")
        return int(row[0] or 0)

    async def changes(self, since: int) -> list[Change] | None:
        """What was changed after a revision; `None` when that is no longer known."""
        rows = await self._engine.fetch(
            "SELECT revision, noun, owner, name FROM changes WHERE revision >= ? ORDER BY revision", since
        )
        if since and (not rows or rows[0][0] != since):
            return None
        found = [Change(*row, own=row[0] in self._own) for row in rows if row[0] > since]
        self._own -= {change.revision for change in found}
        return found

    async def setting(self, name: str, first: bytes) -> bytes:
        """A value that whoever comes first sets, once for all."""
        insert = "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
        await self._engine.fetch(insert, name, first)
        [row] = await self._engine.fetch("SELECT value FROM settings WHERE name = ?", name)
        return bytes(row[0])

    async def backup(self, target: Path) -> None:
        """Copy an embedded store as it is at one moment; `FileExistsError` when something is there."""
        if not isinstance(self._engine, SqliteEngine):
            raise StoreError(
                "A PostgreSQL store is backed up by its own tools.", hint="Use pg_dump, or `trunkline store export`."
            )
        await in_thread(lambda: write_private(target, b""))
        await self._engine.backup(target)

    async def close(self) -> None:
        """Let go of it."""
        await self._engine.close()


async def note(session: Session, noun: str, owner: str, name: str) -> int:
    """Tell everyone that has the store open what was changed, and forget old news; the number of the change."""
    [row] = await session.fetch(
        "INSERT INTO changes (noun, owner, name) VALUES (?, ?, ?) RETURNING revision", noun, owner, name
    )
    if row[0] % 100 == 0:
        await session.fetch("DELETE FROM changes WHERE revision <= ?", row[0] - KEPT_CHANGES)
    return int(row[0])


def now() -> int:
    """The time as the store keeps it: whole milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def open_store(place: Place) -> AsyncGenerator[Store]:
    """A store for the body, brought to the newest schema."""
    engine = await reach(place)
    try:
        await migrate(engine)
        yield Store(engine, place)
    finally:
        await engine.close()


async def reach(place: Place) -> Engine:
    """The database itself, whatever its schema."""
    if place.file is not None:
        return await open_sqlite(place.file)
    return await open_postgres(place.url, place.shown)
