"""Servers that were registered at run time: everybody's run always, a user's own from their first request on."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.fleet import Fleet
from trunkline.control.item import overruled
from trunkline.control.registry import NOTHING_YET, Registry
from trunkline.control.server_files import file_name, forget_files, owned_files
from trunkline.errors import ConfigError, NotFoundError
from trunkline.events import Emitter, Event
from trunkline.identity import server_id
from trunkline.storage.store import Change
from trunkline.tenancy.servers import Registration, Servers

AWAY = 600.0
"""Seconds without a request after which a user's servers are let go."""
SWEEP = 60.0
MOST = 100_000
"""Users who are remembered to have nothing of their own."""


@dataclass(frozen=True)
class ServerRegistered(Event):
    """A server was registered, or changed."""

    registration: Registration


@dataclass(frozen=True)
class ServerUnregistered(Event):
    """A server was taken out."""

    name: str
    user: str


class Tenants:
    """Runs what was registered, and knows which users are here."""

    def __init__(
        self,
        servers: Servers,
        fleet: Fleet,
        registry: Registry,
        config: Callable[[], Config],
        apply: Callable[[], Awaitable[object]],
    ) -> None:
        self._servers, self._fleet, self._registry, self._config, self._apply = servers, fleet, registry, config, apply
        self._home = config().home
        self._everybodys: dict[str, ServerSpec] = {}
        self._switches: dict[str, bool] = {}
        self._events = Emitter(ServerRegistered, ServerUnregistered)
        self.on, self.off = self._events.on, self._events.off
        self._here: OrderedDict[str, float] = OrderedDict()
        self._turns: dict[str, asyncio.Lock] = {}
        self._names: dict[str, set[str]] = {}
        """The servers that run for each."""

    def is_here(self, user: str) -> bool:
        """Whether a user's servers run, or there are none."""
        if user not in self._here:
            return False
        self._here[user] = time.monotonic()
        return True

    def everybodys(self, config: Config) -> dict[str, ServerSpec]:
        """The servers that were registered for all, as a configuration would have them."""
        return {name: overruled(spec, config.tools) for name, spec in self._everybodys.items()}

    def is_on(self, spec: ServerSpec) -> bool:
        """Whether one of everybody's servers is to run: as was said last, at run time or in the file."""
        return self._switches.get(spec.name, spec.enabled)

    async def look_at_switches(self) -> None:
        """Know what is switched off, so that it is not even started."""
        self._switches = await self._servers.switches()

    async def switch(self, name: str, *, user: str = "", on: bool) -> None:
        """Have a server run, or not, until somebody says otherwise; the configuration's file stays as it is."""
        if user or name in self._everybodys:
            wanted, version = await self._servers.wanted(user, name)
            await self._servers.put({**wanted, "name": name, "enabled": on}, user=user, version=version)
        else:
            await self._servers.switch(name, on=on)
        await self.change(user)

    def spec_of(self, server: str) -> ServerSpec | None:
        """How a server is configured that runs, or that the configuration has; users' while they run."""
        return self._fleet.specs.get(server) or self._config().servers.get(server)

    async def restart(self, server: str, patience: float) -> None:
        """End a server, and begin with it anew; waits a moment for it."""
        spec = self._fleet.specs.get(server)
        if spec is None:
            raise NotFoundError(f"Server {server!r} does not run.", hint="Switch it on.")
        await self._fleet.end([server])
        if server not in self._fleet.specs:  # else a change of the configuration began with it meanwhile
            self._fleet.begin({server: spec})
        await self._fleet.ready(patience, [server])
        await self._registry.published()

    async def begin(self, user: str) -> None:
        """Have a user's own servers run, and wait for none of them: the user is here once each was tried."""
        if user not in self._names:
            async with self._turns.setdefault(user, asyncio.Lock()):
                if user not in self._here and user not in self._names:
                    await self._run(user)
                self._turns.pop(user, None)
        if self._fleet.were_tried(self._names.get(user, ())):
            self._note(user)

    async def arrive(self, user: str, patience: float) -> None:
        """Have a user's own servers run; waits a moment for what they offer."""
        async with self._turns.setdefault(user, asyncio.Lock()):
            if user not in self._here:
                await self._run(user)
                await self._settle(user, patience)
            self._turns.pop(user, None)

    async def register(
        self,
        wanted: Mapping[str, Any],
        *,
        user: str = "",
        version: int = 0,
        most: int = 0,
        taken: Collection[str] = (),
        replace: bool = True,
        of_user: bool = False,
    ) -> Registration:
        """Take in a server, or change it; everything of it is checked before anything is kept."""
        name = str(wanted.get("name", ""))
        if not user and name in taken:
            hint = "Choose another name, or change the file."
            raise ConfigError(f"There is a server or a group {name!r} in the configuration.", hint=hint)
        made = await self._servers.put(wanted, user=user, version=version, most=most, replace=replace, of_user=of_user)
        await self.change(user)
        self._events.emit(ServerRegistered(made))
        return made

    async def unregister(self, name: str, *, user: str = "", version: int = 0) -> None:
        """Take a server out, with its connections."""
        await self._servers.remove(user, name, version=version)
        await self.change(user)
        if not user:
            await asyncio.to_thread(forget_files, self._home, [file_name(name)])
        await self._registry.trust.forget(server_id(user, name))
        self._events.emit(ServerUnregistered(name, user))

    async def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something; `None` when it is not known what."""
        if changes is None:
            owners = {"", *self._names}
            await self._tidy_all()
        else:
            owners = {change.owner for change in changes if change.noun in ("server", "switch")}
        for owner in owners:
            await self.change(owner)
        await self._registry.trust.follow(changes)

    async def change(self, user: str) -> None:
        """A user's servers were changed, or with an empty name everybody's: have those run that there are now."""
        if not user:
            self._everybodys = {one.spec.name: one.spec for one in await self._servers.of("")}
            await self.look_at_switches()
            await self._apply()
            return
        if self._here.pop(user, None) is not None or user in self._names:
            await self.arrive(user, 0.3)
        await self._tidy(user)

    async def reconsider(self) -> None:
        """The operator says something else of tools: have users' servers say so."""
        for user in list(self._names):
            await self.change(user)

    async def sweep(self, is_present: Callable[[str], bool]) -> None:
        """Let go of those who are away, now and then; run as a task."""
        while True:
            await asyncio.sleep(SWEEP)
            for user in self._names.keys() - self._here.keys():  # they called once, and waited for nothing
                self._here[user] = time.monotonic()
            oldest = time.monotonic() - AWAY
            for user in [user for user, seen in self._here.items() if seen < oldest and not is_present(user)]:
                await self.leave(user)

    async def leave(self, user: str) -> None:
        """End a user's servers."""
        self._here.pop(user, None)
        async with self._turns.setdefault(user, asyncio.Lock()):
            if user not in self._here:  # else they came back, and have what is theirs now
                await self._fleet.end(self._names.pop(user, set()))
            self._turns.pop(user, None)
        await self._tidy(user)

    async def forget(self, user: str) -> None:
        """Somebody is gone for good."""
        await self.leave(user)
        await self._registry.trust.forget_owner(user)

    async def _tidy(self, user: str) -> None:
        """Keep nothing of servers that a user no longer has."""
        kept = await asyncio.to_thread(owned_files, self._home, user)
        if kept:
            kept.difference_update([file_name(one.spec.name) for one in await self._servers.of(user)])
            await asyncio.to_thread(forget_files, self._home, kept)

    async def _tidy_all(self) -> None:
        """The same for all: users and servers may have gone while nobody was here to hear of it."""
        kept = await asyncio.to_thread(owned_files, self._home)
        if kept:
            async for page in self._servers.names():
                kept.difference_update(map(file_name, page))
            await asyncio.to_thread(forget_files, self._home, kept)

    async def _run(self, user: str) -> None:
        said = self._config().tools
        own = [overruled(one.spec, said) for one in await self._servers.of(user) if one.spec.enabled]
        wanted = {spec.name: spec for spec in own}
        running = self._names.get(user, set())
        changed = {
            name
            for name in running
            if name not in wanted or self._fleet.specs[name].fingerprint != wanted[name].fingerprint
        }
        await self._fleet.end(changed)
        self._fleet.begin({name: spec for name, spec in wanted.items() if name not in running - changed})
        for name in running - changed:
            self._fleet.describe(wanted[name])
        if wanted:
            self._names[user] = set(wanted)
        else:
            self._names.pop(user, None)
        await self._registry.published()

    async def _settle(self, user: str, patience: float) -> None:
        names = self._names.get(user, set())
        unheard = any(not view.lists for name in names if (view := self._registry.view(name)) is not None)
        await self._fleet.ready(max(patience, NOTHING_YET) if unheard else patience, names)
        await self._registry.published()
        self._note(user)

    def _note(self, user: str) -> None:
        """A user is here, and nothing has to be looked up for them."""
        self._here[user] = time.monotonic()
        while len(self._here) > MOST:
            idle = next((one for one in self._here if one not in self._names), "")
            if not idle:
                break
            del self._here[idle]
