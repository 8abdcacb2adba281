"""Signing in at an authorization server that others wrote, in a real browser: from the terminal, and in a call."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from multidict import CIMultiDict
from playwright.async_api import Browser, Page

from tests.browser import TOOLS, browser
from tests.doctor.test_tls import certificate
from tests.harness import NODE, TRUNKLINE, ModernCaller, gateway, trunkline_up
from tests.tenancy.oauth.provider import age, base_of, kept_tokens, login
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway
from trunkline.tenancy.oauth.tokens import Tokens

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
SERVER = Path(__file__).with_name("authorization_server.mjs")
CAN_OPEN: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
TEAM = "hub.trunkline.test"


@dataclass(frozen=True)
class Real:
    """The authorization server, and the server of tools that takes its tokens."""

    issuer: str
    resource: str

    def config(self) -> dict[str, Any]:
        return {"git": {"url": self.resource, "health_interval": 0}}

    async def log(self, http: aiohttp.ClientSession) -> list[list[str]]:
        """What the authorization server did, from the beginning."""
        async with http.get(self.resource.replace("/mcp", "/log")) as answer:
            return await answer.json()

    async def takes(self, http: aiohttp.ClientSession, token: str) -> bool:
        """Whether the server of tools takes a token."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with http.post(self.resource, json=asked, headers={"authorization": f"Bearer {token}"}) as answer:
            return answer.status == 200


