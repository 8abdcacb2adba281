"""Everyone who listens for what belongs to no call: changed lists, updated resources, log messages."""

from __future__ import annotations

from trunkline.call.task_log import Known
from trunkline.hub import Hub
from trunkline.model import Kind
from trunkline.wire.envelope import read_string
from trunkline.wire.members import read_members


class Ear:
    """One listener; it hears what it does not override as nothing."""

    owner = ""

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


class Audience:
    """Passes what servers say on to those who may hear it."""

    def __init__(self, hub: Hub) -> None:
        self._ears: dict[int, Ear] = {}
        self._hub = hub
        self._forget = [hub.on_change(self._changed), hub.on_heard(self._heard)]

    def join(self, ear: Ear) -> None:
        """Listen from now on."""
        self._ears[id(ear)] = ear

    def leave(self, ear: Ear) -> None:
        """Stop listening."""
        self._ears.pop(id(ear), None)

    def drain(self) -> None:
        """Say goodbye to everyone."""
        for forget in self._forget:
            forget()
        for ear in list(self._ears.values()):
            ear.drain()

    def _changed(self, kinds: frozenset[Kind]) -> None:
        if Kind.TEMPLATE in kinds:
            kinds = (kinds - {Kind.TEMPLATE}) | {Kind.RESOURCE}
        for ear in list(self._ears.values()):
            for kind in kinds:
                ear.changed(kind)

    def _heard(self, server: str, owner: str, method: str, params: bytes) -> None:
        if method.endswith("/list_changed") or method == "notifications/subscriptions/acknowledged":
            return
        if method.startswith("notifications/tasks"):
            own = read_string(read_members(params).get("taskId", b"")) if params else ""
            known = self._hub.task_log.find(server, own)
            if known is not None:
                for ear in list(self._ears.values()):
                    ear.task_changed(known, method, params)
            return
        if method == "notifications/resources/updated":
            uri = read_string(read_members(params).get("uri", b"")) if params else ""
            for ear in list(self._ears.values()):
                ear.updated(uri, params)
            return
        for ear in list(self._ears.values()):
            if not owner or owner == ear.owner:
                ear.said(method, params)
