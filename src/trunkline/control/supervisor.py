"""Looks after one server: starts it, learns what it offers, notices what happens to it, starts it again."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Mapping

from trunkline.balance.health import WELL, Health, next_health
from trunkline.config.server import ServerSpec
from trunkline.control.item import name_of
from trunkline.control.list_store import IN_ADVANCE, ListStore
from trunkline.control.listing import discover, subscribe_filter
from trunkline.control.registry import Registry
from trunkline.control.subscription import Subscription
from trunkline.errors import AuthorizationNeededError, TrunklineError, UnreachableError, UpstreamError
from trunkline.model import DOWNLOADING, Caller, Kind, Listing, ServerView, State
from trunkline.tasks import Tasks, in_slices
from trunkline.upstream.connection import Connection, discover_params
from trunkline.upstream.exchange import FOREVER, Exchange
from trunkline.upstream.pool import Pool

log = logging.getLogger("trunkline")

HEALTH_TIMEOUT = 5.0
AUTHORIZATION_AGAIN = 60.0
SHORTEST_REFRESH = 1.0
"""Seconds between two readings of a server's lists, however often it says that they changed."""

ASKABLE = Caller(capabilities=b'{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}}')
"""A caller that can be asked anything."""
FIRST_READ_AGAIN = 1.0
LONGEST_READ_AGAIN = 60.0

CHANGED = {
    "notifications/tools/list_changed": (Kind.TOOL,),
    "notifications/prompts/list_changed": (Kind.PROMPT,),
    "notifications/resources/list_changed": (Kind.RESOURCE, Kind.TEMPLATE),
}


