"""A `requestState` is good once, in time, unchanged, for the request and the user it was made for."""

from __future__ import annotations

import asyncio
import string
from pathlib import Path

import aiohttp

from tests.harness import Heard, ModernCaller, gateway
from tests.questions.scene import ACCEPT, Json, Pair, Scene, ask, asking, pairs, retry, scene

USERS = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}


async def asked(at: Scene, caller: ModernCaller, item: str = "tea") -> tuple[str, Json]:
    """Call `order`; the state, and the answer that agrees."""
    heard = await ask(caller, "shop__order", at.args(item))
    (key,) = heard.result["inputRequests"]
    return heard.result["requestState"], {key: ACCEPT}


def assert_refused(heard: Heard) -> None:
    assert (heard.status, heard.message.get("error", {}).get("code")) == (400, -32602), heard.message


@pairs(caller="modern")
async def test_a_state_is_good_once(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        first = await retry(caller, "shop__order", at.args("tea"), state, answers)
        again = [await retry(caller, "shop__order", at.args("tea"), state, answers) for _ in range(3)]
        await at.nothing_is_left()

    assert first.text == "ordered tea"
    for heard in again:
        assert_refused(heard)
    assert at.done == ["tea"]


@pairs(caller="modern")
async def test_of_equal_retries_at_once_one_counts(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        retries = (retry(caller, "shop__order", at.args("tea"), state, answers) for _ in range(8))
        heard = await asyncio.gather(*retries)
        await at.nothing_is_left()

    assert sorted(one.status for one in heard) == [200] + [400] * 7
    assert at.done == ["tea"]


@pairs(caller="modern")
async def test_a_forged_state_is_refused_and_the_true_one_stays_good(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        forged = [flipped(state, place) for place in range(len(state))]
        forged += [state[:-1], state[:-4], state + "A", state + "=", state[4:], state * 2, state[::-1], " " + state]
        for one in forged:
            assert_refused(await retry(caller, "shop__order", at.args("tea"), one, answers))
        done_before = at.done
        true = await retry(caller, "shop__order", at.args("tea"), state, answers)
        await at.nothing_is_left()

    assert len(forged) > 60
    assert done_before == []
    assert true.text == "ordered tea"
    assert at.done == ["tea"]


def flipped(state: str, place: int) -> str:
    """The state with one character changed to another that a state may have."""
    alphabet = string.ascii_letters + string.digits + "-_"
    old = state[place]
    new = alphabet[(alphabet.index(old) ^ 1) % len(alphabet)] if old in alphabet else "A"
    return state[:place] + new + state[place + 1 :]


@pairs(caller="modern")
async def test_a_state_of_other_arguments_or_another_tool_is_refused(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        for other in (at.args("rum"), {**at.args("tea"), "more": 1}, {"item": "tea"}, {}):
            assert_refused(await retry(caller, "shop__order", other, state, answers))
        for tool in ("shop__twice", "shop__both", "shop__visit"):
            assert_refused(await retry(caller, tool, at.args("tea"), state, answers))
        turned = dict(reversed(at.args("tea").items()))
        true = await retry(caller, "shop__order", turned, state, answers)
        await at.nothing_is_left()

    assert true.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="modern")
async def test_a_state_of_another_user_is_refused(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair, users=USERS) as at:
        ana, bob = at.modern(USERS["ana"]), at.modern(USERS["bob"])
        state, answers = await asked(at, ana)
        stolen = await retry(bob, "shop__order", at.args("tea"), state, answers)
        nobody = await retry(at.modern("wrong"), "shop__order", at.args("tea"), state, answers)
        done_before = at.done
        own = await retry(ana, "shop__order", at.args("tea"), state, answers)
        await at.nothing_is_left()

    assert_refused(stolen)
    assert nobody.status == 401
    assert done_before == []
    assert own.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="modern", server="legacy")
async def test_a_state_does_not_outlive_the_gateway(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    with asking("legacy", pair.transport, tmp_path / "log") as spec:
        async with gateway(tmp_path / "home", {"shop": spec}, namespace="always") as opened:
            at = Scene(opened, http, pair, tmp_path)
            state, answers = await asked(at, at.modern())
        async with gateway(tmp_path / "home", {"shop": spec}, namespace="always") as opened:
            at = Scene(opened, http, pair, tmp_path)
            heard = await retry(at.modern(), "shop__order", at.args("tea"), state, answers)
            await at.nothing_is_left()

    assert_refused(heard)
    assert at.done == []


@pairs(caller="modern", server="modern", transport="http")
async def test_a_modern_servers_state_outlives_the_gateway(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    with asking("modern", "http", tmp_path / "log") as spec:
        async with gateway(tmp_path / "home", {"shop": spec}, namespace="always") as opened:
            at = Scene(opened, http, pair, tmp_path)
            state, answers = await asked(at, at.modern())
        async with gateway(tmp_path / "home", {"shop": spec}, namespace="always") as opened:
            at = Scene(opened, http, pair, tmp_path)
            heard = await retry(at.modern(), "shop__order", at.args("tea"), state, answers)

    assert heard.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="modern", server="legacy", transport="http")
async def test_a_gateway_behind_a_gateway_gets_its_own_states_back(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as inner:
        servers = {"far": {"url": inner.opened.url}}
        async with gateway(tmp_path / "outer", servers, namespace="always") as opened:
            caller = ModernCaller(opened.url, http)
            heard = await ask(caller, "far__shop__order", inner.args("tea"))
            (key,) = heard.result["inputRequests"]
            state = heard.result["requestState"]
            done = await retry(caller, "far__shop__order", inner.args("tea"), state, {key: ACCEPT})

    assert done.text == "ordered tea"
    assert inner.done == ["tea"]


@pairs(caller="modern", server="legacy")
async def test_a_later_round_has_a_state_of_its_own(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        first = await ask(caller, "shop__twice", at.args("tea"))
        (key,) = first.result["inputRequests"]
        second = await retry(caller, "shop__twice", at.args("tea"), first.result["requestState"], {key: ACCEPT})
        old = await retry(caller, "shop__twice", at.args("tea"), first.result["requestState"], {key: ACCEPT})
        (key,) = second.result["inputRequests"]
        done = await retry(caller, "shop__twice", at.args("tea"), second.result["requestState"], {key: ACCEPT})
        await at.nothing_is_left()

    assert first.result["requestState"] != second.result["requestState"]
    assert_refused(old)
    assert done.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="modern", transport="stdio")
async def test_a_user_cannot_bring_a_state_that_we_did_not_give_out(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, users=USERS) as at:
        ana = at.modern(USERS["ana"])
        _, answers = await asked(at, ana)
        foreign = await retry(ana, "shop__order", at.args("tea"), "a-state-of-the-server's", answers)

    assert_refused(foreign)
    assert at.done == []


@pairs(caller="modern", server="legacy")
async def test_an_answer_from_a_request_that_no_longer_declares_it_is_refused_and_the_question_stays(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        others: list[Json] = [{}, {"sampling": {}}, {"elicitation": {"url": {}}}]
        undeclared = [await retry(caller, "shop__order", at.args("tea"), state, answers, other) for other in others]
        done_before = at.done
        own = await retry(caller, "shop__order", at.args("tea"), state, answers)
        await at.nothing_is_left()

    assert [one.error["code"] for one in undeclared] == [-32021] * 3
    assert undeclared[0].error["data"]["requiredCapabilities"] == {"elicitation": {}}
    assert done_before == []
    assert own.text == "ordered tea"


WRONG: list[Json] = [
    {"action": "accept", "content": {"sure": "certainly"}},
    {"action": "accept", "content": {}},
    {"action": "accept"},
    {"action": "accept", "content": []},
    {"action": "maybe", "content": {"sure": True}},
    {},
]


@pairs(caller="modern", server="legacy")
async def test_an_answer_that_does_not_fit_is_refused_and_can_be_corrected(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        for wrong in WRONG:
            heard = await retry(caller, "shop__order", at.args("tea"), state, dict.fromkeys(answers, wrong))
            assert_refused(heard)
            assert "does not fit" in heard.error["message"]
            assert "certainly" not in heard.error["message"]
        own = await retry(caller, "shop__order", at.args("tea"), state, answers)
        await at.nothing_is_left()

    assert own.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="legacy")
async def test_what_a_session_answers_that_does_not_fit_does_not_reach_the_server(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker()
        told = await talker.call("shop__order", at.args("tea"), lambda _: WRONG[0])
        await at.nothing_is_left()

    assert "does not fit" in str(told.message)
    assert "certainly" not in str(told.message)
    assert at.done == []
