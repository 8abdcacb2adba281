"""Threads: what is not said of a thread is as its user has it, and what is not said of a user as the app has it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from trunkline.config.options import Expose, SearchStrategy
from trunkline.errors import ConfigError, NotFoundError, VersionConflictError
from trunkline.events import Event
from trunkline.identity import NO_OVERRIDES, Overrides, Rule, Scope
from trunkline.storage import documents
from trunkline.storage.documents import Document
from trunkline.storage.store import Change, Store
from trunkline.tenancy.limits import PERIODS, check_limits

REMEMBERED = 50_000
"""Threads of callers whose scope is known without asking the store."""
LONGEST_ID = 256


@dataclass(frozen=True)
class Thread:
    """A thread that was configured."""

    id: str
    user: str = ""
    servers: tuple[str, ...] | None = None
    """The servers it has, of those that its user has; `None` for all of them."""
    tools: tuple[str, ...] = ()
    """Patterns of the tools it has, of those; without one, all."""
    disabled: tuple[str, ...] = ()
    """Servers it has not, whatever else is said."""
    overrides: Overrides = NO_OVERRIDES
    version: int = 0
    created: int = 0
    updated: int = 0

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What exists in it."""
        rule = Rule(
            None if self.servers is None else frozenset(self.servers), self.tools, hidden=frozenset(self.disabled)
        )
        return () if rule == Rule() else (rule,)


@dataclass(frozen=True)
class ThreadChanged(Event):
    """A thread was configured otherwise, or no longer; without an id, it may be any."""

    id: str
    user: str


