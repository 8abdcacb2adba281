"""The embedded database: one file, one connection, used by one thread at a time and never by the loop."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from trunkline.errors import StoreError
from trunkline.storage.engine import Row, Session, Value
from trunkline.workers import in_thread

BUSY = 10.0
"""Seconds that a change waits for those of other processes."""


class SqliteEngine:
    """SQLite in its write-ahead mode: a change that was acknowledged is on the disk."""

    types = {"bytes": "BLOB", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"}

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._turn = asyncio.Lock()

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run a statement that stands for itself."""
        async with self._turn:
            return await self._run(sql, *values)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        """Statements that are one change."""
        async with self._turn:
            await self._run("BEGIN IMMEDIATE")
            try:
                yield _Running(self._run)
                await self._run("COMMIT")
            finally:
                if self._connection.in_transaction:
                    with suppress(StoreError):  # what ended it says more than that it could not be taken back
                        await self._run("ROLLBACK")

    async def close(self) -> None:
        """Close the file."""
        async with self._turn:
            await self._in_thread(self._connection.close)

    async def backup(self, target: Path) -> None:
        """Copy everything as it is at one moment into a file of its own, while others go on."""

        def copy() -> None:
            with sqlite3.connect(target) as copied:
                self._connection.backup(copied)
            copied.close()

        async with self._turn:
            await self._in_thread(copy)

    async def _run(self, sql: str, *values: Value) -> list[Row]:
        return await self._in_thread(lambda: self._connection.execute(sql, values).fetchall())

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        running = in_thread(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be stopped, and the connection is its own until it is done.
            await asyncio.wait((running,))
            if not running.cancelled():
                running.exception()
            raise
        except (sqlite3.Error, OSError) as error:
            raise _error_of(error, self._path) from error


class _Running:
    """The statements of one change."""

    def __init__(self, fetch: Callable[..., Any]) -> None:
        self.fetch = fetch


async def open_sqlite(path: Path) -> SqliteEngine:
    """Open a file, made if need be, that its owner alone can read."""

    def connect() -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        with ExitStack() as failed:
            failed.callback(connection.close)
            _write_ahead(connection)
            for setting in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON", "cache_size = -1024"):
                connection.execute(f"PRAGMA {setting}")
            failed.pop_all()
        return connection

    try:
        return SqliteEngine(await in_thread(connect), path)
    except (sqlite3.Error, OSError) as error:
        raise _error_of(error, path) from error


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set the mode; while another process does so, SQLite refuses at once instead of waiting, so we wait ourselves."""
    until = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _error_of(error: Exception, path: Path) -> StoreError:
    busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
    hint = "Another process holds it; try again." if busy else "See `trunkline store status`."
    return StoreError(f"The store in {path} cannot be used: {error}.", hint=hint)
