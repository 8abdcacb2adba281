"""Callers of an identity provider: whose tokens let in whom, and what is told to everybody else."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.gateway.test_guard import ask
from tests.harness import LegacyCaller, ModernCaller, gateway, make_config
from tests.tenancy.provider import Provider, open_provider
from tests.tenancy.test_access import notes, tools
from tests.tenancy.test_people import Admin
from trunkline.errors import ConfigError
from trunkline.gateway.serve import Gateway
from trunkline.storage.people import find_user, update_user
from trunkline.storage.store import open_store, place_of
from trunkline.tenancy import issuer_keys

Json = dict[str, Any]
PROFILES: Json = {"a": {"servers": []}, "b": {"servers": []}}


@asynccontextmanager
async def open_house(
    home: Path, provider: Provider, *, options: Json | None = None, **issuer: Any
) -> AsyncGenerator[Gateway]:
    """A gateway with one server, whose callers are the provider's."""
    sections: Json = {"auth": {"issuers": {"corp": {"issuer": provider.url, **issuer}}}, "profiles": PROFILES}
    async with gateway(home, {}, sections=sections, **(options or {})) as opened:
        await opened.hub.mount(notes("one", "of one"))
        yield opened


async def listed(opened: Gateway, http: aiohttp.ClientSession, token: str, path: str = "") -> int:
    return (await ModernCaller(opened.url + path, http, token=token).request("tools/list")).status


def part(value: Json) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


# Who is let in.


async def test_a_token_of_the_provider_lets_its_user_in_and_is_checked_once(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        token = corp.token(opened.url)
        for _ in range(3):
            assert await tools(opened, http, token) == {"read_note", "delete_note"}
        legacy = LegacyCaller(opened.url, http)
        legacy.headers["authorization"] = f"Bearer {token}"
        await legacy.open()
        assert (await legacy.call("read_note")).text == "of one"
        own = Admin(opened, http, token)
        assert (await own("GET", "users/corp:ana"))[1]["role"] == "issuer"
        assert (await own("GET", "users"))[0] == 403
        assert (await Admin(opened, http)("GET", "users"))[1]["users"][0]["name"] == "corp:ana"

    places = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/keys")
    assert corp.asked == dict.fromkeys(places, 1)


async def test_bad_tokens_are_told_where_to_get_a_good_one_and_reach_nothing(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp, open_provider() as other, open_house(tmp_path, corp) as opened:
        here, now = opened.url, time.time()
        good = corp.token(here)
        head, body, signature = good.split(".")
        pem = (
            corp.keys["k1"]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        claims = {"iss": corp.url, "aud": here, "sub": "ana", "exp": now + 600}
        confused = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'k1'})}.{part(claims)}"
        mac = (
            base64.urlsafe_b64encode(__import__("hmac").digest(pem, confused.encode(), "sha256")).rstrip(b"=").decode()
        )
        bad = {
            "random": "zufall",
            "dots": "a.b.c",
            "no signature": f"{head}.{body}.",
            "another's signature": f"{head}.{body}.{corp.token(here, sub='eve').split('.')[2]}",
            "changed claims": f"{head}.{part({**claims, 'sub': 'eve'})}.{signature}",
            "alg none": f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.",
            "HMAC with the public key": f"{confused}.{mac}",
            "another curve": jwt.encode(claims, ec.generate_private_key(ec.SECP384R1()), "ES384", {"kid": "k1"}),
            "another issuer": other.token(here),
            "another issuer's key": other.token(here, iss=corp.url),
            "expired": corp.token(here, exp=now - 31),
            "no end": corp.token(here, exp=None),
            "an endless end": corp.token(here, exp=float("inf")),
            "not yet": corp.token(here, nbf=now + 60),
            "another audience": corp.token("https://elsewhere.example/mcp"),
            "an audience that begins alike": corp.token(here + "x"),
            "no audience": corp.token(None),
            "unknown key": corp.token(here, headers={"kid": "k9"}),
            "another kind": corp.token(here, headers={"typ": "dpop+jwt"}),
            "something critical": corp.token(here, headers={"crit": ["x"], "x": 1}),
            "something critical that a library knows": corp.signed(
                {"alg": "ES256", "kid": "k1", "crit": ["b64"], "b64": True}, claims
            ),
            "an ID token": corp.token(here, at_hash="x"),
            "bound to a key": corp.token(here, cnf={"jkt": "x"}),
            "nobody's": corp.token(here, sub=None),
        }
        for what, token in bad.items():
            answer = await ModernCaller(here, http, token=token).call("read_note")
            assert answer.status == 401, what
            told = answer.headers["www-authenticate"]
            assert told.startswith('Bearer error="invalid_token"'), what
            assert f'resource_metadata="{here[:-4]}/.well-known/oauth-protected-resource/mcp"' in told, what
            assert (await Admin(opened, http, token)("GET", "servers"))[0] == 401, what
        for headers in (
            [],
            ["authorization:"],
            ["authorization: Bearer"],
            [f"authorization: Basic {good}"],
            [f"authorization: {good}"],
            [f"authorization: Bearer {good}", f"authorization: Bearer {good}"],
            [f"authorization: Bearer {good}, Bearer {good}"],
            [f"cookie: token={good}"],
        ):
            answer = await ask(here, "POST", f"/mcp?access_token={good}", "host: localhost", *headers)
            assert answer.status == 401, headers
            assert "resource_metadata=" in answer.headers["www-authenticate"]
        assert opened.hub.relay.tallies.total().calls == 0
        assert (await ModernCaller(here, http, token=good).call("read_note")).text == "of one"
        assert opened.hub.relay.tallies.total().calls == 1
    assert [one["name"] for one in (await stored_users(tmp_path, corp, http))] == ["corp:ana"]


