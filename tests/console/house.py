"""A gateway with something of everything in it: people, servers of every kind, a registry, other clients, programs."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.console.browser import DESK, Running, running
from tests.harness import Heard, ModernCaller, faulty_http, make_config, plain_server
from tests.install.marketplace.registry_server import FakeRegistry, item, serving
from tests.sandbox.shop import Shop
from tests.tenancy.oauth.provider import Provider, provider, server_of
from trunkline.config.options import Config

TOKEN = "an-unguessable-token-1"
ASKABLE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}}}


def definition(name: str, description: str) -> dict[str, Any]:
    """A tool of the desk."""
    words = {"words": {"type": "array", "items": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": words}}


ECHO = definition("echo", "Says what it hears.")
"""What is offered by the server whose changes must be agreed to, at first."""


@dataclass
class House:
    """The gateway, and what is around it."""

    home: Path
    far: str
    """The address of a server that can be added."""
    shop: Shop = field(default_factory=Shop)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    provider: Provider = field(default_factory=Provider)
    running: Running = field(init=False)
    http: aiohttp.ClientSession = field(init=False)

    @property
    def offered(self) -> Path:
        """What the server offers whose changes must be agreed to; it ends when this is gone."""
        return self.home / "offered.json"

    @property
    def base(self) -> str:
        """Where the console is."""
        return self.running.base

    def offer(self, *tools: dict[str, Any]) -> None:
        """Let it offer these from now on."""
        fresh = self.offered.with_suffix(".new")
        fresh.write_text(json.dumps({"tools": tools}))
        fresh.replace(self.offered)

    @asynccontextmanager
    async def scene(self) -> AsyncGenerator[Config]:
        """All that the gateway has to do with, and how it is configured."""
        async with provider() as self.provider, serving(self.registry) as near, aiohttp.ClientSession() as self.http:
            call_people(self.provider, "Ann of the hill")
            servers = {
                "desk": plain_server(DESK, trust="follow"),
                "gone": {"command": "/nowhere/to-be-found"},
                "held": plain_server(DESK, str(self.offered), trust="hold"),
                **server_of(self.provider, shared=True),
            }
            sections = {
                "audit": {"enabled": True},
                "limits": {"calls_per_hour": 1000},
                "registries": {"official": {"enabled": False}, "near": {"url": near}},
                "profiles": {"code": {"expose": "code"}, "few": {"servers": ["desk"], "pinned": ["desk__draw"]}},
            }
            yield make_config(self.home / "kept", servers, sections=sections, token=TOKEN, namespace="always")

    def modern(self, key: str = TOKEN, profile: str = "") -> ModernCaller:
        """A caller elsewhere."""
        return ModernCaller(f"{self.running.gateway.url}{profile}", self.http, token=key)

    def call(self, tool: str, arguments: dict[str, Any] | None = None, key: str = TOKEN) -> Heard:
        """Call a tool from elsewhere; who calls can be asked."""
        return self.running.do(self.modern(key).call(tool, arguments or {}, meta=ASKABLE))

    def retry(self, asked: Heard, tool: str, arguments: dict[str, Any], action: str = "accept") -> Heard:
        """The same call once more, after a person answered elsewhere."""
        answers = {name: {"action": action} for name in asked.result["inputRequests"]}
        again = {"name": tool, "arguments": arguments, "requestState": asked.result["requestState"]}
        return self.running.do(self.modern().request("tools/call", {**again, "inputResponses": answers}, meta=ASKABLE))

    def program(self, code: str) -> Heard:
        """Run a program from elsewhere."""
        return self.running.do(self.modern(profile="/code").call("run_code", {"code": code}, meta=ASKABLE))

    def begin(self, code: str) -> Any:
        """Run one that does not end by itself."""
        return self.running.start_soon(self.modern(profile="/code").call("run_code", {"code": code}, meta=ASKABLE))

    def key_of(self, name: str) -> str:
        """A key of somebody, who is new if they are not known."""

        async def make() -> str:
            people = self.running.gateway.hub.relay.tenancy.people
            if name not in [user.name for user in await people.users(after="", limit=100)]:
                await people.add_user(name, "member", {})
            return (await people.make_key(name, name="laptop"))[1]

        return self.running.do(make())

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The admin API, as whoever has the token."""

        async def send() -> Any:
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with self.http.request(method, f"{self.base}/api/v1/{path}", json=body, headers=headers) as answer:
                assert answer.ok, await answer.text()
                return await answer.json() if answer.status != 204 else None

        return self.running.do(send())


def call_people(provider: Provider, name: str) -> None:
    """Have whoever signs in there be called so."""
    grant = provider.grant

    def with_name(*, first: bool = False) -> dict[str, Any]:
        said = {"iss": provider.url, "aud": provider.authorizations[-1]["client_id"], "name": name}
        payload = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
        return {**grant(first=first), "id_token": f"e30.{payload}.x"}

    provider.grant = with_name


def clients_of(home: Path, far: str) -> None:
    """A machine whose user has another client already."""
    (home / ".cursor").mkdir(parents=True)
    servers = {"weather": {"url": far}, "files": {"command": "npx", "args": ["-y", "files-server"]}}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


@contextmanager
def open_house(folder: Path) -> Generator[House]:
    """One with everything in it."""
    with faulty_http() as far, pytest.MonkeyPatch.context() as patch:
        house = House(folder, far)
        clients_of(folder / "user", f"{far}?from=cursor")
        patch.setenv("HOME", str(folder / "user"))
        patch.chdir(folder)
        remotes = [{"type": "streamable-http", "url": f"{far}?from=registry"}]
        house.registry.items = [
            item("com.example/far", description="Echoes from far away", remotes=remotes, packages=None),
            item("com.example/near", description="Weather from this machine"),
        ]
        house.offer(ECHO)
        with running(house.scene()) as house.running:
            house.running.do(house.running.gateway.hub.mount(house.shop.server))
            yield house
