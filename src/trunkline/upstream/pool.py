"""The live connections: one for each server and identity, made when needed, replaced when lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from trunkline.balance.health import PATIENCE, SHORT_LIFE, Backoff
from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError, BusyError, UnreachableError, UpstreamError
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Answer, Caller
from trunkline.tasks import Tasks, drop_outcome, in_slices, open_tasks
from trunkline.upstream.authorization import Authorize, nobodys
from trunkline.upstream.connection import Connection, ConnectionEvents, NotModernError, nobody_asked
from trunkline.upstream.connection_key import ConnectionKey, ConnectionKeys
from trunkline.upstream.dial import Dialer
from trunkline.upstream.exchange import FOREVER
from trunkline.upstream.leases import Leases
from trunkline.upstream.process import Warden, open_warden
from trunkline.upstream.quota import NO_LIMIT, Quota, QuotaEvents

SWEEP = 1.0
TASKS_IDLE = 3600.0
TASKS_SPARE = 60.0
"""Seconds after which nobody seems to care about a connection's tasks, when another needs its place."""


@dataclass(frozen=True)
class PoolEvents:
    """Whom the pool tells what belongs to no call."""

    hear: Callable[[ConnectionKey, str, bytes], None] = lambda key, method, params: None
    woke: Callable[[ConnectionKey], None] = lambda _: None
    """A connection was opened, or ended by itself."""
    ask_session: Callable[[str, str, bytes], asyncio.Future[Answer]] = nobody_asked
    """Passes a question that belongs to no call to the caller whose session the connection is."""
    downloading: Callable[[ConnectionKey], None] = lambda _: None
    """A server has to be downloaded before it starts."""
    idle: Callable[[], float] = lambda: FOREVER
    """Seconds after which a modern caller's own connection is idle, where its server does not say."""
    disowned: Callable[[ConnectionKey], None] = lambda key: None
    """A connection that was somebody's own is gone."""
    quota: QuotaEvents = NO_LIMIT
    started: Callable[[str, int], None] = lambda server, pid: None
    """A process of a server was started."""


@dataclass(slots=True)
class _Held:
    connection: Connection
    since: float
    idle: float = FOREVER
    """Seconds without a call after which it is closed."""


