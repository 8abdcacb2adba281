"""Everyone who listens for what belongs to no call: changed lists, updated resources, log messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from trunkline.call.tasks.log import Known
from trunkline.errors import UnknownNameError
from trunkline.model import EVERYONE, Entry, Kind, Scope, View
from trunkline.relay import Relay
from trunkline.tools.builtin import CATALOGUE
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
        self._listening: Counter[str] = Counter()
        self._shown: dict[str, View] = {}
        self._relay = relay
        self._forget = [relay.on_change(self._changed), relay.on_heard(self._heard)]

    def join(self, subscriber: Subscriber) -> None:
        """Listen from now on."""
        profile = subscriber.scope.profile
        if not self._listening[profile]:
            self._shown[profile] = self._relay.view(profile)  # since the last one left, nobody kept it up
        self._listening[profile] += 1
        self._all[id(subscriber)] = subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Stop listening."""
        if self._all.pop(id(subscriber), None) is not None:
            self._listening[subscriber.scope.profile] -= 1

    def drain(self, whose: Callable[[Scope], bool] | None = None) -> None:
        """Say goodbye to everyone, or to some."""
        if whose is None:
            for forget in self._forget:
                forget()
        for subscriber in list(self._all.values()):
            if whose is None or whose(subscriber.scope):
                subscriber.drain()

    def _changed(self, kinds: frozenset[Kind]) -> None:
        news = {profile: self._news(profile, kinds) for profile, count in self._listening.items() if count}
        for subscriber in list(self._all.values()):
            lists, catalogue = news[subscriber.scope.profile]
            for kind in lists:
                subscriber.changed(kind)
            if catalogue:
                subscriber.updated(CATALOGUE, encode({"uri": CATALOGUE}))

    def _news(self, profile: str, kinds: frozenset[Kind]) -> tuple[frozenset[Kind], bool]:
        """Of the lists that changed, those that look different to callers of a profile; and whether our catalogue does.

        Where they begin to search, lists change of which no server told.
        """
        before = self._shown[profile]
        try:
            now = self._shown[profile] = self._relay.view(profile)
        except UnknownNameError:  # it was just taken out of the configuration
            return frozenset(), False
        if profile or before.searching or now.searching:
            told = kinds if before.searching == now.searching else Kind
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
            for subscriber in list(self._all.values()):
                if self._relay.own_subscriptions.hears(subscriber.owner, owner, server, uri):
                    subscriber.updated(uri, params)
            return
        for subscriber in list(self._all.values()):
            scope = subscriber.scope
            if (not owner or owner == subscriber.owner) and (not scope.profile or self._has(scope.profile, server)):
                subscriber.said(method, params)

    def _own_changed(self, owner: str, method: str) -> None:
        """A list changed on a caller's own connection. Of those that all share we tell when we have read them anew."""
        for subscriber in list(self._all.values()) if owner else ():
            if subscriber.owner == owner:
                subscriber.changed(Kind(method.split("/")[1]))

    def _has(self, profile: str, server: str) -> bool:
        try:
            return server in self._relay.view(profile).snapshot.servers
        except UnknownNameError:
            return False


def _tools(view: View) -> list[Mapping[str, Entry]]:
    """Server by server: the tools of one that did not change are the same object, and need not be compared."""
    return [offer.tools for offer in view.snapshot.offers.values() if offer.tools]
