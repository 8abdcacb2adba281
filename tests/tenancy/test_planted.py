"""Thirty secrets, planted wherever one may be given, are found nowhere that others may read."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from aiohttp import web

from tests.faults.scene import descendants
from tests.harness import TRUNKLINE, ModernCaller, faulty, trunkline_up
from tests.tenancy.oauth.provider import Provider, browsing, provider

Json = dict[str, Any]
PASSPHRASE = "TRUNKLINE_STORE_PASSPHRASE"


class Planted:
    """Secrets by what they are; none is like another, or like anything else."""

    def __init__(self) -> None:
        self.all: dict[str, str] = {}

    def __call__(self, what: str) -> str:
        return self.all.setdefault(what, f"planted{len(self.all)}x{secrets.token_hex(12)}")

    def found_in(self, text: str | bytes) -> list[str]:
        """Which of them can be read in a text, also where it is written as JSON, an address or Base64 would not."""
        content = text.encode() if isinstance(text, str) else text
        return [what for what, value in self.all.items() if value.encode() in content]


class Api:
    """Asks the admin API, and keeps every byte of what it says."""

    def __init__(self, url: str, http: aiohttp.ClientSession, key: str, heard: list[str]) -> None:
        self.base, self.http, self.key, self.heard = url.removesuffix("mcp"), http, key, heard

    async def __call__(self, method: str, path: str, body: Json | None = None, *, given: bool = False) -> Json:
        headers = {"authorization": f"Bearer {self.key}"}
        async with self.http.request(method, f"{self.base}api/v1/{path}", json=body, headers=headers) as answer:
            text = await answer.text()
        if not given:  # what is made for whoever asks is theirs to read, once
            self.heard.append(text)
        return json.loads(text) if text.startswith("{") else {}


async def quoting(request: web.Request) -> web.Response:
    """A server that answers with all that it was sent."""
    return web.json_response({"error": "invalid_request", "sent": dict(request.headers)}, status=500)


def config_of(one: Provider) -> Json:
    """Whatever may be secret in a file is named there, and comes from elsewhere."""
    headers = {"authorization": "Bearer ${env:P_HEADER}", "x-vault-token": "${secret:P_KEPT}"}
    return {
        "gateway": {"token": "${env:P_TOKEN}", "allow_commands": True},
        "servers": {
            "git": {
                "url": f"{one.url}/mcp?key=${{env:P_QUERY}}",
                "oauth": {"client_id": "hub", "client_secret": "${env:P_CLIENT_SECRET}"},
            },
            "quoting": {"url": f"{one.url}/quoting", "headers": headers},
            "gone": {"url": "http://127.0.0.1:1/mcp?token=${env:P_GONE_QUERY}", "headers": headers},
            "local": faulty(env={"API_KEY": "${env:P_ENV}"}),
            "machine": {
                "url": f"{one.url}/mcp",
                "oauth": {"grant": "jwt_bearer", "client_id": "m", "assertion": "${env:P_ASSERTION}"},
            },
        },
    }


async def registered(api: Api, one: Provider, plant: Planted, *, user: str = "") -> None:
    """Servers that come over the admin API, with secrets of their own."""
    whose = {"user": user} if user else {"scope": "app"}
    mark = user or "app"
    await api("POST", "servers", {
        "name": "far", "url": f"{one.url}/quoting?q={plant(f'{mark} query')}", **whose,
        "headers": {"authorization": plant(f"{mark} header"), "x-key": plant(f"{mark} other header")},
    })  # fmt: skip
    oauth = {"client_id": "c", "client_secret": plant(f"{mark} client secret"), "assertion": plant(f"{mark} assertion")}
    await api("POST", "servers", {"name": "signed", "url": f"{one.url}/mcp", "oauth": oauth, **whose})
    await api("PATCH", f"servers/signed?{'user=' + user if user else 'scope=app'}", {"oauth": {"scopes": ["read"]}})


async def provoke(url: str, api: Api, plant: Planted, key: str) -> None:
    """Calls that succeed, fail, and are refused, with secrets in whatever a caller may send."""
    caller = ModernCaller(url, api.http, token=key)
    sent = {"cookie": plant("a cookie"), "proxy-authorization": plant("a proxy's"), "x-vault-token": plant("a header")}
    caller.headers |= sent
    for name in ("git__whoami", "quoting__x", "local__env", "local__none", "machine__whoami", "local__fail"):
        said = await caller.request("tools/call", {"name": name, "arguments": {"password": plant("an argument")}})
        if "result" not in said.message:
            api.heard.append(said.raw.decode("latin-1"))
    for wrong in (plant("a wrong key"), f"{plant('a wrong jwt')}.e30.e30"):
        said = await ModernCaller(url, api.http, token=wrong).request("tools/list")
        api.heard.append(f"{said.raw!r} {said.headers}")
    async with api.http.post(url, data=f'{{"x": "{plant("a broken body")}"', headers=caller.headers) as answer:
        api.heard.append(await answer.text())
    query = f"state={plant('a state')}&code={plant('a code of nobody')}"
    async with api.http.get(f"{api.base}oauth/callback?{query}") as answer:
        api.heard.append(await answer.text())


async def everything(api: Api) -> None:
    """Read whatever the admin API gives, and the metrics."""
    described = await api("GET", "openapi.json")
    for path, methods in described["paths"].items():
        if "get" in methods and "events" not in path:
            place = path.removeprefix("/api/v1/").replace("{name}", "git").replace("{server}", "git")
            await api("GET", re.sub(r"\{\w+\}", "ana", place))
    async with api.http.get(f"{api.base}metrics", headers={"authorization": f"Bearer {api.key}"}) as answer:
        api.heard.append(await answer.text())


def files_of(folder: Path, but: set[str]) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but:
            yield str(path.relative_to(folder)), path.read_bytes()


async def test_thirty_planted_secrets_are_found_nowhere(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    plant, heard = Planted(), list[str]()
    env = {f"P_{what}": plant(what) for what in (
        "HEADER", "TOKEN", "QUERY", "GONE_QUERY", "CLIENT_SECRET", "ENV", "ASSERTION",
    )}  # fmt: skip
    (tmp_path / "temporary").mkdir()
    env["TMPDIR"] = str(tmp_path / "temporary")
    environ = {**os.environ, "TRUNKLINE_HOME": str(tmp_path), PASSPHRASE: plant("passphrase")}

    async def run(*words: str, given: str = "") -> None:
        """A command, which may ask the servers of this process."""
        done = await asyncio.to_thread(
            subprocess.run, [TRUNKLINE, *words, "--config", str(tmp_path / "config.json")],
            input=given, capture_output=True, text=True, env={**environ, **env}, timeout=60, check=False,
        )  # fmt: skip
        heard.append(done.stdout + done.stderr)

    def grant(asked: dict[str, str]) -> web.Response | None:
        machine = asked["grant_type"] != "authorization_code"
        token = plant("a machine's token") if machine else plant("access token")
        one.valid.add(token)
        said = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        return web.json_response(said if machine else {**said, "refresh_token": plant("refresh token")})

    def sent_back(sent: dict[str, str]) -> dict[str, str]:
        plant.all["the state of a sign-in"] = sent["state"]
        return {**sent, "code": plant("code")}

    async with provider(answer=grant, sent_back=sent_back, more=[web.post("/quoting", quoting)]) as one:
        (tmp_path / "config.json").write_text(json.dumps(config_of(one)))
        await run("secret", "set", "P_KEPT", given=plant("kept secret"))
        with trunkline_up(tmp_path, config_of(one), **env) as (url, process):
            admin = Api(url, http, env["P_TOKEN"], heard)
            await admin("POST", "users", {"name": "ana"})
            key = plant.all["a user's key"] = (await admin("POST", "keys", {"user": "ana"}, given=True))["key"]
            await registered(admin, one, plant)
            await registered(admin, one, plant, user="ana")
            begun = await Api(url, http, key, heard)("POST", "servers/git/login", given=True)
            async with browsing() as tab, tab.get(begun["url"], headers={"authorization": f"Bearer {key}"}) as page:
                heard.append(await page.text())
            plant.all["the verifier of a sign-in"] = one.tokens[-1].get("code_verifier", "no verifier")
            await provoke(url, admin, plant, key)
            await everything(admin)
            for words in (
                ("list", "--format", "json"), ("servers",), ("connections", "--user", "ana"), ("doctor",),
                ("store", "backup", str(tmp_path / "backup.db")), ("store", "export", str(tmp_path / "plain.json")),
                ("store", "export", str(tmp_path / "sealed.json"), "--passphrase"),
            ):  # fmt: skip
                await run(*words)
            processes = [psutil.Process(process.pid), *descendants(process.pid)]
            typed = " ".join(" ".join(each.cmdline()) for each in processes)
            children = {each.pid: str(each.environ()) for each in processes[1:]}
            live = {name: plant.found_in(content) for name, content in files_of(tmp_path, {"config.json"})}
            process.terminate()
            heard += process.communicate(timeout=15)

    assert len(plant.all) >= 30, len(plant.all)
    assert [plant("access token") in one.seen, bool(one.tokens)] == [True, True]  # they were really in use
    left = {name: plant.found_in(content) for name, content in files_of(tmp_path, {"config.json"})}
    assert left.keys() >= {"backup.db", "plain.json", "sealed.json", "trunkline.db"}
    assert {place: found for place, found in {**left, **live}.items() if found} == {}
    assert [(text[:300], plant.found_in(text)) for text in heard if plant.found_in(text)] == []
    assert plant.found_in(typed) == []
    assert [found for text in children.values() if (found := plant.found_in(text))] == [["ENV"]]
