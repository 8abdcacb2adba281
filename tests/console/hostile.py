"""A gateway whose servers, callers, users and providers say nothing but what would be markup, scripts or links."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.console.browser import DESK, Running, running
from tests.console.house import call_people
from tests.harness import ModernCaller, make_config, plain_server
from tests.install.marketplace.registry_server import FakeRegistry, item, serving
from tests.tenancy.oauth.provider import Provider, browsing, provider, server_of
from tests.tenancy.provider import Provider as Signer
from trunkline.config.options import Config
from trunkline.tenancy.threads import Thread

TOKEN = "an-unguessable-token-1"
WORDS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    '"><script>window.pwned=1</script>',
    "'><img src=x onerror=window.pwned=1>",
    "</textarea><script>window.pwned=1</script>",
    "</title><script>window.pwned=1</script>",
    "</pre><iframe src=javascript:parent.pwned=1></iframe>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "javascript:window.pwned=1",
    " javascript:window.pwned=1",
    "JaVaScRiPt:window.pwned=1",
    "java\tscript:window.pwned=1",
    "javascript://example.com/%0awindow.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "data:image/svg+xml,<svg onload=window.pwned=1>",
    "vbscript:window.pwned=1",
    "https://evil.example/track.png",
    "//evil.example/track.js",
    "<link rel=stylesheet href=https://evil.example/a.css>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href=https://evil.example/>",
    "<a href=javascript:window.pwned=1>press</a>",
    "<form action=https://evil.example/><button>press</button></form>",
    "<style>@import 'https://evil.example/a.css'</style>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}`;window.pwned=1;//",
    "__proto__",
    "\u202e<b>constructor</b>\ufeff&lt;script&gt;",
)
ALL = "\n".join(WORDS)


def definition(more: str = "") -> dict[str, Any]:
    """A tool that says such words wherever it can."""
    fields = {word: {"type": "string", "title": word, "description": word, "default": word} for word in WORDS}
    return {
        "name": "echo",
        "title": ALL,
        "description": ALL + more,
        "inputSchema": {
            "type": "object",
            "title": ALL,
            "required": ["words"],
            "properties": {
                "words": {"type": "array", "items": {"type": "string"}, "default": list(WORDS), "description": ALL},
                "one": {"enum": list(WORDS), "title": WORDS[0]},
                "nested": {"type": "object", "title": WORDS[1], "description": ALL, "properties": fields},
            },
        },
        "outputSchema": {"type": "object", "description": ALL},
        "annotations": {"title": ALL, "readOnlyHint": True},
        "icons": icons(),
    }


def icons() -> list[dict[str, Any]]:
    """Pictures that are documents, from everywhere."""
    return [{"src": word, "mimeType": "image/svg+xml", "sizes": [word]} for word in WORDS]


def offer(file: Path, more: str = "") -> None:
    """Let the server offer that tool, some that ask and refuse, and some that are called such words."""
    free = {"type": "object", "additionalProperties": True}
    tools = [definition(more), *({"name": name, "inputSchema": free} for name in ("ask", "refuse", *WORDS))]
    info = {"title": ALL, "version": WORDS[0], "description": ALL, "websiteUrl": WORDS[10], "icons": icons()}
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"tools": tools, "info": info}))
    fresh.replace(file)


def form(message: str) -> dict[str, Any]:
    """A question in such words: in its message, and in all that a field can say."""
    titled = [{"const": word, "title": word} for word in WORDS]
    said: dict[str, Any] = {
        f"text{number}": {"type": "string", "title": word, "description": word, "default": word}
        for number, word in enumerate(WORDS)
    }
    said["named"] = {"type": "string", "title": WORDS[0], "enum": list(WORDS), "enumNames": list(WORDS)}
    said["titled"] = {"type": "string", "title": WORDS[1], "oneOf": titled}
    said["several"] = {"type": "array", "title": WORDS[2], "items": {"anyOf": titled}}
    return {"message": message, "requestedSchema": {"type": "object", "properties": said}}


def elsewhere(word: str) -> dict[str, Any]:
    """A question that is answered at such an address."""
    return {"mode": "url", "message": word, "url": word, "elicitationId": word}


@dataclass
class Hostile:
    """The gateway, and who is around it."""

    home: Path
    running: Running = field(init=False)
    http: aiohttp.ClientSession = field(init=False)
    git: Provider = field(init=False)
    """Where one signs in to a server."""
    corp: Provider = field(init=False)
    """Where people are from."""
    signer: Signer = field(default_factory=Signer)
    person: str = ""
    """Who signs in there next."""

    @property
    def offered(self) -> Path:
        """The file of what the server offers."""
        return self.home / "offered.json"

    @property
    def base(self) -> str:
        """Where the console is."""
        return self.running.base

    @asynccontextmanager
    async def scene(self) -> AsyncGenerator[Config]:
        """All of them, and how the gateway is configured."""
        keys = web.get("/keys", self._keys)
        async with (
            provider(scopes=" ".join(word.replace(" ", "_") for word in WORDS)) as self.git,
            provider(more=[keys]) as self.corp,
            serving(FakeRegistry(*entries())) as near,
            aiohttp.ClientSession() as self.http,
        ):
            call_people(self.git, WORDS[0])
            self.signer.url = self.corp.url
            self.corp.metadata = {"jwks_uri": f"{self.corp.url}/keys", "token_endpoint_auth_methods_supported": None}
            grant = self.corp.grant

            def with_id(*, first: bool = False) -> dict[str, Any]:
                nonce = self.corp.authorizations[-1]["nonce"]
                token = self.signer.token("console", headers={"typ": "JWT"}, sub=self.person, nonce=nonce)
                return {**grant(first=first), "id_token": token}

            self.corp.grant = with_id
            servers = {
                "mean": plain_server(DESK, str(self.offered), trust="follow"),
                "held": plain_server(DESK, str(self.offered), trust="hold"),
                "gone": {"command": f"/nowhere/{WORDS[1]}", "args": list(WORDS)},
                **server_of(self.git, shared=True),
            }
            sections = {
                "audit": {"enabled": True},
                "registries": {"official": {"enabled": False}, "near": {"url": near}},
                "profiles": {"code": {"expose": "code"}},
                "auth": {"issuers": {"corp": {"issuer": self.corp.url, "client_id": "console"}}},
            }
            yield make_config(self.home / "kept", servers, sections=sections, token=TOKEN, namespace="always")

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response(self.signer.listed())

    async def fill(self) -> None:
        """Have people, keys, threads, servers, calls, questions and programs of such names."""
        tenancy = self.running.gateway.hub.relay.tenancy
        await tenancy.people.add_user("eve", "member", {})
        for number, word in enumerate(filter(str.isprintable, WORDS)):
            await tenancy.threads.put(Thread(f"{number} {word}"[:60], "eve", (), (), (word[:60],)), of_user=True)
        for word in WORDS:
            await tenancy.people.make_key("eve", name=word[:60])
            await self.join(word)
        own = {"name": "own", "url": "https://own.example/mcp", "display_name": WORDS[0], "description": ALL}
        await self.running.gateway.hub.relay.tenants.register({**own, "tags": [WORDS[1]]}, user="")
        for word in WORDS:
            await self.call("mean__refuse", {"refuses": word}, client=word)
            await self.call("mean__ask", {"asks": elsewhere(word)}, client=word)
        await self.call("mean__ask", {"asks": form(ALL)})
        await self.call("run_code", {"code": f"raise ValueError({ALL!r})"}, profile="/code")

    async def join(self, name: str) -> None:
        """Somebody of the provider signs in who is called so there."""
        self.person = name
        async with browsing() as tab, tab.get(f"{self.base}/console/sign-in/corp") as page:
            assert page.status == 200, await page.text()

    async def call(self, tool: str, arguments: dict[str, Any], *, client: str = "test", profile: str = "") -> None:
        """A call of somebody who can be asked, and whose client is called so."""
        own = "io.modelcontextprotocol/"
        meta: dict[str, Any] = {f"{own}clientCapabilities": {"elicitation": {"form": {}, "url": {}}}}
        meta |= {f"{own}clientInfo": {"name": client, "version": client}}
        caller = ModernCaller(f"{self.running.gateway.url}{profile}", self.http, token=TOKEN)
        assert (await caller.call(tool, arguments, meta=meta)).status == 200


def words() -> dict[str, Any]:
    """What another client has: servers that are called such words."""
    return {word: {"url": f"https://evil.example/{number}", "name": word} for number, word in enumerate(WORDS)}


def clients_of(home: Path, servers: dict[str, Any]) -> None:
    (home / "user" / ".cursor").mkdir(parents=True)
    (home / "user" / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def entries() -> list[Any]:
    """What a registry says of servers, in such words."""
    return [
        item(
            f"com.example/mean{number}",
            title=word,
            description=word,
            repository=None,
            packages=None,
            remotes=[{"type": "streamable-http", "url": f"https://evil.example/{number}", "headers": [wanted(word)]}],
        )
        for number, word in enumerate(WORDS)
    ]


def wanted(word: str) -> dict[str, Any]:
    """A value that an entry wants to know."""
    return {"name": "X-Key", "description": word, "isRequired": True, "default": word, "choices": [word, "other"]}


@contextmanager
def open_hostile(home: Path) -> Generator[Hostile]:
    """One with everything in it."""
    made = Hostile(home)
    clients_of(home, words())
    offer(made.offered)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home / "user"))
        patch.chdir(home)
        with running(made.scene()) as made.running:
            made.running.do(made.fill())
            yield made
