"""The store, opened when something needs it, and everyone who goes by what is in it."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from trunkline.config.master_key import MasterKey
from trunkline.config.tenancy import StoreConfig
from trunkline.errors import StoreError
from trunkline.storage.store import Change, Place, Store, open_store, place_of
from trunkline.tasks import Tasks, open_tasks
from trunkline.tenancy.console_sessions import ConsoleSessions
from trunkline.tenancy.credentials import Vault
from trunkline.tenancy.keys import KeyMaker
from trunkline.tenancy.people import People
from trunkline.tenancy.rotation import Rotation
from trunkline.tenancy.servers import Servers
from trunkline.tenancy.sign_ins import SignIns
from trunkline.tenancy.threads import Threads
from trunkline.wire.seal import Seal

log = logging.getLogger("trunkline")

NEWS = 0.5
"""Seconds between two looks at what other processes changed: what they revoke is felt within one."""


class Tenancy:
    """Open it with `open_tenancy`. Where nobody has a store, nothing is opened, and nobody is asked for a key."""

    def __init__(self, config: StoreConfig, home: Path, tasks: Tasks) -> None:
        self.place: Place = place_of(config.url, home)
        self.master_key = MasterKey(home, config.key, config.key_command)
        self._tasks = tasks
        self._stays = False
        self._master = self._pepper = b""
        self._opening = asyncio.Lock()
        self._opened: Store | None = None
        self._stack = AsyncExitStack()
        self.vault = Vault(self.store, lambda: self.is_open, self.master_key)
        self.sign_ins = SignIns(self.vault, self.store, lambda: self.is_open, tasks)
        keys = KeyMaker(lambda: self._pepper)
        self.people = People(self.store, lambda: self.is_open, keys)
        self.console_sessions = ConsoleSessions(self.store, lambda: self.is_open, self.people, keys)
        self.threads = Threads(self.store, lambda: self.is_open)
        self.servers = Servers(self.store, lambda: self.is_open, self.vault, lambda: self._master, os.environ)
        self.rotation = Rotation(self.store, self.vault, self.servers)

        self.people.on_change(lambda user, key, _: None if key else self.threads.forget(user))
        self.people.on_change(lambda user, key, _: None if key else self.sign_ins.forget(user))
        self._listeners: list[Callable[[Sequence[Change] | None], Awaitable[None]]] = []

    def on_change(self, listener: Callable[[Sequence[Change] | None], Awaitable[None]]) -> None:
        """Hear what others changed, `None` for anything; also when the store is opened."""
        self._listeners.append(listener)

    @property
    def is_open(self) -> bool:
        """Whether there is a store: where there is none, nobody has anything in it."""
        return self._opened is not None

    @property
    def opened(self) -> Store | None:
        """The store, where it is open."""
        return self._opened

    async def store(self) -> Store:
        """The store, opened now if need be."""
        if self._opened is not None:
            return self._opened
        async with self._opening:
            if self._opened is None:
                store = await self._stack.enter_async_context(open_store(self.place))
                self._master = await self.vault.unlock(store)
                self._pepper = await self.vault.pepper(store, self._master)
                self._tasks.start(self._follow(store, await store.revision()), name="news of the store")
                self._opened = store
                if self._stays:
                    self._tasks.start(self.rotation.resume(), name="rotation of keys")
                self._tasks.start(self._tell(None), name="store opened")
        return self._opened

    async def seal(self, purpose: str) -> Seal:
        """Seals what callers hand back to whichever process has the store."""
        await self.store()
        return Seal(lambda: hmac.digest(self._pepper, f"trunkline seal {purpose}".encode(), "sha256"))

    async def start(self, *, watch: bool) -> None:
        """Open a store that is there; or `watch` for one that others may make, such as the command line."""
        self._stays = watch
        if self.place.exists:
            await self._look()
        elif watch:
            self._tasks.start(self._wait(), name="store")

    async def _look(self) -> None:
        await self.store()
        await self.people.follow(None)

    async def _tell(self, changes: Sequence[Change] | None) -> None:
        self.threads.follow(changes)
        await self.people.follow(changes)
        await self.sign_ins.follow(changes)
        await self.console_sessions.follow(changes)
        for listener in self._listeners:
            await listener(changes)

    async def close(self) -> None:
        """Let go of the store."""
        self.sign_ins.close()
        await self._stack.aclose()

    async def _wait(self) -> None:
        while not self.place.exists and self._opened is None:  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(NEWS)
        try:
            await self._look()
        except StoreError as error:
            log.error("%s", error)

    async def _follow(self, store: Store, seen: int) -> None:
        """Hear what other processes change. While the store is away, what is remembered counts."""
        away = False
        while True:
            await asyncio.sleep(NEWS)
            try:
                changes = await store.changes(seen)
                if changes is None:
                    seen = await store.revision()
                others = None if changes is None else [change for change in changes if not change.own]
                if others != []:
                    await self._tell(others)
                seen = changes[-1].revision if changes else seen
                if away:
                    log.info("The store is back.")
                away = False
            except StoreError as error:
                if not away:
                    log.error("%s Callers who were let in before still are.", error)
                away = True


@asynccontextmanager
async def open_tenancy(config: StoreConfig, home: Path, *, watch: bool = False) -> AsyncGenerator[Tenancy]:
    """Tenancy for the body; `watch` for a store that somebody makes meanwhile."""
    async with open_tasks() as tasks:
        tenancy = Tenancy(config, home, tasks)
        try:
            await tenancy.start(watch=watch)
            yield tenancy
        finally:
            await tasks.close()
            await tenancy.close()
