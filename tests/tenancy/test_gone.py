"""Somebody who is removed leaves nothing behind, neither to see nor to use, to whoever is given the name next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness import LegacyCaller, ModernCaller, gateway, until
from tests.questions.scene import EVERYTHING, Pair, ask, inside, scene
from tests.tenancy.test_access import notes, open_house
from tests.tenancy.test_people import Admin
from trunkline.config.tenancy import LimitsSection
from trunkline.gateway.serve import Gateway
from trunkline.storage.people import User, add_user, remove_user
from trunkline.storage.store import open_store, place_of
from trunkline.tenancy.limits import Limiter

Json = dict[str, Any]
SECTIONS: Json = {
    "profiles": {"finds": {"expose": "search"}},
    "limits": {"calls_per_hour": 100},
    "cache": {"enabled": True, "ttl": 60},
}


async def seen(own: Admin) -> tuple[int, int, int]:
    """Calls, lists that spared tokens, and who saved any, as a user is told."""
    _, told = await own("GET", "stats")
    return told["calls"], told["tokens"]["lists"], len(told["tokens"]["callers"])


async def use(opened: Gateway, http: aiohttp.ClientSession, key: str) -> None:
    """Leave traces wherever that is possible."""
    finder = ModernCaller(f"{opened.url}/finds", http, token=key)
    await finder.request("tools/list")
    await finder.call("search_tools", {"query": "read a note"})
    await ModernCaller(opened.url, http, token=key).call("one__read_note")


def used(opened: Gateway, user: str) -> Json:
    """What is remembered of a user's calls."""
    relay = opened.hub.relay
    learned = inside(inside(relay.finding, "_search"), "_learned")
    return {
        "limits": [place for place in inside(relay.limiter, "_spent") if place[0] == user],
        "answers": [key for key in inside(inside(relay, "_cache").cache, "_entries") if f" {user}/" in key],
        "learned": [place for place in inside(learned, "_scopes") if place[0] == user],
    }


async def test_statistics_savings_limits_and_answers_go_with_their_user(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http, sections=SECTIONS) as (opened, admin):
        keys = {name: await admin.key(name) for name in ("ana", "bob")}
        for key in keys.values():
            await use(opened, http, key)
        assert await seen(Admin(opened, http, keys["ana"])) == (1, 1, 1)
        assert all(used(opened, "ana").values())

        await admin("DELETE", "users/ana")
        assert not any(used(opened, "ana").values())
        other = Admin(opened, http, await admin.key("ana"))

        assert await seen(other) == (0, 0, 0)
        assert await seen(Admin(opened, http, keys["bob"])) == (1, 1, 1)
        assert all(used(opened, "bob").values())


async def test_what_was_used_by_somebody_gone_is_not_the_next_ones_after_a_restart(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http, sections=SECTIONS) as (opened, admin):
        await use(opened, http, await admin.key("ana"))
        await admin("DELETE", "users/ana")
    async with open_store(place_of("", tmp_path)) as store:
        assert await store.fetch("SELECT owner FROM spent") == []
        await store.fetch("INSERT INTO spent VALUES ('ana', '', 'calls_per_hour', 1, 99)")  # by a process that was late
        await add_user(store, User("ana"))
        await store.fetch("INSERT INTO spent VALUES ('eve', '', 'calls_per_hour', 1, 99)")
        loaded = Limiter(LimitsSection(calls_per_hour=100), clock=lambda: 1.0)
        await loaded.load(store)

    assert [place[0] for place in inside(loaded, "_spent")] == ["eve"]


async def test_connections_of_ones_own_end_with_their_user(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path, http, Pair("modern", "legacy", "stdio")) as at:
        admin = Admin(at.opened, http)
        keys = {name: await admin.key(name) for name in ("ana", "bob")}
        for key in keys.values():
            await ask(at.modern(key), "shop__unlock", {}, EVERYTHING)
        leases = inside(inside(at.opened.hub.relay, "_fleet").pool, "_leases")
        assert {lease.key.user for lease in leases} == {"ana", "bob"}

        await admin("DELETE", "users/ana")

        await until(lambda: {lease.key.user for lease in leases} == {"bob"})


async def test_a_name_that_is_given_away_at_once_lets_nobody_in_with_the_old_key(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """Removed and taken in again between two looks of the gateway, as by two commands in a row."""
    async with gateway(tmp_path, {}) as opened:
        key = await Admin(opened, http).key("ana")
    async with gateway(tmp_path, {}) as opened, open_store(place_of("", tmp_path)) as elsewhere:
        await opened.hub.mount(notes("one", "note"))
        admin = Admin(opened, http)
        session = LegacyCaller(opened.url, http)
        session.headers["authorization"] = f"Bearer {key}"
        await session.open()
        await ModernCaller(opened.url, http, token=key).call("one__read_note")

        await remove_user(elsewhere, "ana")
        await add_user(elsewhere, User("ana"))
        other = await admin.key("ana")
        assert (await ModernCaller(opened.url, http, token=other).call("one__read_note")).status == 200

        async def is_out() -> bool:
            return (await session.request("tools/list")).status == 401

        await until_async(is_out)
        assert (await ModernCaller(opened.url, http, token=key).call("one__read_note")).status == 401
        assert (await ModernCaller(opened.url, http, token=other).call("one__read_note")).status == 200


async def test_a_session_of_the_next_one_outlives_the_news_that_the_last_is_gone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        await admin.key("ana")
        await admin("DELETE", "users/ana")
        key = await admin.key("ana")
        session = LegacyCaller(opened.url, http)
        session.headers["authorization"] = f"Bearer {key}"
        await session.open()
        async with open_store(place_of("", tmp_path)) as elsewhere:
            await add_user(elsewhere, User("eve"))  # news come in their order
        heard: list[Any] = []

        async def hear(changes: Any) -> None:
            heard.extend(changes or ())

        opened.hub.relay.tenancy.on_change(hear)
        await until(lambda: heard)

        assert [change.owner for change in heard] == ["eve"]
        assert (await session.request("tools/list")).status == 200


async def test_a_user_without_keys_who_is_changed_loses_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http, sections=SECTIONS) as (opened, admin):
        await admin("POST", "users", {"name": "ana"})
        await opened.hub.call("one__read_note", user="ana")

        await admin("PATCH", "users/ana", {"limits": {"calls_per_hour": 2}})

        assert opened.hub.relay.tallies.of("ana").total().calls == 1
        assert [place[0] for place in inside(opened.hub.relay.limiter, "_spent")] == ["ana"]


async def until_async(condition: Any) -> None:
    """Wait until something is so that has to be asked for."""
    async with asyncio.timeout(10):
        while not await condition():
            pass
