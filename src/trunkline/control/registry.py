"""The servers there are, how they fare, and what they offer; every change publishes a new snapshot."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from trunkline.config.options import Config, ServerSpec
from trunkline.control.merging import join_servers
from trunkline.model import EMPTY_SNAPSHOT, Kind, ServerView, Snapshot, State

ALONE = 3.0
"""Seconds that a first list waits for the only server: there is nothing else to show."""

Changed = Callable[[frozenset[Kind]], None]
"""Told which lists changed."""


class Registry:
    """Holds one view for each server."""

    def __init__(self, config: Config, published: Callable[[Snapshot], None]) -> None:
        self._config, self._published = config, published
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        self._views: dict[str, ServerView] = {}
        self._listeners: list[Changed] = []
        self._settled = asyncio.Event()

    def add(self, spec: ServerSpec) -> None:
        """Show a server, of which nothing is known yet."""
        self._views[spec.name] = ServerView(
            name=spec.name,
            transport=spec.kind,
            address=spec.address,
            timeout=spec.timeout,
            max_timeout=spec.max_timeout,
            concurrency=spec.concurrency,
            lasting=spec.lifecycle != "transient" or spec.kind != "stdio",
        )
        self._publish()

    def remove(self, server: str) -> None:
        """Forget a server."""
        if self._views.pop(server, None) is not None:
            self._publish(told=frozenset(Kind))

    def configure(self, config: Config) -> None:
        """Show servers as the configuration says, and in its order, whenever they were added."""
        before = self._config
        shown = (config.groups, config.gateway, config.profiles)
        told = set(Kind) if shown != (before.groups, before.gateway, before.profiles) else set[Kind]()
        if {name: spec.tools for name, spec in config.servers.items()} != {
            name: spec.tools for name, spec in self._config.servers.items()
        }:
            told.add(Kind.TOOL)
        self._config = config
        self._views = {name: self._views[name] for name in config.servers if name in self._views}
        self._publish(told=frozenset(told))

    def update(self, server: str, *, told: Iterable[Kind] = (), **changes: Any) -> None:
        """Change what is known of a server, and tell of the lists that changed."""
        view = self._views.get(server)
        if view is None:
            return
        changed = dataclasses.replace(view, **changes)
        if changed == view and not told:
            return
        self._views[server] = changed
        differing = {kind for kind in Kind if _items(view, kind) != _items(changed, kind)}
        self._publish(told=frozenset(differing | set(told)))

    def view(self, server: str) -> ServerView | None:
        """One server now."""
        return self._views.get(server)

    def listen(self, listener: Changed) -> Callable[[], None]:
        """Hear of changed lists; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def settle(self, seconds: float) -> None:
        """Wait, not long, for servers of which nothing at all is known; for one that stands alone, somewhat longer."""
        if self._settled.is_set():
            return
        if self.snapshot.bare:
            seconds = max(seconds, ALONE)
        try:
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        except TimeoutError:
            pass

    def _publish(self, told: frozenset[Kind] = frozenset()) -> None:
        self.snapshot = join_servers(self._views, self._config, self.snapshot.version + 1)
        self._published(self.snapshot)
        unknown = any(v.state is State.STARTING and v.introduction is None for v in self._views.values())
        if unknown:
            self._settled.clear()
        else:
            self._settled.set()
        if told:
            for listener in list(self._listeners):
                listener(told)


def _items(view: ServerView, kind: Kind) -> tuple[bytes, ...]:
    listing = view.lists.get(kind)
    return listing.items + listing.for_askable if listing is not None and view.state is not State.STOPPED else ()
