"""Legacy callers: a handshake, then requests in a session, whose answers are streams that can be resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

from trunkline.call.stages.elicit import wrong_answer
from trunkline.config.options import GatewayConfig
from trunkline.errors import BusyError, RefusedError, TrunklineError
from trunkline.gateway.mcp.errors import error_of, status_of
from trunkline.gateway.mcp.lists import Lists, introduce_legacy
from trunkline.gateway.mcp.open_questions import OpenQuestions
from trunkline.gateway.mcp.sessions import Session, Sessions
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.mcp.subscribers import Subscribers
from trunkline.gateway.request import JSON, STREAM, Headers, Request
from trunkline.identity import Scope
from trunkline.model import LIST_METHODS, Answer, Call, Caller, Question, Reply
from trunkline.relay import Relay
from trunkline.tasks import Tasks
from trunkline.telemetry.record import ASKED
from trunkline.wire.envelope import (
    METHOD_NOT_FOUND,
    Message,
    read_string,
    same_id,
    write_error,
    write_notification,
    write_result,
)
from trunkline.wire.era import negotiate
from trunkline.wire.headers import NAMED_BY
from trunkline.wire.members import Members, is_object, read_members, write_members
from trunkline.wire.meta import check_sizes, plain
from trunkline.wire.questions import may_ask, not_asked
from trunkline.wire.sse import write_event

KINDS = {method: kind for kind, method in LIST_METHODS.items()}
TASKS = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list")
RELAYED = frozenset(("tools/call", "prompts/get", "resources/read", "completion/complete", *TASKS))
SESSION_HEADER = b"mcp-session-id"
PRIMED_SINCE = "2025-11-25"
"""From this version on a stream may begin with an empty event, from which it can be resumed."""
EXPIRY_SWEEP = 5.0
REASON = 1000
"""Characters of a caller's reason to withdraw that are passed on."""
FAREWELL = 2.0


