"""Clients that list tools without any server, for tests of discovery."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from trunkline.control.discovery.manager import EnhancedToolDiscovery

Json = dict[str, Any]


def tool(name: str, description: str = "", **members: Any) -> Json:
    """A definition."""
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}, **members}


class Shop:
    """A client whose server lists some tools, so many to a page."""

    def __init__(self, *tools: Json, page: int = 1_000, version: str = "") -> None:
        self.tools = list(tools)
        self.page = page
        self.asked: list[str | None] = []
        self.server_info = SimpleNamespace(name="shop", version=version)

    async def list_tools(self, cursor: str | None = None) -> Json:
        self.asked.append(cursor)
        start = int(cursor or 0)
        end = start + self.page
        more: Json = {"nextCursor": str(end)} if end < len(self.tools) else {}
        return {"tools": self.tools[start:end], **more}


class Stuck:
    """A client whose server never answers."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()

    async def list_tools(self, cursor: str | None = None) -> Json:
        self.entered.set()
        await asyncio.Event().wait()
        return {}


async def discovered(*tools: Json, server: str = "shop", **options: Any) -> EnhancedToolDiscovery:
    """A catalogue with the tools of one server."""
    discovery = EnhancedToolDiscovery()
    result = await discovery.discover_tools_with_annotations(server, Shop(*tools, **options))
    assert result.success, result.error
    return discovery
