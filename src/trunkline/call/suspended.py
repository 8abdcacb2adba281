"""A call that waits inside a stage for answers, while the request that brought it is long answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from trunkline.model import Answer, Call, Question, Reply
from trunkline.tasks import Tasks


class Suspended:
    """The stages of one call, in a task of their own; the caller gets their questions, and in the end their reply.

    It listens in the caller's place, since the caller comes back with another request for every answer.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._listener, call.listener = call.listener, self
        self._asking = asyncio.Lock()
        self._unasked: Reply | None = None
        self._questions: Mapping[str, Question] = {}
        self._next: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._answers: asyncio.Future[Mapping[str, Answer]] | None = None
        self._task: asyncio.Task[Reply] | None = None

    @property
    def server(self) -> str:
        """Where the call goes."""
        return self._call.server

    @property
    def questions(self) -> Mapping[str, Question]:
        """What waits for an answer."""
        return self._questions

    async def run(self, work: Awaitable[Reply], tasks: Tasks) -> Reply:
        """Begin: the first question, or the reply."""
        self._task = tasks.start(_awaited(work), name=f"call {self._call.name}")
        self._task.add_done_callback(self._ended)
        return await self._outcome()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Let the caller have the questions, and wait for what it says."""
        async with self._asking:
            self._answers = asyncio.get_running_loop().create_future()
            self._questions = questions
            reply = Reply(questions=questions, parked=self)
            if self._next.done():  # the caller still thinks about something that nobody waits for any more
                self._unasked = reply
            else:
                self._next.set_result(reply)
            try:
                return await self._answers
            finally:
                self._answers = self._unasked = None

    async def resume(self, call: Call) -> Reply:
        """Go on with the answers: the next question, or the reply."""
        self._listener = call.listener
        self._next = asyncio.get_running_loop().create_future()
        if self._unasked is not None:
            self._next.set_result(self._unasked)
            self._unasked = None
        elif self._answers is not None and not self._answers.done():
            self._answers.set_result(call.answers)
        elif self._task is not None and self._task.done():
            self._ended(self._task)
        return await self._outcome()

    def notify(self, method: str, params: bytes) -> None:
        """Tell whoever waits now."""
        self._listener.notify(method, params)

    def hang_up(self, retry: float) -> None:
        """Tell whoever waits now."""
        self._listener.hang_up(retry)

    def withdraw(self) -> None:
        """Nobody will answer: the stages end, and with them what they had begun."""
        if self._task is not None:
            self._task.cancel()

    async def _outcome(self) -> Reply:
        try:
            return await self._next
        except asyncio.CancelledError:
            if self._task is not None and not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=5.0)
            raise

    def _ended(self, task: asyncio.Task[Reply]) -> None:
        if self._next.done():
            return  # it ended while the caller thinks; `resume` will see it
        if task.cancelled():
            self._next.cancel()
        elif (error := task.exception()) is not None:
            self._next.set_exception(error)
        else:
            self._next.set_result(task.result())


async def _awaited(work: Awaitable[Reply]) -> Reply:
    return await work
