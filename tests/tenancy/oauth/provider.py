"""A server with an authorization server of its own, which does wrong what a test wants done wrong."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp import web

from tests.harness import until
from trunkline.config.tenancy import StoreConfig
from trunkline.gateway.serve import Gateway
from trunkline.tenancy.oauth.tokens import Tokens, load, save
from trunkline.tenancy.tenancy import open_tenancy

Asked = dict[str, str]


@dataclass
class Provider:
    """Both in one: `/mcp` takes the tokens that `/token` gives. Refresh tokens are used once, or the family is gone."""

    url: str = ""
    expires_in: Any = 3600
    scopes: str = ""
    rotates: bool = True
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """What it says of itself besides, or otherwise; what is `None` is left out."""
    description: dict[str, Any] = field(default_factory=dict[str, Any])
    """The same for the server's own description."""
    sent_back: Callable[[dict[str, str]], dict[str, str]] = lambda sent: sent
    """Changes what people are sent back with."""
    answer: Callable[[Asked], web.Response | None] = lambda asked: None
    """Answers at the token endpoint in our place."""
    before_answer: Callable[[], Awaitable[object]] | None = None
    """Done when a token was given out, before it is sent."""
    answered_to: int = 0
    """The port that a token was sent to last, after that."""
    tokens: list[Asked] = field(default_factory=list[Asked])
    """Every request for a token."""
    authorizations: list[Asked] = field(default_factory=list[Asked])
    revoked: list[Asked] = field(default_factory=list[Asked])
    registered: int = 0
    calls: list[str] = field(default_factory=list[str])
    """The token of each call that was run."""
    seen: set[str] = field(default_factory=set[str])
    """Every token that was shown to the server."""
    refused: int = 0
    refused_by: set[str] = field(default_factory=set[str])
    valid: set[str] = field(default_factory=set[str])
    refreshable: set[str] = field(default_factory=set[str])
    gate: asyncio.Event | None = None
    """If there is one, token requests wait for it."""
    hold: asyncio.Event | None = None
    """If there is one, the next refusal waits for it."""
    challenges: dict[str, str] = field(default_factory=dict[str, str])
    away: bool = False
    """Whether nothing is said of the server any more."""
    tool: dict[str, Any] = field(default_factory=lambda: {"name": "whoami", "inputSchema": {"type": "object"}})
    """What the server says that it has, to whoever is signed in."""
    more: list[web.RouteDef] = field(default_factory=list[web.RouteDef])
    """What it answers at other addresses."""
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def refreshes(self) -> list[Asked]:
        return [asked for asked in self.tokens if asked["grant_type"] == "refresh_token"]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/.well-known/oauth-protected-resource/mcp", self._described),
            web.get("/.well-known/oauth-authorization-server", self._metadata),
            web.get("/authorize", self._authorize),
            web.post("/token", self._token),
            web.post("/register", self._register),
            web.post("/revoke", self._revoke),
            web.post("/mcp", self._mcp),
            *self.more,
        ]

    async def _described(self, request: web.Request) -> web.Response:
        if self.away:
            raise web.HTTPNotFound
        said = {"resource": f"{self.url}/mcp", "authorization_servers": [self.url], **self.description}
        return web.json_response({key: value for key, value in said.items() if value is not None})

    async def _metadata(self, request: web.Request) -> web.Response:
        said = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none"],
            **self.metadata,
        }
        return web.json_response({key: value for key, value in said.items() if value is not None})

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.authorizations.append(asked)
        code = f"code-{next(self._numbers)}"
        self.challenges[code] = asked["code_challenge"]
        sent = self.sent_back({"code": code, "state": asked["state"], "iss": self.url})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{urlencode(sent)}")

    async def _register(self, request: web.Request) -> web.Response:
        self.registered += 1
        return web.json_response({"client_id": f"client-{self.registered}"}, status=201)

    async def _revoke(self, request: web.Request) -> web.Response:
        asked = {key: str(value) for key, value in (await request.post()).items()}
        self.revoked.append(asked)
        self.valid.discard(asked["token"])
        self.refreshable.discard(asked["token"])
        return web.Response()

    async def _token(self, request: web.Request) -> web.Response:
        asked = {key: str(value) for key, value in (await request.post()).items()}
        self.tokens.append(asked)
        if self.gate is not None:
            await self.gate.wait()
        own = self.answer(asked)
        if own is not None:
            return own
        if asked["grant_type"] == "authorization_code":
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if self.challenges.pop(asked["code"], "") != proof:
                return web.json_response({"error": "invalid_grant"}, status=400)
        elif asked["refresh_token"] not in self.refreshable:
            self.valid.clear()  # somebody used it twice: the whole family is revoked
            self.refreshable.clear()
            return web.json_response({"error": "invalid_grant"}, status=400)
        else:
            self.valid.clear()
            if self.rotates:
                self.refreshable.discard(asked["refresh_token"])
        made = web.json_response(self.grant(first=asked["grant_type"] != "refresh_token"))
        if self.before_answer is not None:
            await self.before_answer()
            await made.prepare(request)
            await made.write_eof()
            assert request.transport is not None
            self.answered_to = request.transport.get_extra_info("peername")[1]
        return made

    def grant(self, *, first: bool = False) -> dict[str, Any]:
        """New tokens."""
        number = next(self._numbers)
        self.valid.add(f"access-{number}")
        said: dict[str, Any] = {"access_token": f"access-{number}", "token_type": "Bearer"}
        if self.rotates or first:
            self.refreshable.add(f"refresh-{number}")
            said["refresh_token"] = f"refresh-{number}"
        if self.expires_in is not None:
            said["expires_in"] = self.expires_in
        return said | ({"scope": self.scopes} if self.scopes else {})

    def challenge(self) -> web.Response:
        """Wants a token, and says where to have one."""
        where = f"{self.url}/.well-known/oauth-protected-resource/mcp"
        return web.json_response({}, status=401, headers={"www-authenticate": f'Bearer resource_metadata="{where}"'})

    async def _mcp(self, request: web.Request) -> web.Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.seen.add(token)
        if token not in self.valid:
            self.refused += 1
            self.refused_by.add(request.headers.get("x-process", ""))
            hold, self.hold = self.hold, None
            if hold is not None:
                await hold.wait()
            return self.challenge()
        asked = await request.json()
        rest: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if asked["method"] == "server/discover":
            info = {"name": "protected", "version": "1"}
            rest |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": info}
        elif asked["method"] == "tools/list":
            rest |= {"tools": [self.tool]}
        else:
            self.calls.append(token)
            rest |= {"content": [{"type": "text", "text": "you"}]}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": rest})


