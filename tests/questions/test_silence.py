"""When nobody answers: time runs out, callers leave, and nothing is left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from tests.harness import LegacyCaller, until
from tests.questions.scene import ACCEPT, FORMS, Json, Pair, Scene, Talker, ask, pairs, retry, scene, yes

SOON = 0.5
"""Seconds that a caller has to answer here."""


async def still_serves(at: Scene, talker: Talker) -> bool:
    """Whether the next call goes as if nothing had been."""
    return (await talker.call("shop__order", at.args("next"), yes)).text == "ordered next"


# The time is up.


@pairs(caller="legacy")
async def test_a_legacy_caller_that_does_not_answer_gets_an_error(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, question_timeout=SOON) as at:
        caller = await at.legacy(FORMS)
        async with caller.stream("tools/call", {"name": "shop__order", "arguments": at.args("tea")}) as events:
            question = await events.next()
            answer = await events.next()
        late = await caller.answer(question["id"], ACCEPT)
        if pair.server == "legacy":  # a modern server waits for nothing, so there is nothing to cancel
            await until(lambda: at.seen("cancelled") == 1)
        await at.nothing_is_left()

        assert "within 0.5 s" in answer["error"]["message"]
        assert late == 202
        assert at.done == []
        assert await still_serves(at, Talker(caller, FORMS))


@pairs(caller="modern", server="legacy")
async def test_a_modern_caller_that_never_comes_back_leaves_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, question_timeout=SOON) as at:
        caller = at.modern()
        asked = await ask(caller, "shop__order", at.args("tea"))
        await until(lambda: at.seen("cancelled") == 1)
        await at.nothing_is_left()
        (key,) = asked.result["inputRequests"]
        late = await retry(caller, "shop__order", at.args("tea"), asked.result["requestState"], {key: ACCEPT})

        assert (late.status, late.error["code"]) == (400, -32602)
        assert at.done == []


@pairs(caller="modern", server="legacy", transport="http")
async def test_a_modern_caller_has_all_of_its_time_to_answer(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, question_timeout=0.7) as at:
        caller = at.modern()
        # The clock's full seconds must not matter; early in one they are most likely to.
        await until(lambda: time.time() % 1 < 0.1)
        asked = await ask(caller, "shop__order", at.args("tea"))
        (key,) = asked.result["inputRequests"]
        prompt = await retry(caller, "shop__order", at.args("tea"), asked.result["requestState"], {key: ACCEPT})

        assert "result" in prompt.message, prompt.message
        assert at.done == ["tea"]


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_processes_of_unanswered_questions_end(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair, question_timeout=SOON) as at:
        caller = at.modern()
        asked = [ask(caller, "shop__order", at.args(f"tea {number}")) for number in range(3)]
        await asyncio.gather(*asked)
        parked = at.open_things()
        await until(lambda: at.seen("cancelled") == 3)
        await until(lambda: at.seen("end") >= 3)
        await at.nothing_is_left()

        assert (parked["parked"], parked["leased"]) == (3, 3)
        assert at.done == []


# The caller leaves.

Leave = Callable[[LegacyCaller, int], Awaitable[None]]


async def withdraw(caller: LegacyCaller, id: int) -> None:
    await caller.notify("notifications/cancelled", {"requestId": id, "reason": "changed my mind"})


async def delete(caller: LegacyCaller, id: int) -> None:
    async with caller.http.delete(caller.url, headers=caller.headers) as response:
        assert response.status == 200


@pairs(caller="legacy")
@pytest.mark.parametrize("leave", [withdraw, delete], ids=["cancelled", "deleted"])
async def test_a_legacy_caller_that_leaves_takes_its_call_along(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, leave: Leave
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = await at.legacy(FORMS)
        params = {"name": "shop__order", "arguments": at.args("tea")}
        async with caller.stream("tools/call", params, id=77) as events:
            question = await events.next()
            await leave(caller, 77)
            with pytest.raises(EOFError):
                await events.next()
        if pair.server == "legacy":
            # A process that was the session's own may be told, or ended: either way the call is off.
            await until(lambda: at.seen("cancelled") + at.seen("end") >= 1)
        await at.nothing_is_left()
        late = await caller.answer(question["id"], ACCEPT)

        assert late == (202 if leave is withdraw else 404)
        assert at.done == []
        assert await still_serves(at, await at.talker(FORMS))


@pairs(caller="legacy")
async def test_a_legacy_caller_whose_stream_broke_resumes_it_and_answers(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = await at.legacy(FORMS)
        async with caller.stream("tools/call", {"name": "shop__order", "arguments": at.args("tea")}, id=5) as events:
            question = await events.next()
            last_id = events.last_id
        async with caller.listen(**{"last-event-id": last_id}) as resumed:
            await caller.answer(question["id"], ACCEPT)
            answer = await resumed.next()
        await at.nothing_is_left()

        assert answer["id"] == 5
        assert answer["result"]["content"][0]["text"] == "ordered tea"
        assert at.done == ["tea"]


@pairs(caller="modern", server="legacy")
async def test_a_modern_caller_that_hangs_up_before_the_question_cancels_the_call(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        waiting = asyncio.ensure_future(
            ask(at.modern(), "shop__later", {**at.args("tea"), "after": str(tmp_path / "never")})
        )
        await until(lambda: at.seen("call") == 1)
        waiting.cancel()
        await until(lambda: at.seen("cancelled") == 1)
        await at.nothing_is_left()

        assert at.done == []


@pairs(caller="legacy", server="legacy", transport="stdio")
async def test_a_cancelled_call_does_not_take_the_question_of_another_along(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller, gate = await at.legacy(FORMS), tmp_path / "gate"
        slow = {**at.args("slow"), "after": str(gate)}
        quick = {"name": "shop__order", "arguments": at.args("quick")}
        running = asyncio.ensure_future(Talker(caller, FORMS).call("shop__later", slow, yes))
        await until(lambda: at.seen("call") == 1)
        async with caller.stream("tools/call", quick, id=88) as events:
            await events.next()
            gate.touch()
            await until(lambda: at.seen("asked") == 2)
            await caller.notify("notifications/cancelled", {"requestId": 88})
            with pytest.raises(EOFError):
                await events.next()
        async with asyncio.timeout(5):
            told = await running

        assert told.text == "ordered slow"
        assert at.done == ["slow"]


# The server leaves.


@pairs(server="legacy")
async def test_a_server_that_dies_while_it_waits_for_an_answer_is_an_error(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)

        def kill(question: Json) -> Json:
            at.kill()
            return ACCEPT

        told = await talker.call("shop__order", at.args("tea"), kill)
        await at.nothing_is_left()

        assert "shop" in told.error["message"]
        assert at.done == []


@pairs(caller="modern", server="legacy")
async def test_a_gateway_ends_though_calls_are_parked_that_could_be_answered_for_an_hour(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, question_timeout=3600) as at:
        await ask(at.modern(), "shop__order", at.args("tea"))

    assert at.done == []
    if pair.transport == "stdio":
        await until(lambda: at.seen("end") == at.seen("start"))
