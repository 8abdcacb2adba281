"""As whom we sign in: clients that we registered, and that were forgotten there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.harness import ModernCaller, gateway
from tests.tenancy.oauth.provider import Asked, Provider, base_of, login, provider, server_of, sign_in
from trunkline.gateway.serve import Gateway
from trunkline.tenancy.oauth import clients
from trunkline.tenancy.oauth import sign_in as flow


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
