"""Who may speak to the gateway: hosts, origins and tokens, on every endpoint."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.test_limits import Answer, wire
from tests.harness import META, TRUNKLINE, VERSION, LegacyCaller, ModernCaller, faulty, gateway, make_config
from trunkline.errors import ConfigError
from trunkline.gateway.serve import open_gateway

TOKEN = "correct-horse-battery-staple"
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode()
MODERN = f"content-type: application/json\r\nmcp-protocol-version: {VERSION}\r\nmcp-method: tools/list\r\n"

ENDPOINTS = [
    ("POST", "/mcp", 200),
    ("GET", "/mcp", 400),
    ("DELETE", "/mcp", 400),
    ("GET", "/healthz", 200),
    ("GET", "/readyz", 200),
]
"""With the status of a request that is let in; a GET or DELETE has no session here."""


async def ask(url: str, method: str, path: str, *headers: str) -> Answer:
    body = LIST if method == "POST" else b""
    lines = [f"{method} {path} HTTP/1.1", *headers, f"content-length: {len(body)}"]
    own = MODERN if method == "POST" else ""
    async with wire(url) as line:
        await line.send(("\r\n".join(lines) + "\r\n" + own + "\r\n").encode("latin-1") + body)
        return await line.answer()


HOSTS_IN = ["127.0.0.1", "127.0.0.1:7420", "localhost", "LocalHost:1", "[::1]", "[::1]:7420"]
HOSTS_OUT = [
    "evil.com",
    "evil.com:7420",
    "localhost.evil.com",
    "127.0.0.1.evil",
    "127.0.0.1.nip.io:80",
    "evil@localhost",
    "localhost@evil.com",
    "localhost:80x",
    "localhost:",
    "localhost:80:80",
    "localhost.",
    "xlocalhost",
    "127.0.0.2",
    "127.1",
    "0.0.0.0",
    "0x7f000001",
    "2130706433",
    "[::1]x",
    "[::1",
    "::1.evil",
    "[::ffff:127.0.0.1]",
    "localhost, evil.com",
    "localhost evil.com",
    "localhost/evil.com",
    "",
]
ORIGINS_IN = [
    "http://localhost",
    "http://localhost:3000",
    "https://127.0.0.1:8443",
    "http://[::1]:5173",
    "HTTP://LOCALHOST",
]
ORIGINS_OUT = [
    "http://evil",
    "https://evil.com",
    "null",
    "NULL",
    "",
    "*",
    "localhost",
    "//localhost",
    "http://",
    "http://localhost.evil.com",
    "http://127.0.0.1.evil",
    "http://evil.com:80",
    "http://evil@localhost",
    "http://localhost@evil.com",
    "http://localhost:80@evil.com",
    "http://localhost:80x",
    "http://localhost/",
    "http://localhost#evil.com",
    "http://localhost?evil.com",
    "http://localhost, http://evil.com",
    "http://evil.com http://localhost",
    "file://localhost",
    "chrome-extension://localhost",
    "javascript://localhost",
    "http:localhost",
    "http://xn--localhost",
]


@pytest.mark.parametrize(("method", "path", "let_in"), ENDPOINTS)
async def test_only_known_hosts_are_served_on_every_endpoint(
    tmp_path: Path, method: str, path: str, let_in: int
) -> None:
    async with gateway(tmp_path, {}) as opened:
        answers = {host: (await ask(opened.url, method, path, f"host: {host}")).status for host in HOSTS_IN + HOSTS_OUT}
        nowhere = await ask(opened.url, method, path)

    assert answers == dict.fromkeys(HOSTS_IN, let_in) | dict.fromkeys(HOSTS_OUT, 421)
    assert nowhere.status == 421


@pytest.mark.parametrize(("method", "path", "let_in"), ENDPOINTS)
async def test_only_local_origins_are_served_on_every_endpoint(
    tmp_path: Path, method: str, path: str, let_in: int
) -> None:
    async with gateway(tmp_path, {}) as opened:
        for origin in ORIGINS_IN:
            answer = await ask(opened.url, method, path, "host: localhost", f"origin: {origin}")
            assert answer.status == let_in, origin
        for origin in ORIGINS_OUT:
            answer = await ask(opened.url, method, path, "host: localhost", f"origin: {origin}")
            assert answer.status == 403, origin
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "name", ["Host: evil.com", "HOST: 127.0.0.1", "Origin: http://evil.com", "ORIGIN: http://localhost"]
)
async def test_a_second_host_or_origin_is_refused_whatever_it_says(tmp_path: Path, name: str) -> None:
    async with gateway(tmp_path, {}) as opened:
        answer = await ask(opened.url, "POST", "/mcp", "host: 127.0.0.1", "origin: http://localhost", name)

    assert answer.status == 400


async def test_hosts_and_origins_can_be_added(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "allowed_hosts": ["mcp.example.org", "Other.example.org:8443"],
        "allowed_origins": ["https://app.example.org"],
    }
    cases = [
        ("mcp.example.org", "", 200),
        ("mcp.example.org:99", "", 200),
        ("other.example.org:8443", "", 200),
        ("other.example.org:8444", "", 421),
        ("evil.mcp.example.org", "", 421),
        ("localhost", "https://app.example.org", 200),
        ("localhost", "https://APP.example.org", 200),
        ("localhost", "http://app.example.org", 403),
        ("localhost", "https://app.example.org:444", 403),
        ("localhost", "https://app.example.org.evil.com", 403),
        ("localhost", "null", 403),
    ]
    async with gateway(tmp_path, {}, **options) as opened:
        for host, origin, status in cases:
            more = [f"origin: {origin}"] if origin else []

            answer = await ask(opened.url, "POST", "/mcp", f"host: {host}", *more)

            assert answer.status == status, (host, origin)


# Tokens.

TOKENS_OUT = [
    [],
    ["authorization: Bearer wrong-wrong-wrong-wrong"],
    [f"authorization: Bearer {TOKEN}x"],
    [f"authorization: Bearer {TOKEN[:-1]}"],
    [f"authorization: Bearer {TOKEN.upper()}"],
    [f"authorization: Basic {TOKEN}"],
    [f"authorization: {TOKEN}"],
    [f"authorization: Bearer{TOKEN}"],
    ["authorization: Bearer"],
    ["authorization: Bearer "],
    ["authorization:"],
    [f"authorization: Bearer {TOKEN}, Bearer x"],
    ["authorization: Bearer \xe9\xff"],
    [f"x-authorization: Bearer {TOKEN}"],
    [f"cookie: token={TOKEN}"],
]


@pytest.mark.parametrize(("method", "path", "let_in"), ENDPOINTS[:3])
async def test_without_the_token_nothing_is_told(tmp_path: Path, method: str, path: str, let_in: int) -> None:
    async with gateway(tmp_path, {"secret-name": faulty()}, token=TOKEN) as opened:
        for headers in TOKENS_OUT:
            answer = await ask(opened.url, method, path, "host: localhost", *headers)

            assert answer.status == 401, headers
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert b"secret-name" not in answer.body
        answer = await ask(opened.url, method, path, "host: localhost", f"authorization: Bearer {TOKEN}")

    assert answer.status == let_in


async def test_the_name_of_the_scheme_may_be_written_in_any_case(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, token=TOKEN) as opened:
        answer = await ask(opened.url, "POST", "/mcp", "host: localhost", f"authorization: bearer {TOKEN}")

    assert answer.status == 200


@pytest.mark.parametrize("order", [1, -1])
async def test_two_tokens_are_refused_though_one_is_right(tmp_path: Path, order: int) -> None:
    both = [f"authorization: Bearer {TOKEN}", "authorization: Bearer wrong"][::order]
    async with gateway(tmp_path, {}, token=TOKEN) as opened:
        answer = await ask(opened.url, "POST", "/mcp", "host: localhost", *both)

    assert answer.status == 401
    assert "resource_metadata=" in answer.headers["www-authenticate"]


async def test_a_token_in_the_address_is_no_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, token=TOKEN) as opened:
        answer = await ask(opened.url, "POST", f"/mcp?token={TOKEN}&access_token={TOKEN}", "host: localhost")

    assert answer.status == 401


async def test_health_needs_no_token_and_tells_no_names_without_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"secret-name": faulty()}, token=TOKEN) as opened:
        anyone = await ask(opened.url, "GET", "/readyz", "host: localhost")
        known = await ask(opened.url, "GET", "/readyz", "host: localhost", f"authorization: Bearer {TOKEN}")

    assert (anyone.status, anyone.message) == (200, {"status": "ready"})
    assert known.message["servers"]["secret-name"]["state"] == "ready"


async def test_the_right_token_does_not_let_a_foreign_page_in(tmp_path: Path) -> None:
    right = f"authorization: Bearer {TOKEN}"
    async with gateway(tmp_path, {}, token=TOKEN) as opened:
        page = await ask(opened.url, "POST", "/mcp", "host: localhost", "origin: https://evil.com", right)
        host = await ask(opened.url, "POST", "/mcp", "host: evil.com", right)

    assert (page.status, host.status) == (403, 421)


async def test_the_token_is_in_no_answer_no_log_and_reaches_no_server(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with gateway(tmp_path, {"one": faulty()}, token=TOKEN) as opened:
        caller = ModernCaller(opened.url, http, token=TOKEN)
        heard = [
            await caller.call("env"),
            await caller.request("server/discover"),
            await caller.request("tools/list"),
            await caller.call("nonsense"),
            await caller.call("echo", {"text": "x"}, headers={"mcp-name": "other"}),
            await caller.request("no/such"),
        ]
        wrong = await ask(opened.url, "POST", "/mcp", "host: localhost", f"authorization: Basic {TOKEN}")

    assert all(TOKEN.encode() not in one.raw for one in heard)
    assert TOKEN.encode() not in wrong.body
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(make_config(tmp_path, {}, token=TOKEN))


# The start.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "0.0.0.0"}, "without a token"),
        ({"host": "::"}, "without a token"),
        ({"host": "192.0.2.1"}, "without a token"),
        ({"host": "example.org"}, "without a token"),
        ({"host": ""}, "without a token"),
        ({"host": "127.0.0.1.evil.com"}, "without a token"),
        ({"host": "0.0.0.0", "token": "changeme"}, "too short"),
        ({"host": "127.0.0.1", "token": "x" * 15}, "too short"),
    ],
)
async def test_an_open_door_is_not_opened(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        async with open_gateway(make_config(tmp_path, {}, **options)):
            pass


GUESSED = (
    "x" * 16, "changemechangeme", "passwordpassword", " " * 20, "change-me-please-0123", "your-gateway-token-here",
    "replace-with-a-random-token", "<a-token-of-your-own>", "insert-token-here-please", "MyP@ssw0rd-Passw0rd-1",
    "trunkline-default-token", "example-token-0123456789",
)  # fmt: skip


@pytest.mark.parametrize("token", GUESSED)
async def test_a_token_that_anyone_would_guess_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigError):
        async with open_gateway(make_config(tmp_path, {}, host="0.0.0.0", token=token)):
            pass


async def test_beyond_this_machine_the_token_is_what_counts(tmp_path: Path) -> None:
    async with gateway(tmp_path, {}, host="0.0.0.0", token=TOKEN) as opened:
        url = opened.url.replace("0.0.0.0", "127.0.0.1")
        named = await ask(url, "POST", "/mcp", "host: mcp.example.org", f"authorization: Bearer {TOKEN}")
        anyone = await ask(url, "POST", "/mcp", "host: mcp.example.org")
        page = await ask(url, "GET", "/readyz", "host: mcp.example.org", "origin: https://evil.com")

    assert (named.status, anyone.status, page.status) == (200, 401, 403)


async def test_the_default_is_this_machine_only(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        caller = await LegacyCaller(opened.url, http).open()

    assert opened.url.startswith("http://127.0.0.1:")
    assert caller.introduction["serverInfo"]["name"] == "trunkline"


@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        (["--host", "0.0.0.0"], {}, "without a token"),
        (["--host", "0.0.0.0"], {"TRUNKLINE_GATEWAY_TOKEN": "short"}, "too short"),
        ([], {"TRUNKLINE_GATEWAY_HOST": "0.0.0.0"}, "without a token"),
        (["--host", "0.0.0.0"], {"TRUNKLINE_GATEWAY_TOKEN": ""}, "without a token"),
        (["--token", TOKEN], {}, "--token"),
    ],
)
async def test_trunkline_up_refuses_to_start_open(
    tmp_path: Path, flags: list[str], env: dict[str, str], words: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"gateway": {"port": 0}, "servers": {}}))
    surroundings = {**os.environ, "TRUNKLINE_HOME": str(tmp_path), **env}
    command = [TRUNKLINE, "up", "--config", str(file), *flags]

    ended = await asyncio.to_thread(
        subprocess.run, command, env=surroundings, capture_output=True, text=True, timeout=20
    )

    assert ended.returncode == 2
    assert words in ended.stderr
    assert "listens" not in ended.stdout
