"""Every address that there is: what answers without a credential is on one short list, however it is asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.test_limits import wire
from tests.harness import gateway
from tests.tenancy.oauth.provider import base_of, browsing, login, provider, server_of
from tests.tenancy.test_access import open_house
from tests.tenancy.test_api import FITTING, at
from tests.tenancy.test_people import Admin
from trunkline.gateway.api.routes import PATH
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
METADATA = "/.well-known/oauth-protected-resource"

PLACES: dict[str, tuple[str, ...]] = {
    "/mcp": ("/mcp",),
    "/mcp/": ("/mcp/p", "/mcp/x"),
    "/answer/": ("/answer/x",),
    "/oauth/": ("/oauth/callback", "/oauth/start/x", "/oauth/client-metadata.json", "/oauth/x"),
    "/api/v1/local": ("/api/v1/local",),
    "/api/v1/": (),
    "/metrics": ("/metrics",),
    METADATA: (METADATA,),
    f"{METADATA}/": (f"{METADATA}/mcp", f"{METADATA}/mcp/p"),
    "/": ("/",),
    "/console/assets/": ("/console/assets/x/index.html",),
    "/console/signed-in": ("/console/signed-in",),
    "/console/sign-in/": ("/console/sign-in/x",),
    "/healthz": ("/healthz",),
    "/readyz": ("/readyz",),
}
"""Addresses below each place of the gateway's; those below `/api/v1/` are its routes."""
PUBLIC = {
    ("GET", PATH + "openapi.json"),
    ("GET", PATH + "me"),
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", METADATA),
    ("GET", METADATA + "/mcp"),
    ("GET", METADATA + "/mcp/p"),
}
"""What answers whoever asks. Whatever is added here gives nothing that is anybody's."""

HOSTS = ("host: a/?x=", "host: x/healthz?", "host: localhost/healthz", "host: localhost/?", "")
INSIDE = (
    "x-forwarded-for: 127.0.0.1\r\nx-real-ip: 127.0.0.1\r\nforwarded: for=127.0.0.1",
    "x-original-url: /healthz\r\nx-rewrite-url: /healthz\r\nx-forwarded-prefix: /healthz",
    "x-forwarded-host: localhost\r\nx-forwarded-user: admin\r\nx-user: admin\r\nrouter-key: secret-api-key",
    "trunkline-patience: 60\r\ntrunkline-key: x\r\ntrunkline-thread: x\r\nauthorization: Bearer ",
    "authorization: Basic YWRtaW46YWRtaW4=",
)
FORMS = ("/{}", "/.{}", "/%2e{}", "/%2e%2e{}", "{}/", "{};x", "{};/healthz", "{}%3b", "{}%2f", "{}/../healthz")
WHOLE = ("http://localhost{}", "https://localhost{}", "http://evil.example{}", "http://localhost/healthz{}", "*", "x{}")


def doors(opened: Gateway) -> list[tuple[str, str]]:
    """Every way in that there is, with every method that anything takes."""
    routes = [(route.method, PATH + at(route)) for route in opened.app.api.routes]
    others = ["/edge", *(path for paths in PLACES.values() for path in paths)]
    return [*routes, *((method, path) for path in others for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))]


async def statuses(opened: Gateway, asked: list[tuple[str, str, tuple[str, ...]]]) -> list[int]:
    """How each request is answered, by its method, its target and its headers, letter by letter."""
    found: list[int] = []
    while len(found) < len(asked):
        async with wire(opened.url) as line:
            for method, target, lines in asked[len(found) :]:
                body = json.dumps(FITTING["NewUser"]).encode() if method != "GET" else b""
                head = [f"{method} {target} HTTP/1.1", *filter(None, lines), "content-type: application/json"]
                sent = "\r\n".join([*head, f"content-length: {len(body)}", "", ""])
                await line.send(sent.encode("latin-1") + body)
                answer = await line.answer()
                found.append(answer.status)
                if answer.headers.get("connection") == "close":
                    break
    return found


async def test_every_place_of_the_gateway_is_known_here(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}) as opened:
        assert set(opened.app.places) == set(PLACES)