@pytest.fixture(scope="module")
def real() -> Generator[Real]:
    command = [str(NODE), str(SERVER), str(TOOLS / "node_modules"), "3600"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Real(**json.loads(process.stdout.readline()))
        process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncGenerator[Browser]:
    async with browser(f"--host-resolver-rules=MAP {TEAM} 127.0.0.1") as opened:
        yield opened


async def agree(page: Page, account: str) -> str:
    """Sign in as somebody, if need be, and agree to all that is asked; what the last page says."""
    name, going_on = page.locator("input[name=login]"), page.get_by_role("button", name="Continue")
    await name.or_(going_on).first.wait_for()
    if await name.count():
        await name.fill(account)
        await page.fill("input[name=password]", "any")
        await page.click("button[type=submit]")
    await going_on.click()
    await page.wait_for_url("**/oauth/callback?*")
    return await page.locator("body").inner_text()


async def command(home: Path, *words: str) -> asyncio.subprocess.Process:
    file = next(one for one in (home / "config.json", home / "trunkline.toml") if one.exists())
    return await asyncio.create_subprocess_exec(
        TRUNKLINE,
        *words,
        "--config",
        str(file),
        stdout=-1,
        stderr=-1,
        stdin=asyncio.subprocess.DEVNULL,
        env={**os.environ, "TRUNKLINE_HOME": str(home)},
    )


async def log_in(home: Path, chromium: Browser, account: str) -> str:
    """`trunkline login`, and a person with a browser; what the command says."""
    running = await command(home, "login", "git", "--no-browser")
    assert running.stdout is not None
    page = await chromium.new_page(ignore_https_errors=True)
    await page.goto((await running.stdout.readline()).decode().strip())
    told = await agree(page, account)
    await page.context.close()
    _, said = await running.communicate()
    assert (running.returncode, "Signed in" in told) == (0, True), (told, said)
    return said.decode()


async def test_login_lasts_over_renewals_asks_for_more_and_ends_when_a_token_is_used_twice(
    tmp_path: Path, real: Real, chromium: Browser
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = f'[gateway]\nport = {port}\n[servers.git]\nurl = "{real.resource}"\n'
    (tmp_path / "trunkline.toml").write_text(config)
    async with aiohttp.ClientSession() as http:
        said = await log_in(tmp_path, chromium, "ana")
        first = await age(tmp_path)
        async with gateway(tmp_path, real.config(), port=port) as opened:
            caller = ModernCaller(opened.url, http)
            assert (await caller.call("whoami")).text == "ana"
            renewed = await kept_tokens(tmp_path)
            stepped = await _step_up(caller, chromium)
        second = await age(tmp_path)
        async with gateway(tmp_path, real.config(), port=port) as opened:
            caller = ModernCaller(opened.url, http)
            assert (await caller.call("write")).text == "ana"
            # Somebody uses the refresh token once more that was renewed: the authorization server ends the family.
            reused = await _refresh(http, second)
            refused = (await caller.call("whoami")).error["message"]
            [held] = await _connections(opened, http)
        again = await log_in(tmp_path, chromium, "bob")
        last = await kept_tokens(tmp_path)
        assert renewed is not None
        assert last is not None
        assert await real.takes(http, last.access_token)
        await (await command(tmp_path, "logout", "git")).communicate()
        log = await real.log(http)

        assert not await real.takes(http, last.access_token)
        assert await _refresh(http, last) == "invalid_grant"
    assert f"Signed in to 'git' as ana of the test at {real.issuer}; renewed by itself" in said
    assert [line[2] for line in log if line[0] == "registered"] == [last.client.client_id]
    assert renewed.refresh_token not in (first.refresh_token, "")
    assert ("write" in renewed.scopes, "write" in second.scopes, stepped) == (False, True, "ana")
    assert (reused, "Somebody has to sign in again" in refused) == ("invalid_grant", True)
    assert (held["state"], held["reason"]) == ("expired", "invalid_grant")
    assert "as bob of the test" in again


async def _refresh(http: aiohttp.ClientSession, held: Tokens) -> str:
    """Use a refresh token behind its holder's back; what is wrong with it."""
    who = aiohttp.encode_basic_auth(held.client.client_id, held.client.client_secret)
    fields = {"grant_type": "refresh_token", "refresh_token": held.refresh_token}
    async with http.post(held.token_url, data=fields, headers={"authorization": who}) as answer:
        return str((await answer.json()).get("error", ""))


async def _step_up(caller: ModernCaller, chromium: Browser) -> str:
    """Call what needs more than was agreed to, and agree to more in the middle of it."""
    asked = (await caller.call("write", meta=CAN_OPEN)).result
    [(key, wanted)] = asked["inputRequests"].items()
    page = await chromium.new_page()
    await page.goto(wanted["params"]["url"])
    assert "Signed in" in await agree(page, "ana")
    await page.context.close()
    again: Json = {"name": "write", "arguments": {}, "requestState": asked["requestState"]}
    answers = {"inputResponses": {key: {"action": "accept"}}}
    return (await caller.request("tools/call", {**again, **answers}, meta=CAN_OPEN)).text


async def test_a_person_of_a_team_signs_in_over_https_at_one_who_knows_us_by_our_document(
    tmp_path: Path, real: Real, chromium: Browser
) -> None:
    async with (
        aiohttp.ClientSession() as http,
        https(tmp_path) as (public, behind),
        gateway(tmp_path, real.config(), public_url=public, allowed_hosts=[TEAM]) as opened,
    ):
        behind.append(base_of(opened))
        places = {"origin": public, "target": base_of(opened)}
        await http.post(real.resource.replace("/mcp", "/documents"), json=places)
        keys = {name: await Admin(opened, http).key(name) for name in ("ana", "eve")}
        caller = ModernCaller(opened.url, http, token=keys["ana"])
        url = (await login(opened, http, key=keys["ana"]))["url"]
        page = await (await chromium.new_context(ignore_https_errors=True)).new_page()
        await page.goto(url)
        await page.fill("input[name=key]", keys["eve"])
        await page.click("button")
        wrong = await page.locator("[role=alert]").inner_text()
        await page.fill("input[name=key]", keys["ana"])
        await page.click("button")
        cookies = {one.get("name", ""): one for one in await page.context.cookies()}
        await page.get_by_role("link").click()
        told = await agree(page, "ana")
        answer = (await caller.call("whoami")).text
        kept = await kept_tokens(tmp_path, "ana")
        log = await real.log(http)

    assert url.startswith(f"{public}/oauth/start/")
    assert ("somebody else" in wrong, "Signed in" in told, answer) == (True, True, "ana")
    [cookie] = [one for name, one in cookies.items() if name.startswith("__Host-trunkline-sign-in-")]
    assert (cookie.get("secure"), cookie.get("httpOnly"), cookie.get("sameSite")) == (True, True, "Lax")
    assert kept is not None
    assert kept.client.client_id == f"{public}/oauth/client-metadata.json"
    assert ["granted", "authorization_code", kept.client.client_id] in log


async def test_login_at_a_gateway_that_has_a_document_of_its_own_and_once_more_for_what_was_missing(
    tmp_path: Path, real: Real, chromium: Browser
) -> None:
    async with aiohttp.ClientSession() as http, https(tmp_path) as (public, behind):
        config = {"gateway": {"public_url": public, "allowed_hosts": [TEAM]}, "servers": real.config()}
        with trunkline_up(tmp_path / "home", config) as (url, _):
            behind.append(url.removesuffix("/mcp"))
            places = {"origin": public, "target": behind[0]}
            await http.post(real.resource.replace("/mcp", "/documents"), json=places)
            caller = ModernCaller(url, http)
            first = await log_in(tmp_path / "home", chromium, "dora")
            told = [(await caller.call("whoami")).text, (await caller.call("write")).error["message"]]
            second = await log_in(tmp_path / "home", chromium, "dora")
            told.append((await caller.call("write")).text)
            held = await kept_tokens(tmp_path / "home")
            await (await command(tmp_path / "home", "logout", "git")).communicate()
            log = await real.log(http)

        assert held is not None
        assert not await real.takes(http, held.access_token)
    assert ("as dora of the test" in first, "as dora of the test" in second) == (True, True)
    assert (told[0], "wants more than was agreed to: write" in told[1], told[2]) == ("dora", True, "dora")
    assert (held.client.client_id, "write" in held.scopes) == (f"{public}/oauth/client-metadata.json", True)
    assert [line for line in log if line[2] == held.client.client_id and line[1] == "authorization_code"]
    assert held.client.client_id not in [line[2] for line in log if line[0] == "registered"]


@asynccontextmanager
async def https(folder: Path) -> AsyncGenerator[tuple[str, list[str]]]:
    """What stands before a team's gateway: its public address, and a list for where the gateway is."""
    behind: list[str] = []

    async def relay(request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        async with inner.request(
            request.method,
            f"{behind[0]}{request.path_qs}",
            headers=headers,
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            kept = [
                (name, value)
                for name, value in answer.headers.items()
                if name.lower() not in ("content-length", "connection")
            ]
            return web.Response(status=answer.status, body=await answer.read(), headers=CIMultiDict(kept))

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", relay)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    context, _ = certificate(folder, names=(TEAM,))
    async with aiohttp.ClientSession() as inner:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        try:
            yield f"https://{TEAM}:{runner.addresses[0][1]}", behind
        finally:
            await runner.cleanup()


async def _connections(opened: Gateway, http: aiohttp.ClientSession) -> list[dict[str, Any]]:
    async with http.get(f"{base_of(opened)}/api/v1/connections") as answer:
        return (await answer.json())["connections"]


async def test_a_person_signs_in_to_the_console_with_the_provider_and_is_who_they_are_there(
    tmp_path: Path, real: Real, chromium: Browser
) -> None:
    client = {
        "application_type": "native",  # so that any port of this machine may be come back to
        "redirect_uris": ["http://localhost/console/signed-in"],
        "token_endpoint_auth_method": "client_secret_basic",
    }
    async with aiohttp.ClientSession() as http, http.post(f"{real.issuer}/reg", json=client) as answer:
        made = await answer.json()
    corp = {
        "issuer": real.issuer,
        "client_id": made["client_id"],
        "client_secret": made["client_secret"],
        "groups_claim": "email",
        "roles": {"carla@example.org": "admin"},
    }
    # Another site than the provider's, by its name: what a browser sends across is then what it would send for a team.
    sections = {"auth": {"issuers": {"corp": corp}}}
    async with gateway(tmp_path, {}, sections=sections, host="localhost") as opened:
        page = await chromium.new_page()
        await page.goto(f"{base_of(opened)}/")
        await page.get_by_role("link", name="Continue with corp").click()
        await page.fill("input[name=login]", "carla")
        await page.fill("input[name=password]", "any")
        await page.click("button[type=submit]")
        await page.get_by_role("button", name="Continue").click()
        await page.wait_for_url(f"{base_of(opened)}/*")
        await page.get_by_role("heading", name="Overview").first.wait_for()
        me = await page.evaluate("fetch('/api/v1/me').then((answer) => answer.json())")
        kept = {str(one.get("name")): one.get("sameSite") for one in await page.context.cookies(base_of(opened))}
        await page.context.close()

    assert (me["user"], me["role"], me["signed_in"]) == ("corp:carla", "admin", True)
    assert list(kept.values()) == ["Strict"]
    async with aiohttp.ClientSession() as http:
        assert ["granted", "authorization_code", made["client_id"]] in await real.log(http)
