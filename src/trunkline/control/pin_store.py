"""Where it is kept what was agreed to: in the store, for every gateway that has it; without one, in files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from trunkline.config.tenancy import StoreConfig
from trunkline.control.pin_files import PinFiles
from trunkline.identity import owner_of, server_id, unit_name
from trunkline.storage import pins as rows
from trunkline.storage.engine import Session
from trunkline.storage.pins import Key, PinRow, ServerOf
from trunkline.storage.store import Store, open_store, place_of
from trunkline.tools.trust.agreement import (
    MOST,
    VARIANTS,
    Identity,
    ServerPins,
    Unsaved,
    Waiting,
    WaitingItem,
    met_another,
    rejected_meanwhile,
)

AT_ONCE = 2_000
"""Definitions that are agreed to in one change of the store: others wait for it."""
DEFINITIONS = 64 * 2**20
"""Bytes of definitions that are kept of one server; of further ones the pins alone, and no diff."""
WAITING = 64 * 2**20
"""Bytes of definitions that may wait of one server, to be kept."""


class PinStore:
    """What was agreed to of every server. Raises `StoreError` where the store is away."""

    def __init__(self, home: Path, store: Callable[[], Store | None] = lambda: None) -> None:
        self._files, self._store = PinFiles(home), store

    async def servers(self) -> list[str]:
        """Of whom anything is kept that can be read."""
        store = self._store()
        found = set(await asyncio.to_thread(self._files.servers))
        found.update(server_id(*one) for one in (await rows.servers(store) if store is not None else ()))
        return sorted(found)

    async def load(self, server: str) -> ServerPins:
        """What is kept of a server; nothing where it was never seen. `ValueError` when that cannot be known."""
        store = self._store()
        if store is None:
            return await asyncio.to_thread(self._files.load, server)
        await self._move_in(store, server)
        this = _whose(server)
        head, found = await rows.head(store, this), await rows.pins(store, this)
        waits = await rows.waiting(store, this)
        return await asyncio.to_thread(_read, head, found, waits)

    async def save(self, server: str, kept: ServerPins, unsaved: Unsaved) -> set[Key] | None:
        """Write what changed; gives names of which others agreed to something else first, and theirs counts.

        `None` when it cannot be written, and could not later either.
        """
        store = self._store()
        if store is None:
            return await asyncio.to_thread(self._files.save, server, kept, unsaved)
        await self._move_in(store, server)
        return await self._put(store, server, kept, unsaved)

    async def agreed(self, server: str, key: Key) -> bytes:
        """The definition that was agreed to last; empty where none was."""
        store = self._store()
        if store is None:
            return await asyncio.to_thread(self._files.agreed, server, key)
        return await rows.definition(store, _whose(server), key)

    async def forget(self, server: str) -> None:
        """Whoever has the name next is seen for the first time."""
        store = self._store()
        await asyncio.to_thread(self._files.forget, server)
        if store is not None:
            async with store.changing("pin", *_whose(server)) as session:
                await rows.forget(session, *_whose(server))

    async def forget_owner(self, user: str) -> None:
        """The same for all that was a user's own; from the store it went with the user."""
        await asyncio.to_thread(self._files.forget_owner, user)

    async def _move_in(self, store: Store, server: str) -> None:
        """Bring into the store what was agreed to before there was one; what the store knows counts more."""
        found = await asyncio.to_thread(self._files.whole, server)
        if found is None:
            return
        kept, unsaved = found
        head = await rows.head(store, _whose(server))
        if head is not None and head[0]:
            kept = replace(kept, identity=msgspec.json.decode(head[0], type=Identity))
        known = {key for key, _ in await rows.waiting(store, _whose(server))}
        unsaved.waiting -= known
        await self._put(store, server, kept, unsaved)
        await asyncio.to_thread(self._files.forget, server)

    async def _put(self, store: Store, server: str, kept: ServerPins, unsaved: Unsaved) -> set[Key] | None:
        if sum(len(one.definition) for one in kept.waiting.values()) > WAITING:
            return None
        keys, contested, this = list(unsaved.agreed), set[Key](), _whose(server)
        while len(keys) > AT_ONCE:
            async with store.transaction() as session:
                contested |= await _agree(session, this, unsaved, keys[:AT_ONCE])
            del keys[:AT_ONCE]
        async with store.changing("pin", *this) if unsaved.decided else store.transaction() as session:
            if keys:
                contested |= await _agree(session, this, unsaved, keys)
            seen = [key for key in unsaved.waiting if key in kept.waiting and key not in unsaved.decided]
            for key, content in await rows.waiting_of(session, this, seen):
                if rejected_meanwhile(_item(content), kept.waiting[key]):
                    contested.add(key)
            await rows.put_waiting(session, this, _waiting_rows(kept, unsaved.waiting - contested))
            await rows.remove_waiting(session, this, [key for key in unsaved.waiting if key not in kept.waiting])
            # Last: what was seen before all of it was written is to be agreed to, not held.
            head = await rows.head(session, this)
            begun = kept.begun.union(head[1].split() if head is not None else ())
            identity = msgspec.json.encode(kept.identity).decode() if kept.identity is not None else ""
            if head != (identity, " ".join(sorted(begun))):
                await rows.put_head(session, this, identity, " ".join(sorted(begun)))
        return contested


