"""A sign-in lasts for as long as the authorization server allows, whatever it answers meanwhile."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.harness import ModernCaller, gateway, trunkline_up, until
from tests.tenancy.oauth.provider import (
    Asked,
    Provider,
    age,
    kept_tokens,
    login,
    provider,
    replace_tokens,
    server_of,
    sign_in,
)
from tests.tenancy.test_passthrough import OldServer
from trunkline.storage.files import STORE
from trunkline.tenancy.oauth import web as requests
from trunkline.tenancy.oauth.grants import LATEST, LONGEST_LIFE, lifetime_of, retry_after

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def signed_in(one: Provider, home: Path) -> None:
    async with gateway(home, server_of(one)) as opened, aiohttp.ClientSession() as http:
        assert (await sign_in(opened, http))[0] == 200


async def test_a_restart_with_an_ended_token_needs_no_browser(tmp_path: Path) -> None:
    async with provider() as one:
        await signed_in(one, tmp_path)
        old = await age(tmp_path)
        one.valid.clear()
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            heard = await ModernCaller(opened.url, http).call("whoami")
        new = await kept_tokens(tmp_path)

    assert heard.text == "you"
    assert [asked["refresh_token"] for asked in one.refreshes] == [old.refresh_token]
    assert new is not None
    assert new.refresh_token not in ("", old.refresh_token)
    assert one.refused == 1  # before anybody signed in
    assert all(asked["resource"] == f"{one.url}/mcp" for asked in (*one.tokens, *one.authorizations))


async def test_a_refused_token_is_renewed_once_and_the_call_is_made_once(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        heard = await ModernCaller(opened.url, http).call("whoami")

    assert (heard.text, len(one.refreshes), len(one.calls)) == ("you", 1, 1)


async def answered(caller: ModernCaller) -> None:
    """Call until it is answered: what failed is not tried again at once."""
    async with asyncio.timeout(20):
        while "error" in (await caller.call("whoami")).message:  # noqa: ASYNC110 - it becomes so by itself
            await asyncio.sleep(0.02)


def html(asked: Asked) -> web.Response:
    return web.Response(text="<html>Sorry</html>", content_type="text/html")


Fault = Callable[[Asked], web.Response]


def fault(**answer: Any) -> Fault:
    return lambda asked: web.Response(**answer)


FAULTS: dict[str, Fault] = {
    "429": fault(
        body=b'{"error":"slow_down"}', content_type="application/json", status=429, headers={"retry-after": "0"}
    ),
    "503": fault(status=503, text="later"),
    "a page": html,
    "a page that is an error": fault(status=400, text="<html>", content_type="text/html"),
    "5 MB": fault(body=b'{"access_token":"' + b"x" * 5_000_000 + b'"}'),
    "no token": fault(body=b'{"token_type":"Bearer"}', content_type="application/json"),
    "no JSON object": fault(body=b'["access_token"]', content_type="application/json"),
    "a redirection": fault(status=307, headers={"location": "/elsewhere"}),
    "an error of its own with 200": fault(body=b'{"error":"try_later"}', content_type="application/json"),
}


async def test_nothing_is_lost_when_renewing_fails_for_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    during: dict[str, bool] = {}
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        caller = ModernCaller(opened.url, http)
        for name, fault in FAULTS.items():
            old = await kept_tokens(tmp_path)
            one.valid.clear()
            one.answer = fault
            during[name] = "error" in (await caller.call("whoami")).message
            kept = await kept_tokens(tmp_path)
            one.answer = lambda asked: None
            await answered(caller)

            assert old is not None
            assert kept == old, name

    assert during == dict.fromkeys(FAULTS, True)
    assert sum("could not be renewed" in line for line in caplog.messages) == len(FAULTS)  # each told once
    assert len(one.authorizations) == 1


async def test_a_token_that_is_still_good_is_used_when_it_cannot_be_renewed_before_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider() as one:
        await signed_in(one, tmp_path)
        old = await replace_tokens(tmp_path, {"expires": time.time() + 30.0, "early": 60.0})
        one.answer = fault(status=429, headers={"retry-after": "20"})
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            caller = ModernCaller(opened.url, http)
            heard = [(await caller.call("whoami")).text for _ in range(5)]
        kept = await kept_tokens(tmp_path)

    assert (heard, set(one.calls)) == (["you"] * 5, {old.access_token})
    assert (len(one.refreshes), kept) == (1, old)
    assert sum("could not be renewed" in line for line in caplog.messages) == 1


async def test_a_token_endpoint_that_does_not_answer_costs_a_call_no_more_than_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "PATIENCE", 0.2)
    async with provider() as one:
        await signed_in(one, tmp_path)
        await age(tmp_path)
        one.valid.clear()
        one.gate = asyncio.Event()
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            during = await ModernCaller(opened.url, http).call("whoami")
            one.gate.set()
        kept = await kept_tokens(tmp_path)

    assert "error" in during.message
    assert kept is not None
    assert kept.problem == ""


NO_MORE = {
    "the standard": (400, {"error": "invalid_grant"}, "invalid_grant"),
    "GitHub": (200, {"error": "bad_refresh_token", "error_description": "It has expired."}, "invalid_grant"),
    "Slack": (200, {"ok": False, "error": "invalid_refresh_token"}, "invalid_grant"),
}


@pytest.mark.parametrize("who", NO_MORE)
async def test_a_refresh_token_that_is_good_for_nothing_any_more_is_not_tried_again(tmp_path: Path, who: str) -> None:
    status, said, reason = NO_MORE[who]
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        one.answer = lambda asked: web.json_response(said, status=status)
        caller = ModernCaller(opened.url, http)
        heard = [(await caller.call("whoami")).error["message"] for _ in range(3)]
        kept = await kept_tokens(tmp_path)

    assert [f"has ended ({reason}). Somebody has to sign in again" in one for one in heard] == [True] * 3
    assert [f"{one.url}/authorize?" in told for told in heard] == [True] * 3
    assert len(one.refreshes) == 1
    assert kept is not None
    assert kept.problem == reason


@pytest.mark.parametrize("expires_in", [None, 0, -1, 10**30])
async def test_a_lifetime_that_makes_no_sense_is_no_reason_to_renew_again_and_again(
    expires_in: Any, tmp_path: Path
) -> None:
    asked = provider(expires_in=expires_in)
    async with asked as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        caller = ModernCaller(opened.url, http)
        heard = [await caller.call("whoami") for _ in range(3)]

    assert [one.text for one in heard] == ["you"] * 3
    assert len(one.refreshes) == 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, 0),
        (0, 0),
        (-1, 0),
        ("x", 0),
        (float("inf"), 0),
        (float("nan"), 0),
        (60, 60),
        ("60", 60),
        (1e12, LONGEST_LIFE),
    ],
)
def test_lifetimes(said: Any, seconds: float) -> None:
    assert lifetime_of(said) == seconds


async def test_without_a_new_refresh_token_the_old_one_stays(tmp_path: Path) -> None:
    asked = provider(rotates=False)
    async with asked as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        caller = ModernCaller(opened.url, http)
        for _ in range(2):
            one.valid.clear()
            assert (await caller.call("whoami")).text == "you"

    assert len({asked["refresh_token"] for asked in one.refreshes}) == 1
    assert len(one.refreshes) == 2


async def test_what_was_granted_less_than_asked_for_is_what_is_known(tmp_path: Path) -> None:
    wanted = ["read", "write"]
    async with provider(scopes="read") as one, aiohttp.ClientSession() as http:
        async with gateway(tmp_path, server_of(one, scopes=wanted)) as opened:
            await sign_in(opened, http)
            first = await kept_tokens(tmp_path)
            one.scopes = "look"
            one.valid.clear()
            await ModernCaller(opened.url, http).call("whoami")
        kept = await kept_tokens(tmp_path)

    assert one.authorizations[0]["scope"] == "read write"
    assert first is not None
    assert kept is not None
    assert (first.scopes, kept.scopes, len(one.refreshes)) == (("read",), ("look",), 1)


async def test_a_crash_between_answer_and_store_ends_in_signing_in_again_and_not_in_a_loop(tmp_path: Path) -> None:
    async with provider() as one:
        await signed_in(one, tmp_path)
        old = await age(tmp_path)
        async with aiohttp.ClientSession() as http:  # whoever crashed had its answer, and kept it nowhere
            lost = {"grant_type": "refresh_token", "refresh_token": old.refresh_token}
            await http.post(f"{one.url}/token", data=lost)
        one.tokens.clear()
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            caller = ModernCaller(opened.url, http)
            heard = [await caller.call("whoami") for _ in range(5)]
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            caller = ModernCaller(opened.url, http)
            heard += [await caller.call("whoami") for _ in range(5)]
            again = await sign_in(opened, http)
            healed = await caller.call("whoami")

    assert all("error" in one.message for one in heard)
    assert len(one.refreshes) == 1
    assert (again[0], healed.text) == (200, "you")


def unread(port: int) -> int:
    """Bytes that came to a port of this machine, and that nobody read yet."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(line[4].partition(":")[2], 16) for line in lines if line[1].endswith(f":{port:04X}"))


