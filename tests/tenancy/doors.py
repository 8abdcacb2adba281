"""Every door of a gateway, tried by one caller: what is theirs is answered, and what is not is as if it were not."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.harness import META, VERSION, EventReader, Heard, LegacyCaller, ModernCaller
from tests.tenancy.shelf import TASKS
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
ABLE: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}}
YES: Json = {"sure": {"action": "accept", "content": {"sure": True}}}


@dataclass
class Doors:
    """One key, in one thread."""

    opened: Gateway
    http: aiohttp.ClientSession
    key: str
    thread: str = ""

    def __post_init__(self) -> None:
        self.headers = {"trunkline-thread": self.thread} if self.thread else {}
        self.caller = ModernCaller(self.opened.url, self.http, token=self.key)
        self.finder = ModernCaller(f"{self.opened.url}/finds", self.http, token=self.key)
        self.api = Admin(self.opened, self.http, self.key)

    async def ask(self, method: str, **params: Any) -> Heard:
        named = {"mcp-name": params["taskId"]} if "taskId" in params else {}
        return await self.caller.request(method, params, headers={**self.headers, **named}, meta=ABLE)

    async def session(self) -> LegacyCaller:
        legacy = LegacyCaller(self.opened.url, self.http)
        legacy.headers |= {"authorization": f"Bearer {self.key}", **self.headers}
        return await legacy.open()

    @asynccontextmanager
    async def listen(self, **wanted: Any) -> AsyncGenerator[EventReader]:
        """A subscription, as far as its acknowledgement."""
        params = {"notifications": wanted, "_meta": {**META, **ABLE}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        own = {"mcp-protocol-version": VERSION, "mcp-method": "subscriptions/listen"}
        sent = {**self.caller.headers, **self.headers, **own}
        async with self.http.post(self.opened.url, data=json.dumps(body), headers=sent) as response:
            yield EventReader(response)

    async def granted(self, **wanted: Any) -> Json:
        """What of a subscription is granted."""
        async with self.listen(**wanted) as stream:
            return (await stream.next())["params"]["notifications"]

    async def pages(self, noun: str, key: str, *, size: int = 2) -> list[Any]:
        """Everything of a list of the admin API, page by page."""
        found: list[Any] = []
        cursor = ""
        while True:
            thread = f"&thread={self.thread}" if self.thread and noun == "tools" else ""
            behind = f"&cursor={cursor}" if cursor else ""
            _, told = await self.api("GET", f"{noun}?limit={size}{thread}{behind}")
            found += [one[key] for one in told[noun]]
            cursor = told.get("cursor", "")
            if not cursor:
                return found


def names(heard: Heard, kind: str, key: str = "name") -> set[str]:
    return {one[key] for one in heard.result[kind]}


def is_refused_alike(heard: Heard, missing: Heard) -> bool:
    """Whether somebody is told the same of a thing that is not theirs as of one that never was."""
    return (heard.status, heard.error["code"]) == (missing.status, missing.error["code"])
