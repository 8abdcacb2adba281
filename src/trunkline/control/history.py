"""How the tools of servers changed over time, kept on disk so that a change across a restart is seen."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trunkline.control.change import Chronicle, ToolChange, ToolChanged
from trunkline.control.server_files import ServerFiles
from trunkline.control.tables import differing
from trunkline.events import Emitter
from trunkline.model import EMPTY_SNAPSHOT, Kind, Listing, ServerView, Snapshot
from trunkline.tasks import Tasks

log = logging.getLogger("trunkline")

LARGEST = 64 * 2**20
"""Bytes of a file that is read at all."""
FORMAT = 1
UNREADABLE = "The history in %s cannot be read and is begun anew: %s."
LAST_NOTES = 2.0
"""Seconds that the end waits for what is being noted."""


class History:
    """One file for each server; without a folder, what was seen since the start. Files are touched in threads only."""

    def __init__(
        self, folder: Path | None = None, *, tasks: Tasks | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._tasks, self._clock = tasks, clock
        self._files = ServerFiles(folder, _Document, format=FORMAT, largest=LARGEST) if folder is not None else None
        self._events = Emitter(ToolChanged)
        self.on, self.off = self._events.on, self._events.off
        self._unwritten: dict[str, Chronicle] = {}
        """What no file has: there is no folder, or its disk is full."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._seen: dict[str, Listing] = {}
        self._noted: dict[str, float] = {}
        """When something was noted here last, by server."""
        self._last = EMPTY_SNAPSHOT
        self._noting: set[asyncio.Task[Any]] = set()

    async def note(
        self, server: str, items: Sequence[bytes], *, whole: bool = True, before: Iterable[bytes] = ()
    ) -> list[ToolChange]:
        """Compare a server's tools with those it had; the first list of all changes nothing.

        What stands in the list `before`, which was noted here as well, is not read again.
        """
        async with self._turns[server]:
            now, noted = self._clock(), frozenset(before)
            at = self._noted.pop(server, -1.0)  # without it, what could not be noted now is read next time
            changes = await asyncio.to_thread(self._note, server, items, now, whole, noted, at)
            self._noted[server] = now
        for change in changes:
            self._events.emit(ToolChanged(change))
        return changes

    async def changes(self, server: str = "", tool: str = "", *, limit: int = 0) -> list[ToolChange]:
        """What changed, the newest first; what is being noted is waited for. 0 sets no limit."""
        await self.settled()
        chronicles = await asyncio.to_thread(self._all)
        found = [
            change
            for chronicle in chronicles
            for change in chronicle.changes
            if (not server or change.server == server) and (not tool or change.tool == tool)
        ]
        found.sort(key=lambda change: (-change.when, change.server, change.tool))
        return found[:limit] if limit else found

    def follow(self, snapshot: Snapshot) -> None:
        """Note the lists that are new in a snapshot, in the background; those that were not read wholly are left."""
        assert self._tasks is not None, "a history that follows snapshots owns tasks"
        for before, now in snapshot.since(self._last):
            for name in differing(before.servers, now.servers):
                view = now.servers.get(name)
                if view is not None:
                    self._look(name, view, self._tasks)
                else:
                    self._seen.pop(name, None)
                    self._noted.pop(name, None)
        self._last = snapshot

    def _look(self, name: str, view: ServerView, tasks: Tasks) -> None:
        """Have a server's list noted, if it is another."""
        listing = view.lists.get(Kind.TOOL)
        seen = self._seen.get(name)
        if listing is None or listing is seen or listing.problem:
            return
        self._seen[name] = listing
        if seen is None or (seen.items, seen.for_askable) != (listing.items, listing.for_askable):
            before = (*seen.items, *seen.for_askable) if seen is not None else ()
            work = self.note(name, (*listing.items, *listing.for_askable), before=before)
            noting = tasks.start(work, name=f"{name} history")
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def settled(self) -> None:
        """Wait until everything is noted."""
        while self._noting:
            await asyncio.wait(tuple(self._noting))

    async def close(self) -> None:
        """Let what is being noted be noted, if the disk is not too slow; what is left is seen after the next start."""
        if self._noting:
            await asyncio.wait(tuple(self._noting), timeout=LAST_NOTES)

    # In a thread.

    def _note(
        self, server: str, items: Iterable[bytes], now: float, whole: bool, noted: frozenset[bytes], at: float
    ) -> list[ToolChange]:
        # The file is read each time: another process may have noted something meanwhile.
        chronicle = self._unwritten.get(server) or self._read(server) or Chronicle(server)
        begun = chronicle.begun
        changes = chronicle.note(items, now, whole=whole, noted=noted, at=at)
        if changes or not begun:
            self._write(chronicle)
        return changes

    def _all(self) -> list[Chronicle]:
        found = dict(self._unwritten)
        for path, document in self._files.each() if self._files is not None else ():
            if isinstance(document, ValueError):
                log.warning(UNREADABLE, path, document)
            else:
                found.setdefault(document.chronicle.server, document.chronicle)
        return list(found.values())

    def _read(self, server: str) -> Chronicle | None:
        if self._files is None:
            return None
        try:
            document = self._files.read(server)
        except ValueError as error:
            log.warning(UNREADABLE, self._files.path(server), error)
            return None
        return document.chronicle if document is not None else None

    def _write(self, chronicle: Chronicle) -> None:
        if self._files is not None and self._files.write(chronicle.server, _Document(FORMAT, chronicle)):
            self._unwritten.pop(chronicle.server, None)
        else:
            self._unwritten[chronicle.server] = chronicle


class _Document(msgspec.Struct):
    format: int
    chronicle: Chronicle
