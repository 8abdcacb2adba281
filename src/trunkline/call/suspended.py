"""A call that waits inside a stage for answers, while the request that brought it is long answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from trunkline.model import Answer, Call, Question, Reply
from trunkline.questions.waiting import AskingTask
from trunkline.tasks import Tasks


class Suspended:
    """The stages of one call, in a task of their own; the caller gets their questions, and in the end their reply.

    It listens in the caller's place, since the caller comes back with another request for every answer.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._listener, call.listener = call.listener, self
        self._asking = asyncio.Lock()
        self._work: AskingTask[Question, Answer | None, Reply] = AskingTask(grace=5.0)
        self._shown: Mapping[str, Question] = {}
        """What the caller was asked last."""

    @property
    def server(self) -> str:
        """Where the call goes."""
        return self._call.server

    @property
    def questions(self) -> Mapping[str, Question]:
        """What waits for an answer."""
        return self._work.questions

    async def run(self, work: Coroutine[Any, Any, Reply], tasks: Tasks) -> Reply:
        """Begin: the first question, or the reply."""
        self._work.start(work, tasks, name=f"call {self._call.name}")
        return await self._outcome()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Let the caller have the questions, and wait for what it says; servers may use one key twice, so in turn."""
        async with self._asking:
            answers = await self._work.ask(questions)
        return {key: answer for key, answer in answers.items() if answer is not None}

    async def resume(self, call: Call) -> Reply:
        """Go on with the answers: the next question, or the reply."""
        self._listener = call.listener
        self._call.notes, self._call.trace = call.notes, call.trace
        # While the caller thought, the same key may have come to mean something else.
        same = [key for key, question in self._work.questions.items() if self._shown.get(key) is question]
        self._work.answer({key: call.answers.get(key) for key in same})
        return await self._outcome()

    def notify(self, method: str, params: bytes) -> None:
        """Tell whoever waits now."""
        self._listener.notify(method, params)

    def hang_up(self, retry: float) -> None:
        """Tell whoever waits now."""
        self._listener.hang_up(retry)

    def withdraw(self) -> None:
        """Nobody will answer: the stages end, and with them what they had begun."""
        self._work.task.cancel()

    async def _outcome(self) -> Reply:
        self._shown = await self._work.attend()
        return Reply(questions=self._shown, parked=self) if self._shown else self._work.task.result()
