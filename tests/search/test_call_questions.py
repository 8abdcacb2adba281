"""Questions in a call through `call_tool` are put, answered and bound as in a direct call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.call.stages.people import CALLERS, Person, use
from tests.call.stages.till import Till, teller
from tests.harness import Heard, ModernCaller, gateway
from tests.questions.scene import ACCEPT, Json, Pair, Scene, ask, pairs, retry, scene, yes
from tests.search.scene import refusal, used

ORDER = "shop__order"


def means(tool: str, arguments: Json) -> Json:
    """What `call_tool` is given."""
    return {"name": tool, "arguments": arguments}


def assert_refused(heard: Heard) -> None:
    assert (heard.status, heard.message.get("error", {}).get("code")) == (400, -32602), heard.message


@pairs(transport="stdio")
@pytest.mark.parametrize("tool", ["order", "twice", "both"])
async def test_a_server_asks_in_a_call_of_a_tool_that_was_found(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, tool: str
) -> None:
    async with scene(tmp_path, http, pair, expose="search") as at:
        talker = await at.talker()
        told = await talker.call("call_tool", means(f"shop__{tool}", at.args("tea")), yes)
        await at.nothing_is_left()

    assert told.text == "ordered tea"
    assert len(told.questions) == (1 if tool == "order" else 2)
    assert at.done == ["tea"]


@pairs(transport="stdio")
async def test_a_declined_question_is_declined(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    async with scene(tmp_path, http, pair, expose="search") as at:
        talker = await at.talker()
        told = await talker.call("call_tool", means(ORDER, at.args("tea")), lambda _: {"action": "decline"})

    assert told.text == "declined tea"
    assert at.done == []


async def asked(at: Scene, caller: ModernCaller, item: str = "tea") -> tuple[str, Json]:
    """Call `order` through `call_tool`; the state, and the answer that agrees."""
    heard = await ask(caller, "call_tool", means(ORDER, at.args(item)))
    (key,) = heard.result["inputRequests"]
    return heard.result["requestState"], {key: ACCEPT}


@pairs(caller="modern", transport="stdio")
async def test_a_state_is_bound_to_the_tool_and_the_arguments_that_are_meant(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, expose="search") as at:
        caller = at.modern()
        state, answers = await asked(at, caller)
        others = [
            means(ORDER, at.args("rum")),
            means(ORDER, {**at.args("tea"), "more": 1}),
            means("shop__twice", at.args("tea")),
            means("shop__both", at.args("tea")),
        ]
        for other in others:
            assert_refused(await retry(caller, "call_tool", other, state, answers))
        stolen = await retry(caller, "call_tool", means("shop__nothing", {}), state, answers)
        done_before = at.done
        true = await retry(caller, "call_tool", means(ORDER, at.args("tea")), state, answers)
        again = await retry(caller, "call_tool", means(ORDER, at.args("tea")), state, answers)
        await at.nothing_is_left()

    if pair.server == "modern":
        assert stolen.result["isError"] is True
    else:
        assert_refused(stolen)
    assert done_before == []
    assert true.text == "ordered tea"
    assert_refused(again)
    assert at.done == ["tea"]


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_a_state_of_one_profile_is_refused_at_another(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    profiles: Json = {"profiles": {"work": {}, "home": {}}}
    async with scene(tmp_path, http, pair, expose="search", sections=profiles) as at:
        work, home = (ModernCaller(f"{at.opened.url}/{name}", http) for name in ("work", "home"))
        state, answers = await asked(at, work)
        for other in (home, at.modern()):
            assert_refused(await retry(other, "call_tool", means(ORDER, at.args("tea")), state, answers))
        true = await retry(work, "call_tool", means(ORDER, at.args("tea")), state, answers)

    assert true.text == "ordered tea"
    assert at.done == ["tea"]


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_a_caller_that_cannot_be_asked_gets_the_error_of_its_era(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, expose="search") as at:
        strict = {**at.args("tea"), "strict": "yes"}
        found = await used(at.modern(), ORDER, strict)
        direct = await at.modern().call(ORDER, strict)

    assert found.message.get("error") == direct.message.get("error")
    assert at.done == []


# Questions of the stages.


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("agrees", ["yes", "no"])
async def test_a_person_agrees_to_the_tool_that_is_meant(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, agrees: str
) -> None:
    sections: Json = {"middleware": {"confirm": "destructive"}}
    async with searching(tmp_path, http, sections) as at:
        person = Person(agrees)
        end = await use(at, caller, person, "call_tool", means("till__delete_account", {"account": "rent"}))
        free = await use(at, caller, Person("no"), "call_tool", means("till__get_balance", {"account": "rent"}))

    assert len(person.heard) == 1
    assert "delete_account" in person.heard[0]
    assert end.failed == (agrees == "no")
    assert not free.failed
    assert len(at.calls("delete_account")) == (agrees == "yes")


@pytest.mark.parametrize("caller", CALLERS)
async def test_what_is_missing_is_asked_for(tmp_path: Path, http: aiohttp.ClientSession, caller: str) -> None:
    sections: Json = {"middleware": {"validate": True, "elicit_missing": True}}
    async with searching(tmp_path, http, sections) as at:
        person = Person(knows={"account": "rent"})
        end = await use(at, caller, person, "call_tool", means("till__send_money", {"amount": 5}))

    assert len(person.heard) == 1
    assert "rent" in end.text
    assert len(at.calls("send_money")) == 1


@pytest.mark.parametrize("sections", [{"validate": True, "elicit_missing": True}, {"validate": True}, {}])
async def test_what_is_missing_is_told_where_nobody_can_be_asked(
    tmp_path: Path, http: aiohttp.ClientSession, sections: Json
) -> None:
    async with searching(tmp_path, http, {"middleware": sections}) as at:
        text = refusal(await used(at.modern(), "till__send_money", {"amount": 5}))

    assert "account" in text
    assert "Its input schema: " in text
    assert at.calls() == []


async def test_what_is_missing_is_told_where_arguments_are_not_checked_in_general(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with searching(tmp_path, http, {"middleware": {"elicit_missing": True}}) as at:
        text = refusal(await used(at.modern(), "till__send_money", {"amount": 5}))

    assert "'account' is missing" in text
    assert at.calls() == []


@asynccontextmanager
async def searching(folder: Path, http: aiohttp.ClientSession, sections: Json) -> AsyncGenerator[Till]:
    """A gateway before one teller, whose tools are found as `till__…`."""
    options: Json = {"expose": "search", "namespace": "always", "sections": sections}
    async with gateway(folder / "home", {"till": teller(folder)}, **options) as opened:
        yield Till(opened, http, folder)
