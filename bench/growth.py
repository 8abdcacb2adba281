"""What it costs to have many servers and many tools: the start, a changed list, a call, and memory.

    python bench/growth.py [--servers 1000] [--tools 50]

The servers are one other process; all figures are of this one. A step is what the loop does without a pause: its CPU
time, unlike the clock's, hardly depends on what else the machine does. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from scale import SMALLEST, sized

from trunkline.config.options import Config, GatewayConfig, SearchSection
from trunkline.config.server import ServerSpec
from trunkline.hub import Hub, open_hub

VERBS = ["list", "get", "create", "update", "delete", "search", "send", "read", "archive", "export"]
THINGS = ["invoice", "ticket", "customer", "calendar", "message", "document", "payment", "report", "issue", "branch"]
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=sized(1000, smallest=10))
    parser.add_argument(
        "--tools",
        type=int,
        default=sized(50, smallest=11),
        help="of each server, where lists change and calls are made",
    )
    parser.add_argument("--changes", type=int, default=sized(20, smallest=1), help="lists that change")
    parser.add_argument("--only", action="store_true", help="the servers and tools that are given, in this process")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Servers(options.tools).serve())
        return
    if options.only:
        importlib.import_module("trunkline.search.finder")  # what is imported late would be measured
        print(json.dumps(asyncio.run(measure(options.servers, options.tools, changes=options.changes))))
        return
    found: dict[str, Any] = {}
    sizes = [(1, 10), (options.servers, 10), (options.servers, options.tools)]
    if SMALLEST:
        sizes = sizes[-1:]
    else:
        sizes.append((options.servers // 10, options.tools * 10))
    for servers, tools in sizes:
        # Memory that one scene left behind would be counted for the next.
        command = [sys.executable, __file__, "--only", "--servers", str(servers), "--tools", str(tools)]
        command += ["--changes", str(options.changes)]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        print("\n".join(lines[:-1]))
        found[f"{servers}x{tools}"] = json.loads(lines[-1])
    print(json.dumps(found))


async def measure(servers: int, tools: int, changes: int) -> dict[str, float]:
    print(f"\n{servers} servers, {tools} tools each")
    found: dict[str, float] = {}

    def note(what: str, value: float) -> None:
        found[what] = round(value, 3)
        print(f"  {what:<40}{value:>10.2f}")

    steps = Steps()
    with running(servers, tools) as scene:
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 100, 100)  # as `trunkline up` does
        used, begun = psutil.Process().memory_info().rss, time.process_time()
        async with scene.opened() as hub:
            await scene.listed(hub)
            note("start, CPU s", time.process_time() - begun)
            note("start, longest step, CPU ms", steps.longest())
            await hub.find("send an invoice", limit=3)  # the index is made
            note("index, longest step, CPU ms", steps.longest())
            gc.collect()
            note("memory, kB a tool", (psutil.Process().memory_info().rss - used) / 1000 / (servers * tools))
            await asyncio.sleep(0)
            steps.longest()  # without our own collection
            note("a changed list, CPU ms", await cost_of_changes(hub, scene, changes) * 1000)
            note("a changed list, longest step, CPU ms", steps.longest())
            note("a call, CPU µs", await cost_of_calls(hub) * 1e6)
    return found


async def cost_of_changes(hub: Hub, scene: Scene, times: int) -> float:
    """The median for one server's list that changes, until callers hear of it and find what is new."""
    heard = asyncio.Event()
    forget = hub.on_change(lambda kinds: heard.set())
    costs: list[float] = []
    for number in range(times):
        heard.clear()
        begun = time.process_time()
        await scene.change(number % scene.count)
        await asyncio.wait_for(heard.wait(), 60)
        await hub.history.settled()
        await asyncio.sleep(0.1)
        costs.append(time.process_time() - begun)
        found = await hub.find(f"edition {scene.changes}", limit=3)
        assert found, "what is new is found"
    forget()
    return sorted(costs)[len(costs) // 2]


async def cost_of_calls(hub: Hub, times: int = sized(300, smallest=10)) -> float:
    """The best of several rounds of calls at one server: what differs is what else there is."""
    names = list(hub.snapshot.offers["s0"].tools)[:10]
    best = float("inf")
    for _ in range(10):
        begun = time.process_time()
        for number in range(times):
            await hub.call(names[number % len(names)], {"id": "1", "text": "hello"})
        best = min(best, (time.process_time() - begun) / times)
    return best


class Steps:
    """Measures how long the loop does one thing without a pause."""

    def __init__(self) -> None:
        self._longest = 0.0
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            begun = time.thread_time()
            run(handle)
            took = (time.thread_time() - begun) * 1000
            if took > self._longest:
                self._longest = took
                if os.environ.get("TRACE"):
                    print(f"    {took:.1f} ms: {handle!r}"[:300], file=sys.stderr)

        asyncio.Handle._run = timed  # pyright: ignore[reportAttributeAccessIssue] - `self` is taken here

    def longest(self) -> float:
        """The longest step since the last look, in ms."""
        longest, self._longest = self._longest, 0.0
        return longest


@dataclass
class Scene:
    """Many servers in another process."""

    port: int
    count: int
    tools: int
    home: Path
    changes: int = 0
    told: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    """The connection by which they are told to change."""

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncGenerator[Hub]:
        """A hub over all of them."""
        # Without checks of health, which cost the same whatever lists do.
        url = f"http://127.0.0.1:{self.port}"
        servers = {f"s{n}": ServerSpec(f"s{n}", url=f"{url}/s{n}", health_interval=0) for n in range(self.count)}
        config = Config(
            servers=servers,
            home=self.home,
            search=SearchSection(strategy="bm25"),
            gateway=GatewayConfig(namespace="always"),  # one server alone would be passed through as it is
        )
        async with open_hub(config) as hub:
            keeping = asyncio.create_task(hub.relay.keep_index())
            try:
                yield hub
            finally:
                keeping.cancel()
                if self.told is not None:
                    self.told[1].close()

    async def listed(self, hub: Hub) -> None:
        """Wait until all of them are ready."""
        await hub.ready(600)
        assert {view.state.value for view in hub.servers()} == {"ready"}
        assert len(hub.snapshot.tools) == self.count * self.tools

    async def change(self, number: int) -> None:
        """Have one of them change a tool, and say so; a connection for each time would be counted as well."""
        self.changes += 1
        if self.told is None:
            self.told = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.told
        writer.write(b"POST /change/s%d HTTP/1.1\r\ncontent-length: 0\r\n\r\n" % number)
        await reader.readuntil(b"\r\n\r\n")


@contextlib.contextmanager
def running(count: int, tools: int) -> Generator[Scene]:
    command = [sys.executable, __file__, "--serve", "--tools", str(tools)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        with tempfile.TemporaryDirectory() as home:
            yield Scene(int(process.stdout.readline()), count, tools, Path(home))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass
class Servers:
    """Modern MCP servers, one at each path, as small as can be."""

    tools: int
    changes: dict[str, int] = field(default_factory=dict)
    listening: dict[str, tuple[asyncio.StreamWriter, Any]] = field(default_factory=dict)

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=4096)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self._answer(first.split()[1], body, writer)
                await writer.drain()

    def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path.startswith("/change/"):
            self._change(path.removeprefix("/change"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return
        request = json.loads(body)
        if "id" not in request:
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        if request["method"] == "subscriptions/listen":
            self.listening[path] = writer, request["id"]
            writer.write(EVENTS)
            self._tell(path, "notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}})
            return
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": self._result(path, request["method"])}
        text = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text
        )

    def _result(self, path: str, method: str) -> dict[str, Any]:
        result: dict[str, Any] = {"resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
        if method == "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            return {**result, "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "tools/list":
            return {**result, "tools": [self._tool(path, number) for number in range(self.tools)]}
        if method == "tools/call":
            return {"resultType": "complete", "content": [{"type": "text", "text": "hello"}]}
        return result

    def _tool(self, path: str, number: int) -> dict[str, Any]:
        verb, thing = VERBS[number % 10], THINGS[number // 10 % 10]
        about = f"{verb.title()} one {thing} of {path[1:]}, number {number}, as the office keeps it."
        if number == 0:
            about += f" Edition {self.changes.get(path, 0)}."
        properties = {
            "id": {"type": "string", "description": f"Which {thing}."},
            "text": {"type": "string", "description": "What to say about it, in a few words."},
        }
        schema = {"type": "object", "properties": properties, "required": ["id"]}
        return {"name": f"{verb}_{thing}_{number}", "description": about, "inputSchema": schema}

    def _change(self, path: str) -> None:
        self.changes[path] = self.changes.get(path, 0) + 1
        self._tell(path, "notifications/tools/list_changed", {})

    def _tell(self, path: str, method: str, params: dict[str, Any]) -> None:
        writer, number = self.listening[path]
        meta = {"io.modelcontextprotocol/subscriptionId": number}
        text = json.dumps({"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}})
        event = f"event: message\ndata: {text}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))


if __name__ == "__main__":
    main()
