"""What one call costs, in CPU microseconds: the wire, each stage, whole relays beside nginx, and every pair of eras.

    python bench/calls.py [--seconds 2] [--clients 16] [--only wire|stages|relay|eras]

CPU per call, unlike calls per second, hardly depends on what else the machine does. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psutil
from scale import SMALLEST, sized

HERE = Path(__file__).parent
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PARAMS = {"name": "echo", "arguments": {"text": "hello world"}}
MODERN = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**PARAMS, "_meta": META}}, separators=(",", ":")
).encode()
LEGACY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
HEADERS = {b"mcp-protocol-version": b"2026-07-28", b"mcp-method": b"tools/call", b"mcp-name": b"echo"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=0.04 if SMALLEST else 2.0, help="of load for each relay, in four rounds"
    )
    parser.add_argument("--clients", type=int, default=sized(16, smallest=2))
    parser.add_argument("--only", choices=("wire", "stages", "relay", "eras"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.only in (None, "wire"):
        found["wire"] = measure_wire()
    if options.only in (None, "stages"):
        found["stages"] = asyncio.run(measure_stages())
    if options.only in (None, "relay"):
        found["relay"] = asyncio.run(measure_relays(options.seconds, options.clients))
    if options.only in (None, "eras"):
        found["eras"] = asyncio.run(measure_eras(options.seconds, options.clients))
    print(json.dumps(found))


def show(title: str, rows: dict[str, float]) -> dict[str, float]:
    print(f"\n{title}, CPU µs/call")
    for name, cost in rows.items():
        print(f"  {name:<34}{cost:>8.1f}")
    return rows


# The wire and the stages, in this process.


def cost_of(work: Callable[[], object], count: int = sized(20_000, smallest=50)) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for _ in range(count):
            work()
        best = min(best, (time.process_time() - start) / count * 1e6)
    return round(best, 2)


def measure_wire() -> dict[str, float]:
    from trunkline.wire.envelope import read_caller_message, read_message, read_params, write_request, write_result
    from trunkline.wire.headers import check_headers, read_said
    from trunkline.wire.meta import read_meta

    message = read_caller_message(MODERN)
    params, said = read_params(message), read_said(HEADERS)
    reply = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello world"}]}}'
    return show("The wire", {
        "read a caller's envelope": cost_of(lambda: read_caller_message(MODERN)),
        "read its params": cost_of(lambda: read_params(message)),
        "read its _meta": cost_of(lambda: read_meta(params)),
        "check its headers": cost_of(
            lambda: check_headers(said, version="2026-07-28", method="tools/call", params=params)
        ),
        "write the request for the server": cost_of(lambda: write_request(b"7", "tools/call", message.params)),
        "read the server's answer": cost_of(lambda: read_message(reply)),
        "write the answer for the caller": cost_of(lambda: write_result(b"1", message.params)),
    })  # fmt: skip


async def measure_stages() -> dict[str, float]:
    """Each stage alone: what the stages up to it cost, less what those before it cost; the server answers at once."""
    from trunkline.call.stage import Handler, join
    from trunkline.config.server import ServerSpec
    from trunkline.hub import open_hub
    from trunkline.model import Call, Reply
    from trunkline.upstream.connection import CLIENT_INFO
    from trunkline.wire.era import MODERN_VERSIONS
    from trunkline.wire.members import encode
    from trunkline.wire.meta import Meta, stamp

    python = Meta(MODERN_VERSIONS[0], b"{}", CLIENT_INFO)
    params = stamp({"name": encode("echo"), "arguments": encode({"text": "hello world"})}, python)
    done = Reply(result=b"{}")

    async def instant(call: Call, call_next: Handler) -> Reply:
        return done

    async def cost(handler: Handler, count: int = sized(3000, smallest=10)) -> float:
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            for _ in range(count):
                await handler(Call("tools/call", "echo", params))
            best = min(best, (time.process_time() - start) / count * 1e6)
        return best

    rows: dict[str, float] = {}
    spec = ServerSpec(name="echo", command=sys.executable, args=(str(HERE / "echo.py"), "stdio"))
    with tempfile.TemporaryDirectory() as home:
        os.environ["TRUNKLINE_HOME"] = home
        async with open_hub([spec]) as hub:
            await hub.ready(10)
            before = await cost(join([instant]))
            rows["no stage at all"] = round(before, 2)
            for count in range(1, len(hub.relay.stages)):
                upto = await cost(join([*hub.relay.stages[:count], instant]))
                rows[type(hub.relay.stages[count - 1]).__name__] = round(upto - before, 2)
                before = upto
            whole = await cost(join(hub.relay.stages))
            rows[f"{type(hub.relay.stages[-1]).__name__} (with stdio I/O, one at a time)"] = round(whole - before, 2)
    return show("The stages", rows)


# Whole relays, as processes of their own.


@contextlib.contextmanager
def running(argv: list[str], **env: str) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **env},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def cpu_of(pid: int) -> float:
    """CPU of a relay and its helpers, without the servers it started."""
    total = 0.0
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            if "echo.py" not in " ".join(process.cmdline()):
                times = process.cpu_times()
                total += times.user + times.system
    return total


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


async def measure_relays(seconds: float, clients: int) -> dict[str, float]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(running([sys.executable, str(HERE / "echo.py"), "http"]))
        port = line_of(upstream)
        contestants: dict[str, tuple[str, int, str]] = {}
        if nginx := shutil.which("nginx") or shutil.which("/usr/sbin/nginx"):
            own = free_port()
            process = stack.enter_context(running([nginx, "-c", str(_nginx(folder, own, port))]))
            contestants["nginx"] = (f"http://127.0.0.1:{own}/mcp", process.pid, "modern")
        servers = {
            "http": {"url": f"http://127.0.0.1:{port}/mcp"},
            "stdio": {"command": sys.executable, "args": [str(HERE / "echo.py"), "stdio"]},
        }
        for kind, server in servers.items():
            url, pid = stack.enter_context(gateway(folder / kind, server))
            for era in ("modern", "legacy"):
                contestants[f"{era} caller, {kind} server"] = (url, pid, era)
        rows = show("Whole relays", await race(contestants, seconds, clients))
    if rows.get("nginx"):
        for name, cost in rows.items():
            print(f"  {name:<34}{cost / rows['nginx']:>7.2f} × nginx")
    return rows


async def measure_eras(seconds: float, clients: int) -> dict[str, float]:
    """Callers of either era at HTTP servers of either: what does it cost to translate?"""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contestants: dict[str, tuple[str, int, str]] = {}
        for server in ("modern", "legacy"):
            upstream = stack.enter_context(running([sys.executable, str(HERE / "echo.py"), "http", server]))
            address = {"url": f"http://127.0.0.1:{line_of(upstream)}/mcp"}
            url, pid = stack.enter_context(gateway(folder / server, address))
            for caller in ("modern", "legacy"):
                contestants[f"{caller} caller, {server} server"] = (url, pid, caller)
        rows = show("Pairs of eras, over HTTP", await race(contestants, seconds, clients))
    for caller, other in (("modern", "legacy"), ("legacy", "modern")):
        translated, plain = rows[f"{caller} caller, {other} server"], rows[f"{caller} caller, {caller} server"]
        if plain:  # in a moment's load the clock of the kernel may see nothing
            print(f"  {f'{caller} caller, translated':<34}{translated / plain:>7.2f} × untranslated")
    return rows


@contextlib.contextmanager
def gateway(home: Path, server: dict[str, Any]) -> Generator[tuple[str, int]]:
    home.mkdir()
    config = home / "config.json"
    config.write_text(json.dumps({"mcpServers": {"echo": server}}))
    argv = [sys.executable, "-m", "trunkline", "up", "--config", str(config), "--port", "0", "--quiet"]
    with running(argv, TRUNKLINE_HOME=str(home)) as process:
        yield line_of(process).removeprefix("Trunkline listens at "), process.pid


async def race(contestants: dict[str, tuple[str, int, str]], seconds: float, clients: int) -> dict[str, float]:
    """The least that a call cost each in four rounds, taken in turns so that all have the same weather."""
    await asyncio.sleep(1)
    best = {name: float("inf") for name in contestants}
    for _ in range(4):
        for name, (url, pid, era) in contestants.items():
            headers = await opened(url, era)
            before = cpu_of(pid)
            count = await load(url, era, headers, seconds / 4, clients)
            best[name] = min(best[name], (cpu_of(pid) - before) / count * 1e6)
    return {name: round(cost, 1) for name, cost in best.items()}


async def opened(url: str, era: str) -> dict[str, str]:
    import aiohttp

    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if era == "modern":
        return headers | {name.decode(): value.decode() for name, value in HEADERS.items()}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=headers) as response:
        await response.read()
        return headers | {"mcp-session-id": response.headers["mcp-session-id"]}


async def load(url: str, era: str, headers: dict[str, str], seconds: float, clients: int) -> int:
    import aiohttp

    body = MODERN if era == "modern" else LEGACY
    until = time.perf_counter() + seconds
    count = 0

    async def caller(http: aiohttp.ClientSession) -> None:
        nonlocal count
        own = 0
        while not own or time.perf_counter() < until:  # on a busy machine a moment may pass before the first
            async with http.post(url, data=body, headers=headers) as response:
                text = await response.read()
                if b"hello world" not in text:
                    raise RuntimeError(f"wrong answer: {text[:200]!r}")
                count, own = count + 1, own + 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await asyncio.gather(*(caller(http) for _ in range(clients)))
    return count


def _nginx(folder: Path, port: int, upstream: str) -> Path:
    file = folder / "nginx.conf"
    temporary = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file.write_text(
        f"worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/err; events {{}}"
        f" http {{ access_log off; {temporary} upstream u {{ server 127.0.0.1:{upstream}; keepalive 64; }}"
        f" server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://u; proxy_http_version 1.1;"
        f" proxy_set_header Connection ''; }} }} }}"
    )
    return file


if __name__ == "__main__":
    main()
