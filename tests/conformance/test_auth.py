"""Trunkline signs in to servers as the official suite wants it: every scenario about authorization, through a gateway.

The suite serves the scenarios of a revision at once; for each a gateway in this process signs in, a person's browser is
played by a few GETs, and a caller calls a tool.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conformance.suite import SUITE, read
from tests.harness import NODE, ModernCaller, gateway, until
from trunkline.gateway.serve import Gateway
from trunkline.model import State

ROOT = Path(__file__).parents[2]
RELAY = Path(__file__).with_name("relay.py")
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""What the suite takes for the address of a client's document."""

BOTH = (
    "metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
    "scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
    "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration",
)  # fmt: skip
MODERN = (
    "resource-mismatch", "offline-access-scope", "offline-access-not-supported", "authorization-server-migration",
    "iss-supported", "iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected",
    "iss-normalized", "metadata-issuer-mismatch",
)  # fmt: skip
EXTENSIONS = (
    "client-credentials-jwt", "client-credentials-basic", "enterprise-managed-authorization", "dpop", "dpop-nonce",
    "wif-jwt-bearer",
)  # fmt: skip
OLD = ("2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback")
RUNS = {
    ("2026-07-28", "auth"): BOTH,
    ("2026-07-28", "draft"): MODERN,
    ("", "extensions"): EXTENSIONS,
    ("2025-11-25", "auth"): BOTH,
    ("2025-03-26", "backcompat"): OLD,
}
"""The revisions, and parts of the suite: one start of node each."""
REFUSED = {
    "resource-mismatch", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized",
    "metadata-issuer-mismatch", "scope-retry-limit",
}  # fmt: skip
"""Where a client does well to give up."""
EACH = [(*run, scenario) for run, scenarios in RUNS.items() for scenario in scenarios]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize(("version", "part", "scenario"), EACH)]

Examine = Callable[[str, str], "dict[str, Verdict]"]


@dataclass(frozen=True)
class Verdict:
    """What the suite says of us in a scenario, and what went wrong here."""

    objections: tuple[str, ...]
    wrong: str


@pytest.fixture(scope="module")
def examine(tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Let the suite serve a part of a revision, once."""
    return cache(lambda version, part: asyncio.run(verdicts(version, part, tmp_path_factory.mktemp("auth"))))


async def verdicts(version: str, part: str, folder: Path) -> dict[str, Verdict]:
    wrong: dict[str, str] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        scenario = asked["scenario"].removeprefix("auth/")
        wrong[scenario] = "not played"
        if scenario in RUNS[version, part]:
            try:
                await play(scenario, asked["url"], asked["context"], folder / scenario)
                wrong[scenario] = ""
            except Exception:  # whatever it is, the suite is told, and the test shows it
                wrong[scenario] = traceback.format_exc()
        writer.write(wrong[scenario].encode())
        writer.close()
        await writer.wait_closed()

    program = f"{sys.executable} -I -S {RELAY} {folder / 'socket'}"
    rest = [*(("--spec-version", version) if version else ()), "--timeout", "60000"]
    rest += ["--output-dir", str(folder / "results")]
    async with await asyncio.start_unix_server(answer, folder / "socket"), asyncio.timeout(90):
        suite = await asyncio.create_subprocess_exec(
            str(NODE),
            str(ROOT / ".tools" / SUITE),
            *["client", "--command", program, "--suite", part, *rest],
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await suite.wait()
    found = {path.parent.name: read(path) for path in (folder / "results").glob("**/checks.json")}
    made: dict[str, Verdict] = {}
    for scenario in RUNS[version, part]:
        checks = next((checks for name, checks in found.items() if name.startswith(scenario + "-20")), [])
        bad = tuple(f"{one.label}: {one.message}" for one in checks if one.status in ("FAILURE", "WARNING"))
        made[scenario] = Verdict(bad if checks else ("The suite said nothing.",), wrong.get(scenario, "not played"))
    return made


async def play(scenario: str, url: str, context: dict[str, Any], home: Path) -> None:
    """Sign in to the suite's server and call its tool; sign in once more if the call wants more."""
    server = {"url": url, "oauth": oauth_of(scenario, context)}
    async with gateway(home, {"suite": server}) as opened, aiohttp.ClientSession() as browser, asyncio.timeout(40):
        for _ in range(2):
            await sign_in(opened, browser)
            heard = await ModernCaller(opened.url, browser).call("test-tool")
            if "error" not in heard.message:
                return
        raise AssertionError(heard.message)


async def sign_in(opened: Gateway, browser: aiohttp.ClientSession) -> None:
    before = view_of(opened)
    async with browser.post(f"{opened.url.removesuffix('/mcp')}/api/v1/servers/suite/login") as answer:
        told = await answer.json()
    if "error" in told:
        raise AssertionError(told)
    if "url" in told:
        async with browser.get(told["url"]) as page:  # the suite agrees at once, and sends us on to the callback
            assert page.status == 200, await page.text()
        await until(lambda: view_of(opened) != before, 20.0)


def view_of(opened: Gateway) -> tuple[State, str, int]:
    view = opened.hub.relay.snapshot.all_servers["suite"]
    return view.state, view.reason, id(view.introduction)


def oauth_of(scenario: str, context: dict[str, Any]) -> dict[str, Any]:
    """How an operator would configure what the scenario hands over."""
    client = {key: context[key] for key in ("client_id", "client_secret") if key in context}
    match scenario:
        case "client-credentials-jwt":
            return {**client, "grant": "client_credentials", "private_key": context["private_key_pem"]}
        case "client-credentials-basic":
            return {**client, "grant": "client_credentials"}
        case "wif-jwt-bearer":
            return {**client, "grant": "jwt_bearer", "assertion": context["valid_jwt"]}
        case "enterprise-managed-authorization":
            provider = {"idp_token_url": context["idp_token_endpoint"], "idp_client_id": context["idp_client_id"]}
            return {**client, **provider, "grant": "id_jag", "assertion": context["idp_id_token"]}
        case _:
            return {**client, "client_metadata_url": DOCUMENT}


def test_the_suite_finds_nothing_wrong(version: str, part: str, scenario: str, examine: Examine) -> None:
    verdict = examine(version, part)[scenario]

    assert verdict.objections == (), verdict.wrong
    assert scenario in REFUSED or not verdict.wrong, verdict.wrong