@asynccontextmanager
async def open_pins(config: StoreConfig, home: Path) -> AsyncGenerator[PinStore]:
    """What was agreed to, for who looks without running anything."""
    place = place_of(config.url, home)
    if not place.exists:
        yield PinStore(home)
        return
    async with open_store(place) as store:
        yield PinStore(home, lambda: store)


async def held_back(config: StoreConfig, home: Path, servers: Iterable[str]) -> dict[str, dict[str, str]]:
    """What is held back of servers, with why, as it was seen last. `StoreError` where the store is away."""
    if not place_of(config.url, home).exists and not await asyncio.to_thread((home / "pins").is_dir):
        return {}
    found: dict[str, dict[str, str]] = {}
    async with open_pins(config, home) as pins:
        for server in servers:
            try:
                found[server] = (await pins.load(server)).held
            except ValueError:
                found[server] = {server: "what was agreed to of it cannot be read"}
    return {server: why for server, why in found.items() if why}


def _whose(server: str) -> ServerOf:
    return owner_of(server), unit_name(server)


async def _agree(session: Session, server: ServerOf, unsaved: Unsaved, keys: list[Key]) -> set[Key]:
    """Pin some names; gives those of which others agreed to something else first."""
    known = await rows.pinned(session, server, keys)
    contested = {key for key in keys if key in unsaved.first and met_another(known.get(key, ()), unsaved.agreed[key])}
    room = DEFINITIONS - await rows.size(session, server)
    chosen = [key for key in keys if key not in contested]
    await rows.put_pins(session, server, _pin_rows(unsaved, chosen, room))
    for key in chosen:
        old = [pin for pin in known.get(key, ()) if pin not in unsaved.agreed[key]]
        spare = old[max(0, VARIANTS - len(unsaved.agreed[key])) :]
        if spare:
            await rows.remove_pins(session, server, key, spare)
    if await rows.count(session, server) > MOST:
        for kind in {kind for kind, _ in chosen}:
            await rows.keep_newest(session, server, kind, MOST)
    return contested


def _read(
    head: tuple[str, str] | None,
    found: list[tuple[bytes, int, bytes, Key]],
    waits: list[tuple[Key, bytes]],
) -> ServerPins:
    kept = ServerPins()
    if head is not None:
        kept.identity = msgspec.json.decode(head[0], type=Identity) if head[0] else None
        kept.begun = set(head[1].split())
    found.sort()  # of one name behind each other, the newest first
    for _, _, pin, (kind, name) in found:
        pins = kept.pins.setdefault(kind, {})
        pins[name] = pins.get(name, b"") + pin
    kept.waiting = {key: _item(content).waiting for key, content in waits}
    return kept


def _item(content: bytes) -> WaitingItem:
    return msgspec.json.decode(content, type=WaitingItem)


def _pin_rows(unsaved: Unsaved, keys: Iterable[Key], room: int) -> Iterator[PinRow]:
    for key in keys:
        for place, (pin, definition) in enumerate(unsaved.agreed[key].items()):
            room -= len(definition)
            yield PinRow(key, pin, definition if room >= 0 else b"{}", place)


def _waiting_rows(kept: ServerPins, keys: Iterable[Key]) -> Iterator[PinRow]:
    waiting: list[tuple[Key, Waiting]] = [(key, kept.waiting[key]) for key in keys if key in kept.waiting]
    return (PinRow(key, b"", msgspec.json.encode(WaitingItem.of(one))) for key, one in waiting)
