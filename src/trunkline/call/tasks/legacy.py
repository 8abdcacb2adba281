"""Tasks of legacy servers for modern callers, who get results and questions with the state of the task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from trunkline.call.tasks.log import Task
from trunkline.call.tasks.modern import Send
from trunkline.errors import BusyError, TrunklineError
from trunkline.model import Answer, Parked, Question, Reply
from trunkline.tasks import Tasks
from trunkline.wire.envelope import INTERNAL_ERROR, METHOD_NOT_FOUND, error_object
from trunkline.wire.members import decode_object, encode, read_members, write_members
from trunkline.wire.tasks import ended_state, modern_state, status_of, unrelated

ASK_WAIT = 5.0
"""Seconds that a server may take to ask what it says it wants to ask."""

_DONE = b'{"resultType":"complete"}'
_CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class LegacyTasks:
    """Keeps the questions of tasks. A legacy server asks only while somebody waits for the result, so we do."""

    def __init__(self, tasks: Tasks, *, most: int, seconds: float) -> None:
        self._tasks, self._most, self._seconds = tasks, most, seconds
        self._waits: dict[tuple[str, str], _Wait] = {}

    async def state(self, task: Task, send: Send, user: str) -> Reply:
        """`tasks/get`."""
        reply = await send("tasks/get")
        if reply.error:
            return reply
        found = modern_state(read_members(reply.result), task.id)
        match status_of(found):
            case "working" if not self._open(task):
                pass
            case "working" | "input_required":
                questions = self._open(task) or await self._asked(task, send, user)
                found["status"] = b'"input_required"'
                if questions:
                    found["inputRequests"] = write_members({key: _request(one) for key, one in questions.items()})
                else:
                    found["status"] = b'"working"'  # answered just now
            case "completed" | "failed":
                end = await send("tasks/result")
                while end.questions and end.parked is not None:  # left over from before the end
                    end = await send("tasks/result", parked=end.parked, answers=dict.fromkeys(end.questions, _LATE))
                found = ended_state(found, end.result, end.error)
            case _:
                pass
        return Reply(result=write_members({"resultType": b'"complete"', **found}))

    async def update(self, task: Task, send: Send, answers: Mapping[str, Answer]) -> Reply:
        """`tasks/update`: answers to questions that are not open are passed over."""
        wait = self._waits.get((task.server, task.own))
        if wait is None:
            known = await send("tasks/get")
            return known if known.error else Reply(result=_DONE)
        settled = {key: answer for key, answer in answers.items() if key in wait.questions}
        if settled:
            self._go_on(task, wait, send, settled)
        return Reply(result=_DONE)

    async def cancel(self, task: Task, send: Send) -> Reply:
        """`tasks/cancel`: in this era a task that is over can be cancelled too, without effect."""
        reply = await send("tasks/cancel")
        if reply.error:
            known = await send("tasks/get")
            if known.error:
                return reply
        return Reply(result=_DONE)

    def _open(self, task: Task) -> dict[str, Question]:
        wait = self._waits.get((task.server, task.own))
        refused = self._not_asked(task, wait.questions) if wait is not None else {}
        return {key: one for key, one in wait.questions.items() if key not in refused} if wait is not None else {}

    async def _asked(self, task: Task, send: Send, user: str) -> dict[str, Question]:
        """The questions that are open once the server was given somebody to ask."""
        key = task.server, task.own
        wait = self._waits.get(key)
        if wait is None:
            if sum(one.user == user for one in self._waits.values()) >= self._most:
                raise BusyError(
                    f"{self._most} of your tasks wait for answers already.", hint="Answer some, or try again later."
                )
            wait = self._waits[key] = _Wait(user)
            self._tasks.start(self._wait(task, wait, send), name=f"result of a task at {task.server}")
            try:
                async with asyncio.timeout(ASK_WAIT):
                    await wait.news.wait()
            except TimeoutError:
                pass
        return self._open(task)

    async def _wait(
        self,
        task: Task,
        wait: _Wait,
        send: Send,
        parked: Parked | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """Wait for the result until the server asks; what the result is, it says again when it is wanted."""
        reply = Reply()
        try:
            reply = await send("tasks/result", parked=parked, answers=answers or {})
            while reply.parked is not None and (refused := self._not_asked(task, reply.questions)):
                reply = await send("tasks/result", parked=reply.parked, answers=refused)
        except TrunklineError:
            pass  # whoever asks for the task next sees how its server fares
        finally:
            wait.parked = reply.parked
            if reply.parked is None:
                self._waits.pop((task.server, task.own), None)
            else:
                loop = asyncio.get_running_loop()
                wait.timer = loop.call_later(self._seconds, self._expire, task, wait, send)
            wait.news.set()

    def _go_on(self, task: Task, wait: _Wait, send: Send, answers: Mapping[str, Answer]) -> None:
        parked, wait.parked = wait.parked, None
        if wait.timer is not None:
            wait.timer.cancel()
        self._tasks.start(self._wait(task, wait, send, parked, answers), name=f"answers to a task at {task.server}")

    def _expire(self, task: Task, wait: _Wait, send: Send) -> None:
        """Nobody answers, and the server hears that, rather than wait for ever."""
        self._go_on(task, wait, send, dict.fromkeys(wait.questions, _LATE))

    def _not_asked(self, task: Task, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """Refusals of questions that the caller never said it answers."""
        declared = decode_object(task.capabilities.encode())
        refusal = Answer(error=error_object(METHOD_NOT_FOUND, "The client does not answer this."))
        return {key: refusal for key, one in questions.items() if _CAPABILITY.get(one.method, "") not in declared}


class _Wait:
    """A request for a task's result that is under way, or parked with questions."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.parked: Parked | None = None
        self.news = asyncio.Event()
        """Set when the server asked something, or the wait is over."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def questions(self) -> Mapping[str, Question]:
        """What is open now."""
        return self.parked.questions if self.parked is not None else {}


_LATE = Answer(error=error_object(INTERNAL_ERROR, "Nobody answered in time."))


def _request(question: Question) -> bytes:
    """A question as modern callers get it, without the server's own id of the task."""
    params = write_members(unrelated(read_members(question.params or b"{}")))
    return write_members({"method": encode(question.method), "params": params})
