"""The vault: credentials as sealed records in the store, each bound to whose it is and what it is for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trunkline.errors import CredentialError
from trunkline.events import Emitter, Event
from trunkline.storage import credentials as stored
from trunkline.storage.credentials import CredentialName, Sealed, WrappedKey
from trunkline.storage.engine import Session
from trunkline.storage.sealing import DataKey, kid_of, master_id, new_data_key, seal, unseal, unwrap, wrap
from trunkline.storage.store import Store, now
from trunkline.workers import in_thread

log = logging.getLogger("trunkline")

TENANT = "store"
"""Of which vault a record is: what is sealed elsewhere with the same master key does not open here."""


@dataclass(frozen=True)
class CredentialRefused(Event):
    """A record did not open: somebody changed it, or put it in another's place. It is not used again."""

    name: CredentialName


class Vault:
    """Whoever has the store open has one; what it gives is nobody's to keep for long."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        is_open: Callable[[], bool],
        masters: Callable[[], Sequence[bytes]],
    ) -> None:
        self._store, self._is_open, self._masters = store, is_open, masters
        self._master_keys: dict[str, bytes] = {}
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
        key = await self._newest_key(session)
        await stored.put(session, name, key.kid, seal(key, _bound(name), value))

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

    async def content(self, store: Store | Session, found: Sealed) -> bytes:
        """What a record holds."""
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

    async def _newest_key(self, session: Session) -> DataKey:
        """The key that new records are sealed with, made for the first of them."""
        kept = await stored.data_keys(session)
        if kept:
            return await self._key(kept[0].kid, kept, "what is put into it")
        return await self._add_key(session)

    async def _add_key(self, session: Session) -> DataKey:
        key, master = new_data_key(), next(iter((await self._read_masters()).values()))
        await stored.add_key(session, WrappedKey(key.kid, master_id(master), wrap(master, key), now()))
        self._data_keys[key.kid] = key
        return key

    async def _key(self, kid: str, kept: Sequence[WrappedKey], wanted_by: str) -> DataKey:
        if kid in self._data_keys:
            return self._data_keys[kid]
        wraps = [one for one in kept if one.kid == kid]
        if not any(one.master in self._master_keys for one in wraps):
            await self._read_masters()  # another may be here since
        for one in wraps:
            if one.master in self._master_keys:
                try:
                    self._data_keys[kid] = unwrap(self._master_keys[one.master], kid, one.wrapped)
                except ValueError:
                    break
                return self._data_keys[kid]
        hint = "Bring the master key, or the backup of the store, that has it: see `trunkline keys status`."
        raise CredentialError(f"The vault has no data key {kid} that opens here, as {wanted_by} wants it.", hint=hint)

    async def _read_masters(self) -> dict[str, bytes]:
        masters: Sequence[bytes] = await in_thread(self._masters)  # it may be a command that gives them
        self._master_keys = {master_id(one): one for one in masters}
        return self._master_keys


def _bound(name: CredentialName) -> tuple[str, ...]:
    return (TENANT, name.user, name.server, name.issuer, name.field)


def _broken(name: CredentialName) -> CredentialError:
    return CredentialError(
        f"The credential {name} was changed by somebody else, or is another's; it is not used.",
        hint="Give it again, or sign in again.",
    )
