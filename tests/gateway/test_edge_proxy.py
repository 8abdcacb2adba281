"""The edge proxy (CHECKS A26, A09): pages of named origins reach named targets, and nothing else reaches anything."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.gateway.test_limits import wire
from tests.harness import gateway
from tests.upstream.test_egress import HERE, canary, was_touched
from trunkline.errors import ConfigError
from trunkline.gateway.serve import Gateway
from trunkline.storage.people import Rights
from trunkline.tenancy.people import People

__all__ = ["canary"]

APP = "https://app.example.org"
KEY = "correct-horse-battery-staple"


class Target:
    """A server that browsers could not ask: it says nothing of CORS, and much that must not pass."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, dict[str, str], bytes]] = []
        self.go_on = asyncio.Event()
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.heard.append((request.method, request.path_qs, headers, body))
        match request.path:
            case "/stream":
                return await self._stream(request)
            case "/elsewhere":
                raise web.HTTPFound("https://evil.example.org/")
            case "/bomb":
                packed = gzip.compress(bytes(10 * 2**20))
                return web.Response(body=packed, headers={"content-encoding": "gzip"})
            case "/big":
                return web.Response(body=bytes(int(request.query["size"])))
            case "/slow":
                await self.go_on.wait()
            case "/page":
                return web.Response(text="<script>steal()</script>", content_type="text/html")
            case _:
                pass
        hop = {"set-cookie": "a=b", "x-secret-header": "1", "access-control-allow-origin": "*", "via": "1.1 x"}
        told = {"mcp-session-id": "s1", "www-authenticate": "Bearer x", **hop}
        return web.json_response({"ok": True}, headers=told, status=401 if request.path == "/closed" else 200)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        try:
            await stream.write(b"id: 1\ndata: first\n\n")
            await self.go_on.wait()
            await stream.write(b"id: 2\ndata: second\n\n")
            await asyncio.Event().wait() if "for_ever" in request.query else None
        finally:
            self.left.set()
        return stream


@asynccontextmanager
async def edge(
    home: Path, paths: tuple[str, ...] = ("",), *, gateway_options: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[Gateway, Target, str]]:
    """A gateway whose `/edge` leads to a target on this machine; and the target's address."""
    target, app = Target(), web.Application()
    app.router.add_route("*", "/{path:.*}", target.answer)
    async with TestServer(app, host="127.0.0.1") as server:
        base = str(server.make_url("/")).rstrip("/")
        said = {"origins": [APP], "targets": [base + path for path in paths], "allow_private": True, **options}
        async with gateway(home, {}, sections={"edge": said}, **(gateway_options or {})) as opened:
            yield opened, target, base
            target.go_on.set()


def at(opened: Gateway, url: str) -> str:
    return opened.url.removesuffix("/mcp") + "/edge?url=" + quote(url, safe="")


async def ask(
    http: aiohttp.ClientSession, method: str, url: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, Mapping[str, str], bytes]:
    """The status of an answer, its headers, and its body."""
    async with http.request(method, url, headers=headers, data=body) as response:
        return response.status, response.headers, await response.read()


