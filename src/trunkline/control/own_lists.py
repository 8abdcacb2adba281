"""What servers list to some callers and not to all: on a caller's own connection, or by what it can be asked."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.fleet import Fleet
from trunkline.control.listing import discover
from trunkline.control.merging import join_servers
from trunkline.control.registry import Registry
from trunkline.control.supervisor import CHANGED
from trunkline.control.trust import Trust
from trunkline.control.views import Views
from trunkline.errors import TrunklineError
from trunkline.identity import Scope
from trunkline.model import Caller, Entry, Kind, Listing, Offer, ServerView, Snapshot, State, View
from trunkline.tasks import Tasks
from trunkline.upstream.connection import Connection
from trunkline.upstream.connection_key import ConnectionKey, askable, owner_of, owner_of_user

Lists = Mapping[Kind, Listing]

MOST_SETS = 16
"""Sets of capabilities for which one server's lists are known; callers with another see what any of them sees."""
MOST_VIEWS = 64
LOOK_WAIT = 5.0
"""Seconds that a list waits for a server to be looked at with such a caller's eyes."""


@dataclass(slots=True)
class _Reading:
    """What one connection listed, and what was last done on it when it did."""

    connection: Connection
    lists: dict[Kind, Listing]
    used: dict[Kind, float]


class OwnLists:
    """Lists that differ from everybody's; callers for whom nothing differs cost nothing."""

    def __init__(self, fleet: Fleet, views: Views, tasks: Tasks, registry: Registry) -> None:
        self._fleet, self._views, self._tasks, self._registry = fleet, views, tasks, registry
        self._readings: dict[ConnectionKey, _Reading] = {}
        self._own: dict[str, dict[str, Lists]] = {}
        """By owner and server, where a caller's own connection lists something else than everybody's."""
        self._by_set: dict[bytes, dict[str, tuple[Lists, Lists]]] = {}
        """By set of capabilities and server: what such a caller sees, and the lists that everybody saw then."""
        self._looking: dict[tuple[bytes, str], asyncio.Task[None]] = {}
        self._made: OrderedDict[tuple[Hashable, ...], View] = OrderedDict()
        self._made_of: Snapshot | None = None
        self._varying: tuple[Snapshot | None, tuple[str, ...]] = None, ()

    def view(self, scope: Scope, caller: Caller, config: Callable[[], Config]) -> View | None:
        """What this caller has, if it is something else than all callers of its profile have."""
        if not self._own and not self._by_set:
            return None
        owner, user = owner_of(scope, caller), owner_of_user(scope.user) if scope.user else ""
        if not owner and user not in self._own:
            return None
        capabilities = askable(caller.capabilities) if owner else b"{}"
        signed, own = self._own.get(user, {}), self._own.get(owner, {})
        seen = self._by_set.get(capabilities, {}) if owner else {}
        if not own and not seen and not signed:
            return None
        base = self._registry.snapshot
        if self._made_of is not base:
            self._made.clear()
            self._made_of = base
        seen_as = scope.profile, scope.rules, scope.user, scope.overrides, scope.program
        key = (owner if own else capabilities.decode(), *seen_as)
        view = self._made.get(key)
        if view is None:
            lists = {server: lists for server, (lists, _) in seen.items()} | signed | own
            trust = self._registry.trust
            view = dataclasses.replace(self._views.make(scope, overlaid(base, lists, config(), trust)), own=True)
            self._made[key] = view
            if len(self._made) > MOST_VIEWS:
                self._made.popitem(last=False)
        return view

    async def refresh(self, scope: Scope, caller: Caller, kinds: tuple[Kind, ...] = tuple(Kind)) -> None:
        """Read a caller's own lists again, where something was done on its connections since."""
        owner, pool = owner_of(scope, caller), self._fleet.pool
        signed = pool.owned(owner_of_user(scope.user)) if scope.user else []
        if not owner:
            if signed:
                await asyncio.gather(*(self._read(*one, kinds) for one in signed))
            return
        owned = [*signed, *pool.owned(owner)]
        mine = {key.server for key, _ in owned}
        jobs = [self._read(key, connection, kinds) for key, connection in owned]
        capabilities = askable(caller.capabilities)
        jobs += [self._look(server, capabilities) for server in self._differing_servers() if server not in mine]
        if jobs:
            await asyncio.gather(*jobs)

    def hear(self, key: ConnectionKey, method: str) -> None:
        """A server said on a caller's own connection that a list changed."""
        reading = self._readings.get(key)
        if reading is not None:
            for kind in CHANGED.get(method, ()):
                reading.used.pop(kind, None)

    def forget(self, key: ConnectionKey) -> None:
        """A caller's own connection is gone, and with it what was there; what a user's sign-in shows stays."""
        if self._readings.pop(key, None) is not None and key.purpose != "shared":
            self._set_own(key, {})

    def sign_out(self, user: str, server: str) -> None:
        """What a user's sign-in at a server showed is nobody's any more."""
        self._set_own(ConnectionKey(server, "", user=user), {})

    # On a caller's own connection.

    async def _read(self, key: ConnectionKey, connection: Connection, kinds: tuple[Kind, ...]) -> None:
        spec = self._fleet.specs.get(key.server)
        if spec is None:
            return
        reading = self._readings.get(key)
        if reading is None or reading.connection is not connection:
            reading = self._readings[key] = _Reading(connection, {}, {})
        used = connection.last_used
        if key.purpose == "shared":  # what a sign-in shows is no matter of what was called
            stale = tuple(kind for kind in kinds if kind not in reading.used)
        else:
            stale = tuple(kind for kind in kinds if connection.busy or reading.used.get(kind) != used)
        if stale:
            lists = await discover(connection, spec, stale)
            for kind in stale:
                listing = lists.get(kind, Listing())
                if not listing.problem:
                    reading.lists[kind], reading.used[kind] = listing, used
        if self._readings.get(key) is reading:  # it is still there
            self._compare(key, reading)

    def _compare(self, key: ConnectionKey, reading: _Reading) -> None:
        view = self._registry.snapshot.server(key.server)
        everybodys: Lists = view.lists if view is not None else {}
        known = key.server in self._by_set.get(key.capabilities, {})
        differs = any(_differ(listing, everybodys.get(kind, Listing())) for kind, listing in reading.lists.items())
        self._set_own(key, dict(reading.lists) if differs or known else {})

    def _set_own(self, key: ConnectionKey, lists: Lists) -> None:
        owner, server = key.owner, key.server
        if self._own.get(owner, {}).get(server, {}) == lists:
            return
        if lists:
            self._own.setdefault(owner, {})[server] = lists
        else:
            self._own[owner].pop(server)
            if not self._own[owner]:
                del self._own[owner]
        self._made.clear()

    # By what a caller can be asked.

    def _differing_servers(self) -> tuple[str, ...]:
        """The servers that list something else to callers that they may ask something."""
        base = self._registry.snapshot
        if self._varying[0] is not base:
            found = (name for name, view in base.servers.items() if any(one.varies for one in view.lists.values()))
            self._varying = base, tuple(found)
        return self._varying[1]

    async def _look(self, server: str, capabilities: bytes) -> None:
        """Look once with the eyes of callers that can be asked just this; everybody who wants to know waits."""
        spec, view = self._fleet.specs.get(server), self._registry.snapshot.servers.get(server)
        seen = self._by_set.get(capabilities, {}).get(server)
        if spec is None or view is None or (seen is not None and _same(seen[1], view.lists)):
            return
        key = capabilities, server
        if key not in self._looking:
            if seen is None and sum(server in known for known in self._by_set.values()) >= MOST_SETS:
                return
            looking = self._tasks.start(self._glance(spec, capabilities, view), name=f"look at {server}")
            looking.add_done_callback(lambda _: self._looking.pop(key, None))
            self._looking[key] = looking
        await asyncio.wait([self._looking[key]], timeout=LOOK_WAIT)

    async def _glance(self, spec: ServerSpec, capabilities: bytes, view: ServerView) -> None:
        try:
            asking = await self._fleet.pool.glance(spec, Caller(False, capabilities=capabilities))
            try:
                lists = await discover(asking, spec)
            finally:
                await asking.close()
        except TrunklineError:
            return  # who calls it will see how it fares
        if not any(listing.problem for listing in lists.values()):
            self._by_set.setdefault(capabilities, {})[spec.name] = lists, view.lists
            self._made.clear()