class LegacyEdge:
    """Keeps the sessions, and answers what comes in them."""

    def __init__(
        self,
        relay: Relay,
        gateway: GatewayConfig,
        sessions: Sessions,
        lists: Lists,
        tasks: Tasks,
        subscribers: Subscribers,
        questions: OpenQuestions,
    ) -> None:
        self._relay, self._gateway, self._lists, self._tasks = relay, gateway, lists, tasks
        self._subscribers, self._questions = subscribers, questions
        self.sessions = sessions
        tasks.start(self._expire(), name="session expiry")

    async def post(self, message: Message, params: Members, request: Request) -> None:
        """Take one message of a session, or begin one."""
        if message.method == "initialize" and message.id:
            await self._initialize(message, params, request)
            return
        session = self._session(request)
        if not message.method:
            session.answered(message)
            request.answer(202)
        elif not message.id:
            self._hear(session, message, params)
            request.answer(202)
        else:
            await self._request(session, message, params, request)

    async def get(self, request: Request) -> None:
        """Open the stream for what belongs to no call, or resume one."""
        headers = request.headers
        session = self._session(request)
        if b"text/event-stream" not in headers.get(b"accept", b""):
            raise RefusedError("A GET here wants to accept text/event-stream.", status=406)
        found = session.resumed(headers.get(b"last-event-id", b"").decode("latin-1"))
        stream, after = found or (session.listen(), -1)
        stream.hang_up()  # whoever read it before is let go: a message goes to one reader
        request.on_gone(stream.hang_up)
        session.open_requests += 1
        try:
            with request.until_expiry(stream.hang_up):
                await stream.pump(request, after=after, headers=[(SESSION_HEADER, session.id.encode())])
        finally:
            session.open_requests -= 1
            session.last_seen = time.monotonic()

    async def delete(self, request: Request) -> None:
        """End a session."""
        session = self._session(request)
        await self._end(session)
        request.answer(200)

    # Sessions.

    async def _initialize(self, message: Message, params: Members, request: Request) -> None:
        version = negotiate(read_string(params.get("protocolVersion", b"")))
        capabilities, client_info = params.get("capabilities", b"{}"), params.get("clientInfo", b"")
        check_sizes(capabilities, client_info)
        session = Session(
            version,
            capabilities if is_object(capabilities) else b"{}",
            client_info,
            opened_by=request.scope,
            scope=await self._relay.in_thread(request.scope, request.thread) if request.thread else request.scope,
            replay=self._gateway.replay_events,
        )
        session.expires = request.admission.expires
        await self._relay.settle(session.scope.user)
        view = self._relay.view(session.scope)
        introduction = (
            await self._relay.introduction_for(session.scope, Caller(modern=False)) if view.snapshot.bare else None
        )
        result = introduce_legacy(view, version, introduction)
        for old in self.sessions.add(session):
            await self._end(old)
        self._subscribers.join(session)
        own: Headers = [(SESSION_HEADER, session.id.encode())]
        _one_answer(request, write_result(message.id, result), streams=_streams(request), headers=own)

    def _session(self, request: Request) -> Session:
        key = request.headers.get(SESSION_HEADER)
        if not key:
            raise RefusedError("The Mcp-Session-Id header is missing.", hint="Begin with `initialize`.")
        session = self.sessions.get(key)
        if session is None or session.opened_by != request.scope:
            # to a stranger a session is as good as none
            raise RefusedError("There is no such session.", code=-32001, status=404, hint="Begin with `initialize`.")
        session.expires = max(session.expires, request.admission.expires)
        return session

    def end(self, whose: Callable[[Scope], bool]) -> None:
        """End the sessions of some callers, with all that is open in them."""
        for session in self.sessions.of(whose):
            self._tasks.start(self._end(session), name="end of a session")

    async def _end(self, session: Session) -> None:
        self.sessions.remove(session)
        self._subscribers.leave(session)
        under_way = list(session.in_flight.values())
        session.close()
        if under_way:
            await asyncio.wait(under_way, timeout=FAREWELL)  # servers hear that their calls are off, before we hang up
        for uri in session.watched:
            try:
                await self._relay.unwatch(uri, session.scope, session.caller)
            except TrunklineError:
                pass  # its server is gone, and with it the subscription
        await self._relay.end_session(session.id)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_SWEEP)
            for session in self.sessions.expired(time.monotonic(), time.time()):
                await self._end(session)

    # Messages.

    def _hear(self, session: Session, message: Message, params: Members) -> None:
        if message.method == "notifications/cancelled":
            task = session.in_flight.get(same_id(params.get("requestId", b"")))
            if task is not None:
                task.cancel(read_string(params.get("reason", b""))[:REASON])
        elif message.method == "notifications/roots/list_changed":
            self._relay.notify_session(session.id, message.method, message.params)

    async def _request(self, session: Session, message: Message, params: Members, request: Request) -> None:
        streams = _streams(request)
        scope = session.scope
        try:
            if request.thread and request.thread != scope.thread:
                scope = await self._relay.in_thread(session.base, request.thread)
            if message.method in RELAYED or (message.method not in _OWN and self._relay.view(scope).snapshot.bare):
                await self._pass_on(session, scope, message, params, request)
                return
            text = write_result(message.id, await self._own_result(session, scope, message, params))
        except TrunklineError as error:
            uri = read_string(params.get("uri", b""))
            text = write_error(message.id, error_of(error, modern=False, uri=uri, user=scope.user))
        _one_answer(request, text, streams=streams)

    async def _own_result(self, session: Session, scope: Scope, message: Message, params: Members) -> bytes:
        kind = KINDS.get(message.method)
        if kind is not None:
            cursor = params.get("cursor", b"")
            view = await self._relay.listed_for(scope, session.caller, kind)
            capabilities, user = session.capabilities, scope.user
            page = self._lists.page(view, kind, cursor, modern=False, capabilities=capabilities, user=user)
            self._relay.recording.listed(scope, kind, page)
            return page
        match message.method:
            case "ping":
                return b"{}"
            case "logging/setLevel":
                session.set_level(read_string(params.get("level", b"")))
                return b"{}"
            case "resources/subscribe" | "resources/unsubscribe":
                return await self._subscribe(session, message.method, read_string(params.get("uri", b"")))
            case _:
                raise RefusedError(f"There is no method {message.method!r}.", code=METHOD_NOT_FOUND)

    async def _subscribe(self, session: Session, method: str, uri: str) -> bytes:
        if method == "resources/subscribe":
            if uri not in session.watched:
                reply = await self._relay.watch(uri, session.scope, session.caller)
                _raise_if_refused(reply)
                session.watched.add(uri)
        elif uri in session.watched:
            session.watched.discard(uri)
            await self._relay.unwatch(uri, session.scope, session.caller)
        return b"{}"

    async def _pass_on(
        self, session: Session, scope: Scope, message: Message, params: Members, request: Request
    ) -> None:
        task = request.task
        assert task is not None
        outlet = Outlet(session, request, self._tasks)
        call = Call(
            message.method,
            read_string(params.get(NAMED_BY.get(message.method, ""), b"")),
            params,
            scope=scope,
            timeout=scope.overrides.timeout,
            caller=session.caller,
            listener=outlet,
            raw_params=message.params,
            token=request.token,
            traceparent=request.headers.get(b"traceparent", b""),
        )
        call.ask = partial(self._ask, session, outlet, call)
        request.on_gone(lambda: outlet.caller_left(task))
        id = same_id(message.id)
        session.in_flight[id] = task
        session.open_requests += 1
        try:
            reply = await self._relay.handle(self._relay.enter(call))
            text = (
                write_error(message.id, reply.error) if reply.error else write_result(message.id, legacy_result(reply))
            )
            status: tuple[int, Headers] = (200, [])
        except TrunklineError as error:
            text = write_error(message.id, error_of(error, modern=False, uri=call.name, user=call.scope.user))
            status = status_of(error) if isinstance(error, BusyError) else (200, [])
        except asyncio.CancelledError:
            if session.in_flight.get(id) is task and not outlet.gone:
                task.uncancel()
                await outlet.withdrawn()  # by `notifications/cancelled`: the caller expects no answer
                return
            raise
        finally:
            session.in_flight.pop(id, None)
            session.open_requests -= 1
            session.last_seen = time.monotonic()
        await outlet.finish(text, *status)

    async def _ask(
        self, session: Session, outlet: Outlet, call: Call, questions: Mapping[str, Question]
    ) -> dict[str, Answer]:
        """Put a server's questions to the caller, on the stream of its call, all at once; others may answer first."""
        seconds = self._gateway.question_timeout
        call.note(ASKED, "the caller")
        asked = [_asked(session, outlet, question) for question in questions.values()]
        add, given = self._questions.add, partial(_answer_elsewhere, session, outlet)
        ids = [
            add(call, call.server, question, seconds, partial(given, question, future))
            for question, future in zip(questions.values(), asked, strict=True)
            if not future.done()
        ]
        try:
            async with asyncio.timeout(seconds):
                answers = await asyncio.gather(*asked)
        except TimeoutError:
            raise TrunklineError(f"Nobody answered the server's question within {seconds:g} s.") from None
        finally:
            for id in ids:
                self._questions.remove(id)
        return dict(zip(questions, answers, strict=True))


