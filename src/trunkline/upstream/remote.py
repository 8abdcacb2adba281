"""Servers reached over streamable HTTP, in either era: every request is a POST of its own."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping

from trunkline.config import ServerSpec
from trunkline.errors import (
    AuthorizationNeededError,
    ProtocolError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
)
from trunkline.model import Answer, Profile, Question, Reply
from trunkline.tasks import Tasks
from trunkline.upstream.address import Address
from trunkline.upstream.connection import (
    Ends,
    checked_reply,
    discover_params,
    initialize_params,
    legacy_profile,
    lost,
    modern_profile,
    refusal,
    told_owner,
    write_answer,
)
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.http1 import ClosedError, HttpClient, Response
from trunkline.wire.envelope import Message, read_message, write_notification, write_request
from trunkline.wire.era import MODERN_VERSIONS, speaks_modern
from trunkline.wire.members import encode
from trunkline.wire.sse import Decoder, Event, TooLongError

PROBE_TIMEOUT = 10.0
SIDE_TIMEOUT = 10.0
"""Seconds for a message that nobody waits for: a notification, an answer to a question, a farewell."""
POLL_AGAIN = 1.0
"""Seconds before a stream that the server closed is asked for again, unless it names a delay."""


LONGEST_POLL = 30.0


class NotStreamableError(UnreachableError):
    """The address does not take streamable HTTP; it may take the older HTTP+SSE."""


class _Stream:
    """The rest of an answer that comes as events."""

    def __init__(self, response: Response, limit: int) -> None:
        self.response = response
        self.decoder = Decoder(limit)
        self.waiting: deque[Event] = deque()
        self.retry = POLL_AGAIN

    async def next_event(self) -> Event | None:
        while not self.waiting:
            piece = await self.response.next_piece()
            if not piece:
                return None
            self.waiting.extend(self.decoder.feed(piece))
        return self.waiting.popleft()


class Remote:
    """A line to one remote server; it has a session if the server is a legacy one that gives sessions."""

    def __init__(self, spec: ServerSpec, ends: Ends, client: HttpClient, tasks: Tasks) -> None:
        self.spec, self.ends = spec, ends
        self.profile = Profile()
        self.log_level = ""
        self._in_flight = 0
        self.last_used = time.monotonic()
        self._address, self._tasks = Address(spec, client), tasks
        self._count = 0
        self._ended = ""
        self._streams: dict[Exchange, _Stream] = {}
        self._listening: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()

    @property
    def alive(self) -> bool:
        return not self._ended

    @property
    def busy(self) -> bool:
        return bool(self._in_flight) or any(not exchange.background for exchange in self._streams)

    @property
    def last_words(self) -> str:
        return ""

    async def open(self, *, era: str) -> None:
        """Find out how the server speaks, and shake hands where it wants that."""
        if era != "legacy":
            self._address.speak(MODERN_VERSIONS[0])
            reply, status = await self._probe()
            if reply is not None and speaks_modern(reply, over_http=True, status=status):
                if reply.error:
                    raise UnreachableError(f"Server {self.spec.name!r} refused: {reply.error[:200].decode()}")
                self.profile = modern_profile(self.spec.name, reply.result)
                return
            if era == "modern":
                raise UnreachableError(f"Server {self.spec.name!r} does not speak 2026-07-28.")
        self._address.speak("")
        await self._initialize()

    async def request(self, exchange: Exchange) -> Reply:
        if self._ended:
            raise SessionLostError(f"The session with server {self.spec.name!r} {self._ended}.")
        self._count += 1
        exchange.number = self._count
        exchange.connection = self
        self._in_flight += not exchange.background
        exchange.start_clock()
        settled = False
        try:
            reply = await self._send(exchange)
            settled = True
            return reply
        except SessionLostError:
            settled = True
            self._ended = "was lost"
            self.ends.ended(self._ended)
            raise
        except (UnreachableError, ProtocolError):
            settled = True
            self._forget(exchange)
            raise
        finally:
            self._leave(exchange, settled)

    async def resume(self, exchange: Exchange, answers: Mapping[str, Answer]) -> Reply:
        if exchange not in self._streams:
            raise lost(self.spec, exchange, "closed the stream")
        self._in_flight += 1
        exchange.start_clock()
        settled = False
        try:
            for server_id, answer in exchange.answered(dict(answers)):
                await self._post_message(write_answer(server_id, answer))
            if exchange.questions:
                reply = exchange.take_questions(modern=False)
            else:
                reply = await self._advance(exchange, self._streams[exchange])
            settled = True
            return reply
        except (ClosedError, UnreachableError) as error:
            raise lost(self.spec, exchange, "could not be reached") from error
        finally:
            self._leave(exchange, settled)

    def cancel(self, exchange: Exchange, reason: str) -> None:
        if not self.profile.modern and not self._ended:
            self.notify("notifications/cancelled", encode({"requestId": exchange.number, "reason": reason}))
        self._forget(exchange)

    def notify(self, method: str, params: bytes) -> None:
        posting = self._tasks.start(
            self._post_quietly(write_notification(method, params)), name=f"{self.spec.name} {method}"
        )
        self._posting.add(posting)
        posting.add_done_callback(self._posting.discard)

    async def close(self) -> None:
        self._ended = "was closed"
        if self._listening is not None:
            self._listening.cancel()
        for stream in self._streams.values():
            stream.response.close()
        self._streams.clear()
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
        if self._listening is None and not self.profile.modern:
            self._listening = self._tasks.start(self._keep_listening(), name=f"{self.spec.name} listens")

    # Sending.

    async def _send(self, exchange: Exchange) -> Reply:
        body = write_request(b"%d" % exchange.number, exchange.method, exchange.params)
        response = await self._post(exchange, self._address.post_bytes(exchange, body))
        if response.streams and response.status == 200:
            stream = self._streams[exchange] = _Stream(response, self.spec.answer_limit)
            return await self._advance(exchange, stream)
        message = self._read_answer(response)
        if message.method or (message.number != exchange.number and not message.error):
            raise ProtocolError(f"Server {self.spec.name!r} answered another request than {exchange.method}.")
        return checked_reply(exchange, message.result, message.error, modern=self.profile.modern)

    async def _post(self, exchange: Exchange, request: bytes) -> Response:
        for attempt in range(2):
            used = False
            response: Response | None = None
            try:
                response, used = await self._address.send(request, timeout=exchange.timeout)
                exchange.abort = response.fail
                await response.ready()
                return response
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

    def _read_answer(self, response: Response) -> Message:
        status, body = response.status, response.body()
        if status == 401 or (status == 403 and b"www-authenticate" in response.headers):
            raise AuthorizationNeededError(
                f"Server {self.spec.name!r} wants authorization (HTTP {status}).",
                hint="Give it an `Authorization` header in its `headers`.",
            )
        if status == 404 and self._address.session:
            raise SessionLostError(f"Server {self.spec.name!r} no longer knows our session.")
        if body[:1] == b"{":
            try:
                message = read_message(body)
            except ValueError as error:
                raise ProtocolError(f"Server {self.spec.name!r} sent something unreadable ({error}).") from error
            if message.result or message.error or message.method:
                return message
        if status >= 400:
            raise self._http_error(status)
        if 300 <= status < 400:
            raise UnreachableError(f"Server {self.spec.name!r} redirects elsewhere (HTTP {status}); we do not follow.")
        raise ProtocolError(f"Server {self.spec.name!r} answered HTTP {status} without a JSON-RPC message.")

    def _http_error(self, status: int) -> UpstreamError:
        text = f"Server {self.spec.name!r} answered HTTP {status}."
        if status == 429:
            return UnreachableError(text, hint="It asks for fewer calls; try again later.")
        return NotStreamableError(text) if status in (400, 404, 405) else UpstreamError(text)

    # Receiving.

    async def _advance(self, exchange: Exchange, stream: _Stream) -> Reply:
        """Read events until there is a reply, or a question."""
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
                stream.retry = event.retry / 1000
            reply = self._take(exchange, event.data) if event.data else None
            if reply is not None:
                if not reply.questions:
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
            return checked_reply(exchange, message.result, message.error, modern=self.profile.modern)
        if message.id:
            return self._take_question(exchange, message)
        if message.method.startswith("notifications/tasks"):
            self.ends.hear(message.method, message.params)  # on whichever stream it comes, it may be another caller's
            return None
        if message.method == "notifications/progress":
            exchange.sign_of_life()
        exchange.listener.notify(message.method, message.params)
        return None

    def _take_question(self, exchange: Exchange, message: Message) -> Reply | None:
        if message.method == "ping":
            self._reply_later(message.id, Answer(result=b"{}"))
            return None
        exchange.ask(f"q{message.id.decode(errors='replace')}", Question(message.method, message.params), message.id)
        return exchange.take_questions(modern=self.profile.modern)

    async def _reopen(self, exchange: Exchange, stream: _Stream) -> _Stream:
        """A legacy server may close a stream and be polled for the rest of it."""
        if not stream.decoder.last_id or self.profile.modern:
            self._streams.pop(exchange, None)
            raise lost(self.spec, exchange, "closed the stream")
        exchange.listener.hang_up(stream.retry)
        await _pause(exchange, min(stream.retry, LONGEST_POLL))
        try:
            response = await self._address.get(stream.decoder.last_id)
            exchange.abort = response.fail
            if exchange.expired is not None:
                response.close()
                raise exchange.expired
            await response.ready()
        except (ClosedError, UnreachableError) as error:
            raise lost(self.spec, exchange, "could not be reached again") from error
        if response.status != 200 or not response.streams:
            raise lost(self.spec, exchange, "closed the stream")
        fresh = self._streams[exchange] = _Stream(response, self.spec.answer_limit)
        fresh.decoder.last_id, fresh.retry = stream.decoder.last_id, stream.retry
        return fresh

    async def _keep_listening(self) -> None:
        last_id, delay = "", POLL_AGAIN
        while not self._ended:
            response: Response | None = None
            try:
                response = await self._address.get(last_id)
                await response.ready()
                if response.status != 200 or not response.streams:
                    return
                stream = _Stream(response, self.spec.answer_limit)
                while (event := await stream.next_event()) is not None:
                    last_id = stream.decoder.last_id or last_id
                    delay = event.retry / 1000 if event.retry >= 0 else POLL_AGAIN
                    if event.data:
                        self._hear(event.data)
            except (UpstreamError, ValueError):
                delay = min(delay * 2, 60.0)
            finally:
                if response is not None:
                    response.close()
            await asyncio.sleep(delay)

    def _hear(self, data: bytes) -> None:
        message = read_message(data)
        if not message.method:
            return
        if not message.id:
            self.ends.hear(message.method, message.params)
        elif message.method == "ping":
            self._reply_later(message.id, Answer(result=b"{}"))
        elif self.ends.ask_owner is not None:
            question = self.ends.ask_owner(message.method, message.params)
            told_owner(question, lambda answer: self._reply_later(message.id, answer))
        else:
            self._reply_later(message.id, refusal(message.method))

    def _reply_later(self, server_id: bytes, answer: Answer) -> None:
        self._tasks.start(self._post_quietly(write_answer(server_id, answer)), name=f"{self.spec.name} answer")

    # Handshake.

    async def _probe(self) -> tuple[Message | None, int]:
        exchange = self._own("server/discover", discover_params(), min(PROBE_TIMEOUT, self.spec.start_timeout))
        self._count += 1
        exchange.number = self._count
        exchange.start_clock()
        try:
            body = write_request(b"%d" % exchange.number, exchange.method, exchange.params)
            response = await self._post(exchange, self._address.post_bytes(exchange, body))
            if response.status in (307, 308):
                self._address.follow(response)
                return await self._probe()
            if response.status in (401, 403):
                self._read_answer(response)
            if response.streams:
                stream = _Stream(response, self.spec.answer_limit)
                reply = await self._advance(exchange, stream)
                return Message(result=reply.result, error=reply.error), response.status
            return read_message(response.body()), response.status
        except UnreachableError:
            raise
        except (UpstreamError, ValueError):
            return None, 0
        finally:
            exchange.stop_clock()

    async def _initialize(self) -> None:
        exchange = self._own("initialize", initialize_params(self.ends.capabilities), self.spec.start_timeout)
        self._count += 1
        exchange.number = self._count
        exchange.start_clock()
        try:
            body = write_request(b"%d" % exchange.number, "initialize", exchange.params)
            response = await self._post(exchange, self._address.post_bytes(exchange, body))
            session = response.headers.get(b"mcp-session-id", b"")
            self.profile = Profile(modern=False)
            if response.streams and response.status == 200:
                reply = await self._advance(exchange, _Stream(response, self.spec.answer_limit))
            else:
                message = self._read_answer(response)
                if response.status in (400, 404, 405) and message.error:
                    raise NotStreamableError(f"Server {self.spec.name!r} refused: {message.error[:200].decode()}")
                reply = checked_reply(exchange, message.result, message.error, modern=False)
        finally:
            exchange.stop_clock()
        if reply.error:
            raise UnreachableError(f"Server {self.spec.name!r} refused to initialize: {reply.error[:200].decode()}")
        self.profile = legacy_profile(self.spec.name, reply.result)
        self._address.speak(self.profile.version, session)
        await self._post_message(write_notification("notifications/initialized"))

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

    def _own(self, method: str, params: bytes, timeout: float) -> Exchange:
        return Exchange(
            self.spec.name, method, params, timeout=timeout, max_timeout=timeout, safe_to_repeat=True, background=True
        )

    def _forget(self, exchange: Exchange) -> None:
        stream = self._streams.pop(exchange, None)
        if stream is not None:
            stream.response.close()

    def _leave(self, exchange: Exchange, settled: bool) -> None:
        exchange.stop_clock()
        if not exchange.background:
            self._in_flight -= 1
            self.last_used = time.monotonic()
        if not settled:
            self.cancel(exchange, "The caller withdrew, or the time was up.")


async def _pause(exchange: Exchange, seconds: float) -> None:
    """Wait, but no longer than the exchange may take."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def abort(error: UpstreamError) -> None:
        if not over.done():
            over.set_exception(error)

    exchange.abort = abort
    if exchange.expired is not None:
        abort(exchange.expired)
    try:
        async with asyncio.timeout(seconds):
            await over
    except TimeoutError:
        pass
