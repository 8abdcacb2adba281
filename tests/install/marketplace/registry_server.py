"""A registry on this machine that speaks the API v0.1, and misbehaves as it is told."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

OFFICIAL = "io.modelcontextprotocol.registry/official"


def item(name: str, version: str = "1.0.0", *, updated: str = "2026-01-01T00:00:00Z", **server: Any) -> dict[str, Any]:
    """What a registry says of a server that is an npm package; members that are `None` are left out."""
    made: dict[str, Any] = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name,
        "description": "Weather of the world",
        "version": version,
        "repository": {"url": "https://github.com/example/weather", "source": "github"},
        "packages": [
            {
                "registryType": "npm",
                "identifier": "@example/weather",
                "version": version,
                "transport": {"type": "stdio"},
                "environmentVariables": [{"name": "WEATHER_KEY", "isRequired": True, "isSecret": True}],
            }
        ],
    }
    made |= server
    official = {"status": "active", "publishedAt": updated, "updatedAt": updated, "isLatest": True}
    return {"server": {key: value for key, value in made.items() if value is not None}, "_meta": {OFFICIAL: official}}


def with_status(one: dict[str, Any], status: str, message: str = "", updated: str = "") -> dict[str, Any]:
    """The same server in another state."""
    made = copy.deepcopy(one)
    made["_meta"][OFFICIAL]["status"] = status
    if message:
        made["_meta"][OFFICIAL]["statusMessage"] = message
    if updated:
        made["_meta"][OFFICIAL]["updatedAt"] = updated
    return made


class FakeRegistry:
    """What it has, what it was asked, and how it answers."""

    def __init__(self, *items: Any, page: int = 30) -> None:
        self.items: list[Any] = list(items)
        self.page = page
        self.asked: list[str] = []
        """The paths and queries of all requests."""
        self.heard = asyncio.Event()
        """Set by the first request."""
        self.tokens: list[str] = []
        self.status = 200
        self.body: bytes | None = None
        self.silent = False
        self.etag = ""
        self.endless = False

    @property
    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v0.1/servers", self._list)
        app.router.add_get("/v0.1/servers/{name}/versions", self._versions)
        app.router.add_get("/v0.1/servers/{name}/versions/{version}", self._version)
        return app

    async def _misbehave(self, request: web.Request) -> web.Response | None:
        self.asked.append(request.raw_path)
        self.heard.set()
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.silent:
            await asyncio.Event().wait()
        if self.etag and request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers={"ETag": self.etag})
        if self.body is not None or self.status != 200:
            return web.Response(status=self.status, body=self.body or b'{"error": "no"}')
        return None

    async def _list(self, request: web.Request) -> web.Response:
        refused = await self._misbehave(request)
        if refused is not None:
            return refused
        query = request.query
        found = [one for one in self.items if query.get("search", "") in str(one)]
        if "updated_since" in query:
            found = [one for one in found if one["_meta"][OFFICIAL]["updatedAt"] >= query["updated_since"]]
        else:
            found = [one for one in found if "'deleted'" not in str(one)]
        start = int(query.get("cursor", "0") or 0)
        size = min(self.page, int(query.get("limit", "30")))
        shown = found[start : start + size]
        more = self.endless or start + size < len(found)
        metadata = {"count": len(shown)} | ({"nextCursor": "0" if self.endless else str(start + size)} if more else {})
        headers = {"ETag": self.etag} if self.etag else {}
        return web.json_response({"servers": shown, "metadata": metadata}, headers=headers)

    async def _versions(self, request: web.Request) -> web.Response:
        refused = await self._misbehave(request)
        if refused is not None:
            return refused
        found = [one for one in self.items if one["server"]["name"] == request.match_info["name"]]
        if not found:
            return web.json_response({"error": "Server not found"}, status=404)
        return web.json_response({"servers": found, "metadata": {"count": len(found)}})

    async def _version(self, request: web.Request) -> web.Response:
        refused = await self._misbehave(request)
        if refused is not None:
            return refused
        name, version = request.match_info["name"], request.match_info["version"]
        for one in self.items:
            if one["server"]["name"] == name and version in ("latest", one["server"]["version"]):
                return web.json_response(one)
        return web.json_response({"error": "Server not found"}, status=404)


@asynccontextmanager
async def serving(registry: FakeRegistry) -> AsyncGenerator[str]:
    """Its address."""
    async with TestServer(registry.app) as server:
        yield str(server.make_url("")).rstrip("/")
