"""The servers that come and go: a supervisor for each, and what reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from trunkline.config.server import ServerSpec
from trunkline.control.list_store import ListStore
from trunkline.control.registry import Registry
from trunkline.control.supervisor import Supervisor
from trunkline.errors import UpstreamError
from trunkline.identity import owner_of
from trunkline.model import DOWNLOADING
from trunkline.tasks import Tasks, in_slices
from trunkline.upstream.connection_key import ConnectionKey
from trunkline.upstream.pool import Pool
from trunkline.upstream.quota import QuotaEvents


class Fleet:
    """Every enabled server, each looked after by a task of its own."""

    def __init__(self, registry: Registry, shelf: ListStore, tasks: Tasks) -> None:
        self._registry = registry
        self._shelf = shelf
        self._tasks = tasks
        self._pool: Pool | None = None
        self._watched: dict[str, tuple[Supervisor, asyncio.Task[Any]]] = {}
        self._of_owner: dict[str, set[str]] = {}
        """The servers of each user, and everybody's."""
        self.specs: dict[str, ServerSpec] = {}
        """How each is configured."""
        self.on_end: Callable[[str], object] = lambda server: None
        """Told that a server was let go, and its connections are closed."""

    @property
    def pool(self) -> Pool:
        """The connections to all of them."""
        assert self._pool is not None, "the hub is open"
        return self._pool

    def attach(self, pool: Pool) -> None:
        """Reach servers by the connections of this pool."""
        self._pool = pool

    async def dismiss(self, wanted: Mapping[str, ServerSpec]) -> list[str]:
        """End those that are wanted no more, or otherwise than they are; says which."""
        leaving = [
            name
            for name, spec in self.specs.items()
            if not owner_of(name) and (name not in wanted or wanted[name].fingerprint != spec.fingerprint)
        ]
        await self.end(leaving)
        return leaving

    async def end(self, leaving: Iterable[str]) -> None:
        """End some servers."""
        for name in leaving:
            del self.specs[name]
            _, task = self._watched.pop(name)
            self._of_owner[owner_of(name)].discard(name)
            if not self._of_owner[owner_of(name)]:
                del self._of_owner[owner_of(name)]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.pool.remove(name)
            self._registry.remove(name)
            self.on_end(name)

    async def enlist(self, wanted: Mapping[str, ServerSpec]) -> list[str]:
        """Begin with those that are not there yet, which may be many; says which."""
        coming = [name for name in wanted if name not in self.specs]
        self.specs.update({name: spec for name, spec in wanted.items() if name in self.specs})
        with self._registry.held():
            await in_slices(self._begin(wanted[name]) for name in coming)
        return coming

    def describe(self, spec: ServerSpec) -> None:
        """Take on what is said otherwise of a server that goes on."""
        self.specs[spec.name] = spec
        self._registry.describe(spec)

    def begin(self, coming: Mapping[str, ServerSpec]) -> None:
        """Begin with some servers."""
        for spec in coming.values():
            self._begin(spec)

    def _begin(self, spec: ServerSpec) -> None:
        self.specs[spec.name] = spec
        self._registry.add(spec)
        supervisor = Supervisor(spec, self.pool, self._registry, self._shelf, self._tasks)
        self._watched[spec.name] = supervisor, self._tasks.start(supervisor.run(), name=f"server {spec.name}")
        self._of_owner.setdefault(owner_of(spec.name), set()).add(spec.name)

    def supervisor(self, server: str) -> Supervisor | None:
        """Who looks after a server; nobody when it has left."""
        found = self._watched.get(server)
        return found[0] if found is not None else None

    async def ready(self, seconds: float, names: Collection[str] | None = None, *, downloads: bool = False) -> None:
        """Wait until every server, or each of some, was reached or failed once, at most so long.

        With `downloads`, those that are being downloaded then are waited for: that ends with their own times.
        """
        wanted = self._watched if names is None else [name for name in names if name in self._watched]
        tries = [self._watched[name][0].first_try for name in wanted]
        try:
            async with asyncio.timeout(seconds):
                for each in tries:  # one after the other, as all must end: a task for each would cost more than they do
                    await each.wait()
        except TimeoutError:
            views = map(self._registry.view, wanted) if downloads else ()
            coming = [view.name for view in views if view is not None and view.reason == DOWNLOADING]
            for each in [self._watched[name][0].first_try for name in coming if name in self._watched]:
                await each.wait()

    def were_tried(self, names: Iterable[str]) -> bool:
        """Whether each of some servers was reached or failed once, or is gone."""
        return all(self._watched[name][0].first_try.is_set() for name in names if name in self._watched)

    def refresh(self, user: str = "") -> None:
        """Have stale lists read again: everybody's, and those of a user."""
        for owner in {"", user}:
            for name in self._of_owner.get(owner, ()):
                supervisor, _ = self._watched[name]
                if supervisor.unheard:
                    supervisor.refresh()

    def last_words(self, server: str) -> str:
        """What a server last wrote to its standard error."""
        words = [connection.last_words for connection in self.pool.connections(server)]
        found = self.supervisor(server)
        text = next((text for text in words if text), found.last_words if found is not None else "")
        return found.spec.without_secrets(text) if found is not None else text

    def hear(self, key: ConnectionKey, method: str, params: bytes) -> None:
        """A server said something outside a call; what it says on a caller's own connection is for that caller."""
        found = self.supervisor(key.server)
        if found is not None and not key.owner:
            found.hear(method, params)

    def woke(self, key: ConnectionKey) -> None:
        """A connection was opened, or ended by itself; one made with a user's credential says nothing of the others."""
        found = self.supervisor(key.server)
        if found is not None and not (key.purpose == "shared" and key.user):
            found.look_again()

    def quota(self, most: Callable[[str], int], reached: Callable[[str], None]) -> QuotaEvents:
        """How many connections users may have, and which of them can be closed."""
        return QuotaEvents(most, reached, self._in_use, self._put_to_sleep)

    def _in_use(self, key: ConnectionKey) -> bool:
        found = self.supervisor(key.server)
        return found is not None and found.in_use

    def _put_to_sleep(self, key: ConnectionKey) -> None:
        found = self.supervisor(key.server)
        if found is not None and key.purpose == "shared":
            found.put_to_sleep()

    def downloading(self, key: ConnectionKey) -> None:
        """A server has to be downloaded before it starts."""
        found = self.supervisor(key.server)
        if found is not None:
            found.downloading()

    def report(self, server: str, error: UpstreamError | None) -> None:
        """A call of a server was answered, or could not be made."""
        found = self._watched.get(server)
        if found is not None:
            found[0].report(error)