async def stored_users(home: Path, corp: Provider, http: aiohttp.ClientSession) -> list[Json]:
    async with open_house(home, corp) as opened:
        return (await Admin(opened, http)("GET", "users"))[1]["users"]


async def test_a_token_counts_at_the_address_that_it_is_for_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        whole, a, both = (
            corp.token(opened.url),
            corp.token(f"{opened.url}/a"),
            corp.token([f"{opened.url}/a", f"{opened.url}/b", "https://other.example"]),
        )
        found = {
            (name, path): await listed(opened, http, token, path)
            for _ in range(2)  # remembered, it is the same
            for name, token in (("whole", whole), ("a", a), ("both", both))
            for path in ("", "/a", "/b")
        }
        api = [(await Admin(opened, http, token)("GET", "servers"))[0] for token in (whole, a, both)]

    assert {place for place, status in found.items() if status == 200} == {
        ("whole", ""), ("a", "/a"), ("both", "/a"), ("both", "/b"),
    }  # fmt: skip
    assert set(found.values()) == {200, 401}
    assert api == [200, 401, 401]


async def test_a_token_signed_in_another_way_than_is_configured_is_refused(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, algorithms=["RS256"]) as opened:
        assert await listed(opened, http, corp.token(opened.url)) == 401

    assert not corp.asked


async def test_an_audience_of_the_configuration_counts_everywhere(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, audience="api://tools") as opened:
        token = corp.token("api://tools")

        assert [await listed(opened, http, token, path) for path in ("", "/a")] == [200, 200]
        assert await listed(opened, http, corp.token(opened.url)) == 401


