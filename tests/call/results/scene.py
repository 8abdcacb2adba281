"""A warehouse whose answers are too large, and whoever asks it through the gateway."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness import Heard, LegacyCaller, ModernCaller, gateway
from trunkline.authoring.server import MCPServerBase
from trunkline.gateway.serve import Gateway
from trunkline.tool import ToolResult

Json = dict[str, Any]
PREVIEW = "dev.trunkline/preview"
IMAGE: Json = {"type": "image", "data": "iVBORw0KGgo" * 9000, "mimeType": "image/png"}
ITEMS: Json = {"type": "object", "properties": {"total": {"type": "integer"}, "items": {"type": "array"}}}


def stock(count: int) -> Json:
    """So many things in store."""
    chance = random.Random(7)
    items = [
        {"id": at, "name": f"Thing {at}", "price": round(chance.random() * 100, 2), "shelf": {"row": at % 40}}
        for at in range(count)
    ]
    return {"total": count, "items": items}


def lines(count: int) -> str:
    """A log of so many lines."""
    return "".join(f"{at} the quick brown fox jumped over the lazy dog\n" for at in range(1, count + 1))


def warehouse(**more: Callable[..., Any]) -> MCPServerBase:
    """A server with answers of every kind."""
    server = MCPServerBase(id="store", name="store")

    def list_stock(count: int = 3000) -> dict[str, Any]:
        """List what is in store."""
        return stock(count)

    def read_log(count: int = 3000) -> str:
        """Read the log."""
        return lines(count)

    def dump_stock(count: int = 3000) -> str:
        """What is in store, as text."""
        return json.dumps(stock(count))

    def fail(count: int = 3000) -> ToolResult:
        """Fail with many words."""
        return ToolResult([{"type": "text", "text": lines(count)}], is_error=True)

    def draw() -> ToolResult:
        """Draw a picture."""
        return ToolResult([IMAGE, {"type": "text", "text": "A picture."}])

    def draw_and_tell() -> ToolResult:
        """Draw a picture, and say much about it."""
        return ToolResult([IMAGE, {"type": "text", "text": lines(3000)}], meta={"kept": 1})

    for function in (list_stock, read_log, dump_stock, fail, draw, draw_and_tell, *more.values()):
        server.register_tool(function)
    return server


class Scene:
    """A gateway, and callers of both eras."""

    def __init__(self, opened: Gateway, http: aiohttp.ClientSession) -> None:
        self.opened, self.hub, self._http = opened, opened.hub, http

    def caller(self, token: str = "", profile: str = "") -> ModernCaller:
        return ModernCaller(self.opened.url + (f"/{profile}" if profile else ""), self._http, token=token)

    async def legacy(self, version: str = "2025-11-25") -> LegacyCaller:
        return await LegacyCaller(self.opened.url, self._http).open(version)

    async def kept(self, tool: str = "list_stock", arguments: Json | None = None, **whose: str) -> str:
        """Have a large result made; what it is kept as."""
        heard = await self.caller(**whose).call(tool, arguments)
        return handle_of(heard)

    async def read(self, tool: str, result: str, token: str = "", **arguments: Any) -> Json:
        """What one of the tools that read results answers."""
        heard = await self.caller(token).call(tool, {"result": result, **arguments})
        assert not heard.result.get("isError"), heard.text
        return json.loads(heard.text)


def handle_of(heard: Heard) -> str:
    """What a result is kept as."""
    return heard.result["_meta"][PREVIEW]["result"]


@asynccontextmanager
async def opened(
    home: Path,
    http: aiohttp.ClientSession,
    results: Json | None = None,
    *,
    sections: Json | None = None,
    server: MCPServerBase | None = None,
    servers: Json | None = None,
    **options: Any,
) -> AsyncGenerator[Scene]:
    """A gateway that keeps what is larger than 1,000 tokens, unless it is told otherwise."""
    told = {"results": {"max_tokens": 1000} if results is None else results, **(sections or {})}
    async with gateway(home, servers or {}, sections=told, **options) as gate:
        if not servers:
            await gate.hub.mount(server or warehouse())
        yield Scene(gate, http)
