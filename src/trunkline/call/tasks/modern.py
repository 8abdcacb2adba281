"""Tasks of modern servers for legacy callers, who ask for a state, a result or an end each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trunkline.call.tasks.log import Task
from trunkline.errors import UpstreamTimeoutError
from trunkline.model import NOTHING, Answer, Parked, Question, Reply
from trunkline.wire.envelope import INVALID_PARAMS, error_object, read_string
from trunkline.wire.members import Members, is_object, read_members, write_members
from trunkline.wire.tasks import ENDED, legacy_outcome, legacy_state, poll_interval, related, status_of, unrelated

POLL = 1.0
"""Seconds between two looks at a task whose server names no interval."""


class Send(Protocol):
    """Sends a request about one task to the task's server."""

    async def __call__(
        self,
        method: str,
        params: Members = ...,
        *,
        parked: Parked | None = None,
        answers: Mapping[str, Answer] = NOTHING,
    ) -> Reply:
        """The server's reply; `params` are those beside the task's id."""
        ...


@dataclass(slots=True)
class AskingTask:
    """A task whose server asks something: what a legacy caller waits in until its questions are answered."""

    server: str
    questions: Mapping[str, Question] = field(default_factory=dict[str, Question])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """Keys of questions, and what they ask; a server may still show one just after its answer."""


async def state(task: Task, send: Send) -> Reply:
    """`tasks/get`."""
    reply = await send("tasks/get")
    if reply.error:
        return reply
    return Reply(result=write_members(legacy_state(read_members(reply.result), task.id)), modern=False)


async def cancel(task: Task, send: Send) -> Reply:
    """`tasks/cancel`, whose answer is the task's state here, and an error when the task is over."""
    before = await send("tasks/get")
    if before.error:
        return before
    status = status_of(read_members(before.result))
    if status in ENDED:
        return Reply(error=error_object(INVALID_PARAMS, f"The task cannot be cancelled: it is {status}."))
    reply = await send("tasks/cancel")
    return reply if reply.error else await state(task, send)


async def result(
    task: Task, send: Send, *, patience: float, parked: Parked | None, answers: Mapping[str, Answer]
) -> Reply:
    """`tasks/result`: wait for the end of the task, and ask the caller what the server asks meanwhile."""
    asking = parked if isinstance(parked, AskingTask) else AskingTask(task.server)
    if answers:
        refused = await _answer(asking, send, answers)
        if refused is not None:
            return refused
    try:
        async with asyncio.timeout(patience):
            while True:
                reply = await send("tasks/get")
                if reply.error:
                    return reply
                found = read_members(reply.result)
                if status_of(found) in ENDED:
                    end, error = legacy_outcome(found, task.id)
                    return Reply(result=end, error=error, modern=False)
                questions = _questions(found, task, asking)
                if questions:
                    asking.questions = questions
                    asking.asked.update({key: one.method for key, one in questions.items()})
                    return Reply(questions=questions, parked=asking)
                await asyncio.sleep(poll_interval(found, POLL))
    except TimeoutError:
        raise UpstreamTimeoutError(
            f"The task at server {task.server!r} did not end within {patience:g} s.",
            hint="It goes on; ask for its result again.",
        ) from None


async def _answer(asking: AskingTask, send: Send, answers: Mapping[str, Answer]) -> Reply | None:
    """Give the server its answers; a reply only if that cannot be done."""
    given: Members = {}
    for key, answer in answers.items():
        if not answer.error:
            given[key] = write_members(unrelated(read_members(answer.result)))
        elif asking.asked.get(key) == "elicitation/create":
            given[key] = b'{"action":"cancel"}'  # a person's answer may fail to come; a model's may not
        else:
            asking.asked.pop(key, None)
            return Reply(error=answer.error)
    reply = await send("tasks/update", {"inputResponses": write_members(given)})
    return reply if reply.error else None


def _questions(found: Members, task: Task, asking: AskingTask) -> dict[str, Question]:
    """What a task asks that the caller was not asked yet."""
    text = found.get("inputRequests", b"")
    asked = read_members(text) if status_of(found) == "input_required" and is_object(text) else {}
    questions: dict[str, Question] = {}
    for key, one in asked.items():
        if key not in asking.asked and is_object(one):
            members = read_members(one)
            params = related(members.get("params", b"{}"), task.id, always=True)
            questions[key] = Question(read_string(members.get("method", b"")), params)
    return questions