async def test_a_gateway_killed_between_answer_and_store_ends_in_signing_in_again(tmp_path: Path) -> None:
    async with provider() as one:
        await signed_in(one, tmp_path)
        await age(tmp_path)
        with (
            closing(sqlite3.connect(tmp_path / STORE, isolation_level=None, check_same_thread=False)) as store,
            trunkline_up(tmp_path, {"mcpServers": server_of(one)}) as (url, process),
        ):
            # From its request for a token on nothing can be written, so that what it is answered is kept nowhere.
            one.before_answer = lambda: asyncio.to_thread(store.execute, "BEGIN IMMEDIATE")
            async with aiohttp.ClientSession() as http:
                call = asyncio.create_task(ModernCaller(url, http).call("whoami"))
                await until(lambda: one.answered_to != 0 and not unread(one.answered_to), 20)
                process.kill()
                with pytest.raises(aiohttp.ClientError):
                    await call
            one.before_answer = None
            assert len(one.refreshes) == 1
            store.execute("ROLLBACK")
            held = store.execute("UPDATE leases SET until = 0 RETURNING name").fetchall()  # its time passes
        async with gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
            caller = ModernCaller(opened.url, http)
            heard = [await caller.call("whoami") for _ in range(5)]
            again = await sign_in(opened, http)
            healed = await caller.call("whoami")

    assert len(held) == 1
    assert all("error" in one.message for one in heard)
    assert len(one.refreshes) == 2  # the dead one's, and the one that was told that it is used up
    assert (again[0], healed.text) == (200, "you")


