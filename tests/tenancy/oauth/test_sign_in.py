"""A person signs in once, for themselves, and at the authorization server that was asked."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import Till
from tests.gateway.test_calls import watched
from tests.harness import LegacyCaller, ModernCaller, gateway, until
from tests.tenancy.oauth.provider import Provider, base_of, browsing, kept_tokens, login, provider, server_of, sign_in
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway
from trunkline.model import State
from trunkline.tenancy.oauth import sign_in as flow

ANA, BOB, ADMIN = "ana-token-0123456789", "bob-token-0123456789", "admin-token-0123456789"
USERS = {"ana": ANA, "bob": BOB}

Sent = dict[str, str]


async def tools_of(opened: Gateway, http: aiohttp.ClientSession, key: str) -> list[str]:
    listed = await ModernCaller(opened.url, http, token=key).request("tools/list")
    return [tool["name"] for tool in listed.result["tools"]]


async def listed_to(opened: Gateway, http: aiohttp.ClientSession, key: str) -> None:
    """Wait until something is listed to somebody, which comes by itself."""
    async with asyncio.timeout(20):
        while not await tools_of(opened, http, key):  # noqa: ASYNC110 - it is listed by itself
            await asyncio.sleep(0.02)


async def test_a_server_that_wants_a_sign_in_says_so_and_a_call_is_told_where(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        before = opened.hub.snapshot.servers["git"].state
        status, page = await sign_in(opened, http)
        one.valid.clear()
        one.refreshable.clear()
        heard = await ModernCaller(opened.url, http).call("whoami")
        again = await login(opened, http)

    assert (before, status) == (State.NEEDS_AUTHORIZATION, 200)
    assert "Signed in" in page
    assert f"{one.url}/authorize?" in heard.error["message"]
    assert again["url"] in heard.error["message"]  # whoever asks twice gets the same


async def test_signing_in_opens_the_store_where_there_was_none(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        before = opened.hub.relay.tenancy.is_open
        await sign_in(opened, http)
        told = await login(opened, http)

        assert (before, opened.hub.relay.tenancy.is_open) == (False, True)
    assert (told["status"], told.get("state")) == (200, "signed-in")


WRONG: dict[str, Callable[[Sent], Sent]] = {
    "no issuer, although it says one": lambda sent: {"code": sent["code"], "state": sent["state"]},
    "another issuer": lambda sent: {**sent, "iss": "https://evil.example"},
    "its issuer in other letters": lambda sent: {**sent, "iss": sent["iss"].upper()},
    "no state": lambda sent: {"code": sent["code"], "iss": sent["iss"]},
    "another state": lambda sent: {**sent, "state": "x" * 43},
    "an error of another": lambda sent: {"error": "<script>", "state": sent["state"], "iss": "https://evil.example"},
    "a no": lambda sent: {
        "error": "access_denied", "error_description": "<script>", "state": sent["state"], "iss": sent["iss"]
    },
    "no code": lambda sent: {"state": sent["state"], "iss": sent["iss"]},
}  # fmt: skip


async def test_what_was_not_sent_by_whom_we_asked_is_refused_before_any_request_for_a_token(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        for name, wrong in WRONG.items():
            one.sent_back = wrong
            status, page = await sign_in(opened, http)

            assert (status, one.tokens) == (400, []), name
            assert "script" not in page, name
            assert "evil" not in page, name

    assert len({asked["state"] for asked in one.authorizations}) >= len(WRONG) - 2  # a used one is never offered again


HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "javascript:alert(1)//<svg/onload=alert(1)>",
)


@pytest.mark.parametrize("said", HOSTILE)
async def test_what_an_authorization_server_sends_back_is_text_on_our_page(tmp_path: Path, said: str) -> None:
    def sent_back(sent: Sent) -> Sent:
        return {"state": sent["state"], "iss": sent["iss"], "error": said, "error_description": said, "error_uri": said}

    async with (
        provider(sent_back=sent_back) as one,
        gateway(tmp_path, server_of(one)) as opened,
        aiohttp.ClientSession() as http,
    ):
        status, page = await sign_in(opened, http)
        unknown: Sent = dict.fromkeys(("code", "state", "iss", "error", "error_description"), said)
        async with http.get(f"{base_of(opened)}/oauth/callback", params=unknown) as answer:
            pages, rules = [page, await answer.text()], answer.headers["content-security-policy"]

    assert status >= 400
    for text in pages:
        assert said not in text
        assert not [mark for mark in ("<script", "<img", "<svg") if mark in text]
    assert "default-src 'none'" in rules
    assert "unsafe-inline" not in rules.partition("script-src")[2]


async def test_a_sign_in_is_used_once(tmp_path: Path) -> None:
    sent: list[Sent] = []
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        one.sent_back = lambda back: sent.append(back) or back
        await sign_in(opened, http)
        async with http.get(f"{base_of(opened)}/oauth/callback", params=sent[0]) as page:
            status, headers = page.status, page.headers

    assert (status, len(one.tokens)) == (400, 1)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "script-src" not in headers["content-security-policy"]


async def test_a_person_has_ten_minutes_to_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "LIFE", 0.0)
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        status, page = await sign_in(opened, http)

    assert (status, "its time is up" in page, one.tokens) == (400, True, [])


UNSAFE: dict[str, dict[str, Any]] = {
    "no word of PKCE": {"metadata": {"code_challenge_methods_supported": None}},
    "PKCE without a digest": {"metadata": {"code_challenge_methods_supported": ["plain"]}},
    "a script to open": {"metadata": {"authorization_endpoint": "javascript:alert(1)"}},
    "a file to open": {"metadata": {"authorization_endpoint": "file:///etc/passwd"}},
    "a shell to open": {"metadata": {"authorization_endpoint": "http://$(calc)/ `id`"}},
    "tokens over plain HTTP": {"metadata": {"token_endpoint": "http://10.0.0.1/token"}},
    "clients registered over plain HTTP": {"metadata": {"registration_endpoint": "http://169.254.169.254/"}},
    "another issuer's words": {"metadata": {"issuer": "https://evil.example"}},
    "another server's description": {"description": {"resource": "https://evil.example/mcp"}},
    "a description that names no server": {"description": {"resource": None}},
    "an issuer that is no address": {"description": {"authorization_servers": ["gopher://x"]}},
    "an issuer in the network": {"description": {"authorization_servers": ["http://192.168.0.1"]}},
}


@pytest.mark.parametrize("how", UNSAFE)
async def test_nobody_is_sent_to_an_unsafe_sign_in(how: str, tmp_path: Path) -> None:
    wrong = provider(**UNSAFE[how])
    async with wrong as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        told = await login(opened, http)

    assert (told["status"], one.registered, one.tokens) == (422, 0, [])
    assert told["error"]["hint"]


async def test_nothing_of_the_old_authorization_server_is_sent_to_one_that_the_server_names_later(
    tmp_path: Path,
) -> None:
    async with (
        provider() as one,
        provider() as other,
        gateway(tmp_path, server_of(one)) as opened,
        aiohttp.ClientSession() as http,
    ):
        await sign_in(opened, http)
        one.description["authorization_servers"] = [other.url]
        one.valid.clear()
        heard = await ModernCaller(opened.url, http).call("whoami")
        kept = await kept_tokens(tmp_path)
        async with http.get(f"{base_of(opened)}/api/v1/connections") as answer:
            [shown] = (await answer.json())["connections"]

    assert "error" in heard.message
    assert (one.refreshes, other.tokens) == ([], [])
    assert kept is not None
    assert shown["state"] == "expired"
    assert "another authorization server" in shown["reason"]


@pytest.mark.parametrize("how", ["no description", "another issuer's words", "tokens elsewhere"])
async def test_an_authorization_server_that_describes_itself_otherwise_later_is_sent_nothing_elsewhere(
    how: str, tmp_path: Path
) -> None:
    async with (
        provider() as one,
        provider() as other,
        gateway(tmp_path, server_of(one)) as opened,
        aiohttp.ClientSession() as http,
    ):
        await sign_in(opened, http)
        if how == "no description":
            one.away = True
        else:
            one.metadata = {"token_endpoint": f"{other.url}/token"}
            one.metadata |= {"issuer": other.url} if how == "another issuer's words" else {}
        one.valid.clear()
        await ModernCaller(opened.url, http).call("whoami")

    assert other.tokens == []
    assert all(asked["refresh_token"].startswith("refresh-") for asked in one.refreshes)


async def test_a_server_that_was_moved_gets_no_token_of_the_place_before(tmp_path: Path) -> None:
    async with provider() as one, provider() as other, aiohttp.ClientSession() as http:
        async with gateway(tmp_path, server_of(one)) as opened:
            await sign_in(opened, http)
        async with gateway(tmp_path, server_of(other)) as opened:
            state = opened.hub.snapshot.servers["git"].state
            told = await login(opened, http)

    assert (state, other.tokens, other.seen) == (State.NEEDS_AUTHORIZATION, [], {""})
    assert told["url"].startswith(other.url)


async def test_each_user_signs_in_for_themselves(tmp_path: Path) -> None:
    async with provider() as one, aiohttp.ClientSession() as http:
        async with gateway(tmp_path, server_of(one), users=USERS) as opened:
            assert (await sign_in(opened, http, key=ANA))[0] == 200
            await listed_to(opened, http, ANA)
            anas = await ModernCaller(opened.url, http, token=ANA).call("whoami")
            bobs = await ModernCaller(opened.url, http, token=BOB).call("whoami")
            listed = await tools_of(opened, http, BOB)
            async with http.get(
                f"{base_of(opened)}/api/v1/connections", headers={"authorization": f"Bearer {BOB}"}
            ) as answer:
                shown = await answer.json()
        async with gateway(tmp_path, server_of(one), users=USERS) as opened:
            later = await tools_of(opened, http, ANA)

    assert (anas.text, len(one.calls)) == ("you", 1)
    assert "error" in bobs.message
    assert (listed, shown["connections"]) == ([], [])
    assert later == ["whoami"]


async def test_who_watches_hears_that_a_sign_in_is_needed_and_done_but_nothing_of_anothers(tmp_path: Path) -> None:
    heard: dict[str, list[dict[str, Any]]] = {ANA: [], BOB: [], ADMIN: []}

    def seen(key: str) -> list[tuple[str, ...]]:
        events = [event for event in heard[key] if event["type"].startswith("sign-in.")]
        return [(event["type"], event["user"], event["server"], str(event.get("signed_in"))) for event in events]

    async with provider() as one, aiohttp.ClientSession() as http:
        async with gateway(tmp_path, server_of(one), users=USERS, token=ADMIN) as opened:
            at = Till(opened, http, tmp_path)
            watching = [asyncio.create_task(watched(at, key, events)) for key, events in heard.items()]
            await until(lambda: all(heard.values()))
            await sign_in(opened, http, key=ANA)
            await until(lambda: len(seen(ANA)) == 1)
            one.valid.clear()
            one.refreshable.clear()
            await until(lambda: opened.hub.relay.tenancy.sign_ins.is_signed("ana", "git"))
            refused = await ModernCaller(opened.url, http, token=ANA).call("whoami")
            await until(lambda: len(seen(ANA)) >= 2 and len(seen(ADMIN)) == len(seen(ANA)))
        await asyncio.gather(*watching)

    assert "error" in refused.message
    assert seen(ANA)[0] == ("sign-in.changed", "ana", "git", "True")
    assert ("sign-in.needed", "ana", "git", "None") in seen(ANA)
    assert seen(ADMIN) == seen(ANA)
    assert seen(BOB) == []
    assert one.url not in str(heard)


async def test_what_the_operator_signed_in_to_alone_is_not_for_users_who_come_later(tmp_path: Path) -> None:
    async with provider() as one, aiohttp.ClientSession() as http:
        async with gateway(tmp_path, server_of(one)) as opened:
            await sign_in(opened, http)
        async with gateway(tmp_path, server_of(one), users=USERS) as opened:
            listed = await tools_of(opened, http, ANA)
            heard = await ModernCaller(opened.url, http, token=ANA).call("whoami")

    assert listed == []
    assert "error" in heard.message
    assert one.calls == []


async def test_what_a_users_own_sign_in_lists_is_held_when_it_became_dangerous(tmp_path: Path) -> None:
    async with provider() as one, aiohttp.ClientSession() as http:
        one.tool["annotations"] = {"readOnlyHint": True}
        async with gateway(tmp_path, server_of(one), users=USERS, token=ADMIN) as opened:
            await sign_in(opened, http, key=ANA)
            await listed_to(opened, http, ANA)
            first = await ModernCaller(opened.url, http, token=ANA).call("whoami")
        one.tool["annotations"] = {"destructiveHint": True}
        async with gateway(tmp_path, server_of(one), users=USERS, token=ADMIN) as opened:
            held = await ModernCaller(opened.url, http, token=ANA).call("whoami")
            listed = await tools_of(opened, http, ANA)
            [waits] = (await Admin(opened, http, ADMIN)("GET", "review"))[1]["review"]
            await Admin(opened, http, ADMIN)("POST", "review/git/approve", {})
            agreed = await ModernCaller(opened.url, http, token=ANA).call("whoami")

    assert (first.text, listed, agreed.text, len(one.calls)) == ("you", [], "you", 2)
    assert "'whoami' of server 'git' is held back: it is no longer said to only read" in held.error["message"]
    assert (waits["server"], waits["name"], waits["state"]) == ("git", "whoami", "held")


async def test_a_users_programs_are_told_what_their_sign_in_lists(tmp_path: Path) -> None:
    async with (
        provider() as one,
        gateway(tmp_path, server_of(one), users=USERS) as opened,
        aiohttp.ClientSession() as http,
    ):
        caller = LegacyCaller(opened.url, http)
        caller.headers["authorization"] = f"Bearer {ANA}"
        await caller.open()
        async with caller.listen() as stream:
            await sign_in(opened, http, key=ANA)
            heard = await stream.next(10.0)
        listed = await caller.request("tools/list")

    assert heard["method"] == "notifications/tools/list_changed"
    assert [tool["name"] for tool in listed.result["tools"]] == ["whoami"]


async def test_a_shared_sign_in_is_the_operators_to_make_and_serves_everybody(tmp_path: Path) -> None:
    admin = "operator-token-0123456789"
    async with (
        provider() as one,
        gateway(tmp_path, server_of(one, shared=True), users=USERS, token=admin) as opened,
        aiohttp.ClientSession() as http,
    ):
        refused = await login(opened, http, key=ANA)
        await sign_in(opened, http, key=admin)
        await until(lambda: "whoami" in opened.hub.snapshot.tools)
        heard = [await ModernCaller(opened.url, http, token=key).call("whoami") for key in (ANA, BOB)]

    assert refused["status"] == 403
    assert [one.text for one in heard] == ["you", "you"]


async def test_where_a_shared_sign_in_has_ended_admins_alone_are_sent_to_renew_it(tmp_path: Path) -> None:
    users = {"ana": ANA}
    async with (
        provider() as one,
        gateway(tmp_path, server_of(one, shared=True), users=users, token=ADMIN) as opened,
        browsing() as anas,
        browsing() as admins,
    ):
        await sign_in(opened, admins, key=ADMIN)
        await until(lambda: "whoami" in opened.hub.snapshot.tools)
        one.valid.clear()
        one.refreshable.clear()
        operator = Admin(opened, admins, ADMIN)
        assert (await operator("POST", "users", {"name": "boss", "role": "admin"}))[0] == 201
        boss = (await operator("POST", "keys", {"user": "boss"}))[1]["key"]
        told = {
            key: (await ModernCaller(opened.url, admins, token=key).call("whoami")).error["message"]
            for key in (ANA, boss)
        }
        [url] = re.findall(r"http://\S+", told[boss])
        before = len(one.authorizations)
        async with anas.post(url, data={"key": ANA}) as page:  # who was given the address cannot use it
            refused = page.status
        async with admins.post(url, data={"key": boss}) as page:
            assert "An admin signs in to git, for what everybody calls" in await page.text()
            [behind] = re.findall(r'href="([^"]+)"', await page.text())
        async with admins.get(behind.replace("&amp;", "&")) as page:
            assert page.status == 200
        heard = [await ModernCaller(opened.url, admins, token=key).call("whoami") for key in (ANA, boss)]

    assert (refused, before) == (403, 1)
    assert "http" not in told[ANA].partition("HTTP 401")[2]
    assert "It is an admin's to sign in to" in told[ANA]
    assert [one.text for one in heard] == ["you", "you"]


async def test_signing_out_forgets_the_tokens_and_has_them_revoked(tmp_path: Path) -> None:
    async with provider() as one, gateway(tmp_path, server_of(one)) as opened, aiohttp.ClientSession() as http:
        await sign_in(opened, http)
        held = {*one.valid, *one.refreshable}
        async with http.delete(f"{base_of(opened)}/api/v1/connections/git") as answer:
            first = answer.status
        async with http.delete(f"{base_of(opened)}/api/v1/connections/git") as answer:
            second = answer.status
        await until(lambda: opened.hub.snapshot.servers["git"].state is State.NEEDS_AUTHORIZATION)
        kept = await kept_tokens(tmp_path)

    assert (first, second, kept) == (204, 404, None)
    assert {asked["token"] for asked in one.revoked} == held


async def test_clients_are_configured_else_described_else_registered_once(tmp_path: Path) -> None:
    async def client_id(one: Provider, home: Path, **oauth: Any) -> str:
        async with gateway(home, server_of(one, **oauth)) as opened, aiohttp.ClientSession() as http:
            await sign_in(opened, http)
        return one.authorizations[-1]["client_id"]

    document = "https://gateway.example/oauth/client-metadata.json"
    async with provider(metadata={"client_id_metadata_document_supported": True}) as one:
        by_hand = await client_id(one, tmp_path / "1", client_id="by-hand", client_metadata_url=document)
        described = await client_id(one, tmp_path / "2", client_metadata_url=document)
        registered = await client_id(one, tmp_path / "3")

    assert (by_hand, described, registered, one.registered) == ("by-hand", document, "client-1", 1)


async def test_the_document_that_describes_us_is_there_where_the_gateway_has_a_public_address(tmp_path: Path) -> None:
    public: dict[str, Any] = {"public_url": "https://gateway.example/", "allowed_hosts": ("gateway.example",)}
    path = "/oauth/client-metadata.json"
    async with aiohttp.ClientSession() as http:
        async with gateway(tmp_path, {}, **public) as opened, http.get(base_of(opened) + path) as answer:
            document = await answer.json()
        async with gateway(tmp_path, {}) as opened, http.get(base_of(opened) + path) as answer:
            status = answer.status

    assert document["client_id"] == f"https://gateway.example{path}"
    assert document["redirect_uris"] == ["https://gateway.example/oauth/callback"]
    assert status == 404


def test_where_nobody_signs_in_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[404, 200, 200] []"


SERVE = """
import asyncio, dataclasses, json, pathlib, sys, urllib.error, urllib.request
from trunkline.config.reading import parse
from trunkline.gateway.serve import open_gateway

