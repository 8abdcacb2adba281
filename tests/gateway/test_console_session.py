"""Signing in to the console by a key: the cookie, what it is good for, what ends it, and what other pages can do."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.harness import ModernCaller, gateway
from tests.tenancy.test_access import open_house
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
TOKEN = "a-token-of-the-file-1"


@dataclass
class Browser:
    """Keeps one cookie, and sends what a page of the gateway's own would."""

    opened: Gateway
    http: aiohttp.ClientSession
    host: str = ""
    scheme: str = "http"
    cookie: str = ""
    attributes: list[str] = field(default_factory=list[str])

    async def __call__(self, method: str, path: str, body: Json | None = None, **headers: str | None) -> Any:
        base = self.opened.url.removesuffix("/mcp")
        host = self.host or base.removeprefix("http://")
        sent = {"host": host, "trunkline-console": "1", "sec-fetch-site": "same-origin"}
        sent |= {"origin": f"{self.scheme}://{host}"} if method != "GET" else {}
        sent |= {"cookie": f"odd={{x; {self.cookie}; other=1"} if self.cookie else {}
        wanted = {**sent, **{name.replace("_", "-"): value for name, value in headers.items()}}
        kept = {name: value for name, value in wanted.items() if value is not None}
        async with self.http.request(method, f"{base}/api/v1/{path}", json=body, headers=kept) as response:
            said = response.headers.get("set-cookie", "")
            if said:
                self.cookie, *self.attributes = said.split("; ")
            return response.status, await response.json() if await response.read() else {}

    async def sign_in(self, key: str) -> Json:
        status, told = await self("POST", "session", {"key": key})
        assert status == 200, told
        return told


async def test_nobody_learns_more_than_how_to_become_somebody(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        open_to_all = await Browser(opened, http)("GET", "me")
        key = await admin.key("ana")
        nobody = await Browser(opened, http)("GET", "me")
        ana = await Admin(opened, http, key)("GET", "me")
        bad = await Browser(opened, http)("GET", "me", authorization="Bearer x")

    assert open_to_all[1]["role"] == "admin"
    assert (open_to_all[1]["needs_key"], open_to_all[1]["signed_in"]) == (False, False)
    assert nobody == (200, {"signed_in": False, "needs_key": True, "issuers": []})
    assert (ana[1]["user"], ana[1]["role"], ana[1]["signed_in"], ana[1]["address"]) == (
        "ana",
        "member",
        False,
        opened.url,
    )
    assert ana[1]["can"] == {"write": True, "add_servers": True, "add_commands": False, "see_all": False}
    assert bad[0] == 401


async def test_a_browser_signs_in_with_a_key_does_what_the_key_does_and_signs_out(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        key = await admin.key("ana", servers=["one"])
        browser = Browser(opened, http)
        told = await browser.sign_in(key)
        me, tools = await browser("GET", "me"), await browser("GET", "tools")
        called = await browser("POST", "tools/one__read_note/call", {})
        other, users = await browser("POST", "tools/two__read_note/call", {}), await browser("GET", "users")
        narrow = await browser("PUT", "threads/t1", {})
        stored = await (await opened.hub.relay.tenancy.store()).fetch("SELECT * FROM console_sessions")
        over_mcp = await ModernCaller(opened.url, http).request("tools/list", headers={"cookie": browser.cookie})
        cookie = browser.cookie
        out = await browser("DELETE", "session")
        browser.cookie = cookie
        after = await browser("GET", "tools")

    assert (told["user"], told["signed_in"], told["can"]["add_servers"]) == ("ana", True, False)
    assert me == (200, told)
    assert {tool["name"] for tool in tools[1]["tools"]} == {"one__read_note", "one__delete_note"}
    assert (called[0], other[0], users[0], narrow[0], out[0], after[0]) == (200, 404, 403, 201, 204, 401)
    assert over_mcp.status == 401  # at /mcp a cookie is nothing
    value = cookie.partition("=")[2]
    assert len(value) > 60
    assert key[3:] not in cookie
    assert value.rpartition(".")[2] not in str(stored)
    assert hashlib.sha256(value.encode()).hexdigest() not in str(stored)


async def test_the_cookie_is_for_this_host_and_its_pages_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    public = {"public_url": "https://mcp.example.org", "allowed_hosts": ["mcp.example.org"]}
    async with open_house(tmp_path, http, **public) as (opened, admin):
        key = await admin.key("ana")
        far = Browser(opened, http, "mcp.example.org", "https")
        near = Browser(opened, http)
        await far.sign_in(key)
        await near.sign_in(key)
        works = [(await one("PUT", "threads/t", {}))[0] for one in (far, near)]
        plain = await far("PUT", "threads/t", {}, origin="http://mcp.example.org")

    port = opened.url.rpartition(":")[2].partition("/")[0]
    assert far.cookie.startswith("__Host-trunkline=")
    assert {"Path=/", "HttpOnly", "SameSite=Strict", "Secure"} <= set(far.attributes)
    assert near.cookie.startswith(f"trunkline-{port}=")
    assert {"Path=/", "HttpOnly", "SameSite=Strict"} <= set(near.attributes)
    assert "Secure" not in near.attributes
    assert (works, plain[0]) == ([201, 200], 403)


@pytest.mark.parametrize(
    "forged",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:3000"},
        {"trunkline_console": None},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"origin": "https://evil.example"},
    ],
)
async def test_what_another_page_sends_with_the_cookie_changes_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, forged: dict[str, str | None]
) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        browser = Browser(opened, http)
        await browser.sign_in(await admin.key("ana"))

        tried: list[tuple[str, str, Json | None]] = [
            ("PUT", "threads/t1", {}),
            ("POST", "tools/one__delete_note/call", {}),
            ("DELETE", "session", None),
        ]
        for method, path, body in tried:
            status, told = await browser(method, path, body, **forged)
            assert (status, told["error"]["code"]) == (403, "refused")

        assert (await browser("GET", "threads"))[1]["threads"] == []
        assert (await browser("PUT", "threads/t1", {}))[0] == 201
        assert (await browser("GET", "stats"))[1]["calls"] == 0


