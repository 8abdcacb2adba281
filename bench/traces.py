"""What records, metrics, the audit and traces add to a call, in CPU microseconds of the thread that calls run in.

    python bench/traces.py [--calls 200] [--rounds 200]

Calls go through the whole relay to a server in this process. The kinds take turns, and each is compared with the turn
beside it in which everything was off: what else the machine does makes both longer alike. The median of these ratios
is told, times what a call takes in the quietest tenth of the turns. Where everything is off, what is left is the notes
that nobody takes: these are timed alone. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from scale import sized

from trunkline.callers import Edge
from trunkline.config.options import Config
from trunkline.config.records import AuditSection, CallsSection, MetricsSection, TracesSection
from trunkline.config.server import ServerSpec
from trunkline.hub import Hub, open_hub
from trunkline.identity import Scope
from trunkline.model import Call, Caller
from trunkline.upstream.local import Mounted

OFF: dict[str, Any] = {"calls": CallsSection(keep=0), "metrics": MetricsSection(enabled=False)}
BARS = {"metrics and audit": 8.0, "traces of 1 % of calls": 10.0, "notes that nobody takes": 0.5}
META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
NOT_TRACED = META[:-1] + b',"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}'
CALLER = Caller(version="2026-07-28", client_info=b'{"name":"bench","version":"1"}')
SCOPE = Scope(user="ana", key="laptop")


def kinds(collector: str) -> dict[str, dict[str, Any]]:
    """What is switched on in each."""
    audit = AuditSection(enabled=True)
    traced = TracesSection(enabled=True, endpoint=collector, sample_ratio=0.01)
    all_traced = TracesSection(enabled=True, endpoint=collector)
    return {
        "everything off": OFF,
        "past calls": {"metrics": MetricsSection(enabled=False)},
        "metrics": {**OFF, "metrics": MetricsSection()},
        "metrics and audit": {**OFF, "metrics": MetricsSection(), "audit": audit},
        "past calls, metrics and audit": {"audit": audit},
        "traces of 1 % of calls": {**OFF, "traces": traced},
        "traces, and the caller wants none": {**OFF, "traces": all_traced},
        "traces of every call": {**OFF, "traces": all_traced},
    }


class Echo:
    """The least that a server does: it answers everything with the same."""

    async def serve_lines(self, lines: AsyncIterable[bytes], write: Callable[[bytes], object]) -> None:
        """Answer each line."""
        async for line in lines:
            asked = json.loads(line)
            if "id" in asked:
                write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS[asked["method"]]}).encode())

    async def stop(self, reason: str = "") -> None:
        """There is nothing to stop."""


RESULTS: dict[str, Any] = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
        "resultType": "complete",
    },
    "tools/list": {
        "tools": [{"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    },
    "tools/call": {"content": [{"type": "text", "text": "x" * 40}], "resultType": "complete"},
}


@asynccontextmanager
async def opened(sections: dict[str, Any]) -> AsyncGenerator[Hub]:
    """A relay that a gateway would have, with these sections."""
    spec = ServerSpec("echo", local=Mounted(Echo(), stops=False), health_interval=0)
    with tempfile.TemporaryDirectory() as home:
        config = Config(servers={"echo": spec}, home=Path(home), **sections)
        async with open_hub(config, edge=Edge(watched=True)) as hub:
            await hub.ready(30)
            yield hub


def made(number: int, meta: bytes) -> Call:
    """One call."""
    params = {"name": b'"echo"', "arguments": b'{"text":"%d"}' % number, "_meta": meta}
    return Call("tools/call", "echo", params, scope=SCOPE, caller=CALLER)


async def spent(hub: Hub, calls: int, meta: bytes) -> float:
    """Microseconds of CPU for a call, with what is done behind it."""
    ready = [made(number, meta) for number in range(calls)]
    handle = hub.relay.handle
    before = time.thread_time()
    for call in ready:
        await handle(call)
    hub.relay.recording.records.drain()
    if hub.relay.recording.audit is not None:
        hub.relay.recording.audit.flush()
    return (time.thread_time() - before) / calls * 1e6


async def measure(calls: int, rounds: int, collector: str) -> dict[str, float]:
    """What each kind adds."""
    async with AsyncExitStack() as stack:
        hubs = {name: await stack.enter_async_context(opened(said)) for name, said in kinds(collector).items()}
        found: dict[str, list[float]] = {name: [] for name in hubs}
        # As `trunkline up` does: what is there for good is not looked through again and again.
        gc.collect()
        gc.freeze()
        for _ in range(rounds + 1):
            for name, hub in hubs.items():
                found[name].append(await spent(hub, calls, NOT_TRACED if name.endswith("none") else META))
        off = found.pop("everything off")[1:]
        shares = {name: share(times[1:], off) for name, times in found.items()}
        quiet = quietest(off)
        print(f"{'everything off':36}{quiet:8.2f} µs")
        added = {name: quiet * share for name, share in shares.items()}
        return {**added, "notes that nobody takes": unheard(await noted(hubs["past calls"]))}


def share(times: list[float], off: list[float]) -> float:
    """How much of a call a kind adds to it, by turns that followed each other."""
    return statistics.median(one / other for one, other in zip(times, off, strict=True)) - 1


def quietest(times: list[float]) -> float:
    """The median of the shortest tenth."""
    return statistics.median(sorted(times)[: max(1, len(times) // 10)])


async def noted(hub: Hub) -> int:
    """How many notes stages make of a call."""
    call = made(0, META)
    await hub.relay.handle(call)
    return len(call.notes or ())


def unheard(notes: int) -> float:
    """What so many notes take where nobody takes them."""
    call, turns = made(0, META), 20_000
    times: list[float] = []
    for _ in range(20):
        before = time.process_time()
        for _ in range(turns):
            call.note("send", "echo")
        times.append((time.process_time() - before) / turns * 1e6)
    return min(times) * notes


class Collector(BaseHTTPRequestHandler):
    """Takes traces, and forgets them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def collect() -> None:
    """Be the collector; its port is the first line."""
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=sized(200, smallest=10))
    parser.add_argument("--rounds", type=int, default=sized(200, smallest=1))
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        collect()
        return
    logging.basicConfig(level=logging.ERROR)
    with subprocess.Popen([sys.executable, __file__, "--collect"], stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        url = f"http://127.0.0.1:{int(collector.stdout.readline())}/v1/traces"
        try:
            found = asyncio.run(measure(options.calls, options.rounds, url))
        finally:
            collector.terminate()
    for name, more in found.items():
        print(f"{name:36}{more:+8.2f} µs" + (f"   at most {BARS[name]:g}" if name in BARS else ""))
    print(json.dumps({name: round(more, 2) for name, more in found.items()}))


if __name__ == "__main__":
    main()