def overlaid(base: Snapshot, own: Mapping[str, Lists], config: Config, trust: Trust | None = None) -> Snapshot:
    """A snapshot in which some servers list something else; names are made as in the one below."""
    shown_as = {member: group.name for group in config.groups.values() for member in group.servers}
    active = {name for name, view in base.servers.items() if view.state is not State.STOPPED}
    namespace = config.gateway.namespace
    if namespace == "auto":
        namespace = "never" if len({shown_as.get(name, name) for name in active}) == 1 else "always"
    config = dataclasses.replace(config, gateway=dataclasses.replace(config.gateway, namespace=namespace))
    others: dict[str, ServerView] = {} if base.bare else {"": ServerView("")}
    tables = {kind: {entry.shown: entry for entry in base.entries(kind)} for kind in Kind}
    held: dict[str, Mapping[Kind, Mapping[str, Entry]]] = {}
    for server, lists in own.items():
        view = base.servers.get(server)
        if view is None or server not in active:
            continue
        mine = dataclasses.replace(view, lists={**view.lists, **lists})
        alone = join_servers({server: mine, **others}, config, 0, trust)
        unit = shown_as.get(server, server)
        held[unit] = alone.offers[unit].held
        for kind in lists:
            _put(tables[kind], server, shown_as.get(server, server), alone.entries(kind))
    offers = dict(base.offers)
    for unit in {shown_as.get(server, server) for server in own}:
        if unit in offers:
            mine = {
                kind: {name: one for name, one in table.items() if one.server == unit} for kind, table in tables.items()
            }
            offers[unit] = Offer(unit, mine, held.get(unit, offers[unit].held))
    return dataclasses.replace(
        base,
        offers=offers,
        tools=tables[Kind.TOOL],
        prompts=tables[Kind.PROMPT],
        resources=tables[Kind.RESOURCE],
        templates=tuple(tables[Kind.TEMPLATE].values()),
        meant={},
    )


def _put(table: dict[str, Entry], server: str, unit: str, entries: tuple[Entry, ...]) -> None:
    """Put what one server lists in the place of what it lists to all; what is another's stays the other's."""
    mine = {shown: entry for shown, entry in table.items() if entry.server == unit}
    listed = {entry.name for entry in entries}
    for shown, entry in mine.items():
        if entry.name not in listed and (entry.members or (server,)) == (server,):
            del table[shown]
    names = {entry.name: entry for entry in mine.values()}
    for entry in entries:
        known = names.get(entry.name)
        if known is not None:
            changed = (known.name, known.shown) == (entry.name, entry.shown) and known.definition != entry.definition
            if changed:
                table[known.shown] = dataclasses.replace(entry, members=known.members)
        elif entry.shown not in table:
            table[entry.shown] = entry


def _differ(own: Listing, everybodys: Listing) -> bool:
    return set(own.items) != {*everybodys.items, *everybodys.for_askable}


def _same(before: Lists, now: Lists) -> bool:
    """Whether lists are those that they were: they are made anew when they are read."""
    return before.keys() == now.keys() and all(before[kind] is now[kind] for kind in now)
