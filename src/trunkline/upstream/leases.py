"""Connections for one call at a time, for callers without a session; the first of each caller is its own, and stays."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from trunkline.config.server import ServerSpec
from trunkline.errors import BusyError, UnreachableError
from trunkline.tasks import Tasks
from trunkline.upstream.connection import Connection
from trunkline.upstream.connection_key import ConnectionKey

SPARE_IDLE = 30.0
"""Seconds for which a further connection of a caller is kept, that it needed for several calls at once."""


@dataclass(slots=True, eq=False)
class _Lease:
    key: ConnectionKey
    idle: float
    opening: asyncio.Task[Connection]
    taken: bool
    """A call is under way on it, or parked."""

    @property
    def connection(self) -> Connection | None:
        """What was opened, if it was."""
        done = self.opening.done() and not self.opening.cancelled() and self.opening.exception() is None
        return self.opening.result() if done else None


class Leases:
    """Every leased connection. What a caller did on its first one is still so at its next call."""

    def __init__(
        self,
        connect: Callable[[ServerSpec, ConnectionKey], Awaitable[Connection]],
        ended: Callable[[ConnectionKey], None],
        tasks: Tasks,
    ) -> None:
        self._connect, self._ended, self._tasks = connect, ended, tasks
        self._of: dict[ConnectionKey, list[_Lease]] = {}
        self._by_connection: dict[Connection, _Lease] = {}
        self.pinned: Counter[ConnectionKey] = Counter()
        """Callers that hear of changes on their own connection, which is therefore never idle."""

    def __iter__(self) -> Iterator[_Lease]:
        return iter([lease for leases in self._of.values() for lease in leases])

    def __len__(self) -> int:
        """How many are taken by calls."""
        return sum(lease.taken for lease in self)

    async def take(self, spec: ServerSpec, key: ConnectionKey, idle: float) -> Connection:
        """A connection for one call alone: the caller's own, or a further one while that is taken."""
        for lease in list(self._of.get(key, ())):
            if lease.connection is not None and not lease.connection.alive:
                self._end(lease)
        lease = next((one for one in self._of.get(key, ()) if not one.taken), None)
        if lease is None:
            lease = self._open(spec, key, idle)
        lease.taken = True
        try:
            return await self._opened(lease)
        except asyncio.CancelledError:
            lease.taken = False
            raise

    async def own(self, spec: ServerSpec, key: ConnectionKey, idle: float) -> Connection:
        """The caller's own connection, whether or not a call is under way on it."""
        found = self.first(key)
        if found is not None:
            return found
        leases = self._of.get(key)
        return await self._opened(leases[0] if leases else self._open(spec, key, idle))

    def first(self, key: ConnectionKey) -> Connection | None:
        """The caller's own connection, if it is there."""
        lease = next(iter(self._of.get(key, ())), None)
        found = lease.connection if lease is not None else None
        if lease is not None and found is not None and not found.alive:
            self._end(lease)
            return None
        return found

    def give_back(self, connection: Connection, *, clean: bool) -> None:
        """A call ended: if it ended cleanly, the connection serves on."""
        lease = self._by_connection.get(connection)
        if lease is None:
            return
        if clean and connection.alive:
            lease.taken = False
        else:
            # A server may still ask on behalf of a call that nobody waits for: nobody else must hear that.
            self._end(lease)

    def is_idle(self, connection: Connection) -> bool:
        """Whether no call has it, and nobody listens there."""
        lease = self._by_connection.get(connection)
        return lease is not None and self._until(lease) != float("inf")

    def let_go(self, connection: Connection) -> bool:
        """End one; false when it is not leased."""
        lease = self._by_connection.get(connection)
        if lease is not None:
            self._end(lease)
        return lease is not None

    def of(self, server: str) -> list[Connection]:
        """The live ones to a server."""
        found = [lease.connection for lease in self if lease.key.server == server]
        return [connection for connection in found if connection is not None and connection.alive]

    def remove(self, server: str, user: str | None = None) -> None:
        """End those of a server, or of one user there."""
        for lease in self:
            if lease.key.server == server and user in (None, lease.key.user):
                self._end(lease)

    def remove_user(self, user: str) -> None:
        """End those of a user."""
        for lease in self:
            if lease.key.user == user:
                self._end(lease)

    def sweep(self, now: float) -> None:
        """End what is dead, and what nobody used for as long as it is kept."""
        for lease in self:
            if lease.connection is not None and (not lease.connection.alive or now >= self._until(lease)):
                self._end(lease)

    async def close(self) -> None:
        """End all."""
        for lease in self:
            self._forget(lease)
            if lease.connection is not None:
                await lease.connection.close()

    def _until(self, lease: _Lease) -> float:
        """When it has been idle long enough."""
        if lease.taken or lease.connection is None:
            return float("inf")
        own = self._of[lease.key][0] is lease
        if own and self.pinned[lease.key]:
            return float("inf")
        return lease.connection.last_used + (lease.idle if own else SPARE_IDLE)

    def _open(self, spec: ServerSpec, key: ConnectionKey, idle: float) -> _Lease:
        mine = [lease for lease in self if _same_user(lease.key, key)]
        if len(mine) >= spec.processes:
            spare = min(mine, key=self._until)
            if self._until(spare) == float("inf"):
                whose = f"User {key.user!r}" if key.user else "Whoever calls without a user's token"
                raise BusyError(
                    f"{whose} already has {spec.processes} connections to server {spec.name!r} "
                    "for calls that may ask something.",
                    hint="Answer open questions, try again later, or raise the server's `processes`.",
                )
            self._end(spare)
        opening = self._tasks.start(self._connected(spec, key), name=f"connect {spec.name}")
        lease = _Lease(key, idle, opening, taken=False)
        self._of.setdefault(key, []).append(lease)
        opening.add_done_callback(lambda _: self._done(lease))
        return lease

    async def _connected(self, spec: ServerSpec, key: ConnectionKey) -> Connection:
        connection = await self._connect(spec, key)
        connection.last_used = time.monotonic()
        return connection

    def _done(self, lease: _Lease) -> None:
        if lease.connection is None:
            self._forget(lease)
        elif lease in self._of.get(lease.key, ()):
            self._by_connection[lease.connection] = lease
        else:  # it was ended while it was being opened
            self._tasks.start(lease.connection.close(), name="end of a lease")

    async def _opened(self, lease: _Lease) -> Connection:
        try:
            return await asyncio.shield(lease.opening)
        except asyncio.CancelledError:
            if lease.opening.cancelled():
                raise UnreachableError(f"Server {lease.key.server!r} was removed.") from None
            raise

    def _end(self, lease: _Lease) -> None:
        self._forget(lease)
        if lease.connection is not None:
            self._tasks.start(lease.connection.close(), name="end of a lease")
        else:
            lease.opening.cancel()

    def _forget(self, lease: _Lease) -> None:
        leases = self._of.get(lease.key, [])
        if lease in leases:
            leases.remove(lease)
        if not leases and self._of.pop(lease.key, None) is not None:
            self._ended(lease.key)
        if lease.connection is not None:
            self._by_connection.pop(lease.connection, None)


def _same_user(one: ConnectionKey, other: ConnectionKey) -> bool:
    return (one.server, one.app, one.user) == (other.server, other.app, other.user)