class Supervisor:
    """The life of one server, from its first start to its removal."""

    def __init__(self, spec: ServerSpec, pool: Pool, registry: Registry, store: ListStore, tasks: Tasks) -> None:
        self.spec = spec
        self._pool, self._registry, self._store = pool, registry, store
        self._health: Health = WELL
        self._changed: set[Kind] = set()
        self._announced: set[Kind] = set()
        """Lists of which the server itself said that they changed: that is passed on, whatever is read."""
        self._wake = asyncio.Event()
        self.subscription = Subscription(spec, tasks, self._take, self._missed)
        self._refreshed = 0.0
        self._looked = False
        self._asleep = self._again = False
        self._occupied = True
        self._unread: set[Kind] = set()
        """Lists that could not be read, and are tried again at `_read_again`."""
        self._read_again = FOREVER
        self._read_wait = FIRST_READ_AGAIN
        self.unheard = False
        """Whether it tells of no changes, so that its lists are read again when they are stale."""
        self.last_words = ""
        """What it wrote to its standard error when it last failed to start."""
        self.first_try = asyncio.Event()
        """Set when the first attempt to reach the server ended, well or badly."""

    async def run(self) -> None:
        """Keep the server going until cancelled."""
        try:
            await self._registry.trust.load(self.spec.name)
            if await self._remember() and self.spec.defer_loading:
                self.first_try.set()
                await self._sleep_until_used()
            while True:
                wait = await self._connect_and_watch()
                await self._rest(wait)
        except Exception:
            name = self.spec.name
            log.exception("Server %s is no longer looked after", name, extra={"server": name})
            self._set(State.UNREACHABLE, "An error in Trunkline itself; see its log.")
        finally:
            self.first_try.set()
            self.subscription.end()

    def hear(self, method: str, params: bytes) -> None:
        """Take note of a notification that belongs to no call."""
        if method == "notifications/subscriptions/acknowledged":
            self.subscription.acknowledged(params)
        kinds = CHANGED.get(method)
        if kinds:
            self._changed.update(kinds)
            self._announced.update(kinds)
            self._wake.set()

    def look_again(self) -> None:
        """A connection to the server was opened by a call, or ended by itself."""
        self._wake.set()

    @property
    def in_use(self) -> bool:
        """Whether its connection is needed although no call is under way."""
        return self._occupied or self.subscription.is_wanted

    def try_again(self) -> None:
        """What kept it from being reached may be over."""
        self._again = True
        self._wake.set()

    def put_to_sleep(self) -> None:
        """Its connection was closed in favour of another of its user's; the next call opens it again."""
        self._asleep = True
        self._wake.set()

    def downloading(self) -> None:
        """It is not there yet, and will take longer than others to start."""
        view = self._registry.view(self.spec.name)
        if view is not None and view.state in (State.STARTING, State.UNREACHABLE):
            self._set(State.STARTING, DOWNLOADING)

    def report(self, error: UpstreamError | None) -> None:
        """A call came to its end: this is how health is seen without asking."""
        if error is None and self._health is WELL:
            return
        before = self._health
        self._health = next_health(before, str(error) if error else "")
        if before.sick != self._health.sick:
            self._show_health()
        if error is not None:
            self._wake.set()

    def refresh(self) -> None:
        """Read the lists again if the server's own hint says that they are stale."""
        view = self._registry.view(self.spec.name)
        if view is None or self.subscription.connection is None:
            return
        ttls = [listing.ttl for listing in view.lists.values()]
        if time.time() - view.known_since > max(min(ttls, default=0.0), SHORTEST_REFRESH):
            self._missed()

    # The life of the server.

    async def _remember(self) -> bool:
        """Show what it offered last, or what is said of it in advance; false when nothing is known."""
        known = await asyncio.to_thread(self._store.load, self.spec)
        if known is None or await self._pool.is_withheld(self.spec):
            return False
        introduction, lists, fetched = known
        reason = "Starting; what it offered last time is shown." if introduction is not None else IN_ADVANCE
        self._registry.update(
            self.spec.name, introduction=introduction, lists=lists, known_since=fetched, reason=reason
        )
        return True

    async def _connect_and_watch(self) -> float:
        """One connection's life; how long to rest after it."""
        self._again = False
        try:
            connection = await self._pool.open(self.spec)
            self.subscription.connection = connection
            said = connection.introduction
            self.unheard = said.modern and not subscribe_filter(dict(said.capabilities), [], [])
            await self._learn(connection)
        except AuthorizationNeededError as error:
            if await self._pool.is_withheld(self.spec):
                self._registry.update(self.spec.name, lists={})
            self._set(State.NEEDS_AUTHORIZATION, str(error))
            return AUTHORIZATION_AGAIN
        except TrunklineError as error:
            if isinstance(error, UnreachableError) and error.last_words:
                self.last_words = error.last_words
            gate = self._pool.gate(self.spec.name)
            wait = gate.wait(time.monotonic())
            often = f" It failed {gate.failures} times in a row." if gate.failures > 1 else ""
            self._set(State.UNREACHABLE, f"{gate.reason or error}{often}")
            return max(wait, 0.05)
        finally:
            self.first_try.set()
        if self.spec.lifecycle == "transient":
            await self._pool.remove(self.spec.name)
            self.subscription.connection = None
            return FOREVER
        await self._watch(connection)
        self.subscription.connection = None
        return 0.0

    async def _learn(self, connection: Connection) -> None:
        lists = await discover(connection, self.spec)
        self._refreshed = time.monotonic()
        self._health = WELL
        self._changed.clear()
        problems = [listing.problem for listing in lists.values() if listing.problem]
        self._note_unread(lists, set(lists))
        before = self._registry.view(self.spec.name)
        if before is not None:
            # A list that could not be read now is better shown as it was than not at all.
            for kind, listing in lists.items():
                if listing.problem and not listing.items and kind in before.lists:
                    lists[kind] = before.lists[kind]
                else:
                    lists[kind] = await _with_more(before, kind, listing)
        state = State.DEGRADED if problems else State.READY
        fetched = time.time()
        self._registry.update(
            self.spec.name,
            state=state,
            reason=" ".join(problems + _dropped(lists)),
            introduction=connection.introduction,
            lists=lists,
            known_since=fetched,
        )
        if not problems:
            await asyncio.to_thread(self._store.save, self.spec, connection.introduction, lists, fetched)
        self.subscription.renew()

    async def _watch(self, connection: Connection) -> None:
        """Until the connection ends: follow changed lists, and check health now and then."""
        await self.subscription.restore(HEALTH_TIMEOUT)
        await self._look_as_askable(connection)
        next_check = time.monotonic() + (self.spec.health_interval or FOREVER)
        while connection.alive:
            now = time.monotonic()
            due = [next_check - now, self._read_again - now, self.spec.idle_timeout / 4 or FOREVER]
            self._occupied = False
            await self._sleep(max(min(due), 0.0))
            self._occupied = True
            if not connection.alive:
                break
            if time.monotonic() >= self._read_again:
                self._changed |= self._unread
            if self._changed:
                await self._relearn(connection)
            if self.spec.idle_timeout and await self._pool.close_idle(self.spec.name, self.spec.idle_timeout):
                await self._sleep_until_used()
                return
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + self.spec.health_interval
                if not connection.busy:
                    await self._check(connection)
        if self._asleep:
            await self._sleep_until_used()
        elif self._registry.view(self.spec.name) is not None:
            self._set(State.DEGRADED, "It ended by itself, and is being started again.")

    async def _look_as_askable(self, connection: Connection) -> None:
        """Legacy servers may list more to callers that they can ask something: look once with such a caller's eyes."""
        view = self._registry.view(self.spec.name)
        if connection.introduction.modern or view is None or self._looked or not view.lists:
            return
        self._looked = True
        try:
            asking = await self._pool.glance(self.spec, ASKABLE)
        except TrunklineError:
            return
        try:
            lists = await discover(asking, self.spec)
        except TrunklineError:
            return
        finally:
            await asking.close()
        suspects = tuple(kind for kind in lists if _differ(lists[kind], view.lists.get(kind, Listing())))
        if not suspects:
            return
        # Read once more without those eyes: what was only just added is there for everybody.
        again = await discover(connection, self.spec, suspects)
        found = {
            kind: dataclasses.replace(
                listing, for_askable=await _more(lists[kind], listing, kind), varies=_differ(lists[kind], listing)
            )
            for kind, listing in again.items()
            if not listing.problem
        }
        merged = {**view.lists, **found}
        self._registry.update(self.spec.name, lists=merged)
        await asyncio.to_thread(self._store.save, self.spec, connection.introduction, merged, view.known_since)

    async def _relearn(self, connection: Connection) -> None:
        await asyncio.sleep(max(0.0, self._refreshed + SHORTEST_REFRESH - time.monotonic()) if self._too_often() else 0)
        kinds = tuple(kind for kind in Kind if kind in self._changed)
        self._changed.clear()
        announced = frozenset(self._announced)
        self._announced.clear()
        try:
            lists = await discover(connection, self.spec, kinds)
        except TrunklineError as error:
            self.report(UpstreamError(str(error)))
            return
        self._note_unread(lists, set(kinds))
        view = self._registry.view(self.spec.name)
        if view is None:
            return
        fresh = {kind: listing for kind, listing in lists.items() if not listing.problem or listing.items}
        merged = {**view.lists, **{kind: await _with_more(view, kind, listing) for kind, listing in fresh.items()}}
        fetched = time.time()
        self._refreshed = time.monotonic()
        problems = [listing.problem for listing in lists.values() if listing.problem]
        state = State.DEGRADED if problems else State.READY
        reason = " ".join(problems + _dropped(merged))
        self._registry.update(
            self.spec.name, told=announced, lists=merged, known_since=fetched, state=state, reason=reason
        )
        if not problems:
            await asyncio.to_thread(self._store.save, self.spec, connection.introduction, merged, fetched)

    def _note_unread(self, lists: dict[Kind, Listing], tried: set[Kind]) -> None:
        """Plan to read failed lists again, less and less often."""
        failed = {kind for kind, listing in lists.items() if listing.problem}
        self._unread = (self._unread - tried) | failed
        self._read_wait = min(self._read_wait * 2, LONGEST_READ_AGAIN) if failed else FIRST_READ_AGAIN
        self._read_again = time.monotonic() + self._read_wait / 2 if self._unread else FOREVER

    def _too_often(self) -> bool:
        return time.monotonic() - self._refreshed < SHORTEST_REFRESH / 10

    async def _check(self, connection: Connection) -> None:
        if connection.introduction.modern:
            failure = await self._ask(connection, "server/discover", discover_params())
        else:
            failure = await self._ask(connection, "ping", b"{}")
        before = self._health
        self._health = next_health(before, failure)
        if before.sick != self._health.sick:
            self._show_health()

    async def _ask(self, connection: Connection, method: str, params: bytes) -> str:
        exchange = Exchange(
            self.spec.name, method, params, timeout=HEALTH_TIMEOUT, max_timeout=HEALTH_TIMEOUT, background=True
        )
        try:
            await connection.request(exchange)
        except UpstreamError as error:
            return str(error)
        return ""

    async def _rest(self, seconds: float) -> None:
        if not self._again:
            self._wake.clear()
        try:
            async with asyncio.timeout(None if seconds == FOREVER else seconds):
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    if self._again or self._pool.connections(self.spec.name):
                        return  # a call brought it back before we tried
        except TimeoutError:
            pass

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(None if seconds == FOREVER else seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _sleep_until_used(self) -> None:
        self._set(State.READY, "Asleep; it starts with the next call.")
        self._asleep = False
        while not self._pool.connections(self.spec.name):
            await self._wake.wait()
            self._wake.clear()

    def _take(self, method: str, params: bytes) -> None:
        """A notification from the stream of changes."""
        self._pool.hear(self.spec, method, params)

    def _missed(self) -> None:
        """Something may have changed while nobody listened."""
        self._changed.update(Kind)
        self._wake.set()

    def _show_health(self) -> None:
        if self._health.sick:
            self._set(State.DEGRADED, f"{self._health.failures} failures in a row; the last: {self._health.reason}")
        else:
            self._set(State.READY, "")

    def _set(self, state: State, reason: str) -> None:
        self._registry.update(self.spec.name, state=state, reason=self.spec.without_secrets(reason))


def _dropped(lists: Mapping[Kind, Listing]) -> list[str]:
    return [listing.dropped for listing in lists.values() if listing.dropped]


async def _with_more(view: ServerView, kind: Kind, listing: Listing) -> Listing:
    """A fresh list keeps what was found to be there for callers that may be asked."""
    before = view.lists.get(kind, Listing())
    if not before.varies and not before.for_askable:
        return listing
    more = await _more(Listing(before.for_askable), listing, kind)
    return dataclasses.replace(listing, for_askable=more, varies=before.varies)


def _differ(listing: Listing, plain: Listing) -> bool:
    return not listing.problem and set(listing.items) != set(plain.items)


async def _more(listing: Listing, plain: Listing, kind: Kind) -> tuple[bytes, ...]:
    """What a list has that another lacks."""
    same = set(plain.items)
    more = [item for item in listing.items if item not in same]
    names: set[str] = set()
    await in_slices(names.add(name_of(item, kind)) for item in (plain.items if more else ()))
    return tuple(item for item in more if name_of(item, kind) not in names)
