"""The index of a hub: opened when somebody first searches, as who does not need not pay for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.config.options import SearchSection
from trunkline.model import Entry, Snapshot
from trunkline.tasks import Tasks

if TYPE_CHECKING:
    from trunkline.control.finding import Finding, Found


class Searching:
    """Searches that begin when they are first wanted, and begin anew when they are configured otherwise."""

    def __init__(self, section: SearchSection, home: Path, tasks: Tasks) -> None:
        self._section = section
        self._home = home
        self._tasks = tasks
        self._opening = asyncio.Lock()
        self.finding: Finding | None = None
        """What finds, if anybody searched."""

    async def find(
        self, query: str | Sequence[str], among: Snapshot, *, newest: Snapshot, **wanted: Any
    ) -> list[Found]:
        """The tools of a snapshot that fit best, when all that the newest has is indexed; see `Finding.find`."""
        finding = await self._open()
        await finding.follow(newest)
        return await finding.find(query, among, **wanted)

    async def index(self, snapshot: Snapshot) -> None:
        """Have tools ready to be found by their words; the rest waits for somebody who searches."""
        await (await self._open(shallow=True)).follow(snapshot)

    def learn(self, user: str, thread: str, tool: Entry, *, well: bool) -> None:
        """A call of a tool was answered: who searches again finds what served before."""
        if self.finding is not None:
            self.finding.learn(user, thread, tool, well=well)

    def configure(self, section: SearchSection) -> None:
        """Search otherwise from now on."""
        if section != self._section and self.finding is not None:
            self.finding.close()
            self.finding = None
        self._section = section

    async def _open(self, *, shallow: bool = False) -> Finding:
        async with self._opening:
            if self.finding is None:
                from trunkline.control.finding import open_finding

                self.finding = await open_finding(self._section, self._home, self._tasks, shallow=shallow)
            return self.finding
