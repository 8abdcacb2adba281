"""Work that asks: its questions leave with one request, and what is said to them comes with another."""

from __future__ import annotations

import asyncio

import pytest

from trunkline.call.suspended import Suspended
from trunkline.errors import InvalidArgumentsError
from trunkline.model import Answer, Call, Question, Reply
from trunkline.questions.waiting import AskingTask
from trunkline.tasks import open_tasks


async def test_questions_that_are_asked_side_by_side_leave_together_and_each_gets_its_answer() -> None:
    task: AskingTask[str, str, list[dict[str, str]]] = AskingTask(grace=1.0)

    async def work() -> list[dict[str, str]]:
        return list(await asyncio.gather(task.ask({"a": "A?"}), task.ask({"b": "B?"})))

    async with asyncio.timeout(5), open_tasks() as tasks:
        task.start(work(), tasks, name="work")
        first = await task.attend()
        task.answer({"a": "1", "unknown": "0"})
        second = await task.attend()
        task.answer({"b": "2", "a": "late"})
        third = await task.attend()

    assert (first, second, third) == ({"a": "A?", "b": "B?"}, {"b": "B?"}, {})
    assert task.task.result() == [{"a": "1"}, {"b": "2"}]


async def test_two_open_questions_cannot_have_one_key() -> None:
    task: AskingTask[str, str, list[dict[str, str]]] = AskingTask(grace=1.0)

    async def work() -> list[dict[str, str]]:
        return list(await asyncio.gather(task.ask({"a": "A?"}), task.ask({"a": "B?"})))

    async with asyncio.timeout(5), open_tasks() as tasks:
        task.start(work(), tasks, name="work")
        while await task.attend():
            task.answer({"a": "1"})

    with pytest.raises(InvalidArgumentsError, match="key 'a'"):
        task.task.result()


async def test_whoever_is_cancelled_while_attending_cancels_the_work() -> None:
    task: AskingTask[str, str, None] = AskingTask(grace=1.0)

    async with asyncio.timeout(5), open_tasks() as tasks:
        task.start(asyncio.sleep(60), tasks, name="work")
        attending = asyncio.ensure_future(task.attend())
        await asyncio.sleep(0)
        attending.cancel()
        await asyncio.wait([attending])

    assert attending.cancelled()
    assert task.task.cancelled()


async def test_an_answer_that_comes_late_is_not_taken_for_one_to_another_question_of_the_same_key() -> None:
    call = Call("tools/call", "t", {})
    suspended, gave_up = Suspended(call), asyncio.Event()
    first, second = Question("elicitation/create", b'{"message":"1"}'), Question("elicitation/create", b"{}")

    async def work() -> Reply:
        asking = asyncio.ensure_future(suspended.ask({"q": first}))
        await gave_up.wait()
        asking.cancel()
        answers = await suspended.ask({"q": second})
        return Reply(result=answers["q"].result)

    async with asyncio.timeout(5), open_tasks() as tasks:
        asked = await suspended.run(work(), tasks)
        gave_up.set()
        for _ in range(10):  # turns of the loop, in which the work goes on to its second question
            await asyncio.sleep(0)
        assert suspended.questions["q"] is second
        again = await suspended.resume(Call("tools/call", "t", {}, answers={"q": Answer(result=b"late")}))
        end = await suspended.resume(Call("tools/call", "t", {}, answers={"q": Answer(result=b"right")}))

    assert (asked.questions["q"], again.questions["q"]) == (first, second)
    assert end.result == b"right"