def ask(base, path, body=None):
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    try:
        return urllib.request.urlopen(urllib.request.Request(base + path, body, headers)).status
    except urllib.error.HTTPError as error:
        return error.code

async def main():
    config = dataclasses.replace(parse({"gateway": {"port": 0}}, env={}), home=pathlib.Path(sys.argv[1]))
    async with open_gateway(config) as opened:
        await opened.hub.relay.tenancy.store()
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}).encode()
        base, asked = opened.url.removesuffix("/mcp"), [("/.well-known/oauth-protected-resource",)]
        asked += [("/api/v1/connections",), ("/mcp", hello)]
        told = [await asyncio.to_thread(ask, base, *one) for one in asked]
        heavy = [one for one in sys.modules if "tenancy.oauth" in one or one.partition(".")[0] == "jwt"]
        print(told, heavy)

asyncio.run(main())
"""


async def test_how_to_sign_in_can_be_said_over_the_admin_api_and_what_is_secret_of_it_is_never_given_back(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with provider() as one, gateway(tmp_path, {}) as opened:
        admin = Admin(opened, http)
        oauth = {"client_id": "by-hand", "client_secret": "hush-9a7c", "scopes": ["read"]}
        wanted = {"name": "git", "scope": "app", "url": f"{one.url}/mcp?k=hush-1", "trust_level": "unverified"}
        made = await admin("POST", "servers", {**wanted, "oauth": {**oauth, "shared": True}})
        changed = await admin("PATCH", "servers/git?scope=app", {"oauth": {"scopes": ["read", "write"]}})
        refused = await admin("POST", "servers", {**wanted, "name": "x", "oauth": {"client_name": "x"}})
        said = await login(opened, http, key=opened.key)
        async with http.get(said["url"]) as page:
            assert page.status == 200
        [asked] = one.tokens

    assert (made[0], changed[0], refused[0]) == (201, 200, 422)
    assert made[1]["trust"] == "hold"  # nobody vouches for it
    assert changed[1]["oauth"] == {
        "client_id": "by-hand", "scopes": ["read", "write"], "shared": True, "secrets": ["client_secret"],
    }  # fmt: skip
    assert "hush" not in str((made, changed))
    assert one.authorizations[0]["scope"] == "read write"
    assert (one.authorizations[0]["client_id"], asked["grant_type"]) == ("by-hand", "authorization_code")


@pytest.mark.parametrize("user", ["", ANA])
async def test_an_answer_that_was_kept_counts_for_the_sign_in_that_it_was_had_with_alone(
    tmp_path: Path, user: str
) -> None:
    async with provider() as one, aiohttp.ClientSession() as http:
        servers = server_of(one)
        servers["git"]["tools"] = {"whoami": {"cache_ttl": 600}}
        options: dict[str, Any] = {"users": USERS} if user else {}
        async with gateway(tmp_path, servers, sections={"cache": {"enabled": True}}, **options) as opened:
            caller = ModernCaller(opened.url, http, token=user)
            await sign_in(opened, http, key=user)
            first = [(await caller.call("whoami")).text for _ in range(3)]
            shared = len(one.calls)
            headers = {"authorization": f"Bearer {user}"} if user else {}
            async with http.delete(f"{base_of(opened)}/api/v1/connections/git", headers=headers) as answer:
                assert answer.status == 204
            signed_out = await caller.call("whoami")
            await sign_in(opened, http, key=user)
            again = await caller.call("whoami")

    assert (first, shared) == (["you"] * 3, 1)
    assert "error" in signed_out.message
    assert (again.text, len(one.calls)) == ("you", 2)
