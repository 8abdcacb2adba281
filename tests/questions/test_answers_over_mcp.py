"""What a person answers reaches the server, whichever eras meet: agreed, declined, cancelled, failed, not askable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.harness import until
from tests.questions.scene import ACCEPT, EVERYTHING, FORMS, Json, Pair, Scene, ask, pairs, retry, scene, yes

SAMPLED: Json = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "forty-two"}}
ROOTS: Json = {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}


@pairs()
async def test_an_accepted_question_lets_the_server_act_once(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.call(
            "shop__order", at.args("tea"), lambda _: {"action": "accept", "content": {"sure": True, "note": "žluť 😀"}}
        )
        await at.nothing_is_left()

    assert told.text == "ordered tea žluť 😀"
    assert [question["method"] for question in told.questions] == ["elicitation/create"]
    assert told.questions[0]["params"]["message"] == "Order tea?"
    assert told.questions[0]["params"]["requestedSchema"]["required"] == ["sure"]
    assert at.done == ["tea"]


@pairs()
async def test_what_a_person_refuses_is_not_done(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        declined = await talker.call("shop__order", at.args("tea"), lambda _: {"action": "decline"})
        cancelled = await talker.call("shop__order", at.args("tea"), lambda _: {"action": "cancel"})
        accepted = await talker.call("shop__order", at.args("rum"), yes)
        await at.nothing_is_left()

    assert (declined.text, cancelled.text, accepted.text) == ("declined tea", "cancelled tea", "ordered rum")
    assert at.done == ["rum"]


@pairs()
async def test_models_and_roots_are_asked_for_too(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker()
        sampled = await talker.call("shop__sample", {"text": "why?"}, lambda _: SAMPLED)
        roots = await talker.call("shop__roots", {}, lambda _: ROOTS)
        await at.nothing_is_left()

    assert sampled.text == "sampled forty-two"
    assert sampled.questions[0]["method"] == "sampling/createMessage"
    assert sampled.questions[0]["params"]["messages"][0]["content"]["text"] == "why?"
    assert roots.text == "roots file:///a file:///b"
    assert [question["method"] for question in roots.questions] == ["roots/list"]


@pairs()
async def test_two_rounds_are_two_questions_one_after_the_other(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.call("shop__twice", at.args("tea"), yes)
        halfway = await talker.call(
            "shop__twice",
            at.args("rum"),
            lambda question: {"action": "decline"} if "Really" in question["params"]["message"] else ACCEPT,
        )
        await at.nothing_is_left()

    assert told.text == "ordered tea"
    assert [question["params"]["message"] for question in told.questions] == ["Order tea?", "Really order tea?"]
    assert halfway.text == "declined rum"
    assert at.done == ["tea"]


@pairs()
async def test_two_questions_at_once_each_get_their_own_answer(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    def note(question: Json) -> Json:
        side = "L" if "left" in question["params"]["message"] else "R"
        return {"action": "accept", "content": {"sure": True, "note": side}}

    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.call("shop__both", at.args("tea"), note)
        await at.nothing_is_left()

    assert told.text == "ordered tea L R"
    assert sorted(question["params"]["message"] for question in told.questions) == [
        "Order left tea?",
        "Order right tea?",
    ]
    assert told.rounds == (1 if pair.caller == "modern" else 0)
    assert at.done == ["tea"]


@pairs(caller="modern")
async def test_a_question_left_unanswered_is_asked_again(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        first = await ask(caller, "shop__order", at.args("tea"))
        again = await retry(caller, "shop__order", at.args("tea"), first.result["requestState"], {})
        (key,) = again.result["inputRequests"]
        state = again.result["requestState"]
        done = await retry(caller, "shop__order", at.args("tea"), state, {key: ACCEPT})
        await at.nothing_is_left()

    assert again.result["resultType"] == "input_required"
    assert done.text == "ordered tea"
    assert at.done == ["tea"]


# Addresses to open.


@pairs()
async def test_an_address_is_opened_where_that_was_declared(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        able = await at.talker(EVERYTHING)
        told = await able.call("shop__url", at.args("tea"), lambda _: {"action": "accept"})
        await at.nothing_is_left()

    assert told.text == "ordered tea"
    assert told.questions[0]["params"]["mode"] == "url"
    assert told.questions[0]["params"]["url"] == "https://example.org/pay/tea"
    assert at.done == ["tea"]


@pairs()
async def test_an_address_is_not_shown_to_a_caller_that_knows_only_forms(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.call("shop__url", {**at.args("tea"), "strict": True}, lambda _: {"action": "accept"})
        await at.nothing_is_left()

    assert told.questions == []
    assert at.done == []
    assert_told(at, told.message, "elicitation/create", {"elicitation": {"url": {}}}, strict=True)


@pairs(server="legacy")
async def test_a_form_is_not_shown_to_a_caller_that_knows_only_addresses(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker({"elicitation": {"url": {}}})
        told = await talker.call("shop__order", at.args("tea"), yes)
        await at.nothing_is_left()

    assert told.questions == []
    assert at.done == []


@pairs(caller="modern", server="legacy")
@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_an_error_that_wants_an_address_opened_first_becomes_a_question(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, action: str
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(EVERYTHING)
        told = await talker.call("shop__visit", at.args("tea"), lambda _: {"action": action})
        await at.nothing_is_left()

    assert told.questions[0]["params"]["url"] == "https://example.org/v"
    assert at.done == (["tea"] if action == "accept" else [])
    assert ("result" in told.message) == (action == "accept")


@pairs(server="legacy")
async def test_a_caller_that_opens_no_addresses_gets_that_error_as_it_is(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.call("shop__visit", at.args("tea"), yes)

    assert told.questions == []
    assert told.error["code"] == -32042
    assert told.error["data"]["elicitations"][0]["url"] == "https://example.org/v"


# Who cannot be asked.

NOTHING: Json = {}
ASKS = [
    ("order", "elicitation/create", "elicitation"),
    ("sample", "sampling/createMessage", "sampling"),
    ("roots", "roots/list", "roots"),
]


@pairs()
@pytest.mark.parametrize("strict", [True, False], ids=["error", "result"])
async def test_who_did_not_declare_it_is_never_asked_and_both_sides_hear_so(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, strict: bool
) -> None:
    async with scene(tmp_path, http, pair) as at:
        for tool, method, kind in ASKS:
            others: Json = {name: {} for name in EVERYTHING if name != kind}
            for capabilities in (NOTHING, others):
                talker = await at.talker(capabilities)
                told = await talker.call(f"shop__{tool}", {**at.args("tea"), "text": "why?", "strict": strict}, yes)

                assert told.questions == []
                assert_told(at, told.message, method, {kind: {}}, strict=strict)
        await at.nothing_is_left()

    assert at.done == []


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_with_two_calls_on_one_stream_nobody_is_blamed(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller, gate = at.modern(), tmp_path / "gate"
        other = asyncio.ensure_future(ask(caller, "shop__later", {"after": str(gate)}, NOTHING))
        await until(lambda: at.seen("call") == 1)
        heard = await ask(caller, "shop__order", {**at.args("tea"), "strict": True}, NOTHING)
        gate.touch()
        await other

    assert heard.error["code"] == -32603
    assert at.done == []


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_a_call_is_not_blamed_for_what_a_withdrawn_one_may_have_asked(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        caller = at.modern()
        left = asyncio.ensure_future(ask(caller, "shop__later", {"after": str(tmp_path / "never")}, NOTHING))
        await until(lambda: at.seen("call") == 1)
        left.cancel()
        await until(lambda: at.seen("cancelled") == 1)
        heard = await ask(caller, "shop__order", {**at.args("tea"), "strict": True}, NOTHING)

    assert heard.error["code"] == -32603


def assert_told(at: Scene, message: Json, method: str, missing: Json, *, strict: bool) -> None:
    """The server knew that it could not ask: a legacy one by an error, a modern one from the capabilities.

    A modern caller whose call fails for that is told what it would have had to declare; a result is the server's own.
    """
    if at.pair.server == "legacy":
        refusals = [line for line in at.log if line.startswith("refused ")]
        assert refusals[-1] == f"refused {method} -32601"
    if at.pair.server == "modern" or (at.pair.caller == "modern" and strict):
        assert message["error"]["code"] == -32021, message
        assert message["error"]["data"]["requiredCapabilities"] == missing
    elif strict:
        assert message["error"]["code"] == -32603
    else:
        assert message["result"]["isError"] is True


# Legacy callers may fail to answer.

FAILED: Json = {"error": {"code": -1, "message": "the window was shut"}}


@pairs(caller="legacy")
async def test_a_legacy_callers_error_reaches_the_server(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker()
        order = await talker.call("shop__order", at.args("tea"), lambda _: FAILED)
        sampled = await talker.call("shop__sample", {"text": "why?"}, lambda _: FAILED)
        again = await talker.call("shop__order", at.args("rum"), yes)
        await at.nothing_is_left()

    if pair.server == "legacy":
        assert order.text == sampled.text == "failed: the client said -1 the window was shut"
    else:  # a modern server can be told that a person cancelled; a model that fails ends the call
        assert order.text == "cancelled tea"
        assert sampled.error == FAILED["error"]
    assert again.text == "ordered rum"
    assert at.done == ["rum"]
