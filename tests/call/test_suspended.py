"""A call that waits inside a stage: whoever answers is heard by whoever asked, and what is said meanwhile arrives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trunkline.call.suspended import Suspended
from trunkline.model import Answer, Call, Question, Reply
from trunkline.tasks import open_tasks

FIRST, SECOND = Question("elicitation/create", b'{"message":"1"}'), Question("elicitation/create", b'{"message":"2"}')


class Ear:
    """A request that waits, and hears what it is told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def notify(self, method: str, params: bytes) -> None:
        self.heard.append((method, params))

    def hang_up(self, retry: float) -> None:
        self.heard.append(retry)


def request(ear: Ear, **answers: bytes) -> Call:
    given = {key: Answer(result=value) for key, value in answers.items()}
    return Call("tools/call", "t", {}, answers=given, listener=ear)


async def test_work_that_asks_nothing_is_answered_at_once() -> None:
    suspended = Suspended(request(Ear()))

    async def work() -> Reply:
        return Reply(result=b"done")

    async with asyncio.timeout(5), open_tasks() as tasks:
        reply = await suspended.run(work(), tasks)

    assert (reply.result, reply.parked) == (b"done", None)


async def test_each_request_brings_answers_and_hears_what_is_said_until_it_is_answered_itself() -> None:
    ears = [Ear(), Ear()]
    call = request(ears[0])
    suspended = Suspended(call)

    async def work() -> Reply:
        call.listener.notify("before", b"1")
        answers = await suspended.ask({"a": FIRST, "b": SECOND})
        call.listener.notify("after", b"2")
        call.listener.hang_up(2.5)
        return Reply(result=b",".join(f"{key}={one.result.decode()}".encode() for key, one in answers.items()))

    async with asyncio.timeout(5), open_tasks() as tasks:
        asked = await suspended.run(work(), tasks)
        assert (asked.parked, asked.questions) == (suspended, {"a": FIRST, "b": SECOND})
        again = request(ears[1], a=b"yes", other=b"no")
        again.notes = []
        end = await suspended.resume(again)

    assert end.result == b"a=yes"
    assert ears[0].heard == [("before", b"1")]
    assert ears[1].heard == [("after", b"2"), 2.5]
    assert call.notes is again.notes


async def test_two_who_ask_under_one_key_are_answered_in_turn() -> None:
    call = request(Ear())
    suspended = Suspended(call)

    async def work() -> Reply:
        both = await asyncio.gather(suspended.ask({"q": FIRST}), suspended.ask({"q": SECOND}))
        return Reply(result=b",".join(one["q"].result for one in both))

    async with asyncio.timeout(5), open_tasks() as tasks:
        first = await suspended.run(work(), tasks)
        second = await suspended.resume(request(Ear(), q=b"1"))
        end = await suspended.resume(request(Ear(), q=b"2"))

    assert (first.questions["q"], second.questions["q"], end.result) == (FIRST, SECOND, b"1,2")


async def test_an_answer_that_comes_late_is_not_taken_for_one_to_another_question_of_the_same_key() -> None:
    suspended, gave_up = Suspended(request(Ear())), asyncio.Event()

    async def work() -> Reply:
        asking = asyncio.ensure_future(suspended.ask({"q": FIRST}))
        await gave_up.wait()
        asking.cancel()
        answers = await suspended.ask({"q": SECOND})
        return Reply(result=answers["q"].result)

    async with asyncio.timeout(5), open_tasks() as tasks:
        asked = await suspended.run(work(), tasks)
        gave_up.set()
        for _ in range(10):  # turns of the loop, in which the work goes on to its second question
            await asyncio.sleep(0)
        assert suspended.questions["q"] is SECOND
        again = await suspended.resume(request(Ear(), q=b"late"))
        end = await suspended.resume(request(Ear(), q=b"right"))

    assert (asked.questions["q"], again.questions["q"]) == (FIRST, SECOND)
    assert end.result == b"right"


async def test_what_nobody_will_answer_ends_with_all_that_it_began() -> None:
    suspended, ended = Suspended(request(Ear())), asyncio.Event()

    async def work() -> Reply:
        try:
            await suspended.ask({"q": FIRST})
        finally:
            ended.set()
        return Reply()

    async with asyncio.timeout(5), open_tasks() as tasks:
        await suspended.run(work(), tasks)
        suspended.withdraw()
        await ended.wait()


async def test_what_does_not_end_with_its_caller_is_waited_for_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended, begun, patience = Suspended(request(Ear())), asyncio.Event(), list[float]()

    async def work() -> Reply:
        begun.set()
        await asyncio.Event().wait()
        return Reply()

    really_wait = asyncio.wait

    async def wait(tasks: Any, timeout: float) -> Any:
        patience.append(timeout)
        return await really_wait(tasks, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", wait)
    async with asyncio.timeout(5), open_tasks() as tasks:
        running = asyncio.ensure_future(suspended.run(work(), tasks))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert patience == [5.0]
