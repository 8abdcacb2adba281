"""Where the operator wants it, what callers come with is exchanged for what a server takes; it never travels on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web

from tests.harness import ModernCaller, gateway
from tests.tenancy.oauth.provider import Provider, provider
from tests.tenancy.provider import open_provider
from tests.tenancy.test_people import Admin
from trunkline.config.reading import parse
from trunkline.errors import ConfigError

Json = dict[str, Any]
TYPE = "urn:ietf:params:oauth:token-type:access_token"


def exchanging(one: Provider) -> Any:
    """An authorization server that knows everybody but eve."""

    def answer(asked: dict[str, str]) -> web.Response:
        who = jwt.decode(asked["subject_token"], options={"verify_signature": False})["sub"]
        if who == "eve":
            return web.json_response(
                {"error": "invalid_target", "error_description": asked["subject_token"]}, status=400
            )
        token = f"for-{who}-{len(one.tokens)}"
        one.valid.add(token)
        said = {"access_token": token, "token_type": "Bearer", "issued_token_type": TYPE, "expires_in": 3600}
        return web.json_response(said)

    return answer


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_callers_token_is_exchanged_for_each_user_kept_until_it_ends_and_never_passed_on(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_provider() as corp, provider() as one:
        one.answer = exchanging(one)
        oauth = {"grant": "exchange", "client_id": "hub", "client_secret": "s", "issuer": one.url, "audience": "git"}
        servers = {"git": {"url": f"{one.url}/mcp", "health_interval": 0, "oauth": oauth}}
        auth = {"auth": {"issuers": {"corp": {"issuer": corp.url, "audience": "hub"}}}}
        async with gateway(tmp_path, servers, sections=auth) as opened:
            tokens = {who: corp.token("hub", sub=who) for who in ("ana", "bob", "eve")}
            ana, bob, eve = [ModernCaller(opened.url, http, token=token) for token in tokens.values()]
            listed = [tool["name"] for tool in (await ana.request("tools/list")).result["tools"]]
            said = [(await caller.call("whoami")).text for caller in (ana, ana, bob, bob)]
            exchanged = [asked["subject_token"] for asked in one.tokens]
            called = list(one.calls)
            refused = (await eve.call("whoami")).raw.decode()
            by_key = ModernCaller(opened.url, http, token=await Admin(opened, http).key("kim"))
            without = (await by_key.call("whoami")).error["message"]

            one.valid.discard("for-ana-1")  # what the server takes no more is exchanged anew
            assert (await ana.call("whoami")).text == "you"

    kept = contents(tmp_path)
    assert (listed, said) == (["whoami"], ["you"] * 4)
    assert exchanged == [tokens["ana"], tokens["bob"]]
    assert called == ["for-ana-1", "for-ana-1", "for-bob-2", "for-bob-2"]
    asked = one.tokens[0]
    assert (asked["resource"], asked["audience"]) == (f"{one.url}/mcp", "git")
    assert (asked["subject_token_type"], asked["requested_token_type"]) == (TYPE, TYPE)
    assert "invalid_target" in refused
    assert "no token of the caller that could be exchanged" in without
    assert (one.calls[-1], one.tokens[-1]["subject_token"]) == (f"for-ana-{len(one.tokens)}", tokens["ana"])
    assert not one.seen & set(tokens.values())
    for token in tokens.values():
        assert token not in refused
        assert token not in without
        assert token not in caplog.text
        assert token.encode() not in kept


@pytest.mark.parametrize("oauth", [{}, {"client_id": "x"}, {"issuer": "https://id.example.org"}])
def test_where_tokens_are_exchanged_is_the_operators_to_say_and_never_the_servers(oauth: Json) -> None:
    servers = {"git": {"url": "https://git.example.org/mcp", "oauth": {"grant": "exchange", **oauth}}}

    with pytest.raises(ConfigError, match="does not say where callers' tokens are exchanged"):
        parse({"servers": servers}, env={})


async def test_a_member_has_nobodys_token_exchanged(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        ana = Admin(opened, http, await Admin(opened, http).key("ana"))
        oauth = {"grant": "exchange", "client_id": "x", "token_url": "https://evil.example/token"}
        status, _ = await ana("POST", "servers", {"name": "x", "url": "https://evil.example/mcp", "oauth": oauth})

    assert status == 403
