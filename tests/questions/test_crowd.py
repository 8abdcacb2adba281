"""Many callers are asked at once: every question reaches its own caller, and every answer its own call."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp

from tests.harness import Heard, ModernCaller, until
from tests.questions.scene import ACCEPT, FORMS, Json, Pair, Scene, Talker, ask, pairs, retry, scene

LEGACY_HTTP = pairs(caller="modern", server="legacy", transport="http")
LEGACY_STDIO = pairs(caller="modern", server="legacy", transport="stdio")


async def park(at: Scene, caller: ModernCaller, item: str) -> tuple[str, Json]:
    """Call `order`, and see that the question is about this item; its state and the answer that agrees."""
    heard = await ask(caller, "shop__order", at.args(item), FORMS)
    ((key, question),) = heard.result["inputRequests"].items()
    assert question["params"]["message"] == f"Order {item}?"
    return heard.result["requestState"], {key: {"action": "accept", "content": {"sure": True, "note": f"for-{item}"}}}


async def settle_all(at: Scene, callers: dict[str, ModernCaller]) -> None:
    """Park a call for each item, answer them in another order, and see that each got its own answer."""
    states = dict(zip(callers, await asyncio.gather(*(park(at, c, i) for i, c in callers.items())), strict=True))
    parked = at.open_things()["parked"]
    order = list(callers)
    random.Random(7).shuffle(order)
    heard: dict[str, Heard] = {}

    async def finish(item: str) -> None:
        state, answers = states[item]
        heard[item] = await retry(callers[item], "shop__order", at.args(item), state, answers, FORMS)

    async def worker(items: list[str]) -> None:
        for item in items:
            await finish(item)

    await asyncio.gather(*(worker(order[start::8]) for start in range(8)))
    await at.nothing_is_left()

    assert parked == len(callers)
    assert {item: one.text for item, one in heard.items()} == {item: f"ordered {item} for-{item}" for item in callers}
    assert sorted(at.done) == sorted(callers)


@LEGACY_HTTP
async def test_two_hundred_parked_calls_of_twenty_users_each_get_their_own_answer(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    users = {f"user{number}": f"token-of-user-number-{number}" for number in range(20)}
    async with scene(tmp_path, http, pair, users=users, server={"concurrency": 500}) as at:
        callers = {f"{user}-{n}": at.modern(token) for user, token in users.items() for n in range(10)}

        await settle_all(at, callers)


@LEGACY_STDIO
async def test_parked_calls_on_stdio_each_have_a_process(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    users = {f"user{number}": f"token-of-user-number-{number}" for number in range(4)}
    async with scene(tmp_path, http, pair, users=users, server={"processes": 32}) as at:
        callers = {f"{user}-{n}": at.modern(token) for user, token in users.items() for n in range(6)}

        await settle_all(at, callers)


@pairs(server="legacy", caller="modern")
async def test_sessions_and_modern_callers_on_one_server_never_get_anothers_question(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talkers = {f"session{n}": await at.talker(FORMS, "legacy") for n in range(2)}
        talkers |= {f"modern{n}": await at.talker(FORMS, "modern") for n in range(4)}

        async def use(name: str, talker: Talker) -> None:
            for number in range(3):
                item, tool = f"{name}-{number}", ("order", "twice", "both")[number]
                told = await talker.call(f"shop__{tool}", at.args(item), lambda _: ACCEPT)
                assert told.text == f"ordered {item}"
                assert all(item in question["params"]["message"] for question in told.questions), told.questions
                assert len(told.questions) == (1, 2, 2)[number]

        await asyncio.gather(*(use(name, talker) for name, talker in talkers.items()))
        await at.nothing_is_left()

        assert sorted(at.done) == sorted(f"{name}-{number}" for name in talkers for number in range(3))


@pairs(caller="legacy")
async def test_calls_at_once_in_one_session_each_get_their_own_answer(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    def note(question: Json) -> Json:
        item = question["params"]["message"].removeprefix("Order ").removesuffix("?")
        return {"action": "accept", "content": {"sure": True, "note": f"for-{item}"}}

    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        items = [f"item{number}" for number in range(6)]
        told = await asyncio.gather(*(talker.call("shop__order", at.args(item), note) for item in items))
        await at.nothing_is_left()

    assert [one.text for one in told] == [f"ordered {item} for-{item}" for item in items]
    assert sorted(at.done) == items


# There is an end.


@pairs(caller="modern", server="legacy")
async def test_beyond_max_parked_a_call_is_refused_and_the_others_go_on(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, max_parked=2) as at:
        caller = at.modern()
        kept = {item: await park(at, caller, item) for item in ("a", "b")}
        refused = await ask(caller, "shop__order", at.args("c"), FORMS)
        await until(lambda: at.seen("cancelled") == 1)
        await ask(caller, "shop__order", at.args("d"), {})
        session = await (await at.talker(FORMS, "legacy")).call("shop__order", at.args("e"), lambda _: ACCEPT)
        for item, (state, answers) in kept.items():
            done = await retry(caller, "shop__order", at.args(item), state, answers, FORMS)
            assert done.text == f"ordered {item} for-{item}"
        state, answers = await park(at, caller, "f")
        assert (await retry(caller, "shop__order", at.args("f"), state, answers, FORMS)).status == 200
        await at.nothing_is_left()

        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert "wait for answers" in refused.error["message"]
        assert at.seen("refused elicitation/create -32601") == 1
        assert session.text == "ordered e"
        assert sorted(at.done) == ["a", "b", "e", "f"]


@LEGACY_STDIO
async def test_beyond_processes_a_call_is_refused_and_the_others_go_on(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, server={"processes": 2}) as at:
        await at.looked()
        caller = at.modern()
        (state, answers), _ = await park(at, caller, "a"), await park(at, caller, "b")
        refused = await ask(caller, "shop__order", at.args("c"), FORMS)
        done = await retry(caller, "shop__order", at.args("a"), state, answers, FORMS)
        after = await ask(caller, "shop__order", at.args("d"), FORMS)

        assert refused.status == 503
        assert "processes" in refused.error["message"]
        assert done.text == "ordered a for-a"
        assert after.result["resultType"] == "input_required"
        assert at.done == ["a"]


@LEGACY_STDIO
async def test_idle_processes_of_one_user_make_room_for_another(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    users = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}
    async with scene(tmp_path, http, pair, users=users, server={"processes": 1}) as at:
        await at.looked()
        ana, bob = (Talker(at.modern(token), FORMS) for token in users.values())
        first = await ana.call("shop__order", at.args("tea"), lambda _: ACCEPT)
        await at.nothing_is_left()
        second = await bob.call("shop__order", at.args("rum"), lambda _: ACCEPT)

        assert first.text == "ordered tea"
        assert "result" in second.message, second.message
        assert at.done == ["tea", "rum"]


@LEGACY_STDIO
async def test_the_gateways_own_look_takes_no_callers_place(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, server={"processes": 1}) as at:
        told = await (await at.talker(FORMS)).call("shop__order", at.args("tea"), lambda _: ACCEPT)

        assert "result" in told.message, told.message
        assert at.done == ["tea"]


@pairs(caller="modern", server="legacy")
async def test_an_answer_that_comes_while_the_server_is_busy_is_not_lost(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, server={"concurrency": 1}) as at:
        caller, gate = at.modern(), tmp_path / "gate"
        state, answers = await park(at, caller, "tea")
        busy = asyncio.ensure_future(ask(caller, "shop__later", {"after": str(gate)}, {}))
        await until(lambda: at.seen("call") == 2)
        heard = await retry(caller, "shop__order", at.args("tea"), state, answers, FORMS)
        gate.touch()
        await busy
        if heard.status == 503:  # refused for now: then it may be repeated
            heard = await retry(caller, "shop__order", at.args("tea"), state, answers, FORMS)

        assert heard.message.get("error") is None
        assert heard.text == "ordered tea for-tea"
        await at.nothing_is_left()
        assert at.done == ["tea"]
