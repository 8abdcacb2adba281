"""People and keys as callers and administrators meet them: through the gateway."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, faulty, gateway, until
from trunkline.gateway.serve import Gateway
from trunkline.storage.people import User, add_user
from trunkline.storage.store import open_store, place_of

Json = dict[str, Any]


class Admin:
    """Asks the admin API with a key, or as whoever runs the gateway."""

    def __init__(self, opened: Gateway, http: aiohttp.ClientSession, key: str = "") -> None:
        self._base, self._http, self._key = opened.url.removesuffix("mcp") + "api/v1/", http, key
        self._operator = opened.key

    async def __call__(self, method: str, path: str, body: Json | None = None, **headers: str) -> tuple[int, Json]:
        sent = {**headers, "authorization": f"Bearer {self._key or self._operator}"}
        async with self._http.request(method, self._base + path, json=body, headers=sent) as response:
            text = await response.text()
            return response.status, await response.json() if text else {}

    async def key(self, user: str, **rights: Any) -> str:
        """A key for somebody, who is made if need be."""
        await self("POST", "users", {"name": user})
        status, made = await self("POST", "keys", {"user": user, **rights})
        assert status == 201, made
        return made["key"]


async def test_nobody_needs_a_key_before_there_is_a_user_and_then_everybody_does(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        assert (await ModernCaller(opened.url, http).request("tools/list")).status == 200
        assert not (tmp_path / "trunkline.db").exists()

        key = await Admin(opened, http).key("ana")

        assert (await ModernCaller(opened.url, http).request("tools/list")).status == 401
        assert (await ModernCaller(opened.url, http, token="nonsense").request("tools/list")).status == 401
        assert (await ModernCaller(opened.url, http, token=key).request("tools/list")).status == 200
        assert (await ModernCaller(opened.url, http, token=opened.key).request("tools/list")).status == 200

    async with gateway(tmp_path, {"one": faulty()}) as opened:
        assert (await ModernCaller(opened.url, http).request("tools/list")).status == 401
        assert (await ModernCaller(opened.url, http, token=key).request("tools/list")).status == 200
    async with gateway(tmp_path, {"one": faulty()}, allow_anonymous=True) as opened:
        assert (await ModernCaller(opened.url, http).request("tools/list")).status == 200
        assert (await ModernCaller(opened.url, http, token=key + "x").request("tools/list")).status == 401


async def test_a_key_is_shown_once_and_nothing_of_it_is_kept(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        key = await Admin(opened, http).key("ana", name="laptop")
        admin = Admin(opened, http)
        _, listed = await admin("GET", "keys")

    secret = key.partition(".")[2]
    assert re.fullmatch(r"tl_[0-9a-f]{24}\.[\w-]{43}", key)
    assert [one["name"] for one in listed["keys"]] == ["laptop"]
    assert secret not in str(listed)
    for path in tmp_path.rglob("*"):  # noqa: ASYNC240 - nothing else runs
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert [oct(os.stat(tmp_path / name).st_mode)[-3:] for name in ("seal.key", "trunkline.db")] == ["600", "600"]


async def test_a_revoked_key_ends_sessions_and_streams_at_once(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        admin = Admin(opened, http)
        key, other = await admin.key("ana"), ""
        admin = Admin(opened, http)
        other = await admin.key("ana")
        callers = [LegacyCaller(opened.url, http) for _ in range(2)]
        for caller, token in zip(callers, (key, other), strict=True):
            caller.headers["authorization"] = f"Bearer {token}"
            await caller.open()
        async with callers[0].listen() as stream, callers[1].listen() as live:
            status, _ = await admin("DELETE", f"keys/{key[3:27]}")

            assert status == 204
            with pytest.raises(EOFError):
                await stream.next()
            assert (await callers[0].request("tools/list")).status == 401
            assert (await callers[1].request("tools/list")).status == 200
            assert not live.response.content.at_eof()


async def test_what_another_process_revokes_is_felt_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened, open_store(place_of("", tmp_path)) as elsewhere:
        await add_user(elsewhere, User("ana"))
        await until(lambda: opened.hub.relay.tenancy.people.anybody)
        key = await Admin(opened, http).key("ana")
        caller = ModernCaller(opened.url, http, token=key)
        assert (await caller.request("tools/list")).status == 200

        await elsewhere.fetch("DELETE FROM keys")
        async with elsewhere.changing("key", "ana", key[3:27]):
            pass

        async with asyncio.timeout(5):
            while (await caller.request("tools/list")).status != 401:
                pass


async def test_a_key_ends_when_it_was_said_to(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        key = await Admin(opened, http).key("ana", expires=0.4)
        caller = ModernCaller(opened.url, http, token=key)
        assert (await caller.request("tools/list")).status == 200

        async with asyncio.timeout(5):
            while (await caller.request("tools/list")).status != 401:
                pass

        admin = Admin(opened, http)
        for wrong in ("yesterday", "2001-01-01", "-5"):
            status, told = await admin("POST", "keys", {"user": "ana", "expires": wrong})
            assert (status, told["error"]["code"]) == (422, "config"), wrong
        assert (await admin("POST", "keys", {"user": "ana", "expires": "2099-01-01"}))[0] == 201


ROUTES = [
    ("GET", "users", None),
    ("POST", "users", {"name": "eve"}),
    ("PATCH", "users/bob", {"role": "admin"}),
    ("DELETE", "users/bob", None),
    ("GET", "users/bob", None),
    ("GET", "keys?user=bob", None),
    ("POST", "keys", {"user": "bob"}),
]


async def test_a_member_does_nothing_to_others_and_sees_nothing_of_them(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}) as opened:
        ana = Admin(opened, http, await Admin(opened, http).key("ana"))
        admin = Admin(opened, http)
        bobs = await admin.key("bob")

        for method, path, body in ROUTES:
            assert (await ana(method, path, body))[0] == 403, (method, path)
        assert (await ana("DELETE", f"keys/{bobs[3:27]}"))[0] == 404
        assert {key["user"] for key in (await ana("GET", "keys"))[1]["keys"]} == {"ana"}
        assert (await ana("GET", "users/ana"))[1]["role"] == "member"
        status, made = await ana("POST", "keys", {"name": "second"})
        assert (status, made["user"]) == (201, "ana")
        assert (await ana("DELETE", f"keys/{made['id']}"))[0] == 204

        narrowed = Admin(opened, http, await admin.key("ana", read_only=True))
        assert (await narrowed("POST", "keys", {}))[0] == 403


async def test_of_two_admins_who_change_one_user_the_second_is_told(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}) as opened:
        admin = Admin(opened, http)
        await admin.key("ana")
        admin = Admin(opened, http)

        first = await admin("PATCH", "users/ana", {"role": "reader"}, **{"if-match": '"1"'})
        second = await admin("PATCH", "users/ana", {"role": "admin"}, **{"if-match": '"1"'})

        assert (first[0], first[1]["version"]) == (200, 2)
        assert (second[0], second[1]["error"]["code"]) == (412, "version-conflict")
        assert (await admin("GET", "users/ana"))[1]["role"] == "reader"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "a/b"}, "cannot be a user's name"),
        ({"name": ""}, "cannot be a user's name"),
        ({"name": "x", "role": "king"}, "role"),
        ({"name": "x", "rights": 1}, "rights"),
        ({}, "name"),
    ],
)
async def test_a_user_that_makes_no_sense_is_refused_with_words(
    tmp_path: Path, http: aiohttp.ClientSession, body: Json, words: str
) -> None:
    async with gateway(tmp_path, {}) as opened:
        status, told = await Admin(opened, http)("POST", "users", body)

    assert status == 422
    assert words in told["error"]["message"]


async def test_lists_come_in_pages(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        first = Admin(opened, http)
        await first.key("u0")
        admin = Admin(opened, http)
        for number in range(1, 5):
            await admin("POST", "users", {"name": f"u{number}"})
        seen: list[str] = []
        told: Json = {"cursor": ""}
        while "cursor" in told:
            _, told = await admin("GET", f"users?limit=2&cursor={told['cursor']}")
            seen += [user["name"] for user in told["users"]]

    assert seen == ["u0", "u1", "u2", "u3", "u4"]