async def test_a_page_reaches_the_target_and_reads_its_answer(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    sent = {
        "origin": APP, "accept": "application/json", "content-type": "application/json", "last-event-id": "7",
        "mcp-session-id": "s0", "mcp-param-region": "eu", "authorization": "Bearer of-the-target",
        "cookie": "console=1", "referer": f"{APP}/page", "x-forwarded-for": "1.2.3.4", "x-other": "1",
        "connection": "keep-alive, x-other", "x-api-key": "k",
    }  # fmt: skip
    async with edge(tmp_path, headers=["X-Api-Key"]) as (opened, target, base):
        status, told, body = await ask(http, "POST", at(opened, base + "/mcp?a=1"), sent, b'{"x":1}')

    assert (status, json.loads(body)) == (200, {"ok": True})
    assert told["access-control-allow-origin"] == APP
    assert "Origin" in told["vary"]
    assert "access-control-allow-credentials" not in told
    assert (told["mcp-session-id"], told["www-authenticate"]) == ("s1", "Bearer x")
    assert "Mcp-Session-Id" in told["access-control-expose-headers"]
    assert not {"set-cookie", "x-secret-header", "via"} & {name.lower() for name in told}
    ((method, path, headers, passed),) = target.heard
    assert (method, path, passed) == ("POST", "/mcp?a=1", b'{"x":1}')
    kept = ("accept", "content-type", "last-event-id", "mcp-session-id", "mcp-param-region", "authorization")
    assert {name: headers[name] for name in kept} == {name: sent[name] for name in kept}
    assert headers["x-api-key"] == "k"
    assert not {"cookie", "referer", "origin", "x-forwarded-for", "x-other"} & headers.keys()


async def test_it_is_off_unless_origins_and_targets_are_named(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    for section in ({}, {"origins": [APP]}, {"targets": ["https://mcp.example.org"]}):
        async with gateway(tmp_path, {}, sections={"edge": section}) as opened:
            for method in ("GET", "OPTIONS"):
                url = at(opened, "https://mcp.example.org/")
                async with http.request(method, url, headers={"origin": APP}) as response:
                    assert response.status == 404
                    assert "access-control-allow-origin" not in response.headers


ORIGINS_OUT = [
    "null", "NULL", "*", "", "https://evil.example.org", "http://app.example.org", "https://app.example.org:8443",
    "https://app.example.org.evil.com", "https://evilapp.example.org", "https://sub.app.example.org",
    "https://app.example.org@evil.com", "https://evil.com@app.example.org", "https://app.example.org/",
    "https://app.example.org/x", "https://app.example.org, https://evil.com", "https://app.example.org https://evil.com",
    "https://app.example.org#", "https://app.example.org?", "https://app.example.org.", "app.example.org",
    "http://localhost", "http://127.0.0.1:7420",
]  # fmt: skip


async def test_pages_of_other_origins_reach_nothing(tmp_path: Path) -> None:
    async with edge(tmp_path) as (opened, target, base):
        path = at(opened, base + "/mcp").partition("://")[2].partition("/")[2]
        for origin in [*ORIGINS_OUT, None]:
            line = [] if origin is None else [f"origin: {origin}"]
            for method in ("POST", "OPTIONS"):
                async with wire(opened.url) as raw:
                    head = [f"{method} /{path} HTTP/1.1", "host: localhost", *line, "content-length: 0", "", ""]
                    await raw.send("\r\n".join(head).encode())
                    answer = await raw.answer()
                assert answer.status == 403, origin
                assert "access-control-allow-origin" not in answer.headers
                assert answer.headers["vary"] == "Origin"

    assert target.heard == []


async def test_a_browser_that_asks_first_is_told_what_a_page_may_send(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    asked = {
        "origin": APP,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,mcp-param-city,trunkline-key,x-evil",
    }
    async with edge(tmp_path, gateway_options={"token": KEY}) as (opened, target, base):
        status, told, _ = await ask(http, "OPTIONS", at(opened, base + "/mcp"), asked)

    assert (status, told["access-control-allow-origin"]) == (204, APP)
    allowed = told["access-control-allow-headers"].split(", ")
    assert {"authorization", "mcp-param-city", "trunkline-key", "last-event-id"} <= set(allowed)
    assert not {"x-evil", "*"} & set(allowed)
    assert told["access-control-allow-methods"] == "GET, POST, PUT, DELETE"
    assert "access-control-allow-credentials" not in told
    assert target.heard == []


async def test_only_named_targets_are_reached_however_others_are_written(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with edge(tmp_path, ("/mcp",)) as (opened, target, base):
        host = base.removeprefix("http://")
        port = host.partition(":")[2]
        refused = {
            f"{base}/other": 403, f"{base}/mcp/": 403, f"{base}/mcp/x": 403, f"{base}/MCP": 403, f"{base}/%6dcp": 403,
            f"{base}/x/../mcp": 403, f"{base}": 403, f"https://{host}/mcp": 403, f"http://localhost:{port}/mcp": 403,
            f"http://127.0.0.1.evil.com:{port}/mcp": 403, "http://127.0.0.1:1/mcp": 403,
            f"http://{host}.evil.com/mcp": 400, f"http://{host}@evil.com/mcp": 400, f"http://evil.com@{host}/mcp": 400,
            f"http://evil.com\\@{host}/mcp": 400, f"http:/{host}/mcp": 400, f"//{host}/mcp": 400, f"{host}/mcp": 400,
            f"{base}/mcp#": 400, f"{base}/mcp\r\nx: y": 400, f" {base}/mcp": 400, "file:///etc/passwd": 400,
            f"http://{host}/mcp\t": 400, f"http://127.0.0.1:{port}\u3002/mcp": 400, f"http://①27.0.0.1:{port}/mcp": 400,
            "gopher://x/": 400, "": 400, f"http://127.0.0.1:0{port}/mcp": 200 if len(port) < 5 else 400,
        }  # fmt: skip
        for url, status in refused.items():
            async with http.get(at(opened, url), headers={"origin": APP}) as response:
                assert (response.status, response.headers["access-control-allow-origin"]) == (status, APP), url
        for query in ("", "?", "?x=1", f"?url={base}/mcp&url={base}/mcp", f"?url={base}/mcp&x=1", "?url"):
            where = opened.url.removesuffix("/mcp") + "/edge" + query
            async with http.get(where, headers={"origin": APP}) as response:
                assert response.status == 400, query
        reached = len(target.heard)
        async with http.get(at(opened, base.upper() + "/mcp?q=[1]"), headers={"origin": APP}) as response:
            assert response.status == 200

    assert [path for _, path, _, _ in target.heard[reached:]] == ["/mcp?q=[1]"]
    assert reached <= 1


async def test_what_is_private_is_not_reached_though_it_is_named(
    tmp_path: Path, http: aiohttp.ClientSession, canary: socket.socket
) -> None:
    port = canary.getsockname()[1]
    named = [f"http://{host}:{port}" for host in [*HERE, "127.0.0.1.", "[::ffff:127.0.0.1]", "ip6-localhost"]]
    section = {"origins": [APP], "targets": named, "requests_per_minute": 0}
    async with gateway(tmp_path, {}, sections={"edge": section}) as opened:
        for url in named:
            async with http.post(at(opened, url + "/mcp"), headers={"origin": APP}) as response:
                assert response.status in (403, 502), url  # 502: no system finds such a name

    assert not was_touched(canary)


async def test_a_name_that_leads_elsewhere_on_second_thought_leads_nowhere(
    tmp_path: Path, http: aiohttp.ClientSession, canary: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, port, asked = asyncio.get_running_loop(), canary.getsockname()[1], list[str]()
    known = loop.getaddrinfo

    async def rebinding(host: Any, *rest: Any, **options: Any) -> Any:
        if host != "rebound.example":
            return await known(host, *rest, **options)
        asked.append(host)
        address = "8.8.8.8" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    url = f"http://rebound.example:{port}"
    section = {"origins": [APP], "targets": [url], "timeout": 0.2, "requests_per_minute": 0}
    async with gateway(tmp_path, {}, sections={"edge": section}) as opened:
        answers = [await ask(http, "GET", at(opened, url + "/mcp"), {"origin": APP}) for _ in range(3)]

    assert [status for status, _, _ in answers][1:] == [403, 403]
    assert answers[0][0] in (502, 504)  # the public address, which nobody answers at here
    assert len(asked) == 3  # once for each request: nothing is looked up behind the check
    assert not was_touched(canary)


async def test_a_redirection_is_not_followed(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with edge(tmp_path) as (opened, target, base):
        status, told, body = await ask(http, "GET", at(opened, base + "/elsewhere"), {"origin": APP})

    assert (status, json.loads(body)["error"]["message"]) == (502, "The target redirects elsewhere.")
    assert "location" not in told
    assert len(target.heard) == 1


async def test_a_body_is_measured_as_it_is_meant(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def chunks(size: int) -> AsyncGenerator[bytes]:
        for start in range(0, size, 100):
            yield bytes(min(100, size - start))

    fits, over = bytes(1000), bytes(1001)
    cases: list[tuple[Any, str, int]] = [
        (fits, "", 200), (over, "", 413), (chunks(1000), "", 200), (chunks(1001), "", 413),
        (gzip.compress(fits), "gzip", 200), (gzip.compress(over), "gzip", 413), (zlib.compress(fits), "deflate", 200),
        (gzip.compress(bytes(10 * 2**20)), "gzip", 413), (gzip.compress(fits)[:-4], "gzip", 400),
        (gzip.compress(b"x") * 2, "gzip", 400), (b"not gzip", "gzip", 400), (fits, "br", 415),
        (fits, "gzip, gzip", 415),
    ]  # fmt: skip
    async with edge(tmp_path, body_limit=1000) as (opened, target, base):
        for body, coding, status in cases:
            headers = {"origin": APP, **({"content-encoding": coding} if coding else {})}
            async with http.post(at(opened, base + "/mcp"), headers=headers, data=body, compress=False) as response:
                assert response.status == status, (coding, await response.text())

    assert [len(body) for *_, body in target.heard] == [1000, 1000, 1000, 1000]
    assert not any("content-encoding" in headers for _, _, headers, _ in target.heard)


async def test_an_answer_that_is_too_long_or_compressed_is_not_passed_on(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with edge(tmp_path, answer_limit=1000) as (opened, _, base):
        for path, status in (("/big?size=1000", 200), ("/big?size=1001", 502), ("/bomb", 502)):
            async with http.get(at(opened, base + path), headers={"origin": APP}) as response:
                assert response.status == status, path
                assert len(await response.read()) <= 1000


async def test_what_a_target_answers_is_no_page_of_ours(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with edge(tmp_path) as (opened, target, base):
        async with http.get(at(opened, base + "/page"), headers={"origin": APP}) as response:
            told = response.headers
        opening = {"origin": APP, "sec-fetch-mode": "navigate", "content-type": "text/plain"}
        async with http.post(at(opened, base + "/page"), headers=opening, data=b"") as navigation:
            assert navigation.status == 403

    assert told["content-security-policy"] == "default-src 'none'; sandbox"
    assert told["x-content-type-options"] == "nosniff"
    assert len(target.heard) == 1


async def test_a_target_that_does_not_answer_is_not_waited_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with edge(tmp_path, timeout=0.05) as (opened, _, base):
        status, _, _ = await ask(http, "GET", at(opened, base + "/slow"), {"origin": APP})

    assert status == 504


async def test_a_stream_outlives_the_timeout_and_ends_with_its_reader(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with edge(tmp_path, timeout=0.3) as (opened, target, base):
        async with http.get(at(opened, base + "/stream?for_ever"), headers={"origin": APP}) as response:
            first = await response.content.readuntil(b"\n\n")
            async with http.get(at(opened, base + "/slow"), headers={"origin": APP}) as slow:
                assert slow.status == 504  # so much time has passed
            target.go_on.set()
            second = await response.content.readuntil(b"\n\n")
            assert response.headers["content-type"] == "text/event-stream"
            assert not target.left.is_set()
            response.close()
        async with asyncio.timeout(5):
            await target.left.wait()

    assert (first, second) == (b"id: 1\ndata: first\n\n", b"id: 2\ndata: second\n\n")


async def test_each_has_a_rate_of_its_own(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    users = {"ana": "ana-has-a-long-token-1", "bob": "bob-has-a-long-token-2"}
    async with edge(tmp_path, requests_per_minute=3, gateway_options={"users": users}) as (opened, target, base):

        async def ask(user: str) -> tuple[int, str]:
            headers = {"origin": APP, "trunkline-key": users[user]}
            async with http.get(at(opened, base + "/mcp"), headers=headers) as response:
                return response.status, response.headers.get("retry-after", "")

        got = [await ask("ana") for _ in range(4)]
        other = await ask("bob")

    assert [status for status, _ in got] == [200, 200, 200, 429]
    assert 0 < int(got[3][1]) <= 60
    assert other[0] == 200
    assert len(target.heard) == 4


async def test_streams_at_once_are_limited_by_address_where_nobody_is_known(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with edge(tmp_path, running=1) as (opened, target, base):
        async with http.get(at(opened, base + "/stream"), headers={"origin": APP}) as stream:
            async with http.get(at(opened, base + "/mcp"), headers={"origin": APP}) as response:
                assert response.status == 429
            target.go_on.set()
            await stream.read()
        async with http.get(at(opened, base + "/mcp"), headers={"origin": APP}) as response:
            assert response.status == 200


async def test_our_key_is_wanted_and_never_passed_on(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    theirs = "Bearer of-the-target"
    cases: list[tuple[dict[str, str], int, str | None]] = [
        ({}, 401, None),
        ({"authorization": theirs}, 401, None),
        ({"trunkline-key": "wrong-key"}, 401, None),
        ({"authorization": f"Bearer {KEY}"}, 200, None),
        ({"trunkline-key": KEY}, 200, None),
        ({"trunkline-key": KEY, "authorization": theirs}, 200, theirs),
        ({"trunkline-key": KEY, "authorization": f"Bearer {KEY}"}, 400, None),
        ({"trunkline-key": KEY, "authorization": f"bearer  {KEY}"}, 400, None),
    ]
    async with edge(tmp_path, gateway_options={"token": KEY}) as (opened, target, base):
        for headers, status, passed in cases:
            target.heard.clear()
            async with http.get(at(opened, base + "/mcp"), headers={"origin": APP, **headers}) as response:
                assert response.status == status, headers
                assert response.headers["access-control-allow-origin"] == APP
            got = [told.get("authorization") for _, _, told, _ in target.heard]
            assert got == ([passed] if status == 200 else [])
            assert not any(KEY in str(told) for _, _, told, _ in target.heard)


async def test_a_stream_ends_with_the_key_that_opened_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with edge(tmp_path) as (opened, target, base):
        people: People = opened.hub.relay.tenancy.people
        await people.add_user("ana")
        key, text = await people.make_key("ana")
        headers = {"origin": APP, "trunkline-key": text}
        async with http.get(at(opened, base + "/stream?for_ever"), headers=headers) as stream:
            await stream.content.readuntil(b"\n\n")
            await people.revoke_key(key.id)
            async with asyncio.timeout(5):
                await target.left.wait()
                with pytest.raises(aiohttp.ClientError):
                    await stream.read()


async def test_a_key_that_may_not_do_everything_does_not_open_the_edge(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with edge(tmp_path) as (opened, target, base):
        people: People = opened.hub.relay.tenancy.people
        await people.add_user("ana")
        await people.add_user("rea", role="reader")
        narrow = [
            await people.make_key("ana", rights=Rights(read_only=True)),
            await people.make_key("ana", rights=Rights(servers=("one",))),
            await people.make_key("rea"),
        ]
        for _, text in narrow:
            headers = {"origin": APP, "trunkline-key": text}
            async with http.get(at(opened, base + "/mcp"), headers=headers) as response:
                assert response.status == 403

    assert target.heard == []


@pytest.mark.parametrize(
    "section",
    [
        {"origins": ["*"]}, {"origins": ["null"]}, {"origins": ["https://*.example.org"]},
        {"origins": ["https://a.org/x"]}, {"origins": ["https://u@a.org"]}, {"targets": ["*"]},
        {"targets": ["https://*.example.org"]}, {"targets": ["https://u:p@a.org"]}, {"targets": ["a.org"]},
        {"targets": ["https://a.org/#x"]}, {"targets": ["https://a.org/?x"]}, {"headers": ["cookie"]},
        {"headers": ["a b"]}, {"headers": ["Transfer-Encoding"]},
    ],
)  # fmt: skip
async def test_lists_that_would_let_in_more_than_they_say_are_refused(
    tmp_path: Path, section: dict[str, list[str]]
) -> None:
    with pytest.raises(ConfigError, match="edge"):
        async with gateway(tmp_path, {}, sections={"edge": section}):
            pass
