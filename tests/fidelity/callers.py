"""Callers of either era that do the same things, each in the way of its era."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import aiohttp

from tests.harness import META, VERSION, EventReader, Heard, LegacyCaller, ModernCaller, post

PREFIX = "io.modelcontextprotocol/"
Questions = list[dict[str, Any]]
Reply = Callable[[str, dict[str, Any]], dict[str, Any]]
"""What a person or a model answers: from the method and the params of a question to its result."""

ROUNDS = itertools.count(1000)


class Peer(Protocol):
    """A caller, whatever its era."""

    modern: bool

    async def introduction(self) -> dict[str, Any]:
        """What the server says of itself."""
        ...

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **headers: str
    ) -> Heard:
        """Send one request, and collect everything that comes back."""
        ...

    async def call_bytes(self, tool: str, arguments: bytes) -> Heard:
        """Call a tool with arguments that are sent as they are."""
        ...

    async def logged(self, tool: str, level: str) -> Heard:
        """Call a tool, and want its log messages from a level on."""
        ...

    async def answering(self, method: str, params: dict[str, Any], reply: Reply) -> tuple[Questions, Heard]:
        """Send one request, and answer what is asked meanwhile; the questions, and what came in the end."""
        ...

    async def notify(self, method: str) -> None:
        """Send a notification."""
        ...

    async def cancelled(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, and cancel the call at the first message, which is returned."""
        ...

    def listening(
        self, *keys: str, uri: str = "", tasks: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[EventReader]:
        """Hear of changed lists, of one resource, and of tasks."""
        ...


class ModernPeer:
    """A caller of 2026-07-28."""

    modern = True

    def __init__(self, url: str, http: aiohttp.ClientSession, capabilities: dict[str, Any]) -> None:
        self.caller = ModernCaller(url, http)
        self.capabilities = {PREFIX + "clientCapabilities": capabilities}

    async def introduction(self) -> dict[str, Any]:
        return (await self.request("server/discover")).result

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **headers: str
    ) -> Heard:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.caller.request(method, params, meta={**self.capabilities, **(meta or {})}, headers=named)

    async def call_bytes(self, tool: str, arguments: bytes) -> Heard:
        text = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":%s}}'
        body = text % (tool.encode(), arguments, json.dumps(META).encode())
        return await post(self.caller.http, self.caller.url, body, self._headers("tools/call", tool))

    async def logged(self, tool: str, level: str) -> Heard:
        return await self.request("tools/call", {"name": tool}, meta={PREFIX + "logLevel": level})

    async def answering(self, method: str, params: dict[str, Any], reply: Reply) -> tuple[Questions, Heard]:
        asked: Questions = []
        heard = await self.request(method, params)
        while heard.message.get("result", {}).get("resultType") == "input_required":
            answers: dict[str, Any] = {}
            for key, question in heard.result["inputRequests"].items():
                asked.append(question)
                answers[key] = reply(question["method"], question["params"])
            state = {"requestState": heard.result["requestState"]} if "requestState" in heard.result else {}
            heard = await self.request(method, {**params, **state, "inputResponses": answers})
        return asked, heard

    async def notify(self, method: str) -> None:
        raise NotImplementedError("This era sends none over HTTP.")

    async def cancelled(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {**META, "progressToken": "first"}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        async with self._stream("tools/call", params, tool) as stream:
            return await stream.next()

    @asynccontextmanager
    async def listening(self, *keys: str, uri: str = "", tasks: Sequence[str] = ()) -> AsyncGenerator[EventReader]:
        wanted: dict[str, Any] = {f"{key}ListChanged": True for key in keys}
        if uri:
            wanted["resourceSubscriptions"] = [uri]
        if tasks:
            wanted["taskIds"] = list(tasks)
        params = {"notifications": wanted, "_meta": {**META, **self.capabilities}}
        async with self._stream("subscriptions/listen", params) as stream:
            first = await stream.next()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"]["notifications"] == wanted
            yield stream

    @asynccontextmanager
    async def _stream(self, method: str, params: dict[str, Any], name: str = "") -> AsyncGenerator[EventReader]:
        body = json.dumps({"jsonrpc": "2.0", "id": "s", "method": method, "params": params}).encode()
        async with self.caller.http.post(self.caller.url, data=body, headers=self._headers(method, name)) as response:
            yield EventReader(response)
            response.close()

    def _headers(self, method: str, name: str) -> dict[str, str]:
        named = {"mcp-name": name} if name else {}
        return {**self.caller.headers, "mcp-protocol-version": VERSION, "mcp-method": method, **named}


class LegacyPeer:
    """A caller of 2025-11-25, in a session."""

    modern = False

    def __init__(self, caller: LegacyCaller) -> None:
        self.caller = caller

    async def introduction(self) -> dict[str, Any]:
        return self.caller.introduction

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **headers: str
    ) -> Heard:
        return await self.caller.request(method, {**(params or {}), **({"_meta": meta} if meta else {})})

    async def call_bytes(self, tool: str, arguments: bytes) -> Heard:
        text = b'{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"%s","arguments":%s}}'
        body = text % (tool.encode(), arguments)
        return await post(self.caller.http, self.caller.url, body, self.caller.headers)

    async def logged(self, tool: str, level: str) -> Heard:
        assert (await self.request("logging/setLevel", {"level": level})).result == {}
        return await self.request("tools/call", {"name": tool})

    async def answering(self, method: str, params: dict[str, Any], reply: Reply) -> tuple[Questions, Heard]:
        asked: Questions = []
        message = await self._answering(method, params, reply, asked)
        if message.get("error", {}).get("code") == -32042:
            for question in message["error"]["data"]["elicitations"]:
                asked.append({"method": "elicitation/create", "params": question})
            message = await self._answering(method, params, reply, asked)
        return asked, Heard(200, {}, message)

    async def _answering(self, method: str, params: dict[str, Any], reply: Reply, asked: Questions) -> dict[str, Any]:
        async with self.caller.stream(method, params, id=next(ROUNDS)) as stream:
            if not stream.response.content_type.startswith("text/event-stream"):
                return await stream.response.json()
            while "method" in (message := await stream.next()):
                asked.append({"method": message["method"], "params": message["params"]})
                await self.caller.answer(message["id"], reply(message["method"], message["params"]))
            return message

    async def notify(self, method: str) -> None:
        assert await self.caller.notify(method) == 202

    async def cancelled(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "first"}}
        async with self.caller.stream("tools/call", params, id="wait") as stream:
            first = await stream.next()
            await self.caller.notify("notifications/cancelled", {"requestId": "wait", "reason": "Enough."})
            return first

    @asynccontextmanager
    async def listening(self, *keys: str, uri: str = "", tasks: Sequence[str] = ()) -> AsyncGenerator[EventReader]:
        async with self.caller.listen() as stream:
            if uri:
                assert (await self.request("resources/subscribe", {"uri": uri})).result == {}
            yield stream
            stream.response.close()


@asynccontextmanager
async def open_peer(
    url: str, http: aiohttp.ClientSession, *, modern: bool, capabilities: dict[str, Any]
) -> AsyncGenerator[Peer]:
    """A caller, and its session as long as it needs one."""
    if modern:
        yield ModernPeer(url, http, capabilities)
        return
    caller = await LegacyCaller(url, http, capabilities=capabilities).open()
    try:
        yield LegacyPeer(caller)
    finally:
        async with http.delete(url, headers=caller.headers):
            pass
