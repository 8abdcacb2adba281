"""A server of either era in this process, over HTTP, that remembers what it was asked and says what a test wants."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.faulty import http_server
from tests.faulty.http_server import Call, RefusedError, Request

PAGE = {"uri": "page://a", "name": "a"}
CONTENTS = {"contents": [{"uri": "page://a", "text": "A"}]}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "logging": {},
    "prompts": {},
    "completions": {},
    "resources": {"subscribe": True, "listChanged": True},
}


class Inside(http_server.Server):
    """The server that misbehaves on demand, with resources and prompts beside its tools."""

    def __init__(self, era: str, name: str) -> None:
        flags = {"port": 0, "log": "", "start": "none", "list": "ok", "sse": False, "no_get": False, "redirect_to": 9}
        super().__init__(Namespace(era=era, name=name, **flags))
        self.url = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Requests, in order."""
        self.heard: list[dict[str, Any]] = []
        """Notifications and answers, in order."""
        self.results: dict[str, dict[str, Any] | RefusedError] = {
            "resources/list": {"resources": [PAGE]},
            "resources/templates/list": {"resourceTemplates": []},
            "prompts/list": {"prompts": [{"name": "talk"}]},
            "prompts/get": {"messages": []},
            "resources/read": CONTENTS,
            "resources/subscribe": {},
            "resources/unsubscribe": {},
            "completion/complete": {"completion": {"values": ["a"]}},
        }
        """What methods answer that the server has beside its tools."""

    def methods(self, prefix: str = "") -> list[str]:
        """The methods that it was asked for, of one kind."""
        return [method for method, _ in self.asked if method.startswith(prefix)]

    def about(self) -> dict[str, Any]:
        return {**super().about(), "capabilities": CAPABILITIES}

    async def request(self, request: Request, call: Call) -> None:
        self.asked.append((call.method, call.params))
        result = self.results.get(call.method)
        if isinstance(result, RefusedError):
            raise result
        if str(call.params.get("uri", "")).startswith("no:"):
            raise RefusedError(200, -32002, "There is no such resource.")
        if result is None:
            await super().request(request, call)
        else:
            await self.finish(call, result, cached=True)

    async def told(self, request: Request, message: dict[str, Any], params: dict[str, Any]) -> None:
        self.heard.append(message)
        await super().told(request, message, params)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Say something on every stream that is open."""
        text = json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()
        for _, queue in self.streams:
            queue.put_nowait(text)


@asynccontextmanager
async def inside(era: str = "legacy", name: str = "inside") -> AsyncGenerator[Inside]:
    """Such a server, for the body."""
    server = Inside(era, name)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    async with listening:
        yield server