@pytest.mark.parametrize(
    ("issuer", "claims", "role", "profile"),
    [
        ({}, {}, "member", ""),
        ({"default_role": "reader"}, {}, "reader", ""),
        ({"roles": {"ops": "admin", "all": "reader"}}, {"groups": ["all", "ops"]}, "admin", ""),
        ({"roles": {"ops": "admin"}, "default_role": "none"}, {"groups": ["other"]}, "", ""),
        (
            {"groups_claim": "realm_access.roles", "roles": {"x": "reader"}},
            {"realm_access": {"roles": ["x"]}},
            "reader",
            "",
        ),
        (
            {"groups_claim": "https://a.example/g", "roles": {"x": "reader"}},
            {"https://a.example/g": "x y"},
            "reader",
            "",
        ),
        ({"role_claim": "r"}, {"r": "reader"}, "reader", ""),
        ({"role_claim": "r", "default_role": "none"}, {"r": ["root"]}, "", ""),
        ({"roles": {"ops": "admin"}, "profiles": {"ops": "a"}}, {"groups": ["ops"]}, "member", "a"),
        ({"profiles": {"x": "b", "y": "a"}}, {"groups": ["y", "x"]}, "member", "b"),
    ],
)
async def test_groups_give_roles_and_profiles(
    tmp_path: Path, http: aiohttp.ClientSession, issuer: Json, claims: Json, role: str, profile: str
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, audience="x", **issuer) as opened:
        token = corp.token("x", **claims)
        status = {path: await listed(opened, http, token, path) for path in ("", "/a", "/b")}
        seen = await tools(opened, http, token) if role else set[str]()
        people = (await Admin(opened, http, token)("GET", "users"))[0]

    if not role:
        assert set(status.values()) == {403}
        return
    assert status == {"": 200, "/a": 200 if profile in ("", "a") else 404, "/b": 200 if profile in ("", "b") else 404}
    if not profile:
        assert ("delete_note" in seen, people) == (role != "reader", 200 if role == "admin" else 403)