class Pool:
    """Hands out connections, and knows which servers must not be tried yet."""

    def __init__(self, tasks: Tasks, warden: Warden, events: PoolEvents, authorize: Authorize = nobodys) -> None:
        self._tasks, self._events, self._authorize = tasks, events, authorize
        self._dialer, self.warden = Dialer(tasks, warden, authorize), warden
        warden.started = events.started
        self._held: dict[ConnectionKey, _Held] = {}
        self._of_server: dict[str, set[ConnectionKey]] = {}
        """The keys of those, by server."""
        self._opening: dict[ConnectionKey, asyncio.Task[Connection]] = {}
        self._gates: dict[str, Backoff] = {}
        self._keys = ConnectionKeys(authorize, lambda spec: spec.fingerprint in self._dialer.old)
        self._passing: dict[Connection, ConnectionKey] = {}
        self._leases = Leases(self._open_lease, self._disown, tasks)
        self._owned: dict[str, set[ConnectionKey]] = {}
        """The connections that are somebody's own, by their owner."""
        self._quota = Quota(events.quota, self._spare)

    def __len__(self) -> int:
        return len(self._held)

    def ready(self, key: ConnectionKey) -> Connection | None:
        """The live connection of a key, if there is one."""
        held = self._held.get(key)
        return held.connection if held is not None and held.connection.alive else None

    def at_hand(self, spec: ServerSpec, scope: Scope, caller: Caller, *, tasks: bool = False) -> Connection | None:
        """The connection that `take` would give, where it is there already and no lease."""
        key = self._keys.of(spec, scope, caller, tasks=tasks)
        if key.purpose == "lease" or (spec.lifecycle == "transient" and spec.kind == "stdio"):
            return None
        held = self._held.get(key)
        return held.connection if held is not None and held.connection.alive else None

    async def take(self, spec: ServerSpec, scope: Scope, caller: Caller, *, tasks: bool = False) -> Connection:
        """A connection for one call: the shared one, or a fresh process for a `transient` server."""
        key = self._keys.of(spec, scope, caller, tasks=tasks)
        if key.era == "auto":
            await self.open(spec, key)
            key = self._keys.of(spec, scope, caller, tasks=tasks)
        transient = spec.lifecycle == "transient" and spec.kind == "stdio"
        if key.purpose == "lease" and not transient:
            return await self._leases.take(spec, key, self._idle(spec))
        connection = None if transient else self.ready(key)
        if connection is not None:
            return connection
        if key.purpose == "tasks":
            await self._room_for_tasks(spec, key)
        try:
            if not transient:
                return await self.open(spec, key)
            connection = await self._connect(spec, key)
            self._passing[connection] = key
            return connection
        except UnreachableError:
            if key.era == "legacy" and self._keys.is_modern(key) and not caller.modern:
                # A modern-only server; remembered, so that only the first legacy caller pays for finding out.
                self._keys.learn_modern_only(key)
                return await self.take(spec, scope, caller, tasks=tasks)
            raise

    async def glance(self, spec: ServerSpec, caller: Caller) -> Connection:
        """A connection beside all others, to see what such a caller sees; whoever looks closes it."""
        return await self._reach(spec, self._keys.of(spec, EVERYONE, caller))

    def give_back(self, connection: Connection, *, clean: bool) -> None:
        """A call ended. A `transient` process ends with it; a leased one serves on, if the call ended cleanly."""
        if self._passing and self._passing.pop(connection, None) is not None:
            self._tasks.start(connection.close(), name="end of a transient process")
        self._leases.give_back(connection, clean=clean)
        if self._quota.waiting:
            self._quota.freed()

    async def own(self, spec: ServerSpec, scope: Scope, caller: Caller) -> tuple[ConnectionKey, Connection] | None:
        """The connection that is this caller's alone, opened if need be; `None` where it shares one."""
        key = self._keys.of(spec, scope, caller)
        if key.era == "auto":
            await self.open(spec, key)
            key = self._keys.of(spec, scope, caller)
        if key.purpose == "shared" or (spec.lifecycle == "transient" and spec.kind == "stdio"):
            return None
        if key.purpose == "lease":
            return key, await self._leases.own(spec, key, self._idle(spec))
        return key, self.ready(key) or await self.open(spec, key)

    def owned(self, owner: str) -> list[tuple[ConnectionKey, Connection]]:
        """The live connections that are somebody's own."""
        keys = self._owned.get(owner, ())
        found = ((key, self._leases.first(key) if key.purpose == "lease" else self.ready(key)) for key in list(keys))
        return [(key, connection) for key, connection in found if connection is not None]

    def pin(self, key: ConnectionKey) -> None:
        """Somebody hears of changes on a connection of its own: it is not idle until it is unpinned."""
        self._leases.pinned[key] += 1

    def unpin(self, key: ConnectionKey) -> None:
        """Nobody hears of changes on it any more."""
        self._leases.pinned[key] -= 1
        if self._leases.pinned[key] <= 0:
            del self._leases.pinned[key]

    def _idle(self, spec: ServerSpec) -> float:
        return spec.idle_timeout or self._events.idle()

    async def _open_lease(self, spec: ServerSpec, key: ConnectionKey) -> Connection:
        connection = await self._connect(spec, key)
        self._owned.setdefault(key.owner, set()).add(key)
        self._events.woke(key)
        return connection

    def _disown(self, key: ConnectionKey) -> None:
        keys = self._owned.get(key.owner, set())
        keys.discard(key)
        if not keys:
            self._owned.pop(key.owner, None)
        if key.owner:
            self._events.disowned(key)

    async def _room_for_tasks(self, spec: ServerSpec, key: ConnectionKey) -> None:
        """Refuse to open connections for tasks without end; one that was not used for long makes room."""
        mine = [
            one for one in (*self._held, *self._opening)
            if one.purpose == "tasks" and (one.server, one.app, one.user) == (spec.name, key.app, key.user)
        ]  # fmt: skip
        if len(mine) < spec.processes:
            return
        idle = self._idle_tasks(mine, TASKS_SPARE)
        if not idle:
            raise BusyError(
                f"User {key.user!r} already has {spec.processes} connections with tasks to server {spec.name!r}.",
                hint="Try again later, or raise its `processes`.",
            )
        await self._close(idle[:1])

    def _idle_tasks(self, among: Iterable[ConnectionKey], seconds: float) -> list[ConnectionKey]:
        """Lines of tasks that nobody asked for, for so long; the longest first."""
        oldest = time.monotonic() - seconds
        lines = [(key, self._held[key].connection) for key in among if key.purpose == "tasks" and key in self._held]
        idle = [(line.last_used, key) for key, line in lines if not line.busy and line.last_used < oldest]
        return [key for _, key in sorted(idle, key=lambda one: one[0])]

    async def open(self, spec: ServerSpec, key: ConnectionKey | None = None) -> Connection:
        """Connect a key, once for all who ask meanwhile."""
        key = self._keys.settled(key or ConnectionKey(spec.name, spec.fingerprint))
        held = self.ready(key)
        if held is not None:
            return held
        opening = self._opening.get(key)
        if opening is None:
            opening = self._tasks.start(self._open(spec, key), name=f"connect {spec.name}")
            # Whoever waits gets the error; when nobody does, it is in the gate's record, and not news.
            opening.add_done_callback(drop_outcome)
            self._opening[key] = opening
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise UnreachableError(f"Server {spec.name!r} was removed.") from None
            raise

    def hear(self, spec: ServerSpec, method: str, params: bytes, *, user: str = "") -> None:
        """Pass on what a server said to nobody in particular, or to a user's own credential."""
        self._events.hear(ConnectionKey(spec.name, spec.fingerprint, user=user), method, params)

    async def is_withheld(self, spec: ServerSpec) -> bool:
        """Whether what was listed with the credential at hand is not for everybody to see."""
        credential = self._authorize(spec, "")
        return credential is not None and await credential.is_withheld()

    def gate(self, server: str) -> Backoff:
        """The server's record of failures."""
        found = self._gates.get(server)
        if found is None:
            found = self._gates[server] = Backoff()
        return found

    def lost(self, key: ConnectionKey, connection: Connection, reason: str) -> None:
        """Note that a connection died; one that lived briefly keeps the gate shut for a while."""
        held = self._held.get(key)
        if held is not None and held.connection is connection:
            self._let_go(key)
            self._disown(key)
            if time.monotonic() - held.since < SHORT_LIFE:
                self.gate(key.server).failed(time.monotonic(), reason, random.random())  # noqa: S311 - jitter
            else:
                self.gate(key.server).lasted()

    def connections(self, server: str) -> list[Connection]:
        """The live connections to a server."""
        held = [self._held[key].connection for key in self._of_server.get(server, ())]
        return [connection for connection in held if connection.alive]

    async def close_idle(self, server: str, idle: float) -> bool:
        """Close a server's connections that nobody used for so long; whether none is left."""
        now = time.monotonic()
        mine = [(key, self._held[key].connection) for key in self._of_server.get(server, ())]
        pinned = self._leases.pinned
        await self._close([key for key, c in mine if not c.busy and now - c.last_used >= idle and key not in pinned])
        return server not in self._of_server

    async def remove(self, server: str) -> None:
        """Close everything that belongs to a server."""
        self._gates.pop(server, None)
        self._leases.remove(server)
        await self._close(list(self._of_server.get(server, ())))

    async def end_credential(self, server: str, user: str) -> None:
        """A credential is another: connections that were made with it, or for want of it, are made anew."""
        self._leases.remove(server, user)
        await self._close([key for key in self._of_server.get(server, ()) if key.user == user])

    def of_session(self, session: str) -> list[Connection]:
        """The live connections that belong to one caller's session."""
        return [held.connection for key, held in self._held.items() if key.session == session]

    async def end_session(self, session: str) -> None:
        """A caller's session ended, and with it the connections that were its own."""
        await self._close([key for key in self._held if key.session == session])

    async def end_user(self, user: str) -> None:
        """Close the connections that were a user's own, with what servers know of the user there."""
        self._leases.remove_user(user)
        await self._close([key for key in (*self._held, *self._opening) if key.user == user])

    async def close(self) -> None:
        """Close everything."""
        await self._close(list(self._held))
        await self._leases.close()
        for connection in self._passing:
            await connection.close()
        self._dialer.close()

    async def sweep(self) -> None:
        """Forget dead connections."""
        while True:
            await asyncio.sleep(SWEEP)
            idle: list[ConnectionKey] = []
            await in_slices(self._look_over(list(self._held.items()), idle))  # there may be very many
            self._leases.sweep(time.monotonic())
            idle = [key for key in idle if key in self._held and self._is_over(key, self._held[key])]
            await self._close([*idle, *self._idle_tasks(self._held, TASKS_IDLE)])
            self._quota.freed()

    def _look_over(self, held: Iterable[tuple[ConnectionKey, _Held]], idle: list[ConnectionKey]) -> Iterator[None]:
        """Forget those that are dead, and note those that were idle for too long, one at each step."""
        young = time.monotonic() - SHORT_LIFE
        for key, one in held:
            if not one.connection.alive:
                self.lost(key, one.connection, "The connection was lost.")
            elif one.since < young:
                self.gate(key.server).lasted()
            if one.idle != FOREVER and self._is_over(key, one):
                idle.append(key)
            yield

    def _is_over(self, key: ConnectionKey, held: _Held) -> bool:
        """Whether nobody used a connection for so long that it is closed."""
        used = held.connection.last_used
        return not held.connection.busy and time.monotonic() - used > held.idle and key not in self._leases.pinned

    def _let_go(self, key: ConnectionKey) -> _Held:
        """Hand a connection out no more."""
        keys = self._of_server[key.server]
        keys.discard(key)
        if not keys:
            del self._of_server[key.server]
        return self._held.pop(key)

    def _spare(self, mine: Mapping[Connection, ConnectionKey]) -> Connection | None:
        """Close the one of a user's connections that was idle for longest; nothing where each is needed."""
        idle = [one for one, key in mine.items() if self._is_idle(one, self._keys.settled(key))]
        found = min(idle, key=lambda one: one.last_used, default=None)
        if found is not None:
            key = self._keys.settled(mine[found])
            if not self._leases.let_go(found):
                self._let_go(key)
                self._disown(key)
                self._tasks.start(found.close(), name=f"{key.server} goes to sleep")
            self._events.quota.put_to_sleep(key)
        return found

    def _is_idle(self, connection: Connection, key: ConnectionKey) -> bool:
        if key.purpose == "lease":
            return self._leases.is_idle(connection)
        held, now = self._held.get(key), time.monotonic()
        if held is None or held.connection is not connection or connection.busy or key in self._leases.pinned:
            return False
        if key.purpose == "tasks":
            return connection.last_used < now - TASKS_SPARE
        if key.purpose == "shared":
            return not self._events.quota.in_use(key)
        return connection.last_used > held.since or now - held.since > SWEEP  # else it is about to be used

    async def _close(self, keys: list[ConnectionKey]) -> None:
        closing = [self._let_go(key).connection.close() for key in keys if key in self._held]
        for key in keys:
            self._disown(key)
        for key, opening in list(self._opening.items()):
            if key in keys:
                opening.cancel()
        await asyncio.gather(*closing, return_exceptions=True)

    async def _open(self, spec: ServerSpec, key: ConnectionKey) -> Connection:
        stale = self._held.get(key)
        if stale is not None and not stale.connection.alive:
            self.lost(key, stale.connection, "The connection was lost.")
        connection = await self._connect(spec, key)
        key = self._keys.settled(key)
        one_users = key.purpose == "caller" or (key.purpose == "shared" and key.user)
        idle = self._idle(spec) if one_users else FOREVER
        self._held[key] = _Held(connection, time.monotonic(), idle)
        self._of_server.setdefault(key.server, set()).add(key)
        if key.owner:
            self._owned.setdefault(key.owner, set()).add(key)
        self._events.woke(key)
        return connection

    async def _connect(self, spec: ServerSpec, key: ConnectionKey) -> Connection:
        return await self._quota.open(key, partial(self._reach, spec, key))

    async def _reach(self, spec: ServerSpec, key: ConnectionKey) -> Connection:
        gate = self.gate(spec.name)
        wait = gate.wait(time.monotonic())
        if spec.problem:
            raise UnreachableError(f"Server {spec.name!r} cannot be used: {spec.problem}")
        if wait > PATIENCE:
            raise UnreachableError(
                f"Server {spec.name!r} failed {gate.failures} times in a row, and is tried again in {wait:.0f} s.",
                hint=gate.reason,
            )
        if wait:
            await asyncio.sleep(wait)
        ask_owner = partial(self._events.ask_session, key.session) if key.purpose == "session" else None
        events = ConnectionEvents(
            partial(self._events.hear, key),
            lambda _: self._events.woke(key),
            ask_owner,
            key.capabilities != b"{}" and key.purpose != "tasks",
            key.capabilities,
            lambda: self._events.downloading(key),
        )
        try:
            connection = await self._dialer.dial(spec, events, key)
        except AuthorizationNeededError:
            raise
        except UpstreamError as error:
            if key.era == "legacy" and self._keys.is_modern(key):
                raise  # only asked whether it also speaks the older way
            if isinstance(error, NotModernError) and spec.era == "auto":
                self._keys.forget(key)  # it was replaced by another version: ask it anew
            gate.failed(time.monotonic(), str(error), random.random())  # noqa: S311 - jitter
            raise
        if key.era == "auto":
            self._keys.learn(key, modern=connection.introduction.modern)
        gate.connected()
        return connection


@asynccontextmanager
async def open_pool(events: PoolEvents, authorize: Authorize = nobodys) -> AsyncGenerator[Pool]:
    """A pool for the body; with it end all connections and all processes."""
    try:
        async with open_tasks() as tasks, open_warden() as warden:
            pool = Pool(tasks, warden, events, authorize)
            tasks.start(pool.sweep(), name="pool sweep")
            try:
                yield pool
            finally:
                await pool.close()
    finally:
        # Connections that were cut are closed in the loop's next turns; it may end right after us.
        for _ in range(3):
            await asyncio.sleep(0)
