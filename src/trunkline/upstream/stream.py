"""A connection over one stream of messages (stdio, HTTP+SSE): requests are told apart by their ids."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from trunkline.config.server import ServerSpec
from trunkline.errors import ProtocolError, SessionLostError, UnreachableError, UpstreamError, UpstreamTimeoutError
from trunkline.model import Answer, Introduction, Question, Reply
from trunkline.upstream.connection import (
    OVERASKED,
    ConnectionEvents,
    NotModernError,
    answer_when_done,
    checked_reply,
    discover_params,
    initialize_params,
    legacy_introduction,
    lost,
    modern_introduction,
    refusal,
    withdrawal,
    write_answer,
)
from trunkline.upstream.exchange import FOREVER, Clock, Exchange, own_exchange
from trunkline.wire import meta
from trunkline.wire.envelope import (
    Message,
    guess_number,
    read_message,
    write_notification,
    write_request,
)
from trunkline.wire.era import speaks_modern
from trunkline.wire.members import encode, read_members, write_members
from trunkline.wire.tasks import related_task

PROBE_TIMEOUT = 5.0
UNSENT_LIMIT = 8 * 2**20
"""Bytes a server may leave unread before further calls to it are refused."""


class StreamConnection:
    """Multiplexes requests over a stream that somebody else opened; `send` writes one message to it."""

    def __init__(self, spec: ServerSpec, events: ConnectionEvents) -> None:
        self.spec, self.events = spec, events
        self.introduction = Introduction()
        self.log_level = ""
        self.last_used = time.monotonic()
        self.send: Callable[[bytes], None] = _not_open
        self.unsent: Callable[[], int] = lambda: 0
        self.deaf: Callable[[], bool] = bool
        self.on_close: Callable[[], Awaitable[None]] | None = None
        self.words: Callable[[], str] = str
        self._clock = Clock()
        self._count = 0
        self._open: dict[int, Exchange] = {}
        """Requests without an answer: waited for, or parked."""
        self._ended = ""
        self.alive = True
        self._in_doubt_until = 0.0
        """Until then the server may go on with a call that was withdrawn."""

    @property
    def busy(self) -> bool:
        return any(not exchange.background for exchange in self._open.values())

    @property
    def last_words(self) -> str:
        return self.words()

    async def open(self, *, era: str) -> None:
        """Find out how the server speaks, and shake hands where it wants that; the caller has a deadline."""
        slow = False
        if era != "legacy":
            try:
                # Where only one answer will do, it may come as late as the server may start.
                found = await self._probe(
                    FOREVER if era == "modern" else min(PROBE_TIMEOUT, self.spec.start_timeout / 2)
                )
            except UpstreamTimeoutError:
                found, slow = None, True
            if found is not None:
                self.introduction = found
                return
            if era == "modern":
                raise NotModernError(self.spec)
        params = initialize_params(self.events.capabilities)
        reply = await self.request(own_exchange(self.spec.name, "initialize", params, FOREVER))
        if reply.error and slow:
            # It had not been up yet when it was asked, and is no legacy server: now it will say.
            found = await self._probe(FOREVER)
            if found is not None:
                self.introduction = found
                return
        if reply.error:
            raise UnreachableError(f"Server {self.spec.name!r} refused to initialize: {reply.error[:200].decode()}")
        self.introduction = legacy_introduction(self.spec.name, reply.result)
        self.notify("notifications/initialized", b"")

    async def request(self, exchange: Exchange) -> Reply:
        if self._ended:
            raise UnreachableError(f"Server {self.spec.name!r} {self._ended}.")
        if self.deaf():
            self.end("closed its input")
            raise SessionLostError(f"Server {self.spec.name!r} closed its input.")
        if self.unsent() > UNSENT_LIMIT:
            raise UnreachableError(f"Server {self.spec.name!r} does not read what it is sent.")
        self._count += 1
        exchange.number = self._count
        exchange.connection = self
        params = exchange.params
        if exchange.token:
            # Callers choose tokens on their own; on a shared stream each gets one that is unique.
            params = write_members(meta.with_progress_token(read_members(params), b"%d" % self._count))
        self.send(write_request(b"%d" % self._count, exchange.method, params))
        return await self._wait(exchange)

    async def resume(self, exchange: Exchange, answers: Mapping[str, Answer]) -> Reply:
        if self._ended:
            raise lost(self.spec, exchange, self._ended)
        for server_id, answer in exchange.answered(dict(answers)):
            self._answer(server_id, answer)
        if exchange.questions:
            return exchange.take_questions()
        return await self._wait(exchange)

    def cancel(self, exchange: Exchange, reason: str) -> None:
        if self._open.pop(exchange.number, None) is None:
            return
        self._pass_on_questions(exchange)
        self._in_doubt_until = time.monotonic() + self.spec.max_timeout
        self.notify("notifications/cancelled", encode({"requestId": exchange.number, "reason": reason}))

    def _pass_on_questions(self, exchange: Exchange) -> None:
        """Questions that came with a call that is withdrawn may be another call's of the same caller: they go there."""
        other = self._latest() if self.events.exclusive else None
        for server_id, question in exchange.give_up_questions():
            if other is not None:
                other.ask(server_id, question)

    def notify(self, method: str, params: bytes) -> None:
        if not self._ended:
            self.send(write_notification(method, params))

    async def close(self) -> None:
        self.end("was stopped")
        if self.on_close is not None:
            await self.on_close()

    # What arrives.

    def receive(self, text: bytes) -> None:
        """Take one message from the stream; what does not even begin like one (a banner, a print) is passed over."""
        if text.lstrip()[:1] != b"{":
            return
        try:
            message = read_message(text)
        except ValueError as error:
            self._unreadable(text[:512], text[-512:], f"sent something unreadable ({error})")
            # A line that was never finished swallows the message behind it, which may be whole.
            behind = _last_message(text)
            if behind:
                self.receive(behind)
            return
        if message.method:
            self._take_request(message) if message.id else self._take_notification(message)
        else:
            self._take_response(message)

    def too_long(self, head: bytes, tail: bytes) -> None:
        """Take note of a message that was dropped for its size."""
        self._unreadable(head, tail, f"sent more than {self.spec.answer_limit} bytes in one message")

    def refuse(self, number: int, why: str) -> None:
        """One request could not be sent at all."""
        exchange = self._open.get(number)
        if exchange is not None:
            exchange.settle(UnreachableError(f"Server {self.spec.name!r} {why}."))

    def end(self, why: str) -> None:
        """The stream is over: everyone who waits hears why."""
        if self._ended:
            return
        self._ended, self.alive = why, False
        for exchange in list(self._open.values()):
            exchange.settle(lost(self.spec, exchange, why))
        self._open.clear()
        self.events.ended(why)

    def _take_response(self, message: Message) -> None:
        exchange = self._open.pop(message.number, None)
        if exchange is None:
            return  # too late, twice, or never asked for
        if exchange.questions and exchange.waiting:
            # It asked, and answered before anybody could be asked: so the question was not about this call.
            other = self._latest() if self.events.exclusive else None
            for server_id, question in exchange.give_up_questions():
                self._put(other, server_id, question)
        try:
            exchange.settle(checked_reply(exchange, message.result, message.error, modern=self.introduction.modern))
        except ProtocolError as error:
            exchange.settle(error)

    def _take_notification(self, message: Message) -> None:
        if message.method == "notifications/progress":
            self._take_progress(message.params)
            return
        if message.method == "notifications/cancelled":
            return
        exchange = self._only_one()
        if exchange is not None and message.method == "notifications/message":
            exchange.listener.notify(message.method, message.params)
            return
        self.events.hear(message.method, message.params)

    def _take_progress(self, params: bytes) -> None:
        try:
            members = read_members(params)
            exchange = self._open[int(members["progressToken"])]
        except (ValueError, KeyError):
            return
        exchange.sign_of_life()
        if exchange.token:
            members["progressToken"] = exchange.token
            exchange.listener.notify("notifications/progress", write_members(members))

    def _take_request(self, message: Message) -> None:
        if message.method == "ping":
            self._answer(message.id, Answer(result=b"{}"))
            return
        # It names its task; or every call on this stream is the owner's, so that it reaches the right caller.
        exchange = self._about_task(message.params) or (self._latest() if self.events.exclusive else None)
        self._put(exchange, message.id, Question(message.method, message.params))

    def _put(self, exchange: Exchange | None, server_id: bytes, question: Question) -> None:
        """Ask the caller of a call, or else the owner of the connection; where neither is, the server hears that."""
        if exchange is not None and exchange.overasked:
            self._answer(server_id, OVERASKED)
        elif exchange is not None:
            exchange.ask(server_id, question)
        elif self.events.ask_session is not None:
            answer_when_done(
                self.events.ask_session(question.method, question.params), lambda a: self._answer(server_id, a)
            )
        else:
            call = self._only_one() if time.monotonic() >= self._in_doubt_until else None
            if call is not None:
                call.refused += (question,)
            self._answer(server_id, refusal(question.method))

    def _unreadable(self, head: bytes, tail: bytes, what: str) -> None:
        number = guess_number(head, tail)
        exchange = self._open.get(number) or (self._only_one() if number < 0 else None)
        if exchange is not None:
            exchange.settle(ProtocolError(f"Server {self.spec.name!r} {what}."))

    # Helpers.

    async def _wait(self, exchange: Exchange) -> Reply:
        self._open[exchange.number] = exchange
        exchange.abort = exchange.settle
        exchange.start_clock(self._clock)
        settled = False
        try:
            reply = await exchange.outcome()
            settled = True
            if not reply.questions:
                self._open.pop(exchange.number, None)
            return reply
        finally:
            exchange.stop_clock()
            if not exchange.background:
                self.last_used = time.monotonic()
            if not settled:
                self.cancel(exchange, withdrawal())

    async def _probe(self, patience: float) -> Introduction | None:
        try:
            reply = await self.request(own_exchange(self.spec.name, "server/discover", discover_params(), patience))
        except UpstreamTimeoutError:
            raise
        except UpstreamError:
            if self._ended:
                raise UnreachableError(f"Server {self.spec.name!r} {self._ended}.") from None
            return None
        answer = Message(result=reply.result, error=reply.error)
        if not speaks_modern(answer, over_http=False):
            return None
        if reply.error:
            raise UnreachableError(
                f"Server {self.spec.name!r} refused to introduce itself: {reply.error[:200].decode()}"
            )
        return modern_introduction(self.spec.name, reply.result)

    def _answer(self, server_id: bytes, answer: Answer) -> None:
        if not self._ended:
            self.send(write_answer(server_id, answer))

    def _only_one(self) -> Exchange | None:
        calls = [exchange for exchange in self._open.values() if not exchange.background]
        return calls[0] if len(calls) == 1 else None

    def _about_task(self, params: bytes) -> Exchange | None:
        """The request for the result of the task that a question belongs to."""
        task = related_task(params)
        waiting = self._open.values() if task else ()
        return next((one for one in waiting if one.method == "tasks/result" and one.name == task), None)

    def _latest(self) -> Exchange | None:
        return next((exchange for exchange in reversed(self._open.values()) if not exchange.background), None)


def _last_message(text: bytes) -> bytes:
    """The JSON-RPC message that a broken line ends with; empty when there is none."""
    starts = {text.rfind(mark) for mark in (b'{"jsonrpc"', b'{"result"', b'{"id"', b'{"error"', b'{"method"')}
    for start in sorted(starts):
        if start > 0:
            try:
                message = read_message(text[start:])
            except ValueError:
                continue
            if message.method or message.id:
                return text[start:]
    return b""


def _not_open(text: bytes) -> None:
    raise UnreachableError("The stream is not open yet.")
