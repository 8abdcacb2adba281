"""Calls under way: what they have to say is passed on, and one that asks a modern caller waits for its next request.

A modern caller is asked by the answer to its request, and brings what was said with another one. Meanwhile the call
itself stays where it was: nothing of it is done twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.authoring.context import Notice, Progress
from trunkline.authoring.questions import Question, read_answer
from trunkline.errors import BusyError, InvalidArgumentsError, RefusedError, UpstreamTimeoutError
from trunkline.tasks import Tasks

MOST_UNSENT = 1000
"""Reports that may wait to be sent; of further ones the oldest give way."""

Send = Callable[[Notice], Awaitable[None]]
AskNow = Callable[[Question], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that cannot go on before these questions are answered, and the state by which it is found again."""

    questions: Mapping[str, Question]
    state: str


class Run:
    """One call, in a task of its own, which outlives the request that began it."""

    def __init__(
        self,
        may_ask: Callable[[Question], bool],
        *,
        ask_now: AskNow | None = None,
        early: Mapping[str, Mapping[str, Any]] | None = None,
        patience: float,
    ) -> None:
        self.may_ask = may_ask
        self._ask_now = ask_now
        """How to ask in the middle of a request; `None` where only another request can bring an answer."""
        self._early = early or {}
        """Answers that came before they were asked for."""
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[Notice] = deque(maxlen=MOST_UNSENT)
        self._news = asyncio.Event()
        self._open: dict[str, tuple[Question, asyncio.Future[Any]]] = {}
        self.task: asyncio.Task[Any] | None = None

    @property
    def questions(self) -> dict[str, Question]:
        """What waits for an answer."""
        return {key: question for key, (question, future) in self._open.items() if not future.done()}

    def start(self, work: Coroutine[Any, Any, Any], tasks: Tasks, name: str) -> None:
        """Begin."""
        self.task = tasks.start(work, name=name)
        self.task.add_done_callback(lambda _: self._news.set())

    async def attend(self, send: Send) -> Any:
        """Pass on what the call says, until it ends or asks; its result, or `None` while questions are open.

        Whoever is cancelled here cancels the call.
        """
        task = self.task
        assert task is not None, "it was started"
        try:
            while True:
                self._news.clear()
                while self._unsent:
                    await send(self._unsent.popleft())
                if task.done():
                    return _ended(task)
                if self._ask_now is None and self._open:
                    await asyncio.sleep(0)  # several may be asked at once, by tasks that have their turn now
                    if self.questions:
                        return None
                await self._news.wait()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
            raise

    def answer(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Give the call what was said; what does not fit is the tool's to handle."""
        for key, said in answers.items():
            question, future = self._open.get(key, (None, None))
            if question is None or future is None or future.done():
                continue
            try:
                future.set_result(read_answer(question, said))
            except InvalidArgumentsError as error:
                future.set_exception(error)

    # As the call's counterpart.

    def tell(self, notice: Notice) -> None:
        """Pass something on, in its turn; from any thread."""
        if isinstance(notice, Progress) and len(self._unsent) == MOST_UNSENT:
            return  # of reports the next one says more
        self._unsent.append(notice)
        self._loop.call_soon_threadsafe(self._news.set)

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Put questions, and wait."""
        ask_now = self._ask_now
        try:
            async with asyncio.timeout(self._patience):
                if ask_now is None:
                    return await self._wait(questions)
                said = await asyncio.gather(*[ask_now(question) for question in questions.values()])
        except TimeoutError as error:
            raise UpstreamTimeoutError(f"Nobody answered the question within {self._patience:g} s.") from error
        return {key: read_answer(question, one) for (key, question), one in zip(questions.items(), said, strict=True)}

    async def _wait(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        futures: dict[str, asyncio.Future[Any]] = {}
        for key, question in questions.items():
            if key in self._open:
                raise InvalidArgumentsError(f"Two questions have the key {key!r}.")
            futures[key] = self._loop.create_future()
            self._open[key] = question, futures[key]
        self.answer({key: said for key, said in self._early.items() if key in futures})
        self._news.set()
        try:
            return dict(zip(futures, await asyncio.gather(*futures.values()), strict=True))
        finally:
            for key in futures:
                self._open.pop(key, None)


class Waiting:
    """Runs that wait for their caller's next request; nobody finds one twice."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[str, Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def put(self, run: Run) -> Asked:
        """Keep a run until its state comes back; it ends by itself when nobody answers."""
        if len(self._runs) >= self._most:
            if run.task is not None:
                run.task.cancel()
            raise BusyError("Too many calls wait for an answer.", hint="Answer open questions, or try again later.")
        state = secrets.token_urlsafe(16)
        self._runs[state] = run
        assert run.task is not None, "it was started"
        run.task.add_done_callback(lambda _: self._runs.pop(state, None))
        return Asked(run.questions, state)

    def take(self, state: str) -> Run:
        """The run that waits for this; `RefusedError` when none does, or does any more."""
        run = self._runs.pop(state, None)
        if run is None:
            raise RefusedError(
                "Nothing waits for this requestState any more.", code=-32602, hint="Call again without it."
            )
        return run


def _ended(task: asyncio.Task[Any]) -> Any:
    if task.cancelled():
        raise RefusedError("The server was stopped meanwhile.", code=-32000)
    return task.result()
