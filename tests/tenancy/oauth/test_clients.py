"""As whom we sign in: registered anew when we were forgotten, and shown to one authorization server alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.harness import ModernCaller, gateway
from tests.tenancy.oauth.provider import Asked, Provider, base_of, login, provider, server_of, sign_in
from trunkline.gateway.serve import Gateway
from trunkline.tenancy.oauth import clients
from trunkline.tenancy.oauth import sign_in as flow

Json = dict[str, Any]
BY_HAND: Json = {"client_id": "by-hand", "client_secret": "hush"}
ASKS_FOR_SECRETS: Json = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}


def unknown(asked: Asked) -> web.Response:
    return web.json_response({"error": "invalid_client"}, status=401)


async def renewal(one: Provider, opened: Gateway, http: aiohttp.ClientSession) -> None:
    one.valid.clear()
    one.answer = unknown
    assert "invalid_client" in (await ModernCaller(opened.url, http).call("whoami")).error["message"]


async def code(one: Provider, opened: Gateway, http: aiohttp.ClientSession) -> None:
    async with http.delete(f"{base_of(opened)}/api/v1/connections/git") as answer:
        assert answer.status == 204
    one.answer = unknown
    await sign_in(opened, http)
    one.registered -= 1  # signing out made it forget the first
    assert one.tokens[-1]["client_id"] == "client-2"


async def page(one: Provider, opened: Gateway, http: aiohttp.ClientSession) -> None:
    one.valid.clear()
    one.refreshable.clear()
    one.sent_back = lambda sent: {"error": "unauthorized_client", "state": sent["state"], "iss": sent["iss"]}
    await ModernCaller(opened.url, http).call("whoami")
    await sign_in(opened, http)


Meets = Callable[[Provider, Gateway, aiohttp.ClientSession], Awaitable[None]]


@pytest.mark.parametrize("meets", [renewal, code, page])
async def test_a_client_that_the_authorization_server_forgot_is_registered_anew(meets: Meets, tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        await meets(one, opened, http)
        one.answer, one.sent_back = lambda asked: None, lambda sent: sent
        status, _ = await sign_in(opened, http)
        heard = await ModernCaller(opened.url, http).call("whoami")

    assert one.registered == 2
    assert one.authorizations[-1]["client_id"] != "client-1"
    assert (status, heard.text) == (200, "you")


async def test_a_client_that_nobody_comes_back_with_is_registered_anew_but_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LIFE", 0.0)  # so that whoever asks again gets another attempt
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        urls = [(await login(opened, http))["url"] for _ in range(3)]
        young = one.registered
        monkeypatch.setattr(clients, "YOUNG", 0.0)  # a day later
        later = (await login(opened, http))["url"]

    assert young == 1
    assert ["client_id=client-1&" in url for url in urls] == [True] * 3
    assert "client_id=client-2&" in later


async def test_signing_out_begins_all_over(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        one.valid.clear()
        one.refreshable.clear()
        await ModernCaller(opened.url, http).call("whoami")
        first = (await login(opened, http))["url"]  # where its person finds that nobody knows us
        async with http.delete(f"{base_of(opened)}/api/v1/connections/git") as answer:
            assert answer.status == 204
        second = (await login(opened, http))["url"]

    assert ("client_id=client-1&" in first, "client_id=client-2&" in second) == (True, True)


@pytest.mark.parametrize("grant", ["code", "client_credentials"])
async def test_a_configured_secret_is_shown_to_no_authorization_server_that_the_server_names_later(
    tmp_path: Path, grant: str
) -> None:
    def given(asked: Asked) -> web.Response:
        one.valid.add("good")
        return web.json_response({"access_token": "good", "token_type": "Bearer"})

    async with (
        provider(metadata=ASKS_FOR_SECRETS, answer=given) as one,
        provider(metadata=ASKS_FOR_SECRETS, answer=given) as evil,
        aiohttp.ClientSession() as http,
    ):
        refused = ""
        for _ in range(2):  # it is known after a restart, too
            async with gateway(tmp_path, server_of(one, grant=grant, **BY_HAND)) as opened:
                if grant == "code":
                    await sign_in(opened, http)
                assert (await ModernCaller(opened.url, http).call("whoami")).text == "you"
                one.description["authorization_servers"] = [evil.url]
                one.valid.clear()
                caller = ModernCaller(opened.url, http)
                heard = [(await caller.call("whoami")).error["message"] for _ in range(2)]
                told = await login(opened, http) if grant == "code" else {}
            refused = str((heard, told))
            one.description.clear()
        one.description["authorization_servers"] = [evil.url]
        async with gateway(tmp_path, server_of(one, grant=grant, issuer=evil.url, **BY_HAND)) as opened:
            if grant == "code":
                said = (await login(opened, http))["url"]
                async with http.get(said, allow_redirects=False) as page:
                    assert page.headers["location"].startswith(base_of(opened))

    assert "names another authorization server" in refused
    assert "`issuer` in [servers.NAME.oauth]" in refused
    assert {asked["client_secret"] for asked in one.tokens} == {"hush"}
    assert evil.registered == 0
    if grant == "code":
        assert evil.tokens == []
    else:
        assert {asked["grant_type"] for asked in evil.tokens} == {grant}  # once the configuration says that it moved
    assert f"{evil.url}/authorize" not in refused