@pytest.mark.parametrize("how", ["as it is", "by another host", "with words for a proxy", "otherwise", "as a whole"])
async def test_nothing_but_descriptions_and_health_answers_without_a_key(
    tmp_path: Path, http: aiohttp.ClientSession, how: str
) -> None:
    ways: dict[str, list[tuple[str, str, str]]] = {
        "as it is": [("{}", "host: localhost", ""), ("{}?x=openapi.json", "host: localhost", "")],
        "by another host": [("{}", host, "") for host in HOSTS],
        "with words for a proxy": [("{}", "host: localhost", lines) for lines in INSIDE],
        "otherwise": [(form, "host: localhost", "") for form in FORMS],
        "as a whole": [(form, host, "") for form in WHOLE for host in ("host: localhost", "host: evil.example")],
    }
    async with open_house(tmp_path, http, sections={"profiles": {"p": {}}}) as (opened, admin):
        key = await admin.key("ana")
        assert (await Admin(opened, http, key)("DELETE", f"keys/{key[3:27]}"))[0] == 204
        asked = ways[how] + ([("{}", "host: localhost", f"authorization: Bearer {key}")] if how == "as it is" else [])
        requests = [
            (method, form.format(path), tuple(lines)) for method, path in doors(opened) for form, *lines in asked
        ]
        answers = zip(requests, await statuses(opened, requests), strict=True)
        answered = {
            (method, path.partition("?")[0]) for (method, path, _), status in answers if not 400 <= status < 500
        }
        assert (await admin("GET", "users/x"))[0] == 404

    # A wrong `Authorization` is refused where none would be let in, and a wrong host everywhere.
    assert answered == (PUBLIC if how in ("as it is", "with words for a proxy") else set())


ISSUING = (
    "/authorize", "/token", "/register", "/revoke", "/introspect", "/consent", "/par", "/device", "/jwks", "/userinfo",
    "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/.well-known/jwks.json",
)  # fmt: skip


async def test_the_gateway_gives_out_no_tokens_so_nobody_can_be_made_to_agree_to_any(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one), public_url="https://hub.example.org") as opened:
        admin = Admin(opened, http)
        key = await admin.key("ana")
        for path in ISSUING:
            for place in (path, f"{path}/mcp", f"/mcp{path}", f"/oauth{path}", f"/api/v1{path}", f"/console{path}"):
                for method in ("GET", "POST"):
                    headers = {"authorization": f"Bearer {key}"}
                    async with http.request(method, base_of(opened) + place, headers=headers) as answer:
                        assert answer.status == 404, place


async def test_no_page_of_ours_is_shown_inside_anothers(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened:
        key = await Admin(opened, http).key("ana")
        begun = (await login(opened, http, key=key))["url"]
        shown = ["/", "/answer/x", "/oauth/callback", "/oauth/callback?state=x&code=x", "/oauth/start/x"]
        shown += ["/console/signed-in?state=x&code=x", "/console/sign-in/x"]
        for url in (begun, *(base_of(opened) + path for path in shown)):
            async with http.get(url, allow_redirects=False) as answer:
                assert answer.headers["content-type"].startswith("text/html"), url
                assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], url
                assert "set-cookie" not in answer.headers, url


async def test_what_one_sign_in_was_passed_with_passes_no_other(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, browsing() as anas, browsing() as eves:
        keys = {name: await Admin(opened, http).key(name) for name in ("ana", "eve")}

        async def passed(browser: aiohttp.ClientSession, name: str) -> str:
            """Pass the page before a sign-in; where it leads."""
            url = (await login(opened, http, key=keys[name]))["url"]
            async with browser.post(url, data={"key": "wrong"}) as page:
                assert (page.status, "set-cookie" in page.headers) == (403, False)
            async with browser.post(url, data={"key": keys[name]}) as page:
                assert "HttpOnly" in page.headers["set-cookie"]
                [behind] = re.findall(r'href="([^"]+)"', await page.text())
                return behind.replace("&amp;", "&")

        hers, others = await passed(anas, "ana"), await passed(eves, "eve")
        assert hers != others
        # Eve, who has passed for herself, has Ana's browser finish what is Eve's, and finishes what is Ana's.
        for browser, url in ((anas, others), (eves, hers)):
            async with browser.get(url) as page:
                assert (page.status, "another browser" in await page.text()) == (400, True)
        for path in ("/oauth/callbac", "/oauth/callbackx", "/oauth/callback/", "/oauth/callback/..", "/OAUTH/callback"):
            async with anas.get(f"{base_of(opened)}{path}?state=x&code=x") as page:
                assert page.status == 404, path

    assert one.tokens == []
