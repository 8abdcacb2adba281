"""A legacy HTTP server may ask outside every call: that reaches the one caller it can only be for, or nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.harness import until
from tests.questions.scene import ACCEPT, FORMS, Json, Pair, ask, pairs, retry, scene, yes

LEGACY_HTTP = pairs(caller="modern", server="legacy", transport="http")
ROOTED: Json = {**FORMS, "roots": {}}


@LEGACY_HTTP
@pytest.mark.parametrize("flags", [(), ("--plain",)], ids=["stream", "plain"])
@pytest.mark.parametrize("capabilities", [FORMS, ROOTED], ids=["shared", "leased"])
async def test_a_stray_question_reaches_the_only_call_there_is(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, flags: tuple[str, ...], capabilities: Json
) -> None:
    async with scene(tmp_path, http, pair, *flags) as at:
        talker = await at.talker(capabilities)
        first = await talker.call("shop__aside", at.args("tea"), yes)
        second = await talker.call("shop__aside", at.args("rum"), lambda _: {"action": "decline"})
        await at.nothing_is_left()

    assert (first.text, second.text) == ("ordered tea", "declined rum")
    assert [one["params"]["message"] for one in first.questions + second.questions] == ["Order tea?", "Order rum?"]
    assert at.done == ["tea"]


@LEGACY_HTTP
async def test_stray_and_other_questions_follow_each_other(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, "--plain") as at:
        talker = await at.talker(FORMS)
        told = await talker.call("shop__twice", at.args("tea"), yes)
        both = await talker.call("shop__both", at.args("rum"), yes)
        await at.nothing_is_left()

    assert (told.text, told.rounds) == ("ordered tea", 2)
    assert (both.text, both.rounds) == ("ordered rum", 1)


@LEGACY_HTTP
async def test_a_stray_question_that_could_be_anothers_reaches_nobody(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller, gate = at.modern(), tmp_path / "gate"
        other = asyncio.ensure_future(ask(caller, "shop__later", {"after": str(gate)}, FORMS))
        await until(lambda: at.seen("call") == 1)
        heard = await ask(caller, "shop__aside", at.args("tea"), FORMS)
        gate.touch()
        await other
        await at.nothing_is_left()

    assert at.seen("refused elicitation/create -32601") == 1
    assert heard.result["isError"] is True
    assert at.done == []


@LEGACY_HTTP
async def test_users_do_not_share_a_session_on_which_they_may_be_asked(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    users = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}
    async with scene(tmp_path, http, pair, users=users) as at:
        ana, bob = (at.modern(token) for token in users.values())
        asked = {name: await ask(one, "shop__aside", at.args(name), FORMS) for name, one in (("a", ana), ("b", bob))}
        for name, one in (("b", bob), ("a", ana)):
            ((key, question),) = asked[name].result["inputRequests"].items()
            state = asked[name].result["requestState"]
            done = await retry(one, "shop__aside", at.args(name), state, {key: ACCEPT}, FORMS)
            assert question["params"]["message"] == f"Order {name}?"
            assert done.text == f"ordered {name}"
        await at.nothing_is_left()

    assert at.done == ["b", "a"]


@LEGACY_HTTP
async def test_after_a_withdrawn_call_a_stray_question_could_be_its_own_and_reaches_nobody(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        left = asyncio.ensure_future(ask(caller, "shop__later", {"after": str(tmp_path / "never")}, FORMS))
        await until(lambda: at.seen("call") == 1)
        left.cancel()
        await until(lambda: at.seen("cancelled") == 1)
        heard = await ask(caller, "shop__aside", at.args("tea"), FORMS)
        inside = await ask(caller, "shop__order", at.args("tea"), FORMS)
        await until(lambda: at.seen("refused elicitation/create -32601") == 1)

    assert heard.result["isError"] is True
    assert inside.result["resultType"] == "input_required"
    assert at.done == []


@LEGACY_HTTP
async def test_who_cannot_be_asked_a_stray_question_is_told_what_to_declare(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, "--plain") as at:
        told = await (await at.talker({})).call("shop__order", {**at.args("tea"), "strict": True}, yes)

    assert told.error["code"] == -32021
    assert told.error["data"]["requiredCapabilities"] == {"elicitation": {}}
