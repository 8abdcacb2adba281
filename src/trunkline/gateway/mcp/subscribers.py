"""Everyone who listens for what belongs to no call: changed lists, updated resources, log messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trunkline.call.tasks.log import Known
from trunkline.errors import UnknownNameError
from trunkline.identity import EVERYONE, NO_OVERRIDES, Scope, owner_of
from trunkline.model import Entry, Kind, View
from trunkline.relay import Relay
from trunkline.tools.builtin import CATALOGUE
from trunkline.upstream.connection_key import owner_of_user
from trunkline.wire.envelope import read_string
from trunkline.wire.members import encode, read_members


class Subscriber:
    """One listener; it hears what it does not override as nothing."""

    scope = EVERYONE
    owner = ""
    """Who it is, where servers may have connections for it alone."""

    def changed(self, kind: Kind) -> None:
        """A list changed."""

    def updated(self, uri: str, params: bytes) -> None:
        """A resource changed."""

    def task_changed(self, known: Known, method: str, params: bytes) -> None:
        """A server told of a task."""

    def said(self, method: str, params: bytes) -> None:
        """A server said something else, such as a log message."""

    def drain(self) -> None:
        """Trunkline stops: end what would otherwise stay open for ever."""


class Subscribers:
    """Passes what servers say on to those who may hear it."""

    def __init__(self, relay: Relay) -> None:
        self._all: dict[int, Subscriber] = {}
        self._groups: dict[Scope, _Group] = {}
        """Those who see the same, by a scope of theirs without what makes no difference."""
        self._relay = relay
        self._forget = [
            relay.on_change(self._changed),
            relay.on_owned_change(self._owned_changed),
            relay.on_heard(self._heard),
        ]

    def join(self, subscriber: Subscriber) -> None:
        """Listen from now on."""
        scope = _seeing(subscriber.scope)
        group = self._groups.get(scope)
        if group is None:
            group = self._groups[scope] = _Group(self._relay.view(scope))
        group.members.add(id(subscriber))
        self._all[id(subscriber)] = subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Stop listening."""
        if self._all.pop(id(subscriber), None) is not None:
            scope = _seeing(subscriber.scope)
            group = self._groups[scope]
            group.members.discard(id(subscriber))
            if not group.members:
                del self._groups[scope]

    def is_present(self, user: str) -> bool:
        """Whether somebody of this name listens."""
        return any(scope.user == user for scope in self._groups)

    def drain(self, whose: Callable[[Scope], bool] | None = None) -> None:
        """Say goodbye to everyone, or to some."""
        if whose is None:
            for forget in self._forget:
                forget()
        for subscriber in list(self._all.values()):
            if whose is None or whose(subscriber.scope):
                subscriber.drain()

    def _changed(self, kinds: frozenset[Kind]) -> None:
        for scope in list(self._groups):
            self._tell(scope, kinds)

    def _owned_changed(self, user: str, kinds: frozenset[Kind]) -> None:
        for scope in [scope for scope in self._groups if scope.user == user]:
            self._tell(scope, kinds)

    def refresh(self, whose: Callable[[Scope], bool]) -> None:
        """What some may see is another: tell them of the lists that are."""
        for subscriber in list(self._all.values()):
            if whose(subscriber.scope):
                self._tell(_seeing(subscriber.scope), frozenset())

    def _tell(self, scope: Scope, kinds: frozenset[Kind]) -> None:
        group = self._groups.get(scope)
        if group is None:
            return
        lists, catalogue = self._news(scope, group, kinds)
        for number in list(group.members):
            subscriber = self._all[number]
            for kind in lists:
                subscriber.changed(kind)
            if catalogue:
                subscriber.updated(CATALOGUE, encode({"uri": CATALOGUE}))

    def _news(self, scope: Scope, group: _Group, kinds: frozenset[Kind]) -> tuple[frozenset[Kind], bool]:
        """Of the lists that changed, those that look different to these callers; and whether our catalogue does.

        Where they begin to search, lists change of which no server told.
        """
        before = group.shown
        try:
            now = group.shown = self._relay.view(scope)
        except UnknownNameError:  # it was just taken out of the configuration
            return frozenset(), False
        if before is now:
            return frozenset(), False
        narrowed = scope.profile or scope.rules or scope.overrides != NO_OVERRIDES
        if narrowed or not kinds or before.searching or now.searching:
            told = kinds if kinds and before.searching == now.searching else Kind
            kinds = frozenset(kind for kind in told if before.entries(kind) != now.entries(kind))
        catalogue = bool(now.resources) and _tools(before) != _tools(now)
        return (kinds - {Kind.TEMPLATE}) | {Kind.RESOURCE} if Kind.TEMPLATE in kinds else kinds, catalogue

    def _heard(self, server: str, owner: str, method: str, params: bytes) -> None:
        if method.endswith("/list_changed"):
            self._own_changed(owner, method)
            return
        if method == "notifications/subscriptions/acknowledged":
            return
        if method.startswith("notifications/tasks"):
            own = read_string(read_members(params).get("taskId", b"")) if params else ""
            known = self._relay.task_log.find(server, own)
            if known is not None:
                for subscriber in list(self._all.values()):
                    subscriber.task_changed(known, method, params)
            return
        if method == "notifications/resources/updated":
            uri = read_string(read_members(params).get("uri", b"")) if params else ""
            for subscriber in self._seeing(server):
                if self._relay.own_subscriptions.hears(subscriber.owner, owner, server, uri):
                    subscriber.updated(uri, params)
            return
        for subscriber in self._seeing(server):
            if not owner or _is_owner(subscriber, owner):
                subscriber.said(method, params)

    def _own_changed(self, owner: str, method: str) -> None:
        """A list changed on a caller's own connection. Of those that all share we tell when we have read them anew."""
        for subscriber in list(self._all.values()) if owner else ():
            if _is_owner(subscriber, owner):
                subscriber.changed(Kind(method.split("/")[1]))

    def _seeing(self, server: str) -> Iterator[Subscriber]:
        """Those for whom a server exists."""
        for scope, group in list(self._groups.items()):
            if server in group.shown.snapshot.servers or (scope == EVERYONE and not owner_of(server)):
                yield from [self._all[number] for number in group.members]


def _is_owner(subscriber: Subscriber, owner: str) -> bool:
    """Whether what is said on an owner's connection is said to a listener."""
    user = subscriber.scope.user
    return owner == subscriber.owner or bool(user and owner == owner_of_user(user))


@dataclass
class _Group:
    """Subscribers who see the same."""

    shown: View
    members: set[int] = field(default_factory=set[int])


def _seeing(scope: Scope) -> Scope:
    """A scope with only what makes a difference to what its caller sees."""
    return Scope(user=scope.user, profile=scope.profile, rules=scope.rules, overrides=scope.overrides)


def _tools(view: View) -> list[Mapping[str, Entry]]:
    """Server by server: the tools of one that did not change are the same object, and need not be compared."""
    return [offer.tools for offer in view.snapshot.offers.values() if offer.tools]