class Threads:
    """The threads of everybody; a caller's scope in its thread is found without the store once it is known."""

    def __init__(self, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool]) -> None:
        self._store, self._is_open = store, is_open
        self._scopes: OrderedDict[tuple[Scope, str], Scope] = OrderedDict()
        self._by_thread: dict[tuple[str, str], set[tuple[Scope, str]]] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    # On the way in.

    def known(self, scope: Scope, id: str) -> Scope | None:
        """A caller's scope in one of its threads, if it is remembered."""
        return self._scopes.get((scope, id))

    async def enter(self, scope: Scope, id: str) -> Scope:
        """A caller's scope in one of its threads."""
        check_id(id)
        found = self._scopes.get((scope, id))
        if found is not None:
            return found
        entered = dataclasses.replace(scope, thread=id)
        if self._is_open():
            thread = await self.find(scope.user, id)
            if thread is not None:
                entered = dataclasses.replace(entered, rules=scope.rules + thread.rules, overrides=thread.overrides)
        self._remember((scope, id), entered)
        return entered

    # What can be done with them.

    async def find(self, user: str, id: str) -> Thread | None:
        """A user's thread, if it was configured; another user's is not there."""
        found = await documents.find(await self._store(), "thread", user, id) if self._is_open() else None
        return _thread(found) if found is not None else None

    async def get(self, user: str, id: str) -> Thread:
        """The same, where there has to be one."""
        found = await self.find(user, id)
        if found is None:
            raise NotFoundError(f"There is no thread {id!r}.", hint="It has what its user has until it is configured.")
        return found

    async def list(self, user: str, *, after: str = "", limit: int = 1000) -> Sequence[Thread]:
        """A user's threads by id, those behind one."""
        if not self._is_open():
            return []
        found = await documents.of_owner(await self._store(), "thread", user, after=after, limit=limit)
        return [_thread(one) for one in found]

    async def put(self, thread: Thread, *, of_user: bool = False) -> Thread:
        """Configure a thread; with a version, only if nobody else did meanwhile; `of_user`, only if there is one."""
        wanted = self.checked(thread.user, thread.id, _content(thread))
        before = await self.find(thread.user, thread.id)
        version = thread.version or (before.version if before is not None else 0)
        made = await documents.put(await self._store(), dataclasses.replace(wanted, version=version), of_user=of_user)
        if made is None:
            raise _changed(thread.id)
        self._forget(thread.user, thread.id)
        return _thread(made)

    @staticmethod
    def checked(user: str, id: str, content: dict[str, Any]) -> Document:
        """A thread as it may be kept."""
        check_id(id)
        document = Document("thread", user, id, content)
        unknown = content.keys() - {"servers", "tools", "disabled", "overrides"}
        if unknown:
            raise ConfigError(f"A thread has no {', '.join(sorted(unknown))}.")
        try:
            _check(_thread(document))
        except msgspec.ValidationError as error:
            raise ConfigError(f"Thread {id!r}: {error}.") from error
        return document

    def read(self, user: str, id: str, content: dict[str, Any]) -> Thread:
        """A thread of what somebody wrote, checked."""
        return _thread(self.checked(user, id, content))

    async def remove(self, user: str, id: str, *, version: int = 0) -> None:
        """Let a thread have what its user has again; with a version, only if nobody changed it meanwhile."""
        await self.get(user, id)
        if not await documents.remove(await self._store(), "thread", user, id, version=version):
            raise _changed(id)
        self._forget(user, id)

    async def clone(self, user: str, id: str, to: str, *, of_user: bool = False) -> Thread:
        """A thread of the same user that is configured alike; there must be none yet."""
        source = await self.get(user, id)
        if await self.find(user, to) is not None:
            raise ConfigError(f"There already is a thread {to!r}.", hint="Choose another id, or remove it first.")
        return await self.put(dataclasses.replace(source, id=to, version=0), of_user=of_user)

    # When things change.

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """Hear whose thread changed: user, and id; both empty when it may be any."""
        self._listeners.append(listener)

    def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something; `None` when it is not known what."""
        if changes is None:
            self._scopes.clear()
            self._by_thread.clear()
            self._tell("", "")
        for change in changes or ():
            if change.noun == "thread":
                self._forget(change.owner, change.name)

    def forget(self, user: str) -> None:
        """Somebody is gone, with all threads of theirs."""
        for owner, id in list(self._by_thread):
            if owner == user:
                self._forget(owner, id)

    def _forget(self, user: str, id: str) -> None:
        for place in self._by_thread.pop((user, id), ()):
            self._scopes.pop(place, None)
        self._tell(user, id)

    def _tell(self, user: str, id: str) -> None:
        for listener in self._listeners:
            listener(user, id)

    def _remember(self, place: tuple[Scope, str], scope: Scope) -> None:
        self._scopes[place] = scope
        self._by_thread.setdefault((scope.user, scope.thread), set()).add(place)
        if len(self._scopes) > REMEMBERED:
            oldest, left = self._scopes.popitem(last=False)
            places = self._by_thread.get((left.user, left.thread), set())
            places.discard(oldest)
            if not places:
                self._by_thread.pop((left.user, left.thread), None)


def _changed(id: str) -> VersionConflictError:
    return VersionConflictError(f"Thread {id!r} was changed by somebody else.", hint="Look, and try again.")


def check_id(id: str) -> None:
    """Refuse what cannot be a thread's id."""
    if not 0 < len(id) <= LONGEST_ID or not id.isprintable():
        raise ConfigError("A thread's id has 1 to 256 printable characters.")


def check_count(servers: Collection[str] | None, most: int) -> None:
    """Refuse a thread with more servers than `[limits]` allows."""
    if most and len(servers or ()) > most:
        raise ConfigError(f"A thread may have {most} servers.", hint="See `servers_per_thread` in [limits].")


def _check(thread: Thread) -> None:
    overrides = thread.overrides
    strategies: tuple[str, ...] = get_args(SearchStrategy)
    if overrides.search_strategy and overrides.search_strategy not in strategies:
        raise ConfigError(
            f"There is no strategy {overrides.search_strategy!r}.", hint=f"There are {', '.join(strategies)}."
        )
    ways: tuple[str, ...] = get_args(Expose)
    if overrides.expose and overrides.expose not in ways:
        raise ConfigError(f"Tools cannot be shown as {overrides.expose!r}.", hint=f"There are {', '.join(ways)}.")
    if not 0 <= overrides.timeout < 1e6:
        raise ConfigError("A thread's `timeout` is a number of seconds, 0 or more.")
    check_limits(dict(overrides.limits), tuple(PERIODS))


def _content(thread: Thread) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(thread)
    for name in ("id", "user", "version", "created", "updated"):
        del built[name]
    return built


def _thread(document: Document) -> Thread:
    read = msgspec.convert({"id": document.name, "user": document.owner, **document.content}, Thread)
    return dataclasses.replace(read, version=document.version, created=document.created, updated=document.updated)
