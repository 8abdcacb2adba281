"""New keys for the vault while it is used: records are sealed anew in slices; who dies leaves the rest to the next."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trunkline.errors import CredentialError, TrunklineError
from trunkline.storage import credentials as stored
from trunkline.storage import documents
from trunkline.storage.credentials import CredentialName
from trunkline.storage.sealing import DataKey
from trunkline.storage.store import Store
from trunkline.tenancy.credentials import Vault
from trunkline.tenancy.servers import Servers

log = logging.getLogger("trunkline")

SLICE = 50
"""Records of one change; whoever else changes something waits for that many."""
RUNNING = "rotation"
"""The setting that names the new data key, from its making until every record has it."""

Told = Callable[[int, int], object]


@dataclass(frozen=True)
class Rotated:
    """What came of it."""

    records: int
    lost: tuple[CredentialName, ...]
    """Those that do not open, and stay as they are."""
    resumed: bool


class Rotation:
    """Turns the keys of one store. Meanwhile everything can be read and changed, by every process."""

    def __init__(self, store: Callable[[], Awaitable[Store]], vault: Vault, servers: Servers) -> None:
        self._store, self._vault, self._servers = store, vault, servers

    async def run(self, told: Told = lambda done, of: None) -> Rotated:
        """Seal every record with a new data key, or go on where somebody stopped; says how far it is."""
        store = await self._store()
        async with store.transaction() as session:
            resumed = bool(await stored.setting(session, RUNNING))
            if resumed:
                key = await self._vault.newest_key(session)
            else:
                kept = await stored.data_keys(session)
                key = await self._vault.add_key(session, after=kept[0].created if kept else 0)
                await stored.set_setting(session, RUNNING, key.kid.encode())
        await self._move_in(store)
        records, lost = await self._seal_anew(store, key, told)
        async with store.transaction() as session:
            if await stored.setting(session, RUNNING) == key.kid.encode():
                await self._vault.forget_keys(session, key)
                await stored.set_setting(session, RUNNING, b"")
        return Rotated(records, tuple(lost), resumed)

    async def resume(self) -> None:
        """Finish what another process began and did not end."""
        try:
            if await stored.setting(await self._store(), RUNNING):
                done = await self.run()
                log.info("A rotation of keys that was cut short is done: %s records were left.", done.records)
        except TrunklineError as error:
            log.error("A rotation of keys was cut short, and does not go on: %s", error)

    async def change_master(self, master: bytes) -> None:
        """Have everything open with another master key beside the one there is; `run` then drops the older."""
        store = await self._store()
        await self._move_in(store)
        async with store.transaction() as session:
            await self._vault.wrap_for(session, master)

    async def _seal_anew(self, store: Store, key: DataKey, told: Told) -> tuple[int, list[CredentialName]]:
        total, done, after = await stored.count_otherwise(store, key.kid), 0, CredentialName()
        lost: list[CredentialName] = []
        while True:
            told(done, total)
            async with store.transaction() as session:
                some = await stored.sealed_otherwise(session, key.kid, after, limit=SLICE)
                for one in some:
                    try:
                        value = await self._vault.content(session, one)
                    except CredentialError:
                        lost.append(one.name)
                        continue
                    await stored.replace(session, one, key.kid, self._vault.sealed(key, one.name, value))
                    done += 1
            if not some:
                return done, lost
            after = some[-1].name

    async def _move_in(self, store: Store) -> None:
        """Bring in what an earlier Trunkline sealed beside the vault, with the master key itself."""
        owner = name = ""
        while True:
            async with store.transaction() as session:
                some = await documents.with_sealed(session, owner=owner, name=name, limit=SLICE)
                for one in some:
                    await self._servers.move_in(session, one)
            if not some:
                return
            owner, name = some[-1].owner, some[-1].name
