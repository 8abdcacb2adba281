"""Legacy callers have sessions: what they declared, what they wait for, what they may come back for."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from trunkline.call.tasks.log import At, Known
from trunkline.errors import RefusedError
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.mcp.subscribers import Subscriber
from trunkline.identity import Scope
from trunkline.model import Answer, Caller, Kind, Question
from trunkline.wire.envelope import Message, error_object, read_string, write_notification, write_request
from trunkline.wire.members import encode, read_members, write_members
from trunkline.wire.questions import may_ask, not_asked
from trunkline.wire.tasks import legacy_state

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
RENEWAL = 60.0
"""Seconds in which a caller whose token ended may come back to its session with a new one."""
FINISHED_KEPT = 8
"""Streams that ended and can still be resumed."""


class Session(Subscriber):
    """One legacy caller."""

    def __init__(
        self, version: str, capabilities: bytes, client_info: bytes, *, opened_by: Scope, scope: Scope, replay: int
    ) -> None:
        self.id = self.owner = secrets.token_urlsafe(24)
        self.version, self.capabilities, self.client_info = version, capabilities, client_info
        self.opened_by = opened_by
        self.scope = dataclasses.replace(scope, session=self.id)
        self.base = dataclasses.replace(opened_by, session=self.id)
        """Whose it is, whatever thread it is in."""
        self.log_level = ""
        self.expires = 0.0
        """When the last of what let its caller in ends, in seconds since the epoch; 0 for never."""
        self.last_seen = time.monotonic()
        self.in_flight: dict[bytes, asyncio.Task[Any]] = {}
        self.watched: set[str] = set()
        self.open_requests = 0
        self._replay = replay
        self._asked: dict[bytes, asyncio.Future[Answer]] = {}
        self._question_numbers = itertools.count(1)
        self._stream_numbers = itertools.count(1)
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        self.background: Stream | None = None
        """The stream of a GET, for what belongs to no call."""
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """How calls of this session are known."""
        if self._caller is None:
            self._caller = Caller(False, self.version, self.capabilities, self.client_info, self.log_level)
        return self._caller

    def set_level(self, level: str) -> None:
        """From which level on the caller wants log messages."""
        if level not in LEVELS:
            raise RefusedError(f"There is no log level {level!r}.", code=-32602, status=200)
        self.log_level = level
        self._caller = None

    def wants_log(self, params: bytes) -> bool:
        """Whether a log message is important enough."""
        if not self.log_level:
            return True
        level = read_string(read_members(params).get("level", b""))
        return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.log_level)

    # Questions to the caller.

    def ask(self, stream: Stream, method: str, params: bytes) -> asyncio.Future[Answer]:
        """Ask the caller something on a stream; its answer comes as a message of its own."""
        number = b"%d" % next(self._question_numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        future.add_done_callback(lambda _: self._asked.pop(number, None))
        stream.push(write_request(number, method, params))
        return future

    def withdraw(self, stream: Stream, question: asyncio.Future[Answer]) -> None:
        """Tell the caller that a question was answered elsewhere: it need not ask its person any longer."""
        number = next((number for number, asked in self._asked.items() if asked is question), None)
        if number is not None:
            reason = b'{"requestId":%s,"reason":"It was answered elsewhere."}' % number
            stream.push(write_notification("notifications/cancelled", reason))

    def answered(self, message: Message) -> None:
        """The caller answered a question."""
        future = self._asked.get(message.id)
        if future is not None and not future.done():
            future.set_result(Answer(message.result, message.error))

    # Streams.

    def new_stream(self) -> Stream:
        """A stream that can be resumed."""
        stream = Stream(key=f"{next(self._stream_numbers)}", keep=self._replay)
        self._streams[stream.key] = stream
        finished = [key for key, old in self._streams.items() if old.done and not old.attached]
        for key in finished[:-FINISHED_KEPT]:
            del self._streams[key]
        return stream

    def resumed(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream that an event id belongs to, and the event's number in it."""
        key, _, number = event_id.rpartition("-")
        stream = self._streams.get(key)
        return (stream, int(number)) if stream is not None and number.isdigit() and len(number) < 10 else None

    def listen(self) -> Stream:
        """The stream for what belongs to no call, for a new reader; whoever read before is let go."""
        if self.background is None or self.background.done:
            self.background = self.new_stream()
        self.background.hang_up()
        return self.background

    # What is heard outside calls.

    def changed(self, kind: Kind) -> None:
        self._hear(f"notifications/{kind.value}/list_changed", b"")

    def updated(self, uri: str, params: bytes) -> None:
        if uri in self.watched:
            self._hear("notifications/resources/updated", params)

    def task_changed(self, known: Known, method: str, params: bytes) -> None:
        if known.holder != self.scope.holder:
            return
        members = read_members(params)
        state = {**members, "taskId": encode(known.task.id)}
        if known.task.at is At.MODERN:
            state = legacy_state(members, known.task.id)
        self._hear("notifications/tasks/status", write_members(state))

    def said(self, method: str, params: bytes) -> None:
        if method != "notifications/message" or self.wants_log(params):
            self._hear(method, params)

    def close(self) -> None:
        """End everything that is open."""
        for task in list(self.in_flight.values()):
            task.cancel()
        for future in list(self._asked.values()):
            if not future.done():
                future.set_result(Answer(error=error_object(-32603, "The session ended.")))
        self.drain()

    def drain(self) -> None:
        if self.background is not None:
            self.background.finish()

    def _hear(self, method: str, params: bytes) -> None:
        if self.background is not None and (self.background.attached or self._replay):
            self.background.push(write_notification(method, params), droppable=True)


