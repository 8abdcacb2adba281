"""Tools that ask something, called over the admin API: the questions are the answer, and the same call goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.questions.scene import ACCEPT, Pair, Scene, ask, pairs, retry, scene
from tests.tenancy.test_people import Admin

Json = dict[str, Any]
CALL = "tools/shop__order/call"


@asynccontextmanager
async def open_shop(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> AsyncGenerator[tuple[Scene, Admin]]:
    async with scene(tmp_path, http, pair) as at:
        yield at, Admin(at.opened, http)


async def asked(own: Admin, at: Scene, item: str = "tea") -> Json:
    """A call that asks, as far as its question."""
    status, told = await own("POST", CALL, {"arguments": at.args(item)})
    assert (status, told["resultType"]) == (200, "input_required"), told
    assert not told.keys() & {"inputRequests", "requestState"}
    return told


def yes(told: Json, arguments: Json, **rest: Any) -> Json:
    """The same call with every question answered."""
    return {"arguments": arguments, "state": told["state"], "answers": dict.fromkeys(told["questions"], ACCEPT), **rest}


@pairs(caller="modern")
async def test_a_call_that_asks_gives_its_questions_and_goes_on_with_the_answers(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with open_shop(tmp_path, http, pair) as (at, admin):
        own = Admin(at.opened, http, await admin.key("ana"))
        told = await asked(own, at)
        [question] = told["questions"].values()
        status, wrong = await own("POST", CALL, yes(told, at.args("tea"), answers={}, state=""))
        assert (status, wrong["resultType"], at.done) == (200, "input_required", [])

        status, result = await own("POST", CALL, yes(told, at.args("tea")))
        again = await own("POST", CALL, yes(told, at.args("tea")))

        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Order tea?"
        assert (status, result["content"][0]["text"]) == (200, "ordered tea")
        assert at.done == ["tea"]
        assert (again[0], again[1]["error"]["code"]) == (
            (502, "refused") if pair.server == "modern" else (400, "refused")
        )
        assert (await own("POST", CALL, {"arguments": at.args("tea"), "answers": {"a": ACCEPT}}))[0] == 422


@pairs(caller="modern")
async def test_anothers_question_is_an_unknown_one_over_either_door(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with open_shop(tmp_path, http, pair) as (at, admin):
        keys = {name: await admin.key(name) for name in ("ana", "bob")}
        ana, bob = (Admin(at.opened, http, keys[name]) for name in ("ana", "bob"))
        told = await asked(ana, at)
        answer = yes(told, at.args("tea"))
        stolen = await bob("POST", CALL, answer)

        assert stolen == await bob("POST", CALL, {**answer, "state": "tl1.made-up"})
        assert stolen[0] == 404
        assert (await admin("POST", CALL, answer))[0] == 404
        assert (await ana("POST", CALL, {**answer, "arguments": at.args("rum")}))[0] == 404
        heard = await retry(at.modern(keys["bob"]), "shop__order", at.args("tea"), told["state"], answer["answers"])
        assert heard.status == 400
        assert at.done == []
        heard = await retry(at.modern(keys["ana"]), "shop__order", at.args("tea"), told["state"], answer["answers"])
        assert heard.text == "ordered tea"

        here = (await ask(at.modern(keys["ana"]), "shop__order", at.args("rum"))).result
        told = {"state": here["requestState"], "questions": here["inputRequests"]}
        assert (await ana("POST", CALL, yes(told, at.args("rum"))))[1]["content"][0]["text"] == "ordered rum"


@pytest.mark.parametrize("narrowed", [{"tools": ["shop__twice"]}, {"read_only": True}, "thread"])
async def test_a_question_is_not_answered_from_where_its_tool_does_not_exist(
    tmp_path: Path, http: aiohttp.ClientSession, narrowed: Any
) -> None:
    async with open_shop(tmp_path, http, Pair("modern", "legacy", "http")) as (at, admin):
        ana = Admin(at.opened, http, await admin.key("ana"))
        told, answers = await asked(ana, at), {}
        if narrowed == "thread":
            await ana("PUT", "threads/t", {"tools": ["shop__twice"]})
            answers = {"thread": "t"}
        else:
            ana = Admin(at.opened, http, await admin.key("ana", **narrowed))

        hidden = await ana("POST", CALL, yes(told, at.args("tea"), **answers))

        assert (hidden[0], hidden[1]["error"]["code"]) == (404, "unknown-name")
        assert at.done == []


@pairs(caller="modern", transport="http")
async def test_who_is_given_the_name_of_somebody_gone_answers_none_of_their_questions(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with open_shop(tmp_path, http, pair) as (at, admin):
        told = await asked(Admin(at.opened, http, await admin.key("ana")), at)
        assert at.open_things()["parked"] == (pair.server == "legacy")
        await admin("DELETE", "users/ana")
        await at.nothing_is_left()

        other = Admin(at.opened, http, await admin.key("ana"))
        assert (await other("POST", CALL, yes(told, at.args("tea"))))[0] == 404
        assert at.done == []
