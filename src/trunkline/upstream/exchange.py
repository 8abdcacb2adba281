"""One request on its way: what was sent, who listens, until when, and what the server asks back meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from trunkline.errors import UpstreamError, UpstreamTimeoutError
from trunkline.model import NOTHING, SILENT, Answer, Listener, Question, Reply

FOREVER = float("inf")
"""The time-out of a request that is meant to stay open, such as a subscription."""
QUIET = 0.02
"""Seconds without a further question after which those that came are put to the caller, all at once."""
LONGEST_GATHERING = 0.1
MOST_QUESTIONS = 100
"""Questions of one call that may be open at once; further ones are refused."""


class AskedError(Exception):
    """Whoever waits for the server's answer stops: the server asked something, and will not go on by itself."""


class Clock:
    """Rings for requests whose time is up; one timer serves all that have equally long."""

    MOST = 16
    """Different lengths of time; requests with yet another one have timers of their own."""

    def __init__(self) -> None:
        self._waiting: dict[float, dict[Exchange, float]] = {}
        """When each is due, the first to be so first, by how long they have."""

    def start(self, exchange: Exchange, seconds: float, now: float) -> bool:
        """Have it rung for after so long; whether that is possible here."""
        waiting = self._waiting.get(seconds)
        if waiting is None:
            if len(self._waiting) >= self.MOST:
                return False
            waiting = self._waiting[seconds] = {}
            asyncio.get_running_loop().call_at(now + seconds, self._ring, seconds)
        waiting[exchange] = now + seconds
        return True

    def stop(self, exchange: Exchange, seconds: float) -> None:
        """Nobody waits for it any more."""
        waiting = self._waiting.get(seconds)
        if waiting is not None:
            waiting.pop(exchange, None)

    def _ring(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        now, waiting = loop.time(), self._waiting[seconds]
        for exchange, due in list(waiting.items()):
            if due > now:
                loop.call_at(due, self._ring, seconds)
                return
            if waiting.pop(exchange, None) is not None:
                exchange.ring()
        del self._waiting[seconds]


class Exchange(msgspec.Struct, eq=False):  # one is made for each call, and a class of so many fields takes long
    """A request that a server works on; it may be parked while somebody answers the server's questions."""

    server: str
    method: str
    params: bytes
    name: str = ""
    headers: Mapping[bytes, bytes] = NOTHING
    listener: Listener = SILENT
    timeout: float = 60.0
    max_timeout: float = 600.0
    safe_to_repeat: bool = False
    token: bytes = b""
    """The caller's progress token, to be put back into what the server reports."""
    background: bool = False
    """Our own doing, such as a health check: it neither makes a connection busy nor gets a call's messages."""
    expired: UpstreamError | None = None
    number: int = 0
    questions: dict[str, Question] = {}
    asked: dict[str, bytes] = {}
    """The server's own ids of the questions that are open."""
    refused: tuple[Question, ...] = ()
    """What the server was told that it cannot ask, and certainly wanted to ask for this call."""
    abort: Callable[[UpstreamError], object] | None = None
    """How the connection in charge ends the wait."""
    interrupt: Callable[[AskedError], bool] | None = None
    """How a wait elsewhere than in `outcome` is left for a while; says whether somebody waited."""
    credential: bytes = b""
    """The header lines of the credential that it was sent with."""
    connection: object = None
    """The connection that it was sent on, and on which alone it can be resumed."""
    _future: asyncio.Future[Reply] | None = None
    _early: Reply | UpstreamError | None = None
    _loop: asyncio.AbstractEventLoop = msgspec.field(default_factory=asyncio.get_running_loop)
    _last_sign: float = 0.0
    _started: float = 0.0
    _timer: asyncio.TimerHandle | None = None
    _clock: tuple[Clock, float] | None = None
    _attended: bool = False
    _gathering: asyncio.TimerHandle | None = None
    _first_asked: float = 0.0

    def __repr__(self) -> str:
        return f"Exchange({self.server!r}, {self.method!r}, {self.name!r})"  # params may be secret

    def start_clock(self, clock: Clock | None = None) -> None:
        """Count from now; while parked the clock stands still."""
        now = self._loop.time()
        self._attended = True
        self._last_sign = now
        self._started = self._started or now
        if self.timeout != FOREVER:
            seconds = self.timeout if self.timeout < self.max_timeout else self.max_timeout
            if clock is not None and clock.start(self, seconds, now):
                self._clock = clock, seconds
            else:
                self._timer = self._loop.call_at(now + seconds, self.ring)

    def stop_clock(self) -> None:
        """Nobody waits for the server now."""
        self._attended = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._clock is not None:
            clock, seconds = self._clock
            clock.stop(self, seconds)
            self._clock = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def sign_of_life(self) -> None:
        """The server reported progress, so that it gets more time, up to the maximum."""
        self._last_sign = self._loop.time()

    async def outcome(self) -> Reply:
        """Wait for the reply, or for a question; what came while parked is there at once."""
        if self._early is not None:
            early, self._early = self._early, None
            if isinstance(early, UpstreamError):
                raise early
            return early
        self._future = self._loop.create_future()
        try:
            return await self._future
        finally:
            self._future = None

    def settle(self, outcome: Reply | UpstreamError) -> None:
        """The server answered, or never will; the first word counts."""
        if self._future is None:
            self._early = self._early or outcome
        elif self._future.done():
            return
        elif isinstance(outcome, UpstreamError):
            self._future.set_exception(outcome)
        else:
            self._future.set_result(outcome)

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for it now; a parked exchange waits for nobody."""
        return self._future is not None and not self._future.done()

    @property
    def overasked(self) -> bool:
        """Whether so many questions are open that no further one is taken."""
        return len(self.asked) >= MOST_QUESTIONS

    def ask(self, server_id: bytes, question: Question) -> None:
        """Note a question of the server's; it is put to the caller together with those that come right behind it."""
        key = f"q{server_id.decode(errors='replace')}"
        self.questions[key] = question
        self.asked[key] = server_id
        if self._attended:  # while parked, it waits for the next round
            self._gather()

    def take_questions(self) -> Reply:
        """Park: the open questions become what the caller gets."""
        return Reply(questions=dict(self.questions), parked=self, modern=False)

    def answered(self, answers: dict[str, Answer]) -> list[tuple[bytes, Answer]]:
        """The server's ids of the questions that these answers settle; the others stay open."""
        settled = [(self.asked.pop(key), answer) for key, answer in answers.items() if key in self.asked]
        self.questions = {key: question for key, question in self.questions.items() if key in self.asked}
        return settled

    def give_up_questions(self) -> list[tuple[bytes, Question]]:
        """The open questions with the server's ids; they are no longer this exchange's."""
        given_up = [(self.asked[key], question) for key, question in self.questions.items()]
        self.questions, self.asked = {}, {}
        return given_up

    def _gather(self) -> None:
        now = self._loop.time()
        if self._gathering is None:
            self._first_asked = now
        else:
            self._gathering.cancel()
        self._gathering = self._loop.call_at(min(now + QUIET, self._first_asked + LONGEST_GATHERING), self._gathered)

    def _gathered(self) -> None:
        if self.waiting:
            self.settle(self.take_questions())
        elif self.interrupt is None or not self.interrupt(AskedError()):
            # Whoever attends to it does something else just now, such as reopening a stream.
            self._gathering = self._loop.call_later(QUIET, self._gathered)

    def ring(self) -> None:
        """Its time is up, unless the server gave a sign of life meanwhile."""
        due = min(self._last_sign + self.timeout, self._started + self.max_timeout)
        now = self._loop.time()
        if now < due - 0.001:
            self._timer = self._loop.call_at(due, self.ring)
            return
        self._timer = None
        if self.expired is None:
            waited = self.timeout if now - self._last_sign >= self.timeout - 0.01 else self.max_timeout
            what = f"{self.method} {self.name!r}" if self.name else self.method
            self.expired = UpstreamTimeoutError(
                f"Server {self.server!r} did not answer {what} within {waited:g} s.",
                hint="Raise its `timeout`, or read its log: it may still be working.",
            )
        if self.abort is not None:
            self.abort(self.expired)


def own_exchange(server: str, method: str, params: bytes, timeout: float) -> Exchange:
    """A request of our own, for no call: it may be repeated, and does not count as use."""
    return Exchange(server, method, params, timeout=timeout, max_timeout=timeout, safe_to_repeat=True, background=True)


async def pause(exchange: Exchange, seconds: float) -> None:
    """Wait, but no longer than the exchange may take, nor when there is something to ask the caller."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def leave(error: Exception) -> bool:
        if over.done():
            return False
        over.set_exception(error)
        return True

    exchange.abort = exchange.interrupt = leave
    if exchange.expired is not None:
        leave(exchange.expired)
    try:
        async with asyncio.timeout(seconds):
            await over
    except TimeoutError:
        pass