class Sessions:
    """All sessions, the longest idle first; bounded in number and idle time."""

    def __init__(self, *, most: int, idle: float, question_timeout: float) -> None:
        self._most, self._idle, self._question_timeout = most, idle, question_timeout
        self._all: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, session: Session) -> list[Session]:
        """Keep a session; those returned had to make room for it."""
        self._all[session.id] = session
        out: list[Session] = []
        while len(self._all) > self._most:
            idle = next((old for old in self._all.values() if not old.open_requests), None)
            out.append(self._all.pop((idle or next(iter(self._all.values()))).id))
        return out

    def get(self, key: bytes) -> Session | None:
        """The session of that id, which is now the most recently used."""
        session = self._all.get(key.decode("latin-1"))
        if session is not None:
            session.last_seen = time.monotonic()
            self._all.move_to_end(session.id)
        return session

    def ask(self, session_id: str, method: str, params: bytes) -> asyncio.Future[Answer]:
        """Ask a caller what its server asks outside a call."""
        loop = asyncio.get_running_loop()
        session, question = self.get(session_id.encode()), Question(method, params)
        if session is not None and may_ask(question, session.capabilities):
            future = session.ask(session.background or session.listen(), method, params)
            loop.call_later(self._question_timeout, future.cancel)
            return future
        future = loop.create_future()
        gone = Answer(error=error_object(-32603, "The client is gone."))
        future.set_result(gone if session is None else not_asked(question))
        return future

    def of(self, whose: Callable[[Scope], bool]) -> list[Session]:
        """Those of some callers."""
        return [session for session in self._all.values() if whose(session.scope)]

    def remove(self, session: Session) -> None:
        """Forget a session."""
        self._all.pop(session.id, None)

    def expired(self, now: float, today: float = 0.0) -> list[Session]:
        """Take out those that were idle too long, and those whose caller's token ended and was not followed by another.

        One with something open is not idle.
        """
        ended = (one for one in self._all.values() if one.expires and one.expires + RENEWAL < today)
        old = [one for one in ended if not one.open_requests]
        for session in old:
            del self._all[session.id]
        for session in list(self._all.values()):
            if now - session.last_seen < self._idle:
                break
            if not session.open_requests:
                old.append(self._all.pop(session.id))
        return old
