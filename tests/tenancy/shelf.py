"""A modern server in this process that has everything MCP has, and says in all of it whose it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.harness import VERSION

Json = dict[str, Any]
TASKS = "io.modelcontextprotocol/tasks"
TOOLS = ("read_note", "delete_note", "ask_note", "task_note")
CAPABILITIES: Json = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "extensions": {TASKS: {}},
}
QUESTION: Json = {
    "method": "elicitation/create",
    "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}}},
}


class Shelf:
    """Notes of one owner: each answer holds `said`, and nobody but its owner may ever see that."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.uri = f"note://{said.replace(' ', '-')}/first"
        self.template = f"note://{said.replace(' ', '-')}/{{id}}"
        self.url = ""
        self.followed: list[str] = []
        """The resources that somebody listens to."""
        self._streams: list[asyncio.Queue[Json]] = []

    def touch(self) -> None:
        """Tell whoever listens that the resource changed."""
        for stream in self._streams:
            stream.put_nowait({"method": "notifications/resources/updated", "params": {"uri": self.uri}})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message: Json = await request.json()
        method, params = message["method"], message.get("params", {})
        if method == "subscriptions/listen":
            return await self._listen(request, message)
        answer = self._answer(method, params)
        if answer is None:
            told: Json = {"error": {"code": -32601, "message": f"No method {method}."}}
        else:
            told = {"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **answer}}
        return web.json_response({"jsonrpc": "2.0", "id": message.get("id"), **told}, status=200 if answer else 404)

    def _answer(self, method: str, params: Json) -> Json | None:
        words = {"type": "text", "text": self.said}
        match method:
            case "server/discover":
                return {"supportedVersions": [VERSION], "capabilities": CAPABILITIES}
            case "tools/list":
                return {"tools": [_tool(name) for name in TOOLS]}
            case "prompts/list":
                return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
            case "resources/list":
                return {"resources": [{"name": "first", "uri": self.uri}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"name": "any", "uriTemplate": self.template}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": words}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": self.said}]}
            case "completion/complete":
                return {"completion": {"values": [self.said]}}
            case "tasks/get":
                return {**_TASK, "status": "completed", "result": {"content": [words]}}
            case "tools/call":
                return self._call(params)
            case _:
                return None

    def _call(self, params: Json) -> Json:
        words = f"deleted {self.said}" if params["name"] == "delete_note" else self.said
        if params["name"] == "ask_note" and "requestState" not in params:
            return {"resultType": "input_required", "inputRequests": {"sure": QUESTION}, "requestState": self.said}
        if params["name"] == "task_note" and TASKS in json.dumps(params["_meta"]):
            return {**_TASK, "resultType": "task", "status": "working"}
        return {"content": [{"type": "text", "text": words}]}

    async def _listen(self, request: web.Request, message: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        stream: asyncio.Queue[Json] = asyncio.Queue()
        granted = message["params"]["notifications"]
        stream.put_nowait({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": granted}})
        followed = granted.get("resourceSubscriptions", ())
        self.followed += followed
        self._streams.append(stream)
        try:
            while True:
                told = json.dumps({"jsonrpc": "2.0", **await stream.get()})
                await response.write(f"data: {told}\n\n".encode())
        except ConnectionError:
            return response
        finally:
            self._streams.remove(stream)
            for uri in followed:
                self.followed.remove(uri)


_TASK: Json = {
    "taskId": "the-first",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttlMs": None,
}


def _tool(name: str) -> Json:
    deletes = name == "delete_note"
    annotations = {"readOnlyHint": not deletes, "destructiveHint": deletes}
    words = name.replace("_", " a ").capitalize()
    return {"name": name, "description": f"{words}.", "inputSchema": {"type": "object"}, "annotations": annotations}


@asynccontextmanager
async def open_shelves(*shelves: Shelf) -> AsyncGenerator[None]:
    """Have them served for the body, all at one port."""
    app = web.Application()
    for number, shelf in enumerate(shelves):
        app.router.add_route("*", f"/{number}/mcp", shelf.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    for number, shelf in enumerate(shelves):
        shelf.url = f"http://127.0.0.1:{port}/{number}/mcp"
    try:
        yield
    finally:
        await runner.cleanup()
