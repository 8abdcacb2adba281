"""Signing in to the console at an identity provider: who is let in, and what does not let anybody in."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.harness import gateway, make_config
from tests.tenancy.oauth.provider import Provider, base_of, browsing, provider
from tests.tenancy.provider import Provider as Signer
from trunkline.errors import ConfigError
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.tenancy.oauth import console_sign_in

Json = dict[str, Any]
Query = dict[str, str]
NASTY = "<script>alert(1)</script>"


@dataclass
class House:
    """A gateway whose people are those of an identity provider, and that provider."""

    opened: Gateway
    corp: Provider
    claims: Json = field(default_factory=dict[str, Any])
    """What ID tokens say besides, or otherwise; what is `None` is left out."""
    headers: Json = field(default_factory=dict[str, Any])

    @property
    def base(self) -> str:
        return base_of(self.opened)

    async def leave(self, tab: aiohttp.ClientSession) -> str:
        """Begin; where the provider is asked."""
        async with tab.get(f"{self.base}/console/sign-in/corp", allow_redirects=False) as left:
            assert left.status == 302, await left.text()
            return left.headers["location"]

    async def agree(self, tab: aiohttp.ClientSession) -> str:
        """Begin, and agree; where the provider sends one back to."""
        async with tab.get(await self.leave(tab), allow_redirects=False) as agreed:
            return agreed.headers["location"]

    async def me(self, tab: aiohttp.ClientSession) -> Json:
        async with tab.get(f"{self.base}/api/v1/me") as answer:
            return await answer.json()


@asynccontextmanager
async def house(home: Path, *, options: Json | None = None, **issuer: Any) -> AsyncGenerator[House]:
    signer = Signer()

    async def keys(request: web.Request) -> web.Response:
        return web.json_response(signer.listed())

    async with provider(more=[web.get("/keys", keys)]) as corp:
        signer.url = corp.url
        corp.metadata = {"jwks_uri": f"{corp.url}/keys", "token_endpoint_auth_methods_supported": None}
        spec = {"issuer": corp.url, "client_id": "console", "client_secret": "a secret of ours", **issuer}
        kept = {name: value for name, value in spec.items() if value is not None}
        sections: Json = {"auth": {"issuers": {"corp": kept, "other": {"issuer": "https://id.example.org"}}}}
        async with gateway(home, {}, sections=sections, **(options or {})) as opened:
            made = House(opened, corp)
            grant = corp.grant

            def with_id(*, first: bool = False) -> Json:
                said: Json = {"nonce": corp.authorizations[-1].get("nonce"), "at_hash": "x", **made.claims}
                token = signer.token(said.pop("aud", "console"), headers={"typ": "JWT", **made.headers}, **said)
                return {**grant(first=first), "id_token": token}

            corp.grant = with_id
            yield made


async def test_somebody_of_the_provider_is_let_in_with_the_role_of_their_group(tmp_path: Path) -> None:
    async with house(tmp_path, roles={"admins": "admin"}, required_scopes=["mcp"]) as one, browsing() as tab:
        nobody = await one.me(tab)
        one.claims = {"groups": ["admins"]}
        async with tab.get(await one.agree(tab), allow_redirects=False) as back:
            cookies = back.headers.getall("set-cookie")
        me = await one.me(tab)

        assert (back.status, back.headers["location"]) == (302, f"{one.base}/")
        assert any("SameSite=Strict" in cookie and "HttpOnly" in cookie for cookie in cookies)
        assert nobody == {"signed_in": False, "needs_key": True, "issuers": ["corp"]}
        assert (me["user"], me["role"], me["signed_in"]) == ("corp:ana", "admin", True)
    asked, traded = one.corp.authorizations[-1], one.corp.tokens[-1]
    assert asked["scope"] == "openid profile email mcp"
    assert asked["redirect_uri"] == traded["redirect_uri"] == f"{one.base}/console/signed-in"
    assert (asked["code_challenge_method"], "resource" in asked, "client_secret" in traded) == ("S256", False, False)


async def test_each_sign_in_is_for_one_browser_and_one_time(tmp_path: Path) -> None:
    async with house(tmp_path) as one, browsing() as ana, browsing() as eve:
        first, second = await one.agree(ana), await one.agree(ana)
        async with eve.get(first, allow_redirects=False) as stolen:
            assert (stolen.status, "not begun in this browser" in await stolen.text()) == (400, True)
        kept = {one.key: one.value for one in ana.cookie_jar}
        async with ana.get(second, allow_redirects=False) as good:
            assert good.status == 302
        async with eve.get(second, cookies=kept, allow_redirects=False) as again:
            assert (again.status, "used already" in await again.text()) == (400, True)
        assert not (await one.me(eve))["signed_in"]
        assert len(one.corp.tokens) == 1


async def test_what_comes_back_otherwise_than_asked_for_is_traded_for_nothing(tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Query], Query], str]] = [
        (lambda sent: {**sent, "state": "made-up"}, "not begun in this browser"),
        (lambda sent: {"code": sent["code"], "iss": sent["iss"]}, "not begun in this browser"),
        (lambda sent: {**sent, "iss": "https://evil.example"}, "does not come from"),
        (lambda sent: {"code": sent["code"], "state": sent["state"]}, "does not come from"),
        (lambda sent: {**sent, "error": "access_denied"}, "said no"),
        (lambda sent: {**sent, "error": NASTY, "error_description": NASTY}, "did not agree"),
        (lambda sent: {"state": sent["state"], "iss": sent["iss"]}, "sent no code"),
    ]
    async with house(tmp_path) as one, browsing() as tab:
        for changed, told in cases:
            one.corp.sent_back = changed
            async with tab.get(await one.agree(tab), allow_redirects=False) as back:
                text = await back.text()

            assert (back.status, "set-cookie" in back.headers) == (400, False)
            assert (told in text, NASTY in text, "Back to the console" in text) == (True, False, True)
        assert one.corp.tokens == []


async def test_an_id_token_that_is_not_of_this_sign_in_or_not_for_us_lets_nobody_in(tmp_path: Path) -> None:
    cases: list[tuple[Json, Json, int, str]] = [
        ({"nonce": "another"}, {}, 401, "another sign-in"),
        ({"nonce": None}, {}, 401, "another sign-in"),
        ({"aud": "another-client"}, {}, 401, "another client"),
        ({"aud": ["console", "another"]}, {}, 401, "another client"),
        ({"azp": "another"}, {}, 401, "another client"),
        ({"iss": "https://evil.example"}, {}, 401, "not valid"),
        ({"exp": 1}, {}, 401, "expired"),
        ({}, {"typ": "at+jwt"}, 401, "no ID token"),
        ({"groups": ["guests"]}, {}, 403, "no role"),
    ]
    async with house(tmp_path, roles={"staff": "member"}, default_role="none") as one, browsing() as tab:
        for claims, headers, status, told in cases:
            one.claims, one.headers = {"groups": ["staff"], **claims}, headers
            async with tab.get(await one.agree(tab), allow_redirects=False) as back:
                assert (back.status, told in await back.text()) == (status, True), (claims, await back.text())
        assert not (await one.me(tab))["signed_in"]
        one.claims, one.headers = {"groups": ["staff"], "aud": ["console", "another"], "azp": "console"}, {}
        async with tab.get(await one.agree(tab)):
            assert (await one.me(tab))["signed_in"]


async def test_a_client_without_a_secret_says_only_its_name(tmp_path: Path) -> None:
    async with house(tmp_path, client_secret=None) as one, browsing() as tab:
        async with tab.get(await one.agree(tab), allow_redirects=False) as back:
            assert back.status == 302
        assert (one.corp.tokens[-1]["client_id"], "client_secret" in one.corp.tokens[-1]) == ("console", False)


async def test_a_scope_that_was_not_granted_is_missed(tmp_path: Path) -> None:
    async with house(tmp_path, required_scopes=["mcp"]) as one, browsing() as tab:
        one.corp.scopes = "openid profile"
        async with tab.get(await one.agree(tab), allow_redirects=False) as back:
            assert (back.status, "lacks a scope" in await back.text()) == (403, True)


async def test_a_sign_in_waits_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sign_in, "LIFE", 0.0)
    async with (
        house(tmp_path) as one,
        browsing() as tab,
        tab.get(await one.agree(tab), allow_redirects=False) as late,
    ):
        assert (late.status, "is up" in await late.text()) == (400, True)


async def test_a_sign_in_is_finished_by_whichever_gateway_has_the_store_and_once(tmp_path: Path) -> None:
    async with house(tmp_path) as one, browsing() as tab, browsing() as eve:
        config = dataclasses.replace(one.opened.hub.relay.config, home=tmp_path)
        there = dataclasses.replace(config, gateway=dataclasses.replace(config.gateway, public_url=one.base))
        async with open_gateway(there) as second:
            here = await one.agree(tab)
            kept = {cookie.key: cookie.value for cookie in tab.cookie_jar}
            elsewhere = here.replace(one.base, second.url.removesuffix("/mcp"))

            async with eve.get(elsewhere, allow_redirects=False) as stolen:
                assert (stolen.status, "not begun in this browser" in await stolen.text()) == (400, True)
            async with tab.get(elsewhere, allow_redirects=False) as done:
                assert (done.status, done.headers["location"]) == (302, f"{one.base}/")
            assert (await House(second, one.corp).me(tab))["user"] == "corp:ana"
            async with eve.get(here, cookies=kept, allow_redirects=False) as again:
                assert (again.status, "used already" in await again.text()) == (400, True)
    assert len(one.corp.tokens) == 1


async def test_only_what_works_is_offered_and_the_rest_says_what_to_do(tmp_path: Path) -> None:
    async with house(tmp_path) as one, browsing() as tab:
        for name in ("other", "nobody", NASTY, "corp/x"):
            async with tab.get(f"{one.base}/console/sign-in/{name}") as answer:
                text = await answer.text()
            assert (answer.status, "with a key" in text, NASTY in text) == (404, True, False)
        async with tab.post(f"{one.base}/console/sign-in/corp") as answer:
            assert answer.status == 405
        one.corp.metadata["token_endpoint"] = "http://192.0.2.1/token"
        async with tab.get(f"{one.base}/console/sign-in/corp", allow_redirects=False) as answer:
            assert (answer.status, "not a safe https address" in await answer.text()) == (502, True)
    async with house(tmp_path / "plain", options={"public_url": "http://hub.example.org"}) as plain, browsing() as tab:
        assert (await plain.me(tab))["issuers"] == []


async def test_who_comes_by_another_name_of_the_gateway_is_sent_to_its_own_once(tmp_path: Path) -> None:
    async with house(tmp_path) as one, browsing() as tab:
        other = one.base.replace("127.0.0.1", "localhost")
        async with tab.get(f"{other}/console/sign-in/corp", allow_redirects=False) as sent:
            assert sent.headers["location"] == f"{one.base}/console/sign-in/corp?here"
        async with tab.get(f"{other}/console/sign-in/corp?here", allow_redirects=False) as sent:
            assert urlsplit(sent.headers["location"]).path == "/authorize"


async def test_at_an_https_address_the_cookie_of_a_sign_in_is_of_that_host_alone(tmp_path: Path) -> None:
    async with house(tmp_path, options={"public_url": "https://hub.example.org"}) as one, browsing() as tab:
        async with tab.get(f"{one.base}/console/sign-in/corp?here", allow_redirects=False) as left:
            asked = parse_qs(urlsplit(left.headers["location"]).query)
        assert asked["redirect_uri"] == ["https://hub.example.org/console/signed-in"]
        name, _, rest = left.headers["set-cookie"].partition("=")
        assert name.startswith("__Host-trunkline-sign-in-")
        assert rest.partition("; ")[2] == "Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"


async def test_the_store_remembers_who_signed_in_and_who_is_blocked_is_out_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as one, browsing() as tab:
        async with tab.get(await one.agree(tab)):
            assert (await one.me(tab))["signed_in"]
        tenancy = one.opened.hub.relay.tenancy
        await tenancy.console_sessions.follow(None)  # as after a restart, only the store knows
        assert (await one.me(tab))["user"] == "corp:ana"
        await tenancy.people.update_user("corp:ana", role="blocked")
        assert not (await one.me(tab))["signed_in"]
        async with tab.get(await one.agree(tab), allow_redirects=False) as back:
            assert (back.status, "blocked" in await back.text()) == (403, True)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"client_secret": "x"}, "no `client_id`"),
        ({"client_id": "x", "issuer": "corp", "key_file": "/keys.pem"}, "no https address"),
        ({"client_id": "x", "scopes": ["profile"]}, "lacks `openid`"),
    ],
)
def test_a_client_that_could_not_work_is_refused_with_the_configuration(tmp_path: Path, spec: Json, told: str) -> None:
    whole = {"issuer": "https://id.example.org", **spec}
    with pytest.raises(ConfigError, match=told):
        make_config(tmp_path, {}, sections={"auth": {"issuers": {"corp": whole}}})


def test_a_client_secret_is_in_no_representation(tmp_path: Path) -> None:
    spec = {"issuer": "https://id.example.org", "client_id": "x", "client_secret": "a secret of ours"}
    made = make_config(tmp_path, {}, sections={"auth": {"issuers": {"corp": spec}}})
    assert "a secret of ours" not in repr(made)
