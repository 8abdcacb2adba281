"""What is live: one stream of events for each who watches, with what they may see."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from trunkline.control.signing_in import SignInNeeded
from trunkline.control.trust import ToolApproved, ToolHeld
from trunkline.errors import BusyError
from trunkline.gateway.api.calls import shown
from trunkline.gateway.api.routes import Ask, Given, Route
from trunkline.gateway.api.status import name_for
from trunkline.gateway.mcp.stream import Stream
from trunkline.identity import Scope, in_words_of, owner_of, unit_name
from trunkline.model import EMPTY_SNAPSHOT, ServerView, Snapshot
from trunkline.sandbox.known import ProgramChanged
from trunkline.telemetry.record import CallRecord
from trunkline.tenancy.limits import LimitReached

if TYPE_CHECKING:
    from trunkline.relay import Relay

MOST = 100
"""Who may watch at once; of one user, `MOST_EACH`."""
MOST_EACH = 20


@dataclass(eq=False)
class _Watcher:
    scope: Scope
    stream: Stream

    @property
    def sees_all(self) -> bool:
        return self.scope.role == "admin"


class Events:
    """Tells watchers what happens; where nobody watches, nothing is made."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._watchers: list[_Watcher] = []
        self._last = EMPTY_SNAPSHOT
        self._stop: list[Callable[[], None]] = []
        relay.tenancy.sign_ins.on_change(self._signed)

    def __len__(self) -> int:
        return len(self._watchers)

    def emit(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        person: str | None = None,
        user: str | None = None,
        server: str = "",
    ) -> None:
        """Tell whoever may know: admins, the person (or the user) it is about, and who has the server it is about."""
        for watcher in tuple(self._watchers):
            if not watcher.sees_all and not (
                (person is not None and watcher.scope.person == person)
                or (user is not None and watcher.scope.user == user)
                or (server and server in self._relay.view(watcher.scope).snapshot.servers)
            ):
                continue
            told = {**data, "server": name_for(watcher.scope, server)} if server else data
            if "reason" in told:
                told = {**told, "reason": in_words_of(watcher.scope.user, told["reason"])}
            text = msgspec.json.encode({"type": kind, "time": round(time.time(), 3), **told})
            watcher.stream.push(text, droppable=True)

    def watch(self, scope: Scope) -> _Watcher:
        """Begin to watch; whoever is gone must `leave`."""
        if len(self._watchers) >= MOST or sum(one.scope.user == scope.user for one in self._watchers) >= MOST_EACH:
            raise BusyError("So many watch already that no more can.", hint="Close another page that does.")
        watcher = _Watcher(scope, Stream())
        self._watchers.append(watcher)
        if len(self._watchers) == 1:
            self._begin()
        watcher.stream.push(b'{"type":"hello"}')
        return watcher

    def leave(self, watcher: _Watcher) -> None:
        """Watch no longer."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if not self._watchers:
            for stop in self._stop:
                stop()
            self._stop.clear()

    def drain(self, whose: Callable[[Scope], bool] = lambda scope: True) -> None:
        """End the streams, or some of them: they never end by themselves."""
        for watcher in self._watchers:
            if whose(watcher.scope):
                watcher.stream.finish()

    def _begin(self) -> None:
        relay, recording = self._relay, self._relay.recording
        self._last = relay.snapshot
        recording.records.started = self._started
        self._stop = [
            recording.listen(self._ended),
            relay.follow(self._look),
            relay.limiter.on(LimitReached, self._limited),
            relay.signing_in.on(SignInNeeded, self._must_sign_in),
            relay.trust.on(ToolHeld, self._tool_changed),
            relay.trust.on(ToolApproved, self._tool_changed),
            relay.programs.known.on(ProgramChanged, self._program_changed),
            lambda: setattr(recording.records, "started", None),
        ]

    def _started(self, record: CallRecord) -> None:
        self.emit("call.started", {"call": shown(record, brief=True)}, person=record.person or None)

    def _ended(self, ended: Sequence[CallRecord]) -> None:
        for record in ended:
            self.emit("call.ended", {"call": shown(record, brief=True)}, person=record.person or None)

    def _look(self, snapshot: Snapshot) -> None:
        """Which servers have another state than before, or other tools."""
        last, self._last = self._last, snapshot
        for before, now in snapshot.since(last):
            for name in before.servers.keys() | now.servers.keys():
                was, view = before.servers.get(name), now.servers.get(name)
                if was is not view and _state(was) != _state(view):
                    told = {"state": "removed", "reason": ""} if view is None else _told(view)
                    self.emit("server.changed", told, server=name, user=owner_of(name) or None)

    def _limited(self, event: LimitReached) -> None:
        self.emit("limit.reached", {"user": event.user, "thread": event.thread, "limit": event.limit}, user=event.user)

    def _program_changed(self, event: ProgramChanged) -> None:
        said = {"id": event.id, "user": event.user, "state": event.state}
        self.emit("program.changed", said, user=event.user)

    def _must_sign_in(self, event: SignInNeeded) -> None:
        # Never with the address where they do it: that is theirs alone.
        self.emit("sign-in.needed", {"user": event.user, **_at(event.server)}, user=event.user)

    def _signed(self, owner: str, server: str) -> None:
        """Somebody signed in or out."""
        signed = self._relay.tenancy.sign_ins.is_signed(owner, server)
        self.emit("sign-in.changed", {"user": owner, **_at(server), "signed_in": signed}, user=owner)

    def _tool_changed(self, event: ToolHeld | ToolApproved) -> None:
        said = {"kind": event.kind, "name": event.name, "change": event.event}
        self.emit("tool.changed", said, server=event.server, user=owner_of(event.server) or None)


def _state(view: ServerView | None) -> tuple[Any, ...]:
    """What of a server is told when it is another."""
    if view is None:
        return ()
    return view.state, view.reason, sum(len(one.items) for one in view.lists.values())


def _told(view: ServerView) -> dict[str, str]:
    return {"state": view.state.value, "reason": view.reason}


def _at(server: str) -> dict[str, str]:
    return {"server": unit_name(server)}


def routes(events: Events) -> list[Route]:
    """The stream."""

    async def watch(ask: Ask) -> Given:
        watcher = events.watch(ask.scope)
        return Given(stream=watcher.stream, ended=lambda: events.leave(watcher))

    return [Route("GET", "events", "What happens, as it does (server-sent events)", watch, gives=str, streams=True)]
