"""How many connections each user may have: for one more, the one that was idle for longest is closed, or waited for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from trunkline.errors import LimitReachedError
from trunkline.identity import owner_of
from trunkline.upstream.connection import Connection
from trunkline.upstream.connection_key import ConnectionKey

PATIENCE = 10.0
"""Seconds that a call waits until one of its user's connections is idle."""


@dataclass(frozen=True)
class QuotaEvents:
    """Who says how many there may be, and hears when there are no more."""

    most: Callable[[str], int] = lambda user: 0
    """Connections that a user may have; 0 sets no limit."""
    reached: Callable[[str], None] = lambda user: None
    """A user needs one more, and has all they may have in use."""
    in_use: Callable[[ConnectionKey], bool] = lambda key: False
    """Whether somebody follows what the server says there, or learns what it offers."""
    put_to_sleep: Callable[[ConnectionKey], None] = lambda key: None
    """A connection was closed, and is opened again by the next call."""


NO_LIMIT = QuotaEvents()


class Quota:
    """Counts every connection that belongs to somebody: at servers of their own, and those they have to themselves."""

    def __init__(
        self, events: QuotaEvents, spare: Callable[[Mapping[Connection, ConnectionKey]], Connection | None]
    ) -> None:
        self._events, self._spare = events, spare
        self._open: dict[str, dict[Connection, ConnectionKey]] = {}
        self._opening: Counter[str] = Counter()
        self._freed = asyncio.Event()
        self.waiting = 0
        """Calls that wait for a connection to be idle."""

    def count(self, user: str) -> int:
        """How many a user has, or is about to have."""
        held = {connection: key for connection, key in self._open.get(user, {}).items() if connection.alive}
        if held:
            self._open[user] = held
        else:
            self._open.pop(user, None)
        return len(held) + self._opening[user]

    async def open(self, key: ConnectionKey, connect: Callable[[], Awaitable[Connection]]) -> Connection:
        """Open one more, once there is room for it; `LimitReachedError` when there is none for long."""
        user = key.user or owner_of(key.server)
        if not user:
            return await connect()
        await self._room(user)
        self._opening[user] += 1
        try:
            connection = await connect()
            self._open.setdefault(user, {})[connection] = key
            return connection
        finally:
            self._opening -= Counter((user,))
            self.freed()

    def freed(self) -> None:
        """Some connection may be idle now, or gone."""
        if self.waiting:
            freed, self._freed = self._freed, asyncio.Event()
            freed.set()

    async def _room(self, user: str) -> None:
        until = time.monotonic() + PATIENCE
        while 0 < (most := self._events.most(user)) <= self.count(user):
            spared = self._spare(self._open.get(user, {}))
            if spared is not None:
                del self._open[user][spared]
                continue
            self.waiting += 1
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._freed.wait()
            except TimeoutError:
                self._events.reached(user)
                raise LimitReachedError(
                    f"The limit is reached: {most} connections for you, and all of them are in use.",
                    retry_after=1,
                    hint="Wait until a call ends, or ask an admin for more.",
                ) from None
            finally:
                self.waiting -= 1
