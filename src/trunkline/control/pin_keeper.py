"""What is known in this process of what was agreed to: read before servers are judged, written soon after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from trunkline.control.pin_store import PinStore
from trunkline.errors import StoreError
from trunkline.identity import owner_of, server_id
from trunkline.storage.pins import Key
from trunkline.storage.store import Change
from trunkline.tasks import Tasks
from trunkline.tools.trust.agreement import SERVER, Identity, ServerPins, Unsaved, Waiting
from trunkline.tools.trust.definition import Pin

log = logging.getLogger("trunkline")

LAST_WRITES = 5.0
"""Seconds that the end waits for what is being written."""
AGAIN = 1.0
"""Seconds until a store that was away is asked again."""


class PinKeeper:
    """Holds what is kept of each server that is judged here, and hears of what others decide."""

    def __init__(self, store: PinStore, tasks: Tasks | None, changed: Callable[[str], None]) -> None:
        self.store, self._tasks, self._changed = store, tasks, changed
        self.known: dict[str, ServerPins] = {}
        self._unsaved: dict[str, Unsaved] = {}
        self._anew: set[str] = set()
        """Servers whose names were given to others: what is kept is of those before them."""
        self._saving: asyncio.Task[object] | None = None
        self._turn = asyncio.Lock()
        """Nothing is written while it is read what others decided: half of it would be taken for all."""
        self._asking: asyncio.Task[None] | None = None

    async def load(self, server: str) -> None:
        """Know what is kept of a server. `StoreError` where the store is away, `ValueError` where it is unreadable."""
        found = await self.store.load(server)
        self.known.setdefault(server, found)

    def let_go(self, server: str) -> None:
        """Nobody asks for a server any more."""
        if server not in self._unsaved:
            self.known.pop(server, None)

    def begin_anew(self, server: str, kept: ServerPins) -> None:
        """Nothing of what is kept of a server counts any more."""
        self._anew.add(server)
        self.known[server] = kept

    async def forget(self, server: str) -> None:
        """Somebody took a server out for good."""
        self._drop(server)
        await self.store.forget(server)

    async def forget_owner(self, user: str) -> None:
        """A user is gone for good, and leaves nothing to whoever has the name next."""
        for server in [name for name in self.known if owner_of(name) == user]:
            self._drop(server)
        await self.store.forget_owner(user)

    def _drop(self, server: str) -> None:
        self.known.pop(server, None)
        self._unsaved.pop(server, None)

    # What others decide.

    async def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something in the store; `None` when it is not known what, or there is one only now."""
        told = None if changes is None else {server_id(one.owner, one.name) for one in changes if one.noun == "pin"}
        for server in [name for name in self.known if told is None or name in told]:
            await self._look_again(server)

    async def _look_again(self, server: str) -> None:
        """Know what others agreed to and rejected. What waits is what this process saw, until it sees otherwise."""
        async with self._turn:
            try:
                fresh = await self.store.load(server)
            except (StoreError, ValueError) as error:
                log.warning("What others agreed to of server %s cannot be read: %s", server, error)
                return  # what is known counts
            self._join(server, fresh)

    def _join(self, server: str, fresh: ServerPins) -> None:
        """Take on what is in the store, and keep what was not written yet."""
        kept = self.known.get(server)
        if kept is None:
            return
        unsaved = self._unsaved.get(server, Unsaved())
        if not kept.away:
            fresh.waiting = _still_waiting(kept, fresh, unsaved)
            fresh.begun |= kept.begun
            fresh.identity = fresh.identity or kept.identity
        for (kind, name), definitions in unsaved.agreed.items():
            pins = fresh.pins.setdefault(kind, {})
            others = [one.packed for one in Pin.each(pins.get(name, b"")) if one.packed not in definitions]
            pins[name] = b"".join([*reversed(definitions), *others])
        if fresh != kept:
            self.known[server] = fresh
            self._changed(server)

    def ask_again(self) -> None:
        """Look after the store until it is back."""
        if self._tasks is not None and self._asking is None:
            self._asking = self._tasks.start(self._until_back(), name="pins of a store that is away")

    async def _until_back(self) -> None:
        try:
            while True:
                await asyncio.sleep(AGAIN)
                for server in [name for name, kept in self.known.items() if kept.away]:
                    await self._look_again(server)
                if self._unsaved and self._saving is None:
                    await self._save()
                if not self._unsaved and not any(kept.away for kept in self.known.values()):
                    return
        finally:
            self._asking = None

    # Writing.

    def note(self, server: str) -> Unsaved:
        """Have what is kept of a server written soon; to what is returned is added what changed of it."""
        if server in self.known and self.known[server].lost:
            return Unsaved()
        unsaved = self._unsaved.setdefault(server, Unsaved())
        if self._tasks is not None and self._saving is None and self._asking is None:
            self._saving = self._tasks.start(self._save(), name="pins")
        return unsaved

    async def saved(self) -> None:
        """Wait until everything is written; `StoreError` where it cannot be now."""
        if self._saving is not None:
            await asyncio.wait([self._saving])
        if self._unsaved:
            error = await self._save()
            if error is not None:
                raise error

    async def close(self) -> None:
        """Let what was agreed to be written, if that does not take too long."""
        try:
            async with asyncio.timeout(LAST_WRITES):
                await self.saved()
        except (TimeoutError, StoreError):
            log.warning(
                "Not everything that was agreed to could be written: it is looked at anew after the next start."
            )

    async def _save(self) -> StoreError | None:
        try:
            await asyncio.sleep(0)  # what comes together is written together
            while self._unsaved:
                async with self._turn:
                    server, error = await self._save_next()
                if error is not None:
                    return error
                if server:
                    await self._look_again(server)
        finally:
            self._saving = None
        return None

    async def _save_next(self) -> tuple[str, StoreError | None]:
        """Write what changed of one server; its name, if others agreed to something else, and what went wrong."""
        server = next(iter(self._unsaved), "")
        unsaved = self._unsaved.pop(server, None)
        if unsaved is None or server not in self.known:
            return "", None
        try:
            contested = await self._save_one(server, self.known[server], unsaved)
        except StoreError as error:
            self._unsaved[server] = unsaved.followed_by(self._unsaved.get(server, Unsaved()))
            if self._asking is None:
                log.warning("What was agreed to of server %s waits to be written: %s", server, error)
            self.ask_again()
            return "", error
        return (server if contested else ""), None

    async def _save_one(self, server: str, kept: ServerPins, unsaved: Unsaved) -> bool:
        copied = replace(kept, begun=set(kept.begun), waiting=dict(kept.waiting), pins={})
        if server in self._anew:
            await self.store.forget(server)
            self._anew.discard(server)
        contested = await self.store.save(server, copied, unsaved)
        if contested is None:
            text = "What was agreed to of server %s cannot be written; a restart agrees anew."
            log.warning(text, server, extra={"server": server})
        return bool(contested)


def _still_waiting(kept: ServerPins, fresh: ServerPins, unsaved: Unsaved) -> dict[Key, Waiting]:
    """What waits here once it is known what others decided; what they only saw is theirs to show."""
    found: dict[Key, Waiting] = {}
    for key, one in kept.waiting.items():
        theirs = fresh.waiting.get(key)
        if key[0] == SERVER and one.definition and fresh.identity == msgspec.json.decode(one.definition, type=Identity):
            continue  # somebody agreed to who it is
        if key in unsaved.waiting:
            found[key] = one
        elif theirs is not None and theirs.digest == one.digest:
            found[key] = replace(one, state=theirs.state)
        elif one.state != "rejected":  # else somebody agreed to it after all
            found[key] = one
    rejected = {key: one for key, one in fresh.waiting.items() if one.state == "rejected"}
    return {**rejected, **found}
