"""Who asks, and how: prompts, resources and servers of the older transport; models with tools; secrets in forms."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import aiohttp
import pytest

from tests.questions.scene import ACCEPT, EVERYTHING, FORMS, Json, Pair, Talker, pairs, scene, yes

PROMPT: Json = {"name": "shop__order", "arguments": {"item": "tea"}}
RESOURCE: Json = {"uri": "shop://order/tea"}


@pairs()
async def test_a_prompt_asks_and_is_made_of_the_answer(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.request("prompts/get", PROMPT, yes)
        declined = await talker.request("prompts/get", PROMPT, lambda _: {"action": "decline"})
        await at.nothing_is_left()

    assert [question["params"]["message"] for question in told.questions] == ["Order tea?"]
    assert told.message["result"]["messages"][0]["content"]["text"] == "ordered tea"
    assert declined.message["result"]["messages"][0]["content"]["text"] == "declined tea"


@pairs()
async def test_a_resource_asks_and_is_made_of_the_answer(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        talker = await at.talker(FORMS)
        told = await talker.request("resources/read", RESOURCE, yes)
        cancelled = await talker.request("resources/read", RESOURCE, lambda _: {"action": "cancel"})
        await at.nothing_is_left()

    assert [question["params"]["message"] for question in told.questions] == ["Order tea?"]
    assert told.message["result"]["contents"] == [{"uri": "shop://order/tea", "text": "ordered tea"}]
    assert cancelled.message["result"]["contents"][0]["text"] == "cancelled tea"


@pairs()
@pytest.mark.parametrize(("method", "params"), [("prompts/get", PROMPT), ("resources/read", RESOURCE)])
async def test_prompts_and_resources_do_not_ask_who_declared_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, method: str, params: Json
) -> None:
    async with scene(tmp_path, http, pair) as at:
        told = await (await at.talker({})).request(method, params, yes)

    assert told.questions == []
    if pair.caller == "modern" or pair.server == "modern":
        assert told.error["code"] == -32021
        assert told.error["data"]["requiredCapabilities"] == {"elicitation": {}}
    else:
        assert told.error["code"] == -32603


# Models with tools.

USES: Json = {
    "role": "assistant",
    "model": "m",
    "stopReason": "toolUse",
    "content": {"type": "tool_use", "id": "1", "name": "look", "input": {}},
}


@pairs()
async def test_a_model_is_asked_to_use_tools_only_where_that_was_declared(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    arguments: Json = {"text": "why?", "strict": True}
    async with scene(tmp_path, http, pair) as at:
        able = await (await at.talker({"sampling": {"tools": {}}})).call("shop__agent", arguments, lambda _: USES)
        unable = await (await at.talker({"sampling": {}})).call("shop__agent", arguments, lambda _: USES)
        await at.nothing_is_left()

    assert able.text == "wants look"
    assert able.questions[0]["params"]["tools"][0]["name"] == "look"
    assert unable.questions == []
    if pair.caller == "modern" or pair.server == "modern":
        assert unable.error["code"] == -32021
        assert unable.error["data"]["requiredCapabilities"] == {"sampling": {"tools": {}}}
    else:
        assert "-32601" in unable.error["message"]


# Addresses and secrets.

ADDRESS = "https://user@example.org:8443/päy/%2F..//?next=https%3A%2F%2Fa.b%2F%3Fc&x=+&x=2;y='\"<&amp;>#frag/é 😀"


@pairs()
async def test_an_address_to_open_is_passed_on_exactly(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair) as at:
        told = await (await at.talker(EVERYTHING)).call(
            "shop__url", {**at.args("tea"), "text": ADDRESS}, lambda _: {"action": "accept"}
        )

    assert told.questions[0]["params"] == {
        "mode": "url",
        "elicitationId": "tea",
        "url": ADDRESS,
        "message": "Pay tea?",
    }


@pairs()
async def test_a_form_that_asks_for_secrets_is_passed_on_with_a_warning_to_the_operator(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    secret = {"action": "accept", "content": {"user": "ann", "apiKey": "sk-123", "phrase": "open sesame"}}
    with caplog.at_level(logging.WARNING, "trunkline"):
        async with scene(tmp_path, http, pair) as at:
            talker = await at.talker(FORMS)
            told = await talker.call("shop__login", {}, lambda _: secret)
            await talker.call("shop__order", at.args("tea"), yes)

    warnings = [record.getMessage() for record in caplog.records if "form" in record.getMessage()]
    assert told.text == "accepted"
    assert len(warnings) == 1
    assert all(word in warnings[0] for word in ("'shop'", "apiKey", "phrase"))
    assert not any(word in caplog.text for word in ("sk-123", "sesame", "user,"))


# The older transport.


@pairs(transport="sse")
@pytest.mark.parametrize("server", [{}, {"transport": "sse"}], ids=["auto", "sse"])
async def test_a_server_of_the_older_transport_asks(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, server: Json
) -> None:
    async with scene(tmp_path, http, pair, server=server) as at:
        talker = await at.talker(FORMS)
        order = await talker.call("shop__order", at.args("tea"), yes)
        both = await talker.call("shop__both", at.args("rum"), yes)
        prompt = await talker.request("prompts/get", PROMPT, yes)
        await at.nothing_is_left()

    assert (order.text, both.text) == ("ordered tea", "ordered rum")
    assert len(both.questions) == 2
    assert both.rounds == (1 if pair.caller == "modern" else 0)
    assert "result" in prompt.message
    assert at.done == ["tea", "rum"]


@pairs(transport="sse")
@pytest.mark.parametrize("server", [{}, {"transport": "sse"}], ids=["auto", "sse"])
async def test_callers_at_once_on_the_older_transport_each_get_their_own_question(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, server: Json
) -> None:
    async with scene(tmp_path, http, pair, server=server) as at:
        talkers = {f"item{number}": await at.talker(FORMS) for number in range(5)}

        async def use(item: str, talker: Talker) -> None:
            told = await talker.call("shop__order", at.args(item), lambda _: ACCEPT)
            assert told.text == f"ordered {item}"
            assert [question["params"]["message"] for question in told.questions] == [f"Order {item}?"]

        await asyncio.gather(*(use(item, talker) for item, talker in talkers.items()))
        await at.nothing_is_left()

    assert sorted(at.done) == sorted(talkers)


@pairs(transport="sse")
async def test_who_declared_nothing_is_not_asked_on_the_older_transport(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        told = await (await at.talker({})).call("shop__order", {**at.args("tea"), "strict": True}, yes)

    assert told.questions == []
    assert told.error["code"] == (-32021 if pair.caller == "modern" else -32603)
    assert at.done == []
