"""The vault: credentials as sealed records in the store, each bound to whose it is and what it is for."""

from __future__ import annotations

import functools
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from trunkline.config.master_key import MasterKey
from trunkline.errors import ConfigError, CredentialError
from trunkline.events import Emitter, Event
from trunkline.storage import credentials as stored
from trunkline.storage.credentials import CredentialName, Sealed
from trunkline.storage.engine import Session
from trunkline.storage.sealing import DataKey, WrappedKey, kid_of, master_id, new_data_key, seal, unseal, unwrap, wrap
from trunkline.storage.store import Store, now
from trunkline.workers import in_thread

log = logging.getLogger("trunkline")

TENANT = "store"
"""Of which vault a record is: what is sealed elsewhere with the same master key does not open here."""
PEPPER = "pepper"
"""A kept key that is no data key: what callers' keys are digested with, once the master key is another."""


@dataclass(frozen=True)
class CredentialRefused(Event):
    """A record did not open: somebody changed it, or put it in another's place. It is not used again."""

    name: CredentialName


class Vault:
    """Whoever has the store open has one; what it gives is nobody's to keep for long."""

    def __init__(
        self, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool], master_key: MasterKey
    ) -> None:
        self._store, self._is_open, self._master_key = store, is_open, master_key
        self._masters: dict[str, bytes] = {}
        self._data_keys: dict[str, DataKey] = {}
        self._events = Emitter(CredentialRefused)
        self.on, self.off = self._events.on, self._events.off

    async def get(self, name: CredentialName) -> bytes | None:
        """A credential; `None` when there is none, CredentialError when it does not open."""
        if not self._is_open():
            return None
        store = await self._store()
        found = await stored.find(store, name)
        return await self.content(store, found) if found is not None else None

    async def put(self, name: CredentialName, value: bytes, *, session: Session | None = None) -> None:
        """Keep a credential in the place of what was there; with a session as part of a larger change."""
        if session is None:
            async with (await self._store()).changing("credential", name.user, name.server) as own:
                await self.put(name, value, session=own)
            return
        key = await self.newest_key(session)
        await stored.put(session, name, key.kid, self.sealed(key, name, value))

    async def remove(
        self,
        *,
        user: str | None = None,
        server: str | None = None,
        issuer: str | None = None,
        field: str | None = None,
        session: Session | None = None,
    ) -> int:
        """Forget all credentials that fit what is given, and say how many they were."""
        if user is None and server is None:
            raise ValueError("whose or for which server must be said")
        if session is not None:
            return await stored.remove(session, user=user, server=server, issuer=issuer, field=field)
        if not self._is_open():
            return 0
        async with (await self._store()).changing("credential", user or "", server or "") as own:
            return await stored.remove(own, user=user, server=server, issuer=issuer, field=field)

    async def names(self, *, user: str | None = None, server: str | None = None) -> list[CredentialName]:
        """What is kept, of a user or for a server if they are given; an empty user is the operator."""
        return await stored.names(await self._store(), user=user, server=server) if self._is_open() else []

    # Records.

    @staticmethod
    def sealed(key: DataKey, name: CredentialName, value: bytes) -> bytes:
        """A record of a credential."""
        return seal(key, _bound(name), value)

    async def content(self, store: Store | Session, found: Sealed) -> bytes:
        """What a record holds; one that does not open is disabled, and everyone who listens is told."""
        if found.disabled:
            raise _broken(found.name)
        try:
            kid = kid_of(found.record)
            return unseal(await self._key(kid, found.keys, str(found.name)), _bound(found.name), found.record)
        except ValueError:
            if await stored.disable(store, found):
                log.error("%s", _broken(found.name))
                self._events.emit(CredentialRefused(found.name))
            raise _broken(found.name) from None

    # Keys.

    async def unlock(self, store: Store) -> bytes:
        """The master key, if it is the store's: with another, nobody's key would fit and nothing could be read."""
        [master, *_] = await self._read_masters(make=not await stored.setting(store, "master"))
        await store.setting("master", _proof(master))
        known = {await stored.setting(store, name): name for name in ("master.old", "master")}
        for one in reversed(self._masters.values()):  # a successor that was taken on counts before the one it follows
            if _proof(one) in known:
                return one
        where = self._master_key.where
        raise ConfigError(
            f"The store at {store.place.shown} was made with another key than {where}.",
            hint="Bring the key it was made with; several machines that share a store share its `key`.",
        )

    async def pepper(self, store: Store, master: bytes) -> bytes:
        """What callers' keys are digested with: of the first master key, whichever is used now."""
        kept = [one for one in await stored.data_keys(store) if one.kid == PEPPER]
        return (await self._key(PEPPER, kept, "every caller's key")).key if kept else pepper_of(master)

    async def newest_key(self, session: Session) -> DataKey:
        """The key that new records are sealed with, made for the first of them."""
        kept = [one for one in await stored.data_keys(session) if one.created]
        return await self._key(kept[0].kid, kept, "a new record") if kept else await self.add_key(session)

    async def add_key(self, session: Session, after: int = 0) -> DataKey:
        """A new data key, which is the newest from now on."""
        key = new_data_key()
        await stored.add_key(session, wrap(await self.master(session), key, max(now(), after + 1)))
        self._data_keys[key.kid] = key
        return key

    async def master(self, session: Session) -> bytes:
        """The master key that wraps new keys: where one takes the place of another, the successor."""
        proof = await stored.setting(session, "master")
        for master in (*self._masters.values(), *await self._read_masters()):
            if _proof(master) == proof:
                return master
        hint = "Give that one to every gateway and every command, as `trunkline keys rotate --master` said."
        raise ConfigError(f"The store has a newer master key than {self._master_key.where}.", hint=hint)

    async def wrap_for(self, session: Session, master: bytes) -> None:
        """Have every key open with another master key, too, which wraps new ones from now on."""
        if await stored.setting(session, "master") == _proof(master):
            return  # somebody came this far before
        before = await self.master(session)
        kept = await stored.data_keys(session)
        for created, kid in {(one.created, one.kid) for one in kept}:
            await stored.add_key(session, wrap(master, await self._key(kid, kept, "a change of it"), created))
        if not any(one.kid == PEPPER for one in kept):
            pepper = DataKey(PEPPER, pepper_of(before))
            for one in (before, master):
                await stored.add_key(session, wrap(one, pepper, 0))
        await stored.set_setting(session, "master.old", _proof(before))
        await stored.set_setting(session, "master", _proof(master))

    async def forget_keys(self, session: Session, newest: DataKey) -> None:
        """Drop data keys that no record wants, and the master key before this one."""
        await stored.forget_keys(session, kid=newest.kid, master=master_id(await self.master(session)))
        await stored.set_setting(session, "master.old", b"")

    async def _key(self, kid: str, kept: Iterable[WrappedKey], wanted_by: str) -> DataKey:
        found = self._data_keys.get(kid) or unwrap(self._masters, kid, kept)
        if found is None:
            await self._read_masters()  # another may be here since
            found = unwrap(self._masters, kid, kept)
        if found is None:
            hint = "Bring the master key that has it, or a backup of the store: see `trunkline keys status`."
            raise CredentialError(f"The data key {kid}, which {wanted_by} wants, does not open.", hint=hint)
        self._data_keys[kid] = found
        return found

    async def _read_masters(self, *, make: bool = False) -> Sequence[bytes]:
        # In a thread: it may be a command that gives them, or a keyring that a person unlocks.
        masters: Sequence[bytes] = await in_thread(functools.partial(self._master_key.read, make=make))
        self._masters = {master_id(one): one for one in masters}
        return masters


def pepper_of(master: bytes) -> bytes:
    """What callers' keys are digested with, unless another master key came first."""
    return hmac.digest(master, b"trunkline keys of callers 1", "sha256")


def _proof(master: bytes) -> bytes:
    return hmac.digest(master, b"trunkline store 1", "sha256")


def _bound(name: CredentialName) -> tuple[str, ...]:
    return (TENANT, name.user, name.server, name.issuer, name.field)


def _broken(name: CredentialName) -> CredentialError:
    return CredentialError(
        f"The credential {name} was changed by somebody else, or is another's; it is not used.",
        hint="Give it again, or sign in again.",
    )
