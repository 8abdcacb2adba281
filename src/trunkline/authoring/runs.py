"""Calls under way: what they have to say is passed on, and one that asks a modern caller waits for its next request.

A modern caller is asked by the answer to its request, and brings what was said with another one. Meanwhile the call
itself stays where it was: nothing of it is done twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.authoring.context import Notice, Progress
from trunkline.authoring.questions import Question, read_answer
from trunkline.errors import BusyError, InvalidArgumentsError, RefusedError, UpstreamTimeoutError
from trunkline.questions.waiting import AskingTask

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
    """One call, and what it says and asks on its way."""

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
        self._unsent: deque[Notice] = deque(maxlen=MOST_UNSENT)
        self.work: AskingTask[Question, Any, Any] = AskingTask(grace=1.0)

    async def attend(self, send: Send) -> Any:
        """Pass on what the call says, until it ends or asks; its result, or `None` while questions are open.

        Whoever is cancelled here cancels the call.
        """

        async def pass_on() -> None:
            while self._unsent:
                await send(self._unsent.popleft())

        if await self.work.attend(pass_on):
            return None
        if self.work.task.cancelled():
            raise RefusedError("The server was stopped meanwhile.", code=-32000)
        return self.work.task.result()

    def answer(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Give the call what was said; what does not fit is the tool's to handle."""
        self.work.answer(_read(self.work.questions, answers))

    # As the call's counterpart.

    def tell(self, notice: Notice) -> None:
        """Pass something on, in its turn; from any thread."""
        if isinstance(notice, Progress) and len(self._unsent) == MOST_UNSENT:
            return  # of reports the next one says more
        self._unsent.append(notice)
        self.work.wake()

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Put questions, and wait."""
        ask_now = self._ask_now
        try:
            async with asyncio.timeout(self._patience):
                if ask_now is None:
                    return await self.work.ask(questions, _read(questions, self._early))
                said = await asyncio.gather(*[ask_now(question) for question in questions.values()])
        except TimeoutError as error:
            raise UpstreamTimeoutError(f"Nobody answered the question within {self._patience:g} s.") from error
        return {key: read_answer(question, one) for (key, question), one in zip(questions.items(), said, strict=True)}


class WaitingRuns:
    """Runs that wait for their caller's next request; nobody finds one twice."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[str, Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def put(self, run: Run) -> Asked:
        """Keep a run until its state comes back; it ends by itself when nobody answers."""
        task = run.work.task
        if len(self._runs) >= self._most:
            task.cancel()
            raise BusyError("Too many calls wait for an answer.", hint="Answer open questions, or try again later.")
        state = secrets.token_urlsafe(16)
        self._runs[state] = run
        task.add_done_callback(lambda _: self._runs.pop(state, None))
        return Asked(run.work.questions, state)

    def take(self, state: str) -> Run:
        """The run that waits for this; `RefusedError` when none does, or does any more."""
        run = self._runs.pop(state, None)
        if run is None:
            raise RefusedError(
                "Nothing waits for this requestState any more.", code=-32602, hint="Call again without it."
            )
        return run


def _read(questions: Mapping[str, Question], said: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What was said to these questions, as answers; the error itself where it is none."""
    answers: dict[str, Any] = {}
    for key in questions.keys() & said.keys():
        try:
            answers[key] = read_answer(questions[key], said[key])
        except InvalidArgumentsError as error:
            answers[key] = error
    return answers