async def test_users_of_two_issuers_and_of_the_store_are_three_people_unless_names_are_trusted(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp, open_provider() as partner:
        said = {"corp": {"issuer": corp.url}, "partner": {"issuer": partner.url}}
        async with gateway(tmp_path, {}, sections={"auth": {"issuers": said}}) as opened:
            tokens = [corp.token(opened.url), partner.token(opened.url), await Admin(opened, http).key("ana")]
            for at, token in enumerate(tokens):
                assert (await Admin(opened, http, token)("PUT", "threads/t", {"tools": [f"t{at}"]}))[0] == 201
            told = [(await Admin(opened, http, token)("GET", "threads/t"))[1]["tools"] for token in tokens]
            odd = corp.token(opened.url, sub="https://x/ä:b%20")
            assert await listed(opened, http, odd) == 200
            names = [one["name"] for one in (await Admin(opened, http)("GET", "users"))[1]["users"]]
        assert told == [["t0"], ["t1"], ["t2"]]
        assert names == ["ana", "corp:ana", "corp:https:%2F%2Fx%2F%C3%A4:b%2520", "partner:ana"]

        async with open_house(tmp_path, corp, trusted_names=True) as opened:
            token = corp.token(opened.url)
            assert (await Admin(opened, http, token)("GET", "threads/t"))[1]["tools"] == ["t2"]
            for name in ("partner:ana", "x/y", ""):
                assert await listed(opened, http, corp.token(opened.url, sub=name)) == 401, name


async def test_an_address_that_was_not_verified_names_nobody(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, user_claim="email") as opened:
        claims: Json = {"email": "ana@example.org"}
        assert await listed(opened, http, corp.token(opened.url, **claims, email_verified=False)) == 401
        assert await listed(opened, http, corp.token(opened.url, **claims, email_verified=True)) == 200


# What they may.


async def test_a_missing_scope_is_named(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    scopes: Json = {"required_scopes": ["mcp"], "write_scope": "mcp:write"}
    async with open_provider() as corp, open_house(tmp_path, corp, **scopes) as opened:
        claims: Json = {"none": {}, "read": {"scope": "mcp"}, "write": {"scp": ["mcp", "mcp:write"]}}
        caller = {
            name: ModernCaller(opened.url, http, token=corp.token(opened.url, **one)) for name, one in claims.items()
        }
        refused = await caller["none"].request("tools/list")
        anyone = await ModernCaller(opened.url, http).request("tools/list")
        writing = await caller["read"].call("delete_note")
        legacy = LegacyCaller(opened.url, http)
        legacy.headers["authorization"] = caller["read"].headers["authorization"]
        await legacy.open()
        older = await legacy.call("delete_note")

        assert (anyone.status, 'scope="mcp"' in anyone.headers["www-authenticate"]) == (401, True)
        assert refused.status == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert 'scope="mcp"' in refused.headers["www-authenticate"]
        for heard in (writing, older):
            assert heard.status == 403
            assert 'error="insufficient_scope"' in heard.headers["www-authenticate"]
            assert 'scope="mcp mcp:write"' in heard.headers["www-authenticate"]
        assert (await caller["read"].call("read_note")).text == "of one"
        assert "Unknown tool" in (await caller["read"].call("nothing")).error["message"]
        assert (await caller["write"].call("delete_note")).text == "deleted of one"


async def test_an_admin_blocks_a_user_of_the_provider_at_once_and_gives_limits_and_roles(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        admin, token = Admin(opened, http), corp.token(opened.url)
        caller = LegacyCaller(opened.url, http)
        caller.headers["authorization"] = f"Bearer {token}"
        await caller.open()
        async with caller.listen() as stream:
            assert (await admin("PATCH", "users/corp:ana", {"role": "blocked"}))[0] == 200
            with pytest.raises(EOFError):
                await stream.next()
        assert await listed(opened, http, token) == 403
        assert await listed(opened, http, corp.token(opened.url)) == 403

        await admin("PATCH", "users/corp:ana", {"role": "admin", "limits": {"calls_per_hour": 1}})
        assert (await Admin(opened, http, token)("GET", "users"))[0] == 200
        await admin("PATCH", "users/corp:ana", {"role": "issuer"})
        assert (await Admin(opened, http, token)("GET", "users"))[0] == 403
        assert (await admin("POST", "keys", {"user": "corp:ana"}))[0] == 422
        modern = ModernCaller(opened.url, http, token=token)
        heard = [await modern.call("read_note") for _ in range(2)]
        assert [one.status for one in heard] == [200, 429]

        assert (await admin("DELETE", "users/corp:ana"))[0] == 204
        assert (await modern.call("read_note")).status == 200  # somebody new, of whom nothing is known


async def test_what_another_process_blocks_is_blocked_here_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        caller = LegacyCaller(opened.url, http)
        caller.headers["authorization"] = f"Bearer {corp.token(opened.url)}"
        await caller.open()
        async with caller.listen() as stream, open_store(place_of("", tmp_path)) as store:
            found = await find_user(store, "corp:ana")
            assert found is not None
            await update_user(store, dataclasses.replace(found, role="blocked"))
            with pytest.raises(EOFError):
                await stream.next()

        assert (await caller.request("tools/list")).status == 403


async def test_a_new_user_is_noted_without_ending_what_they_opened(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        caller = LegacyCaller(opened.url, http)
        caller.headers["authorization"] = f"Bearer {corp.token(opened.url)}"
        await caller.open()
        people = opened.hub.relay.tenancy.people
        await people.follow(None)  # as the news of the store come
        store = await opened.hub.relay.tenancy.store()
        await people.follow(await store.changes(0))

        assert (await caller.call("read_note")).text == "of one"

        caller.headers["authorization"] = f"Bearer {corp.token(opened.url, exp=time.time() + 900)}"
        assert (await caller.call("read_note")).text == "of one"  # a newer token of the same user, the same session


async def test_streams_end_with_the_token(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, leeway=0) as opened:
        ends = int(time.time()) + 2
        token = corp.token(opened.url, exp=ends)
        caller = LegacyCaller(opened.url, http)
        caller.headers["authorization"] = f"Bearer {token}"
        await caller.open()
        modern = ModernCaller(opened.url, http, token=token)
        params = {"notifications": {"toolsListChanged": True}}
        async with caller.listen() as stream:
            heard = await modern.request("subscriptions/listen", params)
            with pytest.raises(EOFError):
                await stream.next()
        assert time.time() >= ends
        assert (await caller.request("tools/list")).status == 401
        caller.headers["authorization"] = f"Bearer {corp.token(opened.url)}"
        assert (await caller.request("tools/list")).status == 200

    assert heard.result["resultType"] == "complete"


# Keys of the provider.


async def test_keys_are_read_again_for_an_unknown_one_once_a_minute_and_by_one_at_a_time(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        first = await asyncio.gather(*(listed(opened, http, corp.token(opened.url, sub=f"u{n}")) for n in range(10)))
        assert (set(first), corp.asked["/keys"]) == ({200}, 1)
        old = corp.token(opened.url)
        assert await listed(opened, http, old) == 200

        corp.keys["k2"] = corp.keys.pop("k1")
        rotated = [corp.token(opened.url, kid="k2", sub=f"v{n}") for n in range(10)]
        assert await listed(opened, http, rotated[0]) == 401
        assert corp.asked["/keys"] == 1  # the minute is not over
        monkeypatch.setattr(issuer_keys, "PAUSE", 0.0)
        keys = next(iter(opened.app._issuers._all.values())).keys  # type: ignore[reportPrivateUsage]
        keys._next_try = 0.0  # type: ignore[reportPrivateUsage] - a minute later
        again = await asyncio.gather(*(listed(opened, http, token) for token in rotated))
        assert (set(again), corp.asked["/keys"]) == ({200}, 2)
        assert await listed(opened, http, old) == 401  # its key was withdrawn


async def test_a_provider_that_is_down_locks_out_nobody_who_was_let_in_and_lets_in_nobody_new(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with open_provider() as corp:
        async with open_house(tmp_path / "cold", corp) as opened:
            corp.away = True
            cold = await ModernCaller(opened.url, http, token=corp.token(opened.url)).request("tools/list")
        assert (cold.status, cold.headers["retry-after"]) == (503, "1")
        corp.away = False
        async with open_house(tmp_path / "warm", corp) as opened:
            token = corp.token(opened.url)
            assert await listed(opened, http, token) == 200
            corp.away = True
            keys = next(iter(opened.app._issuers._all.values())).keys  # type: ignore[reportPrivateUsage]
            keys._next_try = 0.0  # type: ignore[reportPrivateUsage] - a minute later
            corp.keys["k2"] = ec.generate_private_key(ec.SECP256R1())
            assert await listed(opened, http, corp.token(opened.url, kid="k2")) == 503
            assert await listed(opened, http, token) == 200
            assert await listed(opened, http, corp.token(opened.url, sub="bob")) == 200  # by the key that is known


def filled(corp: Provider) -> Json:
    return {**corp.listed(), "filling": "x" * 300_000}


BROKEN: list[tuple[str, Any]] = [
    ("https://other.example", None),
    ("", {"keys": []}),
    ("", {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}, 5, {"kty": "RSA", "n": 5, "e": []}]}),
    ("", ["no keys"]),
    ("", filled),
]


@pytest.mark.parametrize(("says", "jwks"), BROKEN)
async def test_keys_that_are_none_or_of_another_are_not_believed(
    tmp_path: Path, http: aiohttp.ClientSession, says: str, jwks: Any
) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp) as opened:
        corp.says, corp.jwks = says, jwks(corp) if callable(jwks) else jwks
        assert await listed(opened, http, corp.token(opened.url)) == 503


async def test_keys_may_be_in_a_file(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_provider() as corp:
        pem = (
            corp.keys["k1"]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        (tmp_path / "corp.pem").write_bytes(pem)
        (tmp_path / "corp.json").write_text(json.dumps(corp.listed()))
        for name in ("corp.pem", "corp.json"):
            async with open_house(tmp_path / name[-3:], corp, key_file=str(tmp_path / name)) as opened:
                assert await listed(opened, http, corp.token(opened.url)) == 200

    assert not corp.asked


# What is told.


async def test_metadata_of_the_resource_is_public_and_names_the_provider(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    options = {"public_url": "https://mcp.example.org/tools/", "allowed_hosts": ["mcp.example.org"]}
    async with open_provider() as corp, open_house(tmp_path, corp, options=options, required_scopes=["mcp"]) as opened:
        base = opened.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource"
        told: dict[str, Any] = {}
        for path in ("", "/mcp", "/mcp/a", "/tools/mcp", "/tools/mcp/b", "/mcp/c", "/x", "x"):
            async with http.get(base + path) as answer:
                told[path] = await answer.json() if answer.status == 200 else answer.status
        async with http.post(base) as answer:
            assert answer.status == 405
        refused = await ask(opened.url, "POST", "/mcp/a", "host: localhost")
        assert await listed(opened, http, corp.token("https://mcp.example.org/tools/mcp", scope="mcp")) == 200
        assert await listed(opened, http, corp.token(opened.url, scope="mcp")) == 401

    whole = {
        "resource": "https://mcp.example.org/tools/mcp",
        "resource_name": "Trunkline",
        "bearer_methods_supported": ["header"],
        "authorization_servers": [corp.url],
        "scopes_supported": ["mcp"],
    }
    a = {**whole, "resource": "https://mcp.example.org/tools/mcp/a", "resource_name": "Trunkline: a"}
    b = {**whole, "resource": "https://mcp.example.org/tools/mcp/b", "resource_name": "Trunkline: b"}
    expected = {"": whole, "/mcp": whole, "/mcp/a": a, "/tools/mcp": whole, "/tools/mcp/b": b}
    assert told == {**expected, "/mcp/c": 404, "/x": 404, "x": 404}
    place = "https://mcp.example.org/tools/.well-known/oauth-protected-resource/mcp/a"
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{place}", scope="mcp"'


async def test_where_nobody_needs_a_token_there_is_nothing_to_tell(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        url = opened.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource"
        async with http.get(url) as answer:
            assert answer.status == 404
        await Admin(opened, http).key("ana")
        async with http.get(url) as answer:
            assert (await answer.json())["resource"] == opened.url


# The configuration.


@pytest.mark.parametrize(
    ("name", "issuer", "words"),
    [
        ("corp", {}, "has no `issuer`"),
        ("corp", {"issuer": "http://id.example.org"}, "no https address"),
        ("corp", {"issuer": "http://localhost.evil.org"}, "no https address"),
        ("corp", {"issuer": "https://x", "jwks_url": "http://x.example/keys"}, "no https address"),
        ("corp", {"issuer": "https://x", "jwks_url": "https://x", "key_file": "y"}, "both"),
        ("corp", {"issuer": "https://x", "algorithms": ["HS256"]}, "algorithms"),
        ("corp", {"issuer": "https://x", "algorithms": []}, "cannot be empty"),
        ("corp", {"issuer": "https://x", "roles": {"ops": "root"}}, "roles"),
        ("corp", {"issuer": "https://x", "profiles": {"ops": "nowhere"}}, "no profile"),
        ("corp", {"issuer": "https://x", "required_scopes": ['a"b']}, "no quotes"),
        ("co:rp", {"issuer": "https://x"}, "cannot be an issuer's name"),
        ("corp", {"issuer": "${env:NO_SUCH_VARIABLE_HERE}"}, "is not set"),
    ],
)
def test_an_issuer_that_cannot_be_trusted_is_refused_at_the_start(
    tmp_path: Path, name: str, issuer: Json, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make_config(tmp_path, {}, sections={"auth": {"issuers": {name: issuer}}})


def test_issuers_and_users_that_could_be_taken_for_each_other_are_refused(tmp_path: Path) -> None:
    same = {"a": {"issuer": "https://x"}, "b": {"issuer": "https://x"}}
    with pytest.raises(ConfigError, match="the same"):
        make_config(tmp_path, {}, sections={"auth": {"issuers": same}})
    one = {"auth": {"issuers": {"a": {"issuer": "https://x"}}}}
    with pytest.raises(ConfigError, match="user of an issuer"):
        make_config(tmp_path, {}, sections=one, users={"a:ana": "0123456789abcdefgh"})


async def test_a_gateway_with_an_issuer_listens_beyond_this_machine(tmp_path: Path) -> None:
    async with open_provider() as corp, open_house(tmp_path, corp, options={"host": "0.0.0.0"}) as opened:
        answer = await ask(opened.url.replace("0.0.0.0", "127.0.0.1"), "POST", "/mcp", "host: mcp.example.org")

    assert answer.status == 401
