"""Servers for a group, in this process: each tells what reached it, and fails or waits when a test wants it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from tests.harness import VERSION

Json = dict[str, Any]
PREFIX = "io.modelcontextprotocol/"
SCHEMA: Json = {"type": "object", "properties": {"account": {"type": "string"}}}


def tool(name: str, **hints: bool) -> Json:
    """A tool as a server lists it."""
    return {"name": name, "description": f"{name}.", "inputSchema": SCHEMA, "annotations": hints}


READS = tool("get_balance", readOnlyHint=True)
WRITES = tool("send_money", readOnlyHint=False, destructiveHint=False)
DESTROYS = tool("delete_account", readOnlyHint=False, destructiveHint=True)
TOOLS = (READS, WRITES, DESTROYS)


class Member:
    """A modern server over HTTP; its answers name it."""

    def __init__(
        self,
        name: str,
        *,
        tools: tuple[Json, ...] = TOOLS,
        prompts: tuple[str, ...] = (),
        resources: tuple[str, ...] = (),
        templates: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.lists: Json = {
            "tools/list": {"tools": tools},
            "prompts/list": {"prompts": [{"name": prompt} for prompt in prompts]},
            "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in resources]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": t, "name": t} for t in templates]},
        }
        self.seen: list[str] = []
        """What reached it, but for the lists: `send_money`, or the method where no tool is named."""
        self.introductions = 0
        """How often somebody connected."""
        self.fails: Callable[[], bool] = lambda: False
        """Asked at every call: whether it does what it is asked, and then answers HTTP 500."""
        self.free = asyncio.Event()
        """Cleared, it keeps its calls waiting."""
        self.free.set()
        self.watchers: dict[Any, tuple[asyncio.Queue[Json], list[str]]] = {}
        self.port = 0
        self._runner: web.ServerRunner | None = None

    @property
    def spec(self) -> Json:
        """How it is configured."""
        return {"url": f"http://127.0.0.1:{self.port}/mcp"}

    async def start(self) -> None:
        """Listen, at the same port as before."""
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone: connections are closed, and new ones refused."""
        if self._runner is not None:
            for queue, _ in self.watchers.values():
                queue.put_nowait({})
            await self._runner.cleanup()

    def update(self, uri: str) -> None:
        """Tell those who follow a resource that it changed."""
        for id, (queue, uris) in self.watchers.items():
            if uri in uris:
                params = {"uri": uri, "_meta": {f"{PREFIX}subscriptionId": id}}
                queue.put_nowait({"method": "notifications/resources/updated", "params": params})

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        message: Json = await request.json()
        method, params = message["method"], message.get("params", {})
        if method == "subscriptions/listen":
            return await self._listen(request, message)
        if method == "server/discover":
            self.introductions += 1
        elif method not in self.lists:
            self.seen.append(params.get("name", method) if method == "tools/call" else method)
            failing = self.fails()
            await self.free.wait()
            if failing:
                return web.Response(status=500)
        result = self._result(method, params)
        if result is None:
            error = {"code": -32602, "message": f"{self.name} has no such thing."}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error}, status=400)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _result(self, method: str, params: Json) -> Json | None:
        text = {"type": "text", "text": f"by {self.name}"}
        whole = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
        match method:
            case "server/discover":
                offered = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
                return {**whole, "supportedVersions": [VERSION], "capabilities": offered}
            case "tools/call" if any(one["name"] == params["name"] for one in self.lists["tools/list"]["tools"]):
                return {"resultType": "complete", "content": [text]}
            case "prompts/get" if {"name": params["name"]} in self.lists["prompts/list"]["prompts"]:
                return {"resultType": "complete", "messages": [{"role": "user", "content": text}]}
            case "resources/read" if self._has(params["uri"]):
                return {**whole, "contents": [{"uri": params["uri"], "text": f"by {self.name}"}]}
            case "completion/complete":
                return {"resultType": "complete", "completion": {"values": [self.name]}}
            case _ if method in self.lists:
                return {**whole, **self.lists[method]}
            case _:
                return None

    def _has(self, uri: str) -> bool:
        templates = [one["uriTemplate"].partition("{")[0] for one in self._listed("resources/templates/list")]
        return uri in [one["uri"] for one in self._listed("resources/list")] or uri.startswith(tuple(templates))

    def _listed(self, method: str) -> list[Json]:
        return next(iter(self.lists[method].values()))

    async def _listen(self, request: web.BaseRequest, message: Json) -> web.StreamResponse:
        wanted: Json = message["params"]["notifications"]
        queue: asyncio.Queue[Json] = asyncio.Queue()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        tag = {f"{PREFIX}subscriptionId": message["id"]}
        granted = {"notifications": wanted, "_meta": tag}
        queue.put_nowait({"method": "notifications/subscriptions/acknowledged", "params": granted})
        self.watchers[message["id"]] = queue, wanted.get("resourceSubscriptions", [])
        try:
            while event := await queue.get():
                await response.write(b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", **event}).encode())
        except ConnectionError:
            pass  # whoever followed it is gone
        finally:
            del self.watchers[message["id"]]
        return response


@asynccontextmanager
async def serving(*members: Member) -> AsyncGenerator[Json]:
    """Servers that listen; how they are configured."""
    async with AsyncExitStack() as stack:
        for member in members:
            await member.start()
            stack.push_async_callback(member.stop)
        yield {member.name: member.spec for member in members}
