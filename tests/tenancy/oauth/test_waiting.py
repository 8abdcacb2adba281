"""Calls that wait until their person has signed in: in either era, for that person alone, and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.harness import TRUNKLINE, LegacyCaller, ModernCaller, gateway, until
from tests.tenancy.oauth.provider import Provider, base_of, login, provider, server_of, sign_in
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
CAN_OPEN: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}


async def signed_out(one: Provider, opened: Gateway, http: aiohttp.ClientSession) -> None:
    """What the server has is known, and nobody is signed in any more."""
    assert (await sign_in(opened, http))[0] == 200
    async with http.delete(f"{base_of(opened)}/api/v1/connections/git") as answer:
        assert answer.status == 204
    await until(lambda: opened.hub.snapshot.servers["git"].state.value == "needs-authorization")


async def visit(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with http.get(url) as page:
        return page.status, await page.text()


async def test_a_modern_call_gives_the_address_and_goes_on_when_the_person_is_done(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened:
        await signed_out(one, opened, http)
        caller = ModernCaller(opened.url, http)
        asked = (await caller.call("whoami", meta=CAN_OPEN)).result
        [(key, wanted)] = asked["inputRequests"].items()
        ran = len(one.calls)
        status, _ = await visit(http, wanted["params"]["url"])
        retry = {
            "name": "whoami",
            "arguments": {},
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept"}},
        }
        answer = (await caller.request("tools/call", retry, meta=CAN_OPEN)).result

    assert (asked["resultType"], wanted["params"]["mode"], status) == ("input_required", "url", 200)
    assert answer["content"][0]["text"] == "you"
    assert len(one.calls) == ran + 1


async def test_a_legacy_caller_is_asked_in_its_call_and_told_when_the_person_is_done(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened:
        await signed_out(one, opened, http)
        caller = await LegacyCaller(opened.url, http, capabilities={"elicitation": {"url": {}}}).open()
        heard: list[Json] = []
        async with caller.stream("tools/call", {"name": "whoami", "arguments": {}}) as events:
            while not heard or "result" not in heard[-1]:
                heard.append(await events.next(30.0))
                if heard[-1].get("method") == "elicitation/create":
                    assert (await visit(http, heard[-1]["params"]["url"]))[0] == 200
                    await caller.answer(heard[-1]["id"], {"action": "accept"})

    assert [one.get("method", "result") for one in heard] == [
        "elicitation/create",
        "notifications/elicitation/complete",
        "result",
    ]
    assert heard[1]["params"]["elicitationId"] == heard[0]["params"]["elicitationId"]
    assert heard[2]["result"]["content"][0]["text"] == "you"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_does_not_want_to_sign_in_gets_the_error(
    tmp_path: Path, http: aiohttp.ClientSession, action: str
) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened:
        await signed_out(one, opened, http)
        ran, caller = len(one.calls), ModernCaller(opened.url, http)
        asked = (await caller.call("whoami", meta=CAN_OPEN)).result
        [key] = asked["inputRequests"]
        retry = {"name": "whoami", "requestState": asked["requestState"], "inputResponses": {key: {"action": action}}}
        answer = await caller.request("tools/call", retry, meta=CAN_OPEN)

    assert "wants authorization" in answer.message["error"]["message"]
    assert len(one.calls) == ran


async def test_who_cannot_be_asked_gets_an_error_with_the_address(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened:
        await signed_out(one, opened, http)
        caller = ModernCaller(opened.url, http)
        refused = (await caller.call("whoami")).message["error"]["message"]
        [url] = re.findall(r"http://\S+", refused)
        assert (await visit(http, url))[0] == 200
        answer = (await caller.call("whoami")).result

    assert answer["content"][0]["text"] == "you"


async def test_where_there_are_users_the_address_is_for_one_person_and_one_browser(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # else it keeps none of an address that is a number
    async with (
        aiohttp.ClientSession(cookie_jar=jar) as browser,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as other,
        provider() as one,
        gateway(tmp_path, server_of(one)) as opened,
    ):
        admin = Admin(opened, other)
        keys = {name: await admin.key(name) for name in ("ana", "eve")}
        await sign_in(opened, other, key=keys["ana"])
        caller = ModernCaller(opened.url, other, token=keys["ana"])
        assert (await caller.call("whoami")).result["content"][0]["text"] == "you"
        assert (await Admin(opened, other, keys["ana"])("DELETE", "connections/git"))[0] == 204

        async def address() -> str:
            refused = (await caller.call("whoami")).message["error"]["message"]
            return re.findall(r"http://\S+", refused)[0]

        url = await address()
        assert url.startswith(f"{base_of(opened)}/oauth/start/")
        async with browser.get(url) as page:
            form = await page.text()
            assert (page.status, 'name="key"' in form, "ana" in form) == (200, True, True)
        for wrong in (keys["eve"], "nonsense"):
            async with browser.post(url, data={"key": wrong}) as page:
                assert page.status == 403
        async with browser.post(url, data={"key": keys["ana"]}, headers={"origin": "https://evil.example"}) as page:
            assert page.status == 403
        # Ana passes the page, and gives what is behind it to somebody else.
        async with browser.post(url, data={"key": keys["ana"]}) as page:
            assert page.status == 200
            [behind] = re.findall(r'href="([^"]+)"', await page.text())
        behind = behind.replace("&amp;", "&")
        status, told = await visit(other, behind)
        assert (status, "another browser" in told) == (400, True)
        assert (await visit(browser, behind))[0] == 400  # it is used

        # Nor does an address lead past that page which was asked for over the admin API.
        url = (await login(opened, other, key=keys["ana"]))["url"]
        assert url.startswith(f"{base_of(opened)}/oauth/start/")
        async with browser.post(url, data={"key": keys["eve"]}) as page:
            assert page.status == 403

        url = await address()
        async with browser.get(url, headers={"authorization": f"Bearer {keys['ana']}"}) as page:
            assert (page.status, "close this page" in await page.text()) == (200, True)
        answer = (await caller.call("whoami")).result

    assert answer["content"][0]["text"] == "you"


async def trunkline(home: Path, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        TRUNKLINE,
        *words,
        "--config",
        str(home / "config.json"),
        stdout=-1,
        stderr=-1,
        stdin=asyncio.subprocess.DEVNULL,
        env={**os.environ, "TRUNKLINE_HOME": str(home)},
    )


async def test_login_prints_the_address_alone_waits_and_needs_no_gateway(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with provider() as one:
        (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {"git": {"url": f"{one.url}/mcp"}}}))
        running = await trunkline(tmp_path, "login", "git", "--no-browser")
        assert running.stdout is not None
        url = (await running.stdout.readline()).decode().strip()
        status, _ = await visit(http, url)
        out, said = await running.communicate()
        listed = await trunkline(tmp_path, "connections", "--format", "json")
        [held] = json.loads((await listed.communicate())[0])["connections"]
        logout = await trunkline(tmp_path, "logout", "git")
        await logout.communicate()

    assert (status, running.returncode, out) == (200, 0, b""), said
    assert b"Signed in to 'git'" in said
    assert (held["server"], held["state"]) == ("git", "signed-in")
    assert "token" not in str(held).lower().replace("tokens", "")
    assert (logout.returncode, len(one.revoked) > 0) == (0, True)


async def test_login_ends_when_the_person_says_no(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    def refused(sent: dict[str, str]) -> dict[str, str]:
        return {"state": sent["state"], "iss": sent["iss"], "error": "access_denied"}

    async with provider(sent_back=refused) as one:
        (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {"git": {"url": f"{one.url}/mcp"}}}))
        running = await trunkline(tmp_path, "login", "git", "--no-browser")
        assert running.stdout is not None
        await visit(http, (await running.stdout.readline()).decode().strip())
        _, said = await running.communicate()

    assert (running.returncode, b"said no" in said) == (3, True), said


async def test_login_takes_the_address_that_a_browser_on_another_machine_ended_at(tmp_path: Path) -> None:
    def granted(asked: dict[str, str]) -> web.Response:
        one.valid.add("for-an-hour")
        return web.json_response({"access_token": "for-an-hour", "token_type": "Bearer", "expires_in": 3600})

    async with provider(answer=granted) as one, aiohttp.ClientSession() as elsewhere:
        (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {"git": {"url": f"{one.url}/mcp"}}}))
        near, far = pty.openpty()
        running = await asyncio.create_subprocess_exec(
            *("setsid", "--ctty", TRUNKLINE),  # the terminal is its own, as a shell's command has it
            *("login", "git", "--no-browser", "--config", str(tmp_path / "config.json")),
            **dict.fromkeys(("stdin", "stdout", "stderr"), far),
            env={**os.environ, "TRUNKLINE_HOME": str(tmp_path)},
        )
        os.close(far)
        screen = await seen_on(near, "paste here")
        [url] = re.findall(r"http://\S+/authorize\S+", screen)
        # That machine is sent to a page that is not there, and its person copies the address.
        async with elsewhere.get(url, allow_redirects=False) as page:
            ended_at = page.headers["location"]
        for wrong, told in (("hello", "ends at.\r"), (ended_at.replace("state=", "state=x"), "of another one")):
            os.write(near, f"{wrong}\n".encode())
            screen += await seen_on(near, told)
        long = ended_at.replace("?", f"?session_state={'x' * 5000}&")  # more than a terminal takes in a line
        screen += await asyncio.to_thread(written, near, f"{long}\n".encode())
        screen += await seen_on(near, "Signed in to 'git'", screen)
        ends = re.search(rf"Signed in to 'git' at {one.url}; until \d{{4}}-\d\d-\d\d \d\d:\d\d\.", screen)
        code = await running.wait()
        os.close(near)

    assert (code, len(one.tokens), ends is not None) == (0, 1, True), screen


def written(terminal: int, text: bytes) -> str:
    """Write to a terminal that takes only so much at once; what it shows meanwhile."""
    shown = b""
    while text:
        readable, writable, _ = select.select([terminal], [terminal], [], 30)
        if readable:
            shown += os.read(terminal, 65536)
        elif writable:
            text = text[os.write(terminal, text[:500]) :]
        else:
            raise AssertionError("nothing moves at the terminal")
    return shown.decode()


async def seen_on(terminal: int, text: str, before: str = "") -> str:
    """Read a terminal until a text is there, unless it was before."""
    screen = b""
    async with asyncio.timeout(30):
        while text not in before + screen.decode():
            if (await asyncio.to_thread(select.select, [terminal], [], [], 0.5))[0]:
                screen += os.read(terminal, 4096)
    return screen.decode()