async def test_fifty_callers_in_each_of_two_processes_renew_once(tmp_path: Path) -> None:
    async with provider() as one:
        await signed_in(one, tmp_path)
        a, b = ({"git": {**server_of(one)["git"], "headers": {"x-process": name}}} for name in "ab")
        many = aiohttp.TCPConnector(limit=0)
        async with gateway(tmp_path, a) as opened, aiohttp.ClientSession(connector=many) as http:
            with trunkline_up(tmp_path, {"mcpServers": b}) as (url, _):
                callers = [ModernCaller(where, http) for where in (opened.url, url)]
                await asyncio.gather(*map(answered, callers))
                one.valid.clear()
                one.calls.clear()
                one.refused_by.clear()
                one.gate = asyncio.Event()
                calls = asyncio.gather(*(caller.call("whoami") for caller in callers * 50))
                await until(lambda: one.refused_by == {"a", "b"} and bool(one.refreshes), 30.0)
                for _ in range(20):  # time in which the other process would ask, too
                    async with http.get(url.removesuffix("/mcp") + "/healthz") as answer:
                        assert answer.status == 200
                one.gate.set()
                heard = await calls

    assert [one.message.get("error") for one in heard] == [None] * 100
    assert len(one.refreshes) == 1
    assert len(one.calls) == 100


async def test_a_refusal_that_comes_late_is_no_reason_to_renew_what_was_renewed_meanwhile(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        hold = one.hold = asyncio.Event()
        before, caller = one.refused, ModernCaller(opened.url, http)
        late = asyncio.create_task(caller.call("whoami"))
        await until(lambda: one.refused > before)
        early = await caller.call("whoami")
        hold.set()

        assert (early.text, (await late).text) == ("you", "you")
    assert len(one.refreshes) == 1


async def test_what_another_process_renewed_is_taken_and_not_renewed_again(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        one.refreshable.clear()
        await replace_tokens(tmp_path, one.grant())
        heard = await ModernCaller(opened.url, http).call("whoami")

    assert (heard.text, one.refreshes) == ("you", [])


async def test_the_store_holds_nothing_that_can_be_read(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        async with http.get(f"{opened.url.removesuffix('/mcp')}/api/v1/connections") as answer:
            shown = await answer.text()
        bare = b"".join(file.read_bytes() for file in tmp_path.glob("trunkline.db*"))  # noqa: ASYNC240 - a test's own

    secrets = [*one.valid, *one.refreshable, one.tokens[0]["code_verifier"], one.authorizations[0]["state"]]
    assert [secret for secret in secrets if secret.encode() in bare or secret in shown] == []
    [connection] = json.loads(shown)["connections"]
    assert (connection["server"], connection["state"], connection["issuer"]) == ("git", "signed-in", one.url)


async def test_a_server_of_the_older_transport_is_signed_in_to_and_renewed_as_well(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    old = OldServer()

    def guarded(handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            return await handler(request) if token in one.valid else one.challenge()

        return handle

    routes = [web.get("/sse", guarded(old.stream)), web.post("/messages", guarded(old.post))]
    async with provider(more=routes) as one:
        one.description = {"resource": one.url}
        servers = {"git": {"url": f"{one.url}/sse", "transport": "sse", "health_interval": 0}}
        async with gateway(tmp_path, servers) as opened:
            before = opened.hub.snapshot.servers["git"].state.value
            said = await login(opened, http)
            async with http.get(said["url"]) as page:
                assert page.status == 200
            await until(lambda: "echo" in opened.hub.snapshot.tools)
            one.valid.clear()  # the stream is open, and what is posted is refused
            answer = (await ModernCaller(opened.url, http).call("echo")).text

    assert (before, answer, len(one.refreshes)) == ("needs-authorization", "ok", 1)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (b"", 0.0),
        (b"30", 30.0),
        (b"999999999", LATEST),
        (b"-1", 0.0),
        (b"soon", 0.0),
        (b"Thu, 01 Jan 1970 00:02:00 GMT", 60.0),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        (b"Fri, 01 Jan 2100 00:00:00 GMT", LATEST),
        (b"Thu, 32 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_when_to_ask_again_is_said_in_seconds_or_as_a_date(said: bytes, seconds: float) -> None:
    assert retry_after(requests.WebAnswer(429, {b"retry-after": said}), 60.0) == seconds