def _asked(session: Session, outlet: Outlet, question: Question) -> asyncio.Future[Answer]:
    if not outlet.streams or not may_ask(question, session.capabilities):
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.set_result(not_asked(question))
        return future
    return session.ask(outlet.stream(), question.method, question.params)


def _answer_elsewhere(
    session: Session, outlet: Outlet, question: Question, asked: asyncio.Future[Answer], said: Answer
) -> str:
    """Take an answer that did not come from the caller, and tell the caller so; says why it does not fit."""
    problem = wrong_answer(question, said)
    if not problem and not asked.done():
        session.withdraw(outlet.stream(), asked)
        asked.set_result(said)
    return problem


_OWN = frozenset((*KINDS, "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))


class Outlet:
    """The answer to one POST of a session: one event, or, if something comes first, a stream that can be resumed."""

    def __init__(self, session: Session, request: Request, tasks: Tasks) -> None:
        self._session, self._request, self._tasks = session, request, tasks
        self.streams = _streams(request)
        self.gone = False
        self._stream: Stream | None = None
        self._pump: asyncio.Task[None] | None = None

    def stream(self) -> Stream:
        """The stream of this call, begun if it was not yet."""
        if self._stream is None:
            self._stream = self._session.new_stream()
            if self._session.version >= PRIMED_SINCE:
                self._stream.push(b"")
            self._pump = self._tasks.start(self._stream.pump(self._request), name="stream")
        return self._stream

    def notify(self, method: str, params: bytes) -> None:
        """A notification of this call."""
        if self.streams and (method != "notifications/message" or self._session.wants_log(params)):
            self.stream().push(write_notification(method, params), droppable=True)

    def hang_up(self, retry: float) -> None:
        """The server wants to be polled, so the caller is made to poll us."""
        if self.streams and self._session.version >= PRIMED_SINCE:
            self.stream().push(b"", retry=int(retry * 1000))
            self.stream().hang_up()

    def caller_left(self, task: asyncio.Task[object]) -> None:
        """The connection broke. A caller that has an event id may come back for the rest; any other cannot."""
        self.gone = True
        if self._stream is None or self._session.version < PRIMED_SINCE:
            task.cancel()
        else:
            self._stream.hang_up()

    async def finish(self, text: bytes, status: int, headers: Headers) -> None:
        """Send the answer itself."""
        if self._stream is None:
            if not self.gone:
                _one_answer(self._request, text, streams=self.streams, status=status, headers=headers)
            return
        assert self._pump is not None
        self._stream.push(text)
        self._stream.finish()
        await self._pump

    async def withdrawn(self) -> None:
        """End without an answer."""
        if self._stream is None:
            self._request.answer(200, b"", STREAM) if self.streams else self._request.answer(202)
            return
        assert self._pump is not None
        self._stream.finish()
        await self._pump


def legacy_result(reply: Reply) -> bytes:
    """A result in this era's form: without the words that only a modern one has."""
    if not reply.modern:
        return reply.result
    return write_members(plain(read_members(reply.result)))


def _one_answer(
    request: Request, text: bytes, *, streams: bool, status: int = 200, headers: Headers | None = None
) -> None:
    if streams and status == 200:
        request.answer(status, write_event(text, event="message"), [*STREAM, *(headers or ())])
    else:
        request.answer(status, text, [JSON, *(headers or ())])


def _streams(request: Request) -> bool:
    return b"text/event-stream" in request.headers.get(b"accept", b"")


def _raise_if_refused(reply: Reply) -> None:
    if reply.error:
        members = read_members(reply.error)
        message = read_string(members.get("message", b"")) or "The server refused."
        error = RefusedError(message)
        code = members.get("code", b"-32603")
        error.code = int(code) if code.lstrip(b"-").isdigit() else -32603
        raise error
