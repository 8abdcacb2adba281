"""Many processes at one store, some of which die: `python -m tests.storage.race JOB URL`, told by its exit code."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[reportMissingTypeStubs] # noqa: F401 - once, before the children are made

from trunkline.storage.engine import Engine, Row, Session, Value
from trunkline.storage.people import User, add_user, find_user
from trunkline.storage.schema import NEWEST, STEPS, migrate, version_of
from trunkline.storage.store import Place, Store, open_store, place_of, reach

PROCESSES = 8
ROUNDS = 20


class Dying:
    """An engine whose process is killed in the middle of its n-th statement."""

    def __init__(self, engine: Engine, after: int) -> None:
        self._engine, self._left = engine, after
        self.types = engine.types

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self._engine.fetch(sql, *values)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        async with self._engine.transaction() as session:
            yield _DyingSession(session, self._count)

    async def close(self) -> None:
        await self._engine.close()

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _DyingSession:
    def __init__(self, session: Session, count: Callable[[], None]) -> None:
        self._session, self._count = session, count

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        rows = await self._session.fetch(sql, *values)
        self._count()
        return rows


async def forget(place: Place) -> None:
    """Make a store as it was before anybody used it."""
    if place.file is not None:
        for path in place.file.parent.glob(place.file.name + "*"):
            path.unlink()
        return
    engine = await reach(place)
    await engine.fetch("DROP SCHEMA public CASCADE")
    await engine.fetch("CREATE SCHEMA public")
    await engine.close()


async def age(place: Place) -> None:
    """Make a store of the oldest schema."""
    await forget(place)
    engine = await reach(place)
    await migrate(engine, STEPS[:1])
    await Store(engine, place).setting("from", b"before")
    await engine.close()


def start_together(place: Place) -> None:
    """Eight processes open one store at once, again and again; all see the newest schema."""
    for number in range(ROUNDS):
        in_child(lambda old=number % 2: (age if old else forget)(place))
        children = [forked(lambda: opened(place)) for _ in range(PROCESSES)]
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * PROCESSES
        in_child(lambda old=number % 2: is_from(place, b"before" if old else b"now"))


async def is_from(place: Place, expected: bytes) -> None:
    async with open_store(place) as store:
        assert await store.setting("from", b"now") == expected


async def opened(place: Place) -> None:
    async with open_store(place) as store:
        rows = await store.fetch("SELECT version FROM schema_version ORDER BY version")
        assert [row[0] for row in rows] == list(range(1, NEWEST + 1))


def die_while_migrating(place: Place) -> None:
    """A migrator is killed at each of its statements; what is left is the old schema or the new."""
    for number in range(ROUNDS):
        in_child(lambda old=number % 2: (age if old else forget)(place))
        child = forked(lambda number=number: migrated(place, number))
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        in_child(lambda old=number % 2, killed=killed: is_whole(place, (old, NEWEST) if killed else (NEWEST,)))
        in_child(lambda: opened(place))


async def is_whole(place: Place, versions: tuple[int, ...]) -> None:
    engine = await reach(place)
    assert (await version_of(engine) if await has_versions(engine) else 0) in versions
    await engine.close()


async def has_versions(engine: Engine) -> bool:
    tables = "sqlite_master" if engine.types["bytes"] == "BLOB" else "pg_tables"
    name = "name" if tables == "sqlite_master" else "tablename"
    return bool(await engine.fetch(f"SELECT 1 FROM {tables} WHERE {name} = 'schema_version'"))


async def migrated(place: Place, after: int) -> None:
    await migrate(Dying(await reach(place), after))


def die_while_writing(place: Place) -> None:
    """A writer is killed at some moment of its writes, sixty times; what it acknowledged is there."""
    moment = random.Random(7)
    for number in range(60):
        reading, writing = os.pipe()
        child = forked(lambda number=number, to=writing: write(place, number, to))
        os.close(writing)
        acknowledged, until = 0, moment.randrange(1, 40)
        with open(reading, "rb", buffering=0) as told:
            while told.read(1):
                acknowledged += 1
                if acknowledged == until:
                    os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert acknowledged >= until
        in_child(lambda number=number, acknowledged=acknowledged: is_kept(place, number, acknowledged))


async def is_kept(place: Place, number: int, acknowledged: int) -> None:
    async with open_store(place) as store:
        [row] = await store.fetch("SELECT COUNT(*) FROM users WHERE name LIKE ?", f"{number}-%")
        assert acknowledged <= row[0] <= acknowledged + 1
        assert await find_user(store, f"{number}-{acknowledged - 1}") is not None


async def write(place: Place, number: int, to: int) -> None:
    async with open_store(place) as store:
        for count in range(40):
            assert await add_user(store, User(f"{number}-{count}")) is not None
            os.write(to, b".")


def forked(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run something in a child; its exit status says whether it went well. The parent has no thread and no loop."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        asyncio.run(work())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def in_child(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something in a child, and wait for it."""
    assert os.waitpid(forked(work), 0)[1] == 0


JOBS = {job.__name__: job for job in (start_together, die_while_migrating, die_while_writing)}

if __name__ == "__main__":
    JOBS[sys.argv[1]](place_of(sys.argv[2], Path()))