@asynccontextmanager
async def two_gateways(home: Path, http: aiohttp.ClientSession) -> AsyncGenerator[tuple[Gateway, Gateway, str]]:
    """Two over one store, and a key."""
    async with open_house(home, http) as (opened, admin):
        key = await admin.key("ana")
        async with gateway(home, {}) as second:
            yield opened, second, key


async def test_a_session_ends_with_its_key_whoever_ends_that(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with two_gateways(tmp_path, http) as (opened, second, key):
        first, other = Browser(opened, http), Browser(second, http)
        await first.sign_in(key)
        other.cookie = first.cookie.replace(_port(opened), _port(second))
        before = await other("GET", "me")  # the store is one, and so are those who are signed in
        await Admin(second, http)("DELETE", f"keys/{key[3:27]}")

        assert before[1]["user"] == "ana"
        assert (await other("GET", "tools"))[0] == 401
        with anyio.fail_after(5):
            while (await first("GET", "tools"))[0] != 401:  # noqa: ASYNC110 - the other process tells nobody
                await anyio.sleep(0.05)
        assert (await first("GET", "me"))[1] == {"signed_in": False, "needs_key": True, "issuers": []}
        rows = await (await opened.hub.relay.tenancy.store()).fetch("SELECT id FROM console_sessions")
    assert rows == []


async def test_rights_that_change_are_those_of_the_session_at_once(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        browser = Browser(opened, http)
        await browser.sign_in(await admin.key("ana"))
        await admin("PATCH", "users/ana", {"role": "admin"})
        risen = await browser("GET", "users")
        await admin("PATCH", "users/ana", {"role": "blocked"})
        blocked = await browser("GET", "tools")

    assert (risen[0], blocked[0]) == (200, 401)


async def test_signing_out_on_one_machine_is_heard_on_the_other(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with two_gateways(tmp_path, http) as (opened, second, key):
        first, other = Browser(opened, http), Browser(second, http)
        await first.sign_in(key)
        other.cookie = first.cookie.replace(_port(opened), _port(second))
        assert (await other("GET", "tools"))[0] == 200
        await first("DELETE", "session")

        with anyio.fail_after(5):
            while (await other("GET", "tools"))[0] != 401:  # noqa: ASYNC110 - the other process tells nobody
                await anyio.sleep(0.05)


async def test_a_session_ends_when_nobody_uses_it_and_after_its_longest_time(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_house(tmp_path, http, console_idle=100, console_longest=250) as (opened, admin):
        sessions = opened.hub.relay.tenancy.console_sessions
        start = sessions.now()
        clock = [start]
        sessions.now = lambda: clock[0]
        key = await admin.key("ana")
        idle, busy, gone = (Browser(opened, http) for _ in range(3))
        for one in (idle, busy, gone):
            await one.sign_in(key)
        seen: list[int] = []
        for after in (90, 180, 240, 260):
            clock[0] = start + after
            seen.append((await busy("GET", "tools"))[0])
            if after == 180:
                seen.append((await idle("GET", "tools"))[0])

    assert seen == [200, 200, 401, 200, 401]
    assert "Max-Age=250" in gone.attributes


async def test_tokens_of_the_file_sign_in_as_well_and_a_wrong_key_does_not(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}, token=TOKEN, users={"bob": "a-token-of-the-file-2"}) as opened:
        admin, bob = Browser(opened, http), Browser(opened, http)
        operator = await admin.sign_in(TOKEN)
        member = await bob.sign_in("a-token-of-the-file-2")
        refused = [
            await Browser(opened, http)("POST", "session", {"key": key}) for key in ("", "x" * 9000, "é", "a\nb")
        ]
        works = [(await one("GET", "servers"))[0] for one in (admin, bob)]
        assert not opened.hub.relay.tenancy.is_open

    assert (operator["role"], member["user"], member["role"]) == ("admin", "bob", "member")
    assert works == [200, 200]
    assert [status for status, _ in refused] == [401] * 4


def _port(opened: Gateway) -> str:
    return opened.url.rpartition(":")[2].partition("/")[0]
