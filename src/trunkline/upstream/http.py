"""Servers reached over streamable HTTP, in either era: every request is a POST of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from trunkline.config.server import ServerSpec
from trunkline.errors import ProtocolError, SessionLostError, UnreachableError, UpstreamError
from trunkline.model import Answer, Introduction, Question, Reply
from trunkline.tasks import Tasks
from trunkline.upstream.address import Address
from trunkline.upstream.authorization import Authorization, authorized, is_challenge
from trunkline.upstream.connection import (
    OVERASKED,
    ConnectionEvents,
    answer_when_done,
    checked_reply,
    lost,
    refusal,
    withdrawal,
    write_answer,
)
from trunkline.upstream.event_stream import SOONEST, EventStream, keep_listening
from trunkline.upstream.exchange import AskedError, Clock, Exchange, pause
from trunkline.upstream.handshake import Handshake
from trunkline.upstream.http1 import ClosedError, HttpClient, Response
from trunkline.upstream.response import message_of
from trunkline.wire.envelope import Message, read_message, write_notification, write_request
from trunkline.wire.members import encode
from trunkline.wire.sse import TooLongError

SIDE_TIMEOUT = 10.0
"""Seconds for a message that nobody waits for: a notification, an answer to a question, a farewell."""
LONGEST_POLL = 30.0
_REFUSED = (401, 403)
MOST_ANSWERS = 200
"""Answers of ours to one server that may be under way at once."""


class HttpConnection:
    """A line to one remote server; it has a session if the server is a legacy one that gives sessions."""

    def __init__(
        self,
        spec: ServerSpec,
        events: ConnectionEvents,
        client: HttpClient,
        tasks: Tasks,
        authorization: Authorization | None = None,
    ) -> None:
        self.spec, self.events = spec, events
        self.introduction = Introduction()
        self.log_level = ""
        self.last_used = time.monotonic()
        self._address, self._tasks = Address(spec, client, authorization), tasks
        self._clock = Clock()
        self._count = 0
        self._ended = ""
        self.alive = True
        self._open: set[Exchange] = set()
        """Calls without an answer: waited for, or parked."""
        self._streams: dict[Exchange, EventStream] = {}
        self._unbegun: dict[Exchange, Response] = {}
        """Answers that had not begun when their call was parked."""
        self._in_doubt_until = 0.0
        """Until then the server may go on with a call that was withdrawn."""
        self._listening: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._answering = 0

    @property
    def busy(self) -> bool:
        return bool(self._open)

    @property
    def last_words(self) -> str:
        return ""

    async def open(self, *, era: str) -> None:
        """Find out how the server speaks, and shake hands where it wants that."""
        handshake = Handshake(self.spec, self._address, self._post_own, self._advance)
        self.introduction = await handshake.shake(era=era, capabilities=self.events.capabilities)
        if not self.introduction.modern:
            await self._post_message(write_notification("notifications/initialized"))

    async def request(self, exchange: Exchange) -> Reply:
        if self._ended:
            raise SessionLostError(f"The session with server {self.spec.name!r} {self._ended}.")
        self._count += 1
        exchange.number = self._count
        exchange.connection = self
        if not exchange.background:
            self._open.add(exchange)
        exchange.start_clock(self._clock)
        settled = False
        try:
            body = write_request(b"%d" % self._count, exchange.method, exchange.params)
            response = await self._post(exchange, body)
            if response.status in _REFUSED:
                response = await self._post_authorized(exchange, body, response)
            if response.streams and response.status == 200:
                reply = await self._follow(exchange, response)
            else:
                reply = self._read(exchange, response)
            self._open.discard(exchange)
            settled = True
            if exchange.questions:
                self._ask_elsewhere(exchange)
            return reply
        except AskedError:
            settled = True
            return exchange.take_questions()
        except SessionLostError:
            settled = True
            self._forget(exchange)
            self._end("was lost")
            self.events.ended(self._ended)
            raise
        except (UnreachableError, ProtocolError):
            settled = True
            self._forget(exchange)
            raise
        finally:
            self._leave(exchange, settled)

    async def resume(self, exchange: Exchange, answers: Mapping[str, Answer]) -> Reply:
        if exchange not in self._open:
            raise lost(self.spec, exchange, "closed the stream")
        exchange.start_clock(self._clock)
        settled = False
        try:
            for server_id, answer in exchange.answered(dict(answers)):
                await self._post_message(write_answer(server_id, answer))
            if exchange.questions:
                raise AskedError
            reply = await self._wait_on(exchange)
            self._open.discard(exchange)
            settled = True
            if exchange.questions:
                self._ask_elsewhere(exchange)
            return reply
        except AskedError:
            settled = True
            return exchange.take_questions()
        except (ClosedError, UnreachableError) as error:
            raise lost(self.spec, exchange, "could not be reached") from error
        finally:
            self._leave(exchange, settled)

    def cancel(self, exchange: Exchange, reason: str) -> None:
        if not self.introduction.modern and not self._ended:
            self.notify("notifications/cancelled", encode({"requestId": exchange.number, "reason": reason}))
            self._in_doubt_until = time.monotonic() + self.spec.max_timeout
        self._forget(exchange)

    def notify(self, method: str, params: bytes) -> None:
        posting = self._tasks.start(
            self._post_quietly(write_notification(method, params)), name=f"{self.spec.name} {method}"
        )
        self._posting.add(posting)
        posting.add_done_callback(self._posting.discard)

    async def close(self) -> None:
        self._end("was closed")
        for exchange in [*self._open, *self._streams]:
            self._forget(exchange)
        if self._posting:
            await asyncio.wait(list(self._posting), timeout=1.0)  # a cancellation must not be overtaken by our farewell
        if self._address.session:
            try:
                async with asyncio.timeout(1.0):
                    await self._address.say(b"DELETE", b"")
            except (UpstreamError, TimeoutError):
                pass  # the server may be gone, or not know farewells

    def listen(self) -> None:
        """Keep a legacy server's own stream open, where it has one, for what belongs to no call."""
        if self._listening is None and not self.introduction.modern:
            self._listening = self._tasks.start(
                keep_listening(self._address, self.spec.answer_limit, self._hear), name=f"{self.spec.name} listens"
            )

    # Sending.

    async def _wait_on(self, exchange: Exchange) -> Reply:
        response = self._unbegun.pop(exchange, None)
        if response is None:
            return await self._advance(exchange, self._streams[exchange])
        await self._ready(exchange, response)
        if response.streams and response.status == 200:
            return await self._follow(exchange, response)
        return self._read(exchange, response)

    def _follow(self, exchange: Exchange, response: Response) -> Coroutine[Any, Any, Reply]:
        stream = self._streams[exchange] = EventStream(response, self.spec.answer_limit)
        return self._advance(exchange, stream)

    def _read(self, exchange: Exchange, response: Response) -> Reply:
        message = message_of(self.spec.name, response, in_session=bool(self._address.session))
        if message.method or (message.number != exchange.number and not message.error):
            raise ProtocolError(f"Server {self.spec.name!r} answered another request than {exchange.method}.")
        return checked_reply(exchange, message.result, message.error, modern=self.introduction.modern)

    def _post(self, exchange: Exchange, body: bytes) -> Coroutine[Any, Any, Response]:
        """Send it, with the credential if that is at hand; the answer may be that another one is wanted."""
        address, authorization = self._address, self._address.authorization
        lines = b"" if authorization is None else authorization.headers("POST", address.url)
        if lines is None:
            return self._post_authorized(exchange, body, None)
        exchange.credential = lines
        return self._post_once(exchange, address.post_bytes(exchange, body, lines))

    async def _post_authorized(self, exchange: Exchange, body: bytes, refused: Response | None) -> Response:
        """Send it with a credential that must be fetched, or again where the server `refused` the one it came with."""
        address, authorization = self._address, self._address.authorization
        if refused is not None and (authorization is None or not is_challenge(refused)):
            return refused

        async def send(credential: bytes) -> Response:
            if exchange.expired is not None:
                raise exchange.expired
            return await self._post_once(exchange, address.post_bytes(exchange, body, credential))

        known = (refused, exchange.credential) if refused is not None else None
        return await authorized(authorization, "POST", address.url, send, timeout=exchange.timeout, refused=known)

    async def _post_once(self, exchange: Exchange, request: bytes) -> Response:
        for attempt in range(2):
            response = self._address.pool.send(request, self.spec.answer_limit)
            used = response is not None
            try:
                if response is None:
                    response, used = await self._address.send(request, timeout=exchange.timeout)
                exchange.abort, exchange.interrupt = response.fail, response.interrupt
                await response.ready()
                return response
            except AskedError:
                if response is not None:
                    self._unbegun[exchange] = response
                raise
            except UnreachableError as error:
                raise UnreachableError(f"Server {self.spec.name!r} cannot be reached: {error.message}") from error
            except ProtocolError as error:
                raise ProtocolError(f"Server {self.spec.name!r} answered badly: {error.message}") from error
            except ClosedError as error:
                # A kept connection may close just as we write. What is safe to repeat is repeated, on a new one.
                if used and error.untouched and exchange.safe_to_repeat and attempt == 0:
                    continue
                raise lost(self.spec, exchange, "closed the connection") from error
            except asyncio.CancelledError:
                if response is not None:
                    response.close()
                raise
        raise AssertionError("unreachable")

    async def _ready(self, exchange: Exchange, response: Response) -> None:
        exchange.abort, exchange.interrupt = response.fail, response.interrupt
        try:
            await response.ready()
        except AskedError:
            self._unbegun[exchange] = response
            raise

    async def _post_own(self, exchange: Exchange) -> Response:
        self._count += 1
        exchange.number = self._count
        body = write_request(b"%d" % exchange.number, exchange.method, exchange.params)
        response = await self._post(exchange, body)
        return await self._post_authorized(exchange, body, response) if response.status in _REFUSED else response

    # Receiving.

    async def _advance(self, exchange: Exchange, stream: EventStream) -> Reply:
        """Read events until there is a reply; questions call us away."""
        while True:
            try:
                event = await stream.next_event()
            except ClosedError:
                event = None
            except TooLongError as error:
                stream.response.close()
                raise ProtocolError(f"Server {self.spec.name!r} sent {error}.") from error
            if event is None:
                stream = await self._reopen(exchange, stream)
                continue
            if event.retry >= 0:
                stream.retry = max(event.retry / 1000, SOONEST)
            reply = self._take(exchange, event.data) if event.data else None
            if reply is not None:
                stream.response.close()
                self._streams.pop(exchange, None)
                return reply

    def _take(self, exchange: Exchange, data: bytes) -> Reply | None:
        try:
            message = read_message(data)
        except ValueError as error:
            raise ProtocolError(f"Server {self.spec.name!r} sent something unreadable ({error}).") from error
        if not message.method:
            if message.number != exchange.number:
                return None
            return checked_reply(exchange, message.result, message.error, modern=self.introduction.modern)
        if message.id:
            self._take_question(exchange, message)
            return None
        if message.method.startswith("notifications/tasks"):
            self.events.hear(message.method, message.params)  # on whichever stream it comes, it may be another caller's
            return None
        if message.method == "notifications/progress":
            exchange.sign_of_life()
        elif message.method.endswith(("/list_changed", "/updated")):
            self.events.hear(message.method, message.params)  # on whichever stream it comes, others want to know too
        exchange.listener.notify(message.method, message.params)
        return None

    def _take_question(self, exchange: Exchange, message: Message) -> None:
        if message.method == "ping":
            self._reply_later(message.id, Answer(result=b"{}"))
        elif exchange.background:
            self._reply_later(message.id, refusal(message.method))
        elif exchange.overasked:
            self._reply_later(message.id, OVERASKED)
        else:
            exchange.ask(message.id, Question(message.method, message.params))

    async def _reopen(self, exchange: Exchange, stream: EventStream) -> EventStream:
        """A legacy server may close a stream and be polled for the rest of it."""
        if not stream.decoder.last_id or self._address.modern:
            self._streams.pop(exchange, None)
            raise lost(self.spec, exchange, "closed the stream")
        exchange.listener.hang_up(stream.retry)
        await pause(exchange, min(stream.retry, LONGEST_POLL))
        try:
            response = await self._address.get(stream.decoder.last_id)
            exchange.abort, exchange.interrupt = response.fail, response.interrupt
            if exchange.expired is not None:
                response.close()
                raise exchange.expired
            await response.ready()
        except (ClosedError, UnreachableError) as error:
            raise lost(self.spec, exchange, "could not be reached again") from error
        if response.status != 200 or not response.streams:
            raise lost(self.spec, exchange, "closed the stream")
        fresh = self._streams[exchange] = EventStream(response, self.spec.answer_limit)
        fresh.decoder.last_id, fresh.retry = stream.decoder.last_id, stream.retry
        return fresh

    def _hear(self, data: bytes) -> None:
        message = read_message(data)
        if not message.method:
            return
        if not message.id:
            self.events.hear(message.method, message.params)
        elif message.method == "ping":
            self._reply_later(message.id, Answer(result=b"{}"))
        elif self.events.ask_session is not None:
            question = self.events.ask_session(message.method, message.params)
            answer_when_done(question, lambda answer: self._reply_later(message.id, answer))
        else:
            self._take_stray(message)

    def _ask_elsewhere(self, exchange: Exchange) -> None:
        """What the server asked and did not wait for is not about the call; it goes to the owner, or to nobody."""
        for server_id, question in exchange.give_up_questions():
            if self.events.ask_session is not None:
                answer = self.events.ask_session(question.method, question.params)
                answer_when_done(answer, partial(self._reply_later, server_id))
            else:
                self._reply_later(server_id, refusal(question.method))

    def _take_stray(self, message: Message) -> None:
        """A question outside every call: with one call alone under way, it can only be about that."""
        question, call = Question(message.method, message.params), self._certain()
        if call is not None and self.events.exclusive and not call.overasked:
            call.ask(message.id, question)
            return
        if call is not None:
            call.refused += (question,)
        self._reply_later(message.id, refusal(message.method))

    def _certain(self) -> Exchange | None:
        if len(self._open) != 1 or time.monotonic() < self._in_doubt_until:
            return None
        (call,) = self._open
        return call if call.interrupt is not None else None  # not sent yet

    def _reply_later(self, server_id: bytes, answer: Answer) -> None:
        if self._answering >= MOST_ANSWERS:
            return  # a server that asks faster than it takes answers does not want them
        self._answering += 1
        posting = self._tasks.start(
            self._post_quietly(write_answer(server_id, answer)), name=f"{self.spec.name} answer"
        )
        posting.add_done_callback(self._answered)

    def _answered(self, _: object) -> None:
        self._answering -= 1

    # Messages that get no answer.

    async def _post_message(self, text: bytes) -> None:
        """Send what gets no answer: a notification, or an answer of ours."""
        try:
            async with asyncio.timeout(SIDE_TIMEOUT):
                response = await self._address.say(b"POST", text)
        except TimeoutError as error:
            raise UnreachableError(f"Server {self.spec.name!r} does not take messages.") from error
        if response.status == 404 and self._address.session:
            raise SessionLostError(f"Server {self.spec.name!r} no longer knows our session.")

    async def _post_quietly(self, text: bytes) -> None:
        try:
            await self._post_message(text)
        except UpstreamError:
            pass  # nobody waits for it, and the next request will find out what is wrong

    def _end(self, why: str) -> None:
        self._ended, self.alive = why, False
        if self._listening is not None:
            self._listening.cancel()

    def _forget(self, exchange: Exchange) -> None:
        self._open.discard(exchange)
        stream, response = self._streams.pop(exchange, None), self._unbegun.pop(exchange, None)
        if stream is not None:
            stream.response.fail(lost(self.spec, exchange, "was let go"))  # or who still reads it would wait in vain
        if response is not None:
            response.close()

    def _leave(self, exchange: Exchange, settled: bool) -> None:
        exchange.stop_clock()
        if not exchange.background:
            self.last_used = time.monotonic()
        if not settled:
            self.cancel(exchange, withdrawal())
