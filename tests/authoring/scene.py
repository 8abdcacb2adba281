"""What these tests need: callers of both eras that see every message, without a socket or a process between."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from trunkline.authoring.server import MCPServerBase
from trunkline.tasks import open_tasks

MODERN = "2026-07-28"
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
Message = dict[str, Any]


class Caller:
    """One caller; `answer` says what it answers to a server's question, and `notes` what it heard besides."""

    def __init__(self, *, modern: bool, capabilities: Mapping[str, Any], log_level: str) -> None:
        self.modern, self.capabilities, self.log_level = modern, capabilities, log_level
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.notes: list[Message] = []
        self.asked: list[Message] = []
        self.answer: Callable[[Message], Any] = lambda question: {"action": "cancel"}
        self._news = asyncio.Event()
        self._ids = itertools.count(1)
        self._open: dict[int, asyncio.Future[Message]] = {}

    def begin(self, method: str, **params: Any) -> tuple[int, asyncio.Future[Message]]:
        """Send a request; its id, and the response to come."""
        number = next(self._ids)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": self._stamped(params)})
        return number, future

    async def request(self, method: str, **params: Any) -> Message:
        """Send a request, and wait for its response."""
        _, future = self.begin(method, **params)
        return await asyncio.wait_for(future, 10)

    async def result(self, method: str, **params: Any) -> Message:
        """The result of a request."""
        message = await self.request(method, **params)
        assert "result" in message, message
        return message["result"]

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Message:
        """The result of a tool; a modern caller answers its questions, and calls again."""
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {}), **more}
        while True:
            result = await self.result("tools/call", **params)
            if result.get("resultType") != "input_required":
                return result
            questions = result["inputRequests"]
            self.asked += questions.values()
            params |= {
                "inputResponses": {key: self.answer(question) for key, question in questions.items()},
                "requestState": result["requestState"],
            }

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    async def until(self, heard: Callable[[Message], bool]) -> Message:
        """Wait for a notification."""
        async with asyncio.timeout(10):
            while True:
                found = next((note for note in self.notes if heard(note)), None)
                if found is not None:
                    return found
                self._news.clear()
                await self._news.wait()

    def receive(self, line: bytes) -> None:
        message: Message = json.loads(line)
        if "method" not in message:
            self._open.pop(message["id"]).set_result(message)
        elif "id" in message:
            self.asked.append(message)
            self._send({"id": message["id"], "result": self.answer(message)})
        else:
            self.notes.append(message)
            self._news.set()

    async def lines(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.outgoing.get()

    def _send(self, message: Message) -> None:
        self.outgoing.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _stamped(self, params: dict[str, Any]) -> dict[str, Any]:
        if not self.modern:
            return params
        prefix = "io.modelcontextprotocol/"
        stamp = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": self.capabilities}
        stamp |= {f"{prefix}logLevel": self.log_level} if self.log_level else {}
        return {**params, "_meta": {**stamp, **params.get("_meta", {})}}


@asynccontextmanager
async def caller_of(
    server: MCPServerBase,
    *,
    modern: bool,
    capabilities: Mapping[str, Any] = EVERYTHING,
    log_level: str = "",
) -> AsyncGenerator[Caller]:
    """A caller of the server, in one era; its server is stopped afterwards."""
    caller = Caller(modern=modern, capabilities=capabilities, log_level=log_level)
    async with open_tasks() as tasks:
        tasks.start(server.serve_lines(caller.lines(), caller.receive))
        if not modern:
            info = {"name": "test", "version": "1"}
            await caller.request(
                "initialize", protocolVersion="2025-11-25", capabilities=dict(capabilities), clientInfo=info
            )
            caller.notify("notifications/initialized")
            await caller.request("ping")
        try:
            yield caller
        finally:
            await server.stop()
