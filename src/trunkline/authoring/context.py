"""What a tool, a prompt or a reader can do while it runs: report, log, ask, and notice that nobody waits any more.

These are plain functions: they find the call that they are made in. Reports and log messages may come from threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

from trunkline.authoring.questions import Answer, Question, Wanted, form, read_answer
from trunkline.errors import RefusedError, UpstreamTimeoutError
from trunkline.wire.era import MISSING_CAPABILITY
from trunkline.wire.questions import CAPABILITY
from trunkline.workers import run

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is."""

    progress: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A line for the caller's log."""

    level: LogLevel
    data: Any
    logger: str = ""


Notice = Progress | LogMessage


class Counterpart(Protocol):
    """Whoever made the call."""

    def tell(self, notice: Notice) -> None:
        """Pass something on; from any thread, without waiting."""
        ...

    def may_ask(self, question: Question, /) -> bool:
        """Whether they said that they can be asked such a thing."""
        ...

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Put questions, all at once, and wait for all answers."""
        ...


class Alone:
    """A call that was made here, in Python: who wants to hear or to answer gives a function for it."""

    def __init__(
        self,
        *,
        tell: Callable[[Notice], object] | None = None,
        answer: Callable[[Question], Mapping[str, Any] | Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._tell, self._answer = tell, answer

    def tell(self, notice: Notice) -> None:
        """Pass it on, in the thread where it was said."""
        if self._tell is not None:
            self._tell(notice)

    def may_ask(self, question: Question) -> bool:
        """Whether there is a function that answers."""
        return self._answer is not None

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Have them answered, one after the other."""
        assert self._answer is not None, "it may be asked"
        answers: dict[str, Any] = {}
        for key, question in questions.items():
            said = self._answer(question)
            answers[key] = read_answer(question, await said if isinstance(said, Awaitable) else said)
        return answers


class _Call:
    """One call under way: who made it, how far it is, and its time, which stands still while a person thinks."""

    def __init__(self, counterpart: Counterpart) -> None:
        self.counterpart = counterpart
        self.furthest = float("-inf")
        self.asked = 0
        self.ended = False
        self.limits: list[asyncio.Timeout] = []
        self._waiting = 0
        self._left: dict[asyncio.Timeout, float] = {}

    @asynccontextmanager
    async def standing_still(self) -> AsyncGenerator[None]:
        now = asyncio.get_running_loop().time
        if self._waiting == 0:
            self._left = {limit: (limit.when() or 0.0) - now() for limit in self.limits}
            for limit in self.limits:
                limit.reschedule(None)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            for limit in self.limits if self._waiting == 0 else ():
                if limit in self._left:  # others began meanwhile, and run as they are
                    limit.reschedule(now() + self._left[limit])


_call: ContextVar[_Call | None] = ContextVar("trunkline call", default=None)


@overload
async def ask(message: str, wanted: type | Mapping[str, Any] | None = None, /, *, key: str = "") -> Answer: ...
@overload
async def ask(message: str, /, *, key: str = "", **fields: Wanted) -> Answer: ...
async def ask(message: str, wanted: Any = None, /, *, key: str = "", **fields: Wanted) -> Answer:
    """Ask the person at the other end, and wait.

    `ask("Delete all?")` wants a yes, `ask("Who?", name=str, size=["S", "M"])` some fields, and
    `ask("Where to?", Address)` a dataclass, which `value` then holds. The answer is false when they refused.
    """
    return (await ask_all({key: form(message, wanted, **fields)}))[key]


async def ask_all(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Put several questions at once and wait for all answers, by the same keys.

    Raises `RefusedError` where nobody can be asked such a thing.
    """
    call = _current()
    named: dict[str, tuple[str, Question]] = {}
    for key, question in questions.items():
        if not call.counterpart.may_ask(question):
            raise unaskable(question)
        call.asked += 1
        named[key or f"question-{call.asked}"] = key, question
    async with call.standing_still():
        answers = await call.counterpart.ask({name: question for name, (_, question) in named.items()})
    return {key: answers[name] for name, (key, _) in named.items()}


def may_ask(question: Question) -> bool:
    """Whether the caller can be asked such a thing."""
    call = _call.get()
    return call is not None and call.counterpart.may_ask(question)


def report_progress(progress: float, total: float | None = None, message: str = "") -> None:
    """Say how far the call is; what is not further than before is not said again."""
    call = _call.get()
    if call is not None and not call.ended and progress > call.furthest:
        call.furthest = progress
        call.counterpart.tell(Progress(progress, total, message))


def send_log(data: Any, level: LogLevel = "info", *, logger: str = "") -> None:
    """Send the caller a line for its log, if it wants such."""
    call = _call.get()
    if call is not None and not call.ended:
        call.counterpart.tell(LogMessage(level, data, logger))


def was_cancelled() -> bool:
    """Whether nobody waits any more. An async tool is cancelled anyway; one in a thread has to look."""
    call = _call.get()
    return call is not None and call.ended


@asynccontextmanager
async def calling(counterpart: Counterpart, seconds: float) -> AsyncGenerator[None]:
    """Run the body as a call of `counterpart`; `UpstreamTimeoutError` says that it took longer."""
    call = _Call(counterpart)
    token = _call.set(call)
    try:
        async with limited(seconds):
            yield
    finally:
        call.ended = True
        _call.reset(token)


@asynccontextmanager
async def limited(seconds: float, what: str = "It") -> AsyncGenerator[None]:
    """Give the body so long, questions not counted; then `UpstreamTimeoutError` is raised."""
    limits = call.limits if (call := _call.get()) is not None else []
    limit: asyncio.Timeout | None = None
    try:
        async with asyncio.timeout(seconds) as limit:
            limits.append(limit)
            try:
                yield
            finally:
                limits.remove(limit)
    except TimeoutError as error:
        if limit is None or not limit.expired():
            raise  # somebody else's
        raise UpstreamTimeoutError(
            f"{what} took longer than {seconds:g} s.", hint="It may still be at work."
        ) from error


@dataclass(frozen=True)
class Limited:
    """A function with a time limit of its own, instead of its server's."""

    execute: Callable[[dict[str, Any]], Any]
    seconds: float
    what: str = "It"

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        async with limited(self.seconds, self.what):
            return await run(self.execute, arguments)


def unaskable(question: Question) -> RefusedError:
    """The error for a question that the caller cannot be asked."""
    return RefusedError(
        f"This needs to ask something ({question.method}), and the caller cannot be asked that.",
        code=MISSING_CAPABILITY,
        data={"requiredCapabilities": {CAPABILITY[question.method]: {"url": {}} if question.by_page else {}}},
    )


def _current() -> _Call:
    call = _call.get()
    if call is None:
        raise RefusedError("Nobody called, so nobody can be asked.", hint="Ask from within a tool, prompt or reader.")
    return call
