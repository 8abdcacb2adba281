"""What a modern caller did at a server is so at its next call, and open questions are in nobody else's way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import Heard, ModernCaller, until
from tests.questions.scene import ACCEPT, FORMS, Pair, Scene, Talker, ask, declared, inside, pairs, retry, scene
from trunkline.upstream import pool as pool_module

LEGACY_STDIO = pairs(caller="modern", server="legacy", transport="stdio")
USERS = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}
CLIENT = "io.modelcontextprotocol/clientInfo"


async def pass_time(at: Scene, seconds: float) -> None:
    """What the pool does when so much time has gone by."""
    pool = inside(at.opened.hub.relay, "_fleet").pool
    inside(pool, "_leases").sweep(time.monotonic() + seconds)


async def order(at: Scene, talker: Talker, item: str) -> None:
    told = await talker.call("shop__order", at.args(item), lambda _: ACCEPT)
    assert told.text == f"ordered {item}"
    await at.nothing_is_left()


@LEGACY_STDIO
@pytest.mark.parametrize(
    ("server", "lives"), [({}, True), ({"idle_timeout": 600}, True), ({"idle_timeout": 60}, False)]
)
async def test_a_caller_has_its_process_for_as_long_as_the_server_may_idle(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, server: dict[str, Any], lives: bool
) -> None:
    async with scene(tmp_path, http, pair, server=server) as at:
        await at.looked()
        talker = await at.talker(FORMS)
        await order(at, talker, "tea")
        before = at.seen("start")
        await pass_time(at, 500)
        await order(at, talker, "rum")

        assert at.seen("start") - before == (0 if lives else 1)


@pairs(caller="modern", server="legacy", transport="http")
@pytest.mark.parametrize(("idle", "ends"), [(600.0, True), (400.0, False)])
async def test_a_session_of_a_callers_own_ends_when_it_was_idle_for_as_long_as_its_server_may_be(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, idle: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "SWEEP", 0.01)
    async with scene(tmp_path, http, pair, server={"idle_timeout": 500}) as at:
        await order(at, await at.talker(FORMS), "tea")
        held = inside(inside(at.opened.hub.relay, "_fleet").pool, "_held")
        (own,) = [one for one in held.values() if one.idle < float("inf")]
        own.connection.last_used -= idle
        looks = 0

        def looked(now: float) -> None:
            nonlocal looks
            looks += 1

        monkeypatch.setattr(inside(inside(at.opened.hub.relay, "_fleet").pool, "_leases"), "sweep", looked)
        await until(lambda: looks > 2)

        assert own.connection.alive is not ends


@LEGACY_STDIO
async def test_without_an_idle_timeout_a_process_lives_as_long_as_a_session(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, session_idle=100) as at:
        await at.looked()
        talker = await at.talker(FORMS)
        await order(at, talker, "tea")
        before = at.seen("start")
        await pass_time(at, 101)
        await order(at, talker, "rum")

        assert at.seen("start") - before == 1


@LEGACY_STDIO
async def test_a_caller_comes_back_to_its_first_process_and_further_ones_end(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair) as at:
        await at.looked()
        caller = at.modern()
        first, second = [await ask(caller, "shop__order", at.args(item), FORMS) for item in ("tea", "rum")]
        for item, asked in (("rum", second), ("tea", first)):
            (key,) = asked.result["inputRequests"]
            state = asked.result["requestState"]
            await retry(caller, "shop__order", at.args(item), state, {key: ACCEPT}, FORMS)
        await at.nothing_is_left()
        await pass_time(at, 31)
        kept = inside(inside(at.opened.hub.relay, "_fleet").pool, "_leases").of("shop")
        before = at.seen("start")
        await order(at, Talker(caller, FORMS), "gin")

        assert len(kept) == 1
        assert at.seen("start") == before


@LEGACY_STDIO
async def test_two_programs_of_one_user_do_not_share_a_servers_state(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async def seen_by(caller: ModernCaller, client: str) -> Heard:
        meta = {**declared(FORMS), CLIENT: {"name": client, "version": "1"}}
        return await caller.call("shop__order", at.args("tea"), meta=meta)

    async with scene(tmp_path, http, pair) as at:
        await at.looked()
        before = at.seen("start")
        for client in ("editor", "shell"):
            await seen_by(at.modern(), client)

        assert at.seen("start") - before == 2


@LEGACY_STDIO
async def test_a_user_with_all_its_questions_open_is_refused_and_another_goes_on(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, users=USERS, server={"processes": 2}) as at:
        await at.looked()
        ana, bob = (at.modern(token) for token in USERS.values())
        opened = [await ask(ana, "shop__order", at.args(item), FORMS) for item in ("a", "b")]
        refused = await ask(ana, "shop__order", at.args("c"), FORMS)
        told = await Talker(bob, FORMS).call("shop__order", at.args("d"), lambda _: ACCEPT)

        assert [heard.result["resultType"] for heard in opened] == ["input_required"] * 2
        assert refused.status == 503
        assert "'ana' already has 2 connections to server 'shop'" in refused.error["message"]
        assert told.text == "ordered d"


@pairs(caller="modern", server="legacy", transport="http")
async def test_a_user_beyond_max_parked_is_refused_and_another_goes_on(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with scene(tmp_path, http, pair, users=USERS, max_parked=1) as at:
        ana, bob = (at.modern(token) for token in USERS.values())
        await ask(ana, "shop__order", at.args("a"), FORMS)
        refused = await ask(ana, "shop__order", at.args("b"), FORMS)
        told = await Talker(bob, FORMS).call("shop__order", at.args("c"), lambda _: ACCEPT)

        assert refused.status == 503
        assert "of user 'ana' wait for answers" in refused.error["message"]
        assert told.text == "ordered c"
