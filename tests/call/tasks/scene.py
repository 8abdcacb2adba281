"""Servers with tasks behind a gateway, and callers of both eras that use them alike."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.fidelity.callers import PREFIX
from tests.harness import META, VERSION, EventReader, Heard, LegacyCaller, ModernCaller, plain_command, plain_server

ROOT = Path(__file__).parents[3]
SERVER = ("-m", "tests.fidelity.one_era_server", "--era")
USERS = {"ann": "a-token-of-ann-1234", "bob": "a-token-of-bob-5678"}
EXTENSION = PREFIX + "tasks"
RELATED = PREFIX + "related-task"
KNOWS: dict[str, Any] = {"extensions": {EXTENSION: {}}}
NO_SUCH_TASK = {"code": -32602, "message": "There is no such task."}


def stdio(era: str, **options: Any) -> dict[str, Any]:
    """The configuration of a server of one era."""
    return plain_server(*SERVER, era, cwd=str(ROOT), **options)


@contextmanager
def over_http(era: str, **options: Any) -> Generator[dict[str, Any]]:
    """The configuration of such a server that runs by itself."""
    process = subprocess.Popen(plain_command(*SERVER, era, "--http"), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().split()[1]
        yield {"url": f"http://127.0.0.1:{port}/mcp", **options}
    finally:
        process.kill()
        process.communicate()


class Modern:
    """A modern caller that knows tasks."""

    ending = ("get", "cancel", "update")

    def __init__(self, url: str, http: aiohttp.ClientSession, user: str = "", **capabilities: Any) -> None:
        self.caller = ModernCaller(url, http, token=USERS.get(user, ""))
        self.meta = {PREFIX + "clientCapabilities": {**KNOWS, **capabilities}}

    async def begin(self, tool: str = "job", **arguments: Any) -> str:
        """Call a tool that becomes a task; its id."""
        result = (await self.call(tool, **arguments)).result
        assert result["resultType"] == "task", result
        return result["taskId"]

    async def call(self, tool: str, **arguments: Any) -> Heard:
        return await self.caller.call(tool, arguments, meta=self.meta)

    async def about(self, method: str, id: str, **params: Any) -> Heard:
        """Ask something about a task."""
        if method == "update":
            params.setdefault("inputResponses", {})
        headers = {"mcp-name": id}
        return await self.caller.request(f"tasks/{method}", {"taskId": id, **params}, meta=self.meta, headers=headers)

    async def text(self, id: str) -> str:
        """Wait for the end of a task; what its tool said."""
        while (task := (await self.about("get", id)).result)["status"] == "working":
            pass
        assert task["status"] == "completed", task
        return task["result"]["content"][0]["text"]

    async def questions(self, id: str) -> dict[str, Any]:
        """What a task asks."""
        task = (await self.about("get", id)).result
        assert task["status"] == "input_required", task
        return task["inputRequests"]

    @asynccontextmanager
    async def listen(self, ids: Sequence[str], **wanted: Any) -> AsyncGenerator[EventReader]:
        """Hear of tasks."""
        params = {"notifications": {"taskIds": list(ids), **wanted}, "_meta": {**META, **self.meta}}
        body = {"jsonrpc": "2.0", "id": "mine", "method": "subscriptions/listen", "params": params}
        own = {"mcp-protocol-version": VERSION, "mcp-method": "subscriptions/listen"}
        async with self.caller.http.post(
            self.caller.url, data=json.dumps(body), headers={**self.caller.headers, **own}
        ) as response:
            yield EventReader(response)
            response.close()


class Legacy:
    """A legacy caller that uses tasks."""

    ending = ("get", "cancel", "result")

    def __init__(self, url: str, http: aiohttp.ClientSession, user: str = "", **capabilities: Any) -> None:
        self.caller = LegacyCaller(url, http, capabilities=capabilities)
        if user:
            self.caller.headers["authorization"] = f"Bearer {USERS[user]}"

    async def begin(self, tool: str = "job", **arguments: Any) -> str:
        """Call a tool as a task; its id."""
        return (await self.call(tool, **arguments)).result["task"]["taskId"]

    async def call(self, tool: str, **arguments: Any) -> Heard:
        await self.open()
        return await self.caller.request("tools/call", {"name": tool, "arguments": arguments, "task": {}})

    async def about(self, method: str, id: str, **params: Any) -> Heard:
        """Ask something about a task."""
        await self.open()
        return await self.caller.request(f"tasks/{method}", {"taskId": id, **params})

    async def text(self, id: str) -> str:
        """Wait for the end of a task; what its tool said."""
        return (await self.about("result", id)).text

    async def listed(self) -> list[str]:
        """The ids of the caller's tasks."""
        await self.open()
        return [task["taskId"] for task in (await self.caller.request("tasks/list")).result["tasks"]]

    async def open(self) -> None:
        if not self.caller.introduction:
            await self.caller.open()


CALLERS: dict[str, type[Modern] | type[Legacy]] = {"modern": Modern, "legacy": Legacy}
