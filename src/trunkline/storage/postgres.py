"""The shared database: PostgreSQL through asyncpg, which is imported only here."""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from trunkline.errors import ConfigError, StoreError
from trunkline.storage.engine import Row, Session, Value

CONNECT = 5.0
"""Seconds to reach it."""
STATEMENT = 10.0
"""Seconds that a statement may take, waiting for other changes included."""
MOST = 4
"""Connections of one process; a call that is warm needs none."""
LOCK = 0x7472756E6B
"""The lock that changes take, so that they become visible in the order of their numbers."""


class PostgresEngine:
    """PostgreSQL, over a few connections that are opened when needed and opened again when they break."""

    types = {"bytes": "BYTEA", "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}

    def __init__(self, pool: Any, foreign: tuple[type[Exception], ...], where: str) -> None:
        self._pool, self._foreign, self._where = pool, foreign, where

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run a statement that stands for itself."""
        try:
            # What it was asked while the database went away is asked once more: a statement of its own can be.
            for last in (False, True):
                try:
                    async with self._pool.acquire(timeout=CONNECT) as connection:
                        return await _fetch(connection, sql, *values)
                except (ConnectionError, self._foreign[0]):
                    if last or not sql.lstrip().upper().startswith("SELECT"):
                        raise
        except self._foreign as error:
            raise self._error_of(error) from error
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        """Statements that are one change."""
        try:
            async with self._pool.acquire(timeout=CONNECT) as connection, connection.transaction():
                await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
                yield _Running(connection, self)
        except self._foreign as error:
            raise self._error_of(error) from error

    async def close(self) -> None:
        """Close the connections; those that are stuck are cut off."""
        try:
            await asyncio.wait_for(self._pool.close(), CONNECT)
        except (TimeoutError, *self._foreign):
            self._pool.terminate()

    def _error_of(self, error: Exception) -> StoreError:
        what = str(error) or ("it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
        return StoreError(f"The store at {self._where} cannot be used: {what.rstrip('.')}.", hint="Is it running?")


class _Running:
    """The statements of one change."""

    def __init__(self, connection: Any, engine: PostgresEngine) -> None:
        self._connection, self._engine = connection, engine

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one of them."""
        return await _fetch(self._connection, sql, *values)


async def open_postgres(url: str, where: str) -> PostgresEngine:
    """Reach a database; `where` is its address without secrets."""
    try:
        import asyncpg  # type: ignore[reportMissingTypeStubs] - it has none
    except ImportError:
        hint = "Install `trunkline[postgres]`."
        raise ConfigError("PostgreSQL wants the package asyncpg.", hint=hint) from None
    lost = asyncpg.InterfaceError  # type: ignore[reportUnknownMemberType]
    foreign: tuple[type[Exception], ...] = (lost, asyncpg.PostgresError, OSError, TimeoutError)  # type: ignore[reportUnknownMemberType]
    try:
        pool: Any = await asyncpg.create_pool(  # type: ignore[reportUnknownMemberType]
            url,
            min_size=0,
            max_size=MOST,
            timeout=CONNECT,
            command_timeout=STATEMENT,
            max_inactive_connection_lifetime=60,
            statement_cache_size=0,  # a pooler in between may hand our statements to another connection
        )
        engine = PostgresEngine(pool, foreign, where)
        await engine.fetch("SELECT 1")
    except ValueError as error:
        raise ConfigError(f"The address of the store is not one: {error}.") from error
    except foreign as error:
        raise StoreError(f"The store at {where} cannot be reached: {error}.", hint="Is it running?") from error
    return engine


async def _fetch(connection: Any, sql: str, *values: Value) -> list[Row]:
    return [tuple(row) for row in await connection.fetch(_numbered(sql), *values)]


@functools.lru_cache(256)
def _numbered(sql: str) -> str:
    numbers = itertools.count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", sql)