@asynccontextmanager
async def provider(**options: Any) -> AsyncGenerator[Provider]:
    """One that runs."""
    made = Provider(**options)
    app = web.Application()
    app.add_routes(made.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


def server_of(one: Provider, **oauth: Any) -> dict[str, Any]:
    """How it is configured."""
    return {"git": {"url": f"{one.url}/mcp", "health_interval": 0, **({"oauth": oauth} if oauth else {})}}


async def login(opened: Gateway, http: aiohttp.ClientSession, *, key: str = "", server: str = "git") -> dict[str, Any]:
    """Begin a sign-in."""
    async with http.post(f"{base_of(opened)}/api/v1/servers/{server}/login", headers=bearer(key)) as answer:
        return {"status": answer.status, **await answer.json()}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def browsing() -> aiohttp.ClientSession:
    """A browser of its own, which keeps cookies also of an address that is a number."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def sign_in(opened: Gateway, http: aiohttp.ClientSession, *, key: str = "") -> tuple[int, str]:
    """Sign in as a person would, and wait until that is felt; the page they end at."""
    told = await login(opened, http, key=key)
    async with browsing() as tab, tab.get(told["url"], headers=bearer(key)) as page:
        status, text = page.status, await page.text()
    if status == 200 and not key:
        await until(lambda: "whoami" in opened.hub.snapshot.tools)
    return status, text


def base_of(opened: Gateway) -> str:
    return opened.url.removesuffix("/mcp")


async def kept_tokens(home: Path, user: str = "") -> Tokens | None:
    """What is kept of a sign-in."""
    async with open_tenancy(StoreConfig(), home) as tenancy:
        return await load(tenancy.vault, user, "git")


async def age(home: Path) -> Tokens:
    """Let the access token that is kept have ended long ago."""
    return await replace_tokens(home, {"expires": 1.0})


async def replace_tokens(home: Path, said: dict[str, Any]) -> Tokens:
    """Change what is kept, as another process would."""
    async with open_tenancy(StoreConfig(), home) as tenancy:
        found = await load(tenancy.vault, "", "git")
        assert found is not None
        known = {name: value for name, value in said.items() if name in Tokens.__struct_fields__}
        changed = msgspec.structs.replace(found, **known)
        await save(tenancy.vault, "", "git", changed)
        return changed
