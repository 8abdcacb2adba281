"""Finding tools for callers: among what each of them has, and by what lately served them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from trunkline.callers import Callers
from trunkline.config.options import Config, SearchStrategy
from trunkline.control.search import Found, ToolSearch
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Call, Snapshot
from trunkline.tasks import Tasks
from trunkline.upstream.connection_key import can_be_asked


class Finding:
    """Searches the newest snapshot as the configuration of the moment says."""

    def __init__(
        self, config: Callable[[], Config], callers: Callers, newest: Callable[[], Snapshot], tasks: Tasks
    ) -> None:
        self._config, self._callers, self._newest = config, callers, newest
        self._search = ToolSearch(config().search, config().home, tasks)
        self._news = asyncio.Event()

    async def find(self, query: str | Sequence[str], snapshot: Snapshot, scope: Scope, **criteria: Any) -> list[Found]:
        """The tools in a caller's snapshot that fit a prompt best, or each of several queries."""
        return await self._search.find(query, snapshot, newest=self._newest(), scope=scope, **criteria)

    async def find_for(
        self, call: Call, query: str, snapshot: Snapshot, limit: int, strategy: SearchStrategy | None = None
    ) -> list[Found]:
        """The same for whoever makes a call."""
        return await self.find(
            query, snapshot, call.scope, limit=limit, askable=can_be_asked(call.caller), strategy=strategy
        )

    async def keep_index(self) -> None:
        """Have tools ready to be found before anybody searches, for as long as some profile searches; run as a task."""
        while True:
            self._news.clear()
            snapshot = self._newest()
            # Callers of no profile are `EVERYONE` itself: what is found by one object is not compared with another.
            scopes = (EVERYONE, *(Scope(profile=profile) for profile in self._config().profiles))
            if any(self._callers.view(scope).searching for scope in scopes):
                await self._search.prepare(snapshot)
            await self._news.wait()

    def follow(self) -> None:
        """There is a newer snapshot."""
        self._news.set()

    def learn(self, call: Call, well: bool) -> None:
        """A call ended, well or not."""
        if call.entry is not None and call.method == "tools/call":
            scope = call.scope
            self._search.learn(scope.user, scope.thread or scope.session, call.entry, well=well)

    def configure(self) -> None:
        """The configuration is another."""
        self._search = self._search.configured(self._config().search)

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and who comes under that name is somebody else."""
        self._search.forget_user(user)
