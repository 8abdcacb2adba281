"""Thirty secrets, wherever one may be given or said, are in nothing that is recorded of calls (CHECKS A23)."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.harness import LegacyCaller, ModernCaller, plain_server, until
from tests.telemetry.test_traces import PARENT, TRACE, traced
from tests.tenancy.oauth.provider import Provider, browsing, provider
from tests.tenancy.test_planted import Api, Planted, everything, files_of, quoting, registered
from trunkline.gateway.serve import Gateway
from trunkline.telemetry.audit_chain import entries, verify
from trunkline.telemetry.logs import JsonFormatter, TextFormatter

Json = dict[str, Any]
LEAKY = Path(__file__).with_name("leaky.py")
BASIC = "basic credentials"


@contextmanager
def logged() -> Generator[dict[str, io.StringIO]]:
    """Everything that is logged, however little it matters, as people and as programs read it."""
    streams, root = {"text": io.StringIO(), "json": io.StringIO()}, logging.getLogger()
    handlers = [logging.StreamHandler(stream) for stream in streams.values()]
    level = root.level
    for handler, formatter in zip(handlers, (TextFormatter(), JsonFormatter()), strict=True):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    try:
        yield streams
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)


def basic(plant: Planted, what: str) -> str:
    """A name and a password as they are sent; both the password and what it looks like there are secrets."""
    written = base64.b64encode(f"me:{plant(what)}".encode()).decode()
    plant.all[f"{what}, as sent"] = written
    return f"Basic {written}"


def servers_of(one: Provider, plant: Planted) -> Json:
    headers = {"authorization": f"Bearer {plant('a bearer')}", "x-vault-token": plant("a header of a server")}
    oauth = {"client_id": "hub", "client_secret": plant("a client's secret")}
    machine = {"grant": "jwt_bearer", "client_id": "m", "assertion": plant("an assertion")}
    return {
        "leaky": plain_server(str(LEAKY), env={"API_KEY": plant("a variable")}),
        "git": {"url": f"{one.url}/mcp?key={plant('a query')}", "oauth": oauth},
        "quoting": {"url": f"{one.url}/quoting", "headers": headers},
        "named": {"url": f"{one.url}/quoting", "headers": {"authorization": basic(plant, BASIC)}},
        "gone": {"url": f"http://127.0.0.1:1/mcp?token={plant('a query to nowhere')}", "headers": headers},
        "machine": {"url": f"{one.url}/mcp", "oauth": machine},
    }


async def call_everything(opened: Gateway, http: aiohttp.ClientSession, plant: Planted, key: str) -> None:
    """Calls that succeed, fail and are refused, with secrets in all that a caller or a server may send."""
    modern, legacy = ModernCaller(opened.url, http, token=key), LegacyCaller(opened.url, http)
    modern.headers["cookie"] = f"session={plant('a cookie')}"
    about = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": f"v={plant('a state of traces')}"}
    about |= {"baggage": f"token={plant('baggage')}", "example.com/key": plant("metadata"), "progressToken": 7}
    for name in ("result", "tool_error", "error", "noisy", "die"):
        said = {"said": plant(f"an argument of {name}"), plant("an argument's name"): 1}
        await modern.call(f"leaky__{name}", said, meta=about)
    for name in ("git__whoami", "quoting__x", "gone__x", "machine__whoami", "nothing__x"):
        await modern.call(name, {"password": plant("an argument")}, meta=about)
    await modern.request("resources/read", {"uri": f"leaky://{plant('an address')}"}, meta=about)
    await modern.request("prompts/get", {"name": "leaky__greet", "arguments": {"said": plant("a prompt's argument")}})
    wrong = {"authorization": basic(plant, "a wrong password")}
    await modern.request("tools/list", headers=wrong)
    await ModernCaller(opened.url, http, token=plant("a wrong key")).request("tools/list")
    legacy.headers["authorization"] = f"Bearer {key}"
    legacy.capabilities = {"elicitation": {"form": {}}}
    await legacy.open()
    params = {"name": "leaky__ask", "arguments": {"said": plant("a question")}}
    async with legacy.stream("tools/call", params) as stream:
        question = await stream.next()
        await legacy.answer(question["id"], {"action": "accept", "content": {"code": plant("an answer")}})
        await stream.next()


async def watch(api: Api, key: str, heard: list[str]) -> None:
    """Read what is live for as long as there is something."""
    headers = {"authorization": f"Bearer {key}"}
    async with api.http.get(f"{api.base}api/v1/events", headers=headers) as response:
        async for line in response.content:
            heard.append(line.decode())


@pytest.mark.timeout(120)
async def test_no_planted_secret_is_in_audit_traces_logs_events_metrics_or_past_calls(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    plant, told, live = Planted(), list[str](), list[str]()

    def grant(asked: dict[str, str]) -> web.Response:
        token = plant("a token") if asked["grant_type"] == "authorization_code" else plant("a machine's token")
        one.valid.add(token)
        said = {"access_token": token, "token_type": "Bearer", "refresh_token": plant("a refresh token")}
        return web.json_response(said)

    admin = plant("the gateway's token")
    sections: Json = {
        "gateway": {"port": 0, "expose": "all", "token": admin, "allow_commands": True},
        "audit": {"enabled": True},
        "middleware": {"logging": True, "retries": 1},
        "metrics": {"token": plant("a collector's token")},
    }
    header = {"x-key": plant("a header of a collector")}
    with logged() as logs:
        async with provider(answer=grant, more=[web.post("/quoting", quoting)]) as one:
            async with traced(tmp_path / "home", servers_of(one, plant), sections, headers=header) as (opened, spans):
                api = Api(opened.url, http, admin, told)
                watching = asyncio.create_task(watch(api, admin, live))
                await until(lambda: live)
                await api("POST", "users", {"name": "ana"})
                key = plant.all["a user's key"] = (await api("POST", "keys", {"user": "ana"}, given=True))["key"]
                await registered(api, one, plant)
                begun = await Api(opened.url, http, key, told)("POST", "servers/git/login", given=True)
                async with browsing() as tab, tab.get(begun["url"], headers={"authorization": f"Bearer {key}"}):
                    plant.all["a verifier"] = one.tokens[-1]["code_verifier"]
                await call_everything(opened, http, plant, key)
                stderr = str(await api("GET", "servers/leaky/log", given=True))  # its own words, for who runs it
                await everything(api)
                for query in ("user=ana", "outcome=failed", "outcome=tool-error", "server=leaky", "limit=1000"):
                    await api("GET", f"calls?{query}")
            await watching

    home = tmp_path / "home"
    lines = list(entries(home / "audit"))
    assert len(plant.all) >= 30
    assert {"a token", "a machine's token"} <= set(plant.found_in(" ".join(one.seen)))  # they were really in use
    assert plant.found_in(stderr) == ["a question", "an answer"]  # never what the server itself was given
    assert {line["kind"] for line in lines} >= {"call", "question", "change", "sign-in", "refusal", "process"}
    assert {"answered", "tool-error", "failed", "refused", "asked"} <= {line.get("outcome") for line in lines}
    assert verify(home / "audit").problem == ""
    assert len(spans.spans) > 20
    assert '"call.ended"' in "".join(live)
    assert '"calls":[' in "".join(told)
    assert all(stream.getvalue().count("\n") > 10 for stream in logs.values())
    for line in logs["json"].getvalue().splitlines():
        json.loads(line)

    places = {
        "traces": str(spans.spans),
        "events": "".join(live),
        "answers": "\n".join(told),
        "text log": logs["text"].getvalue(),
        "json log": logs["json"].getvalue(),
    }
    hits = {where: plant.found_in(text) for where, text in places.items()}
    hits |= {name: plant.found_in(content) for name, content in files_of(home, set())}
    assert {where: found for where, found in hits.items() if found} == {}
