"""Many callers at once, with the same ids: everyone gets the own answer, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.harness import (
    META,
    VERSION,
    EventReader,
    LegacyCaller,
    ModernCaller,
    faulty,
    faulty_http,
    gateway,
    post,
    until,
)
from trunkline.call.lanes import Lane

CALLERS = 100
CALLS = 80
SLOW_CALL = 30.0


class Caller:
    """One caller on a connection of its own; what it hears is checked against what it asked."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        assert where.port is not None
        self._address = where.hostname, where.port
        self.name = name
        self._random = random.Random(seed)
        self._ids = itertools.count()
        self._session = ""
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.wrong: list[str] = []
        self.answered = self.cancelled = 0

    async def run(self, tools: list[str]) -> None:
        """Make all calls, one after the other, and give up a few of them."""
        await self.begin()
        for number in range(CALLS):
            prefix = self._random.choice(tools)
            if self._random.random() < 0.05:
                await self.give_up(prefix)
                self.cancelled += 1
            else:
                await self.echo(prefix, f"{self.name}/{number}/{self._random.random()}")
                self.answered += 1
        await self.end()
        self.hang_up()

    async def begin(self) -> None:
        """Nothing to do, in this era."""

    async def end(self) -> None:
        """Nothing to do, in this era."""

    async def echo(self, prefix: str, secret: str) -> None:
        id = next(self._ids)
        await self.send(id, f"{prefix}echo", {"text": secret})
        message = await self.hear()
        if message.get("id") != id or message.get("result", {}).get("content", [{}])[0].get("text") != secret:
            self.wrong.append(f"asked {id} {secret}, heard {message}")

    async def give_up(self, prefix: str) -> None:
        """Ask, and hang up before the answer: sometimes long before it, sometimes just when it comes."""
        name, arguments = self._random.choice([("slow", {"seconds": SLOW_CALL}), ("echo", {"text": "given up"})])
        await self.send(next(self._ids), prefix + name, arguments)
        await asyncio.sleep(self._random.random() * 0.005)
        self.hang_up()

    async def send(self, id: int, tool: str, arguments: dict[str, Any]) -> None:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        own = f"mcp-protocol-version: {VERSION}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        await self.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, own)

    async def post(self, message: dict[str, Any], headers: str) -> None:
        body = json.dumps(message).encode()
        kinds = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        head = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n{kinds}{headers}content-length: {len(body)}\r\n\r\n"
        await self.write(head.encode() + body)

    async def write(self, data: bytes) -> None:
        if self._open is None:
            self._open = await asyncio.open_connection(*self._address)
        self._open[1].write(data)

    async def hear(self) -> dict[str, Any]:
        head, body = await self.read()
        if b"text/event-stream" in head:
            data = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
            return json.loads(data[-1]) if data else {}
        return json.loads(body) if body else {}

    async def read(self) -> tuple[bytes, bytes]:
        assert self._open is not None
        async with asyncio.timeout(60):
            head = await self._open[0].readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head, await self._open[0].readexactly(length)

    def hang_up(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


class SessionCaller(Caller):
    """A legacy caller; it gives up by saying so, on a second connection."""

    async def begin(self) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await self.post({"jsonrpc": "2.0", "id": next(self._ids), "method": "initialize", "params": params}, "")
        head, _ = await self.read()
        self._session = head.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()

    async def end(self) -> None:
        head = f"DELETE /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nmcp-session-id: {self._session}\r\n\r\n"
        await self.write(head.encode())
        await self.read()

    async def give_up(self, prefix: str) -> None:
        if self._random.random() < 0.3:
            await super().give_up(prefix)
            return
        id = next(self._ids)
        name, arguments = self._random.choice([("slow", {"seconds": SLOW_CALL}), ("echo", {"text": "given up"})])
        await self.send(id, prefix + name, arguments)
        await asyncio.sleep(self._random.random() * 0.005)
        calling, self._open = self._open, None
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        await self.post(note, f"mcp-session-id: {self._session}\r\n")
        await self.read()
        self.hang_up()
        self._open = calling
        try:
            async with asyncio.timeout(1):
                heard = await self.hear()
        except TimeoutError:
            self.hang_up()  # the word that it is off overtook the call
            return
        if heard and (name == "slow" or heard["id"] != id or heard["result"]["content"][0]["text"] != "given up"):
            self.wrong.append(f"cancelled {id}, heard {heard}")

    async def send(self, id: int, tool: str, arguments: dict[str, Any]) -> None:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        await self.post(message, f"mcp-session-id: {self._session}\r\n")


def in_flight() -> int:
    """The calls that any hub of this process still counts as under way."""
    lanes = [found for found in gc.get_objects() if isinstance(found, Lane)]
    assert lanes
    return sum(lane.inside + lane.waiting for lane in lanes)


async def test_progress_reaches_nobody_else_though_a_caller_hides_its_token(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    headers = {
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "progress_forever",
    }

    def body(token: Any) -> bytes:
        params = {"name": "progress_forever", "_meta": {**META, "progressToken": token}}
        return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}).encode()

    async with gateway(tmp_path, {"one": faulty()}) as opened, asyncio.TaskGroup() as others:
        async with http.post(opened.url, data=body("mine"), headers=headers) as response:
            stream = EventReader(response)
            first = await stream.next()
            # Whatever number the gateway gave the first call, one of these names it.
            hidden = [body(n).replace(b"progressToken", b"\\u0070rogressToken") for n in range(1, 12)]
            thieves = [others.create_task(post(http, opened.url, text, headers)) for text in hidden]
            heard = [first] + [await stream.next() for _ in range(12)]
        for thief in thieves:
            thief.cancel()

    assert [message["params"]["progress"] for message in heard] == list(range(1, 14))
    assert {message["params"]["progressToken"] for message in heard} == {"mine"}


@pytest.mark.slow
async def test_everyone_gets_the_own_answer_and_nothing_is_left(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    with faulty_http() as url:
        servers = {"pipe": faulty("--log", str(log), concurrency=200), "web": {"url": url, "concurrency": 200}}
        async with gateway(tmp_path, servers) as opened:
            session = await LegacyCaller(opened.url, http).open()
            for caller in (ModernCaller(opened.url, http), session):
                for name in servers:
                    await caller.call(f"{name}__echo", {"text": "warm"})
            async with http.delete(opened.url, headers=session.headers):
                pass
            await http.close()
            baseline = len(asyncio.all_tasks())
            kinds = itertools.cycle((Caller, SessionCaller))
            callers = [kind(opened.url, f"caller {n}", n) for n, kind in zip(range(CALLERS), kinds, strict=False)]

            async with asyncio.timeout(100), asyncio.TaskGroup() as running:
                for caller in callers:
                    running.create_task(caller.run(["pipe__", "web__"]))
            await until(lambda: not in_flight())
            await until(lambda: len(asyncio.all_tasks()) <= baseline)
            sessions = len(opened.app.legacy.sessions)
            calls = log.read_text().count("call slow")
            await until(lambda: log.read_text().count("cancelled") >= calls)

    assert [wrong for caller in callers for wrong in caller.wrong] == []
    assert sum(caller.answered + caller.cancelled for caller in callers) == CALLERS * CALLS
    assert sum(caller.cancelled for caller in callers) > CALLERS * CALLS * 0.03
    assert sessions == 0
