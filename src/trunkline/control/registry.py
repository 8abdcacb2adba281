"""The servers there are, how they fare, and what they offer; what changed is published as a new snapshot."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.item import spec_options
from trunkline.control.merging import Catalogue
from trunkline.control.pin_store import PinStore
from trunkline.control.trust import Trust
from trunkline.identity import owner_of
from trunkline.model import EMPTY_SNAPSHOT, Kind, Listing, ServerView, Snapshot, State
from trunkline.storage.store import Store
from trunkline.tasks import Tasks, in_slices
from trunkline.tool import ToolOptions

log = logging.getLogger("trunkline")

NOTHING_YET = 3.0
"""Seconds that a first list waits as long as there is nothing to show."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
SHARE = 10
"""Between two snapshots is a pause so many times as long as one takes: what comes together is published once."""

Changed = Callable[[frozenset[Kind]], None]
"""Told which lists changed."""
OwnedChanged = Callable[[str, frozenset[Kind]], None]
"""Told whose own lists changed, and which."""


class Registry:
    """Holds one view for each server. Changes are published soon after, by a task; `published` waits for it."""

    def __init__(
        self,
        config: Config,
        tasks: Tasks,
        published: Callable[[Snapshot], None],
        store: Callable[[], Store | None] = lambda: None,
    ) -> None:
        self._config, self._tasks, self._tell = config, tasks, published
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        self.trust = Trust(PinStore(config.home, store), tasks)
        """What is shown of what servers say."""
        self.trust.default, self.trust.changed = config.gateway.trust, self._judge_again
        self.trust.felt = self.published
        self._catalogue = Catalogue(self.trust)
        self._owned: dict[str, _Owned] = {}
        """What belongs to one user each."""
        self._owned_listeners: list[OwnedChanged] = []
        self._views: dict[str, ServerView] = {}
        self._unknown: set[str] = set()
        """Servers of which nothing at all is known yet."""
        self._listeners: list[Changed] = []
        self._settled = asyncio.Event()
        self._told: set[Kind] = set()
        self._changes = self._done = 0
        """How often something changed, and up to which of it was published."""
        self._moved = {""}
        """Whose part of the snapshot has to be made anew; everybody's is the one without a name."""
        self._publishing: asyncio.Task[None] | None = None
        self._hurry, self._news, self._free = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._free.set()
        self._next = 0.0
        """When the next snapshot is due."""

    def add(self, spec: ServerSpec) -> None:
        """Show a server, of which nothing is known yet."""
        owner = owner_of(spec.name)
        self.trust.add(spec)
        self.describe(spec)
        self._views_of(owner)[spec.name] = ServerView(
            name=spec.name,
            transport=spec.kind,
            address=spec.address,
            timeout=spec.timeout,
            max_timeout=spec.max_timeout,
            concurrency=spec.concurrency,
            lasting=spec.lifecycle != "transient" or spec.kind != "stdio",
        )
        if not owner:  # nobody waits for what another user's servers will offer
            self._unknown.add(spec.name)
        self._note(owner=owner)

    def describe(self, spec: ServerSpec) -> None:
        """Take on what is said of the tools of a user's server; of everybody's the configuration says it."""
        owner = owner_of(spec.name)
        if owner and spec_options(spec) != self._of_owner(owner).said.get(spec.name, {}):
            self._of_owner(owner).said[spec.name] = spec_options(spec)
            self._note((Kind.TOOL,), owner=owner)

    def remove(self, server: str) -> None:
        """Forget a server."""
        owner = owner_of(server)
        if owner:
            self._of_owner(owner).said.pop(server, None)
        if self._views_of(owner).pop(server, None) is not None:
            self._unknown.discard(server)
            self.trust.remove(server)
            self._note(Kind, owner=owner)

    def configure(self, config: Config) -> None:
        """Show servers as the configuration says, and in its order, whenever they were added."""
        before = self._config
        shown = (config.groups, config.gateway, config.profiles)
        told = set(Kind) if shown != (before.groups, before.gateway, before.profiles) else set[Kind]()
        if _tool_options(config) != _tool_options(before):
            told.add(Kind.TOOL)
        if (config.annotations, config.middleware) != (before.annotations, before.middleware):
            self._moved.update(self._owned)
        self._config = config
        for name in self._views.keys() & config.servers.keys():
            self.trust.add(config.servers[name])
        self.trust.configure(config.gateway.trust)
        self._views = {name: self._views[name] for name in config.servers if name in self._views}
        self._note(told)

    def update(self, server: str, *, told: Iterable[Kind] = (), **changes: Any) -> None:
        """Change what is known of a server, and tell of the lists that changed."""
        owner = owner_of(server)
        if changes.get("introduction") is not None:
            self.trust.introduce(server, changes["introduction"])
        view = self.view(server)
        if view is None:
            return
        if "lists" in changes:
            changes["lists"] = _kept(view.lists, changes["lists"])
        changed = dataclasses.replace(view, **changes)
        if changed == view and not told:
            return
        self._views_of(owner)[server] = changed
        if _is_unknown(changed) and not owner:
            self._unknown.add(server)
        else:
            self._unknown.discard(server)
        differing = (kind for kind in Kind if _items(view, kind) != _items(changed, kind))
        known = (view.lists, view.state) == (changed.lists, changed.state)
        self._note({*told, *(() if known else differing)}, owner=owner)

    def _judge_again(self, server: str, kinds: Iterable[str] = ()) -> None:
        """What is trusted of a server changed: its lists are joined anew, and callers hear of it."""
        owner, view = owner_of(server), self.view(server)
        if view is None:
            return
        # What it lists to nobody but those who signed in to it is joined upon the snapshot, and so made anew with it.
        listed = view.lists or Kind
        lists = {kind: dataclasses.replace(listing) for kind, listing in view.lists.items()}
        self._views_of(owner)[server] = dataclasses.replace(view, lists=lists)
        self._note({kind for kind in listed if not kinds or kind.value in kinds}, owner=owner)

    def view(self, server: str) -> ServerView | None:
        """One server now."""
        return self._views_of(owner_of(server)).get(server)

    def listen_owned(self, listener: OwnedChanged) -> Callable[[], None]:
        """Hear of changed lists that belong to one user; call what is returned to stop."""
        self._owned_listeners.append(listener)
        return lambda: self._owned_listeners.remove(listener) if listener in self._owned_listeners else None

    def listen(self, listener: Changed) -> Callable[[], None]:
        """Hear of changed lists; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def published(self) -> None:
        """Wait until all that is known now is in the snapshot, which is made at once."""
        wanted = self._changes
        while self._done < wanted and self._publishing is not None:
            self._hurry.set()
            await self._news.wait()

    @contextmanager
    def held(self) -> Generator[None]:
        """Publish nothing meanwhile: servers come whose configuration is still to be taken on."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    async def settle(self, seconds: float) -> None:
        """Wait, not long, for servers of which nothing at all is known; as long as there is nothing to show, longer."""
        began = time.monotonic()
        while not self._settled.is_set():
            empty = not (self.snapshot.tools or self.snapshot.prompts or self.snapshot.resources)
            left = began + (max(seconds, NOTHING_YET) if empty else seconds) - time.monotonic()
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    await self._news.wait()
            except TimeoutError:
                if empty:
                    log.warning("Nothing can be listed yet: still starting: %s.", ", ".join(sorted(self._unknown)))
                return

    def _views_of(self, owner: str) -> dict[str, ServerView]:
        return self._of_owner(owner).views if owner else self._views

    def _of_owner(self, owner: str) -> _Owned:
        if owner not in self._owned:
            self._owned[owner] = _Owned(self.trust)
        return self._owned[owner]

    def _note(self, told: Iterable[Kind] = (), *, owner: str = "") -> None:
        self._changes += 1
        self._moved.add(owner)
        if owner:
            self._owned[owner].told.update(told)
        else:
            self._told.update(told)
        if self._unknown:
            self._settled.clear()
        if self._publishing is None:
            self._publishing = self._tasks.start(self._publish(), name="snapshots")

    async def _publish(self) -> None:
        try:
            while self._done < self._changes:
                await self._pause()
                began = time.monotonic()
                changes, views, config, told = self._changes, dict(self._views), self._config, frozenset(self._told)
                self._told.clear()
                moved, self._moved = self._moved, set[str]()
                known = not self._unknown
                if "" in moved:
                    await in_slices(self._catalogue.prepare(views, config))
                owned, heard = await self._join_owned(moved - {""}, config)
                version = self.snapshot.version + 1
                if "" in moved:
                    joined = self._catalogue.join(views, config, version)
                    self.snapshot = dataclasses.replace(joined, owned=owned) if owned else joined
                else:
                    self.snapshot = dataclasses.replace(self.snapshot, owned=owned, version=version, meant={})
                self._done = changes
                self._tell(self.snapshot)
                if known and not self._unknown:
                    self._settled.set()
                self._pulse()
                for listener in list(self._listeners) if told else ():
                    listener(told)
                for owner, kinds in heard.items():
                    for listener in list(self._owned_listeners):
                        listener(owner, kinds)
                ended = time.monotonic()
                self._next = ended + min(max(SHARE * (ended - began), SHORTEST_PAUSE), LONGEST_PAUSE)
        finally:
            self._publishing = None
            self._pulse()

    async def _join_owned(
        self, moved: Set[str], config: Config
    ) -> tuple[Mapping[str, Snapshot], dict[str, frozenset[Kind]]]:
        """What users have of their own, and which lists of whom changed; those of others are not looked at."""
        if not moved:
            return self.snapshot.owned, {}
        parts, heard = dict(self.snapshot.owned), dict[str, frozenset[Kind]]()
        for owner in moved & self._owned.keys():
            owned = self._owned[owner]
            heard[owner] = frozenset(owned.told)
            owned.told.clear()
            await in_slices(owned.join(config))
            parts[owner] = owned.snapshot
            if not owned.views:
                del self._owned[owner], parts[owner]
        return parts, heard

    async def _pause(self) -> None:
        """Let what comes together come, unless somebody waits for it."""
        try:
            async with asyncio.timeout(max(self._next - time.monotonic(), 0.0)):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()
        await self._free.wait()

    def _pulse(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class _Owned:
    """The servers of one user, joined among themselves: they change nothing for anybody else."""

    def __init__(self, trust: Trust) -> None:
        self.views: dict[str, ServerView] = {}
        self.said: dict[str, Mapping[str, ToolOptions]] = {}
        """What is said of their tools."""
        self.snapshot = EMPTY_SNAPSHOT
        self.told: set[Kind] = set()
        self._catalogue = Catalogue(trust)

    def join(self, config: Config) -> Iterator[None]:
        """Make the user's snapshot anew, step by step; names always begin with the server's."""
        gateway = dataclasses.replace(config.gateway, namespace="always")
        servers = {name: ServerSpec(name, tools=said) for name, said in self.said.items()}
        told: dict[str, Any] = {"annotations": config.annotations, "middleware": config.middleware}
        own = Config(gateway=gateway, servers=servers, home=config.home, **told)
        views = dict(self.views)
        yield from self._catalogue.prepare(views, own)
        self.snapshot = self._catalogue.join(views, own, self.snapshot.version + 1)


def _tool_options(config: Config) -> dict[str, Mapping[str, ToolOptions]]:
    return {name: spec_options(spec) for name, spec in config.servers.items()}


def _kept(before: Mapping[Kind, Listing], lists: Mapping[Kind, Listing]) -> Mapping[Kind, Listing]:
    """The lists, each as the object that it was if it is the same: whoever made something of it need not look again."""
    kept = {kind: before[kind] if before.get(kind) == listing else listing for kind, listing in lists.items()}
    return before if kept == before else kept


def _is_unknown(view: ServerView) -> bool:
    return view.state is State.STARTING and view.introduction is None and not view.lists


def _items(view: ServerView, kind: Kind) -> tuple[bytes, ...]:
    listing = view.lists.get(kind)
    return listing.items + listing.for_askable if listing is not None and view.state is not State.STOPPED else ()
