"""Work that asks: its questions leave with the answer to one request, and what is said to them comes with another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from trunkline.errors import InvalidArgumentsError
from trunkline.tasks import Tasks

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


async def _nothing() -> None:
    pass


class AskingTask(Generic[Q, A, R]):
    """A task that outlives the request that began it: however often it asks, nothing of it is done twice."""

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        """Seconds that the work gets to end when its request was cancelled."""
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, tuple[Q, asyncio.Future[A]]] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[R] | None = None

    @property
    def task(self) -> asyncio.Task[R]:
        """The work itself, once it was started."""
        assert self._task is not None, "it was started"
        return self._task

    @property
    def questions(self) -> dict[str, Q]:
        """What waits for an answer."""
        return {key: question for key, (question, answer) in self._open.items() if not answer.done()}

    def start(self, work: Coroutine[Any, Any, R], tasks: Tasks, *, name: str) -> None:
        """Begin."""
        self._task = tasks.start(work, name=name)
        self._task.add_done_callback(lambda _: self._news.set())

    def wake(self) -> None:
        """Let whoever attends look again; from any thread."""
        self._loop.call_soon_threadsafe(self._news.set)

    async def attend(self, pass_on: Callable[[], Awaitable[None]] = _nothing) -> dict[str, Q]:
        """Wait until it asks, and return what; nothing when it has ended. `pass_on` runs whenever it wakes.

        Whoever is cancelled here cancels the work.
        """
        task = self.task
        try:
            while True:
                self._news.clear()
                await pass_on()
                if task.done():
                    return {}
                if self._open:
                    await asyncio.sleep(0)  # several may be asked at once, by tasks that have their turn now
                    if questions := self.questions:
                        return questions
                await self._news.wait()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=self._grace)
            raise

    async def ask(self, questions: Mapping[str, Q], known: Mapping[str, A | Exception] | None = None) -> dict[str, A]:
        """From within the work: put questions, and wait for all answers; what is `known` is not waited for."""
        answers: dict[str, asyncio.Future[A]] = {}
        for key, question in questions.items():
            if key in self._open:
                raise InvalidArgumentsError(f"Two questions have the key {key!r}.")
            answers[key] = self._loop.create_future()
            self._open[key] = question, answers[key]
        self.answer({key: one for key, one in (known or {}).items() if key in answers})
        self._news.set()
        try:
            return dict(zip(answers, await asyncio.gather(*answers.values()), strict=True))
        finally:
            for key in answers:
                self._open.pop(key, None)

    def answer(self, answers: Mapping[str, A | Exception]) -> None:
        """Give the work what was said, or let its question fail; what it does not ask, or no longer, is dropped."""
        for key, said in answers.items():
            if key not in self.questions:
                continue
            if isinstance(said, Exception):
                self._open[key][1].set_exception(said)
            else:
                self._open[key][1].set_result(said)
