"""Work that asks: its questions leave with one request, and what is said to them comes with another."""

from __future__ import annotations

import asyncio

import pytest

from trunkline.errors import InvalidArgumentsError
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
