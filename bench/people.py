"""What people cost: a gateway with many users, servers and threads in its store, beside one that has no store.

    python bench/people.py [--users 10000] [--configured 1000] [--seconds 4] [--only rest|cost|scale] [--store URL]

Scale: users with 3 servers and 5 threads each in the store; the start, memory, a caller's first call and further ones,
and the same once more where `--here` others have come, whose servers are connected.
Cost: CPU of the gateway for each call with a key and a thread, beside calls without either at a gateway that has no
store. Rest: memory with an empty store open, over a gateway without. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
from calls import HEADERS, HERE, MODERN, cpu_of, line_of, running
from scale import SMALLEST, sized

from trunkline.config.tenancy import StoreConfig
from trunkline.storage import documents
from trunkline.storage.documents import Document
from trunkline.storage.people import Key, User, put_key, put_user
from trunkline.tenancy.keys import KeyMaker
from trunkline.tenancy.tenancy import Tenancy, open_tenancy

SECRET = "5d" * 32
"""The stores' key: one database serves several homes here."""
SERVERS, THREADS = 3, 5
ROUNDS = sized(40, smallest=1)
BARS = {
    "start_s": 2.0,
    "memory_mb": 100.0,
    "first_call_ms": 50.0,
    "cpu_more_us": 12.0,
    "rest_more_mb": 4.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=sized(10_000, smallest=3), help="for scale")
    parser.add_argument("--here", type=int, default=sized(1000, smallest=1), help="users who have come, for scale")
    parser.add_argument("--configured", type=int, default=sized(1000, smallest=3), help="users for the cost of a call")
    parser.add_argument("--seconds", type=float, default=0.1 if SMALLEST else 4.0, help="of load for each gateway")
    parser.add_argument("--only", nargs="*", choices=("rest", "cost", "scale"), default=("rest", "cost", "scale"))
    parser.add_argument("--store", default="", help="an empty PostgreSQL database; default is SQLite in a new home")
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    for name, figure in found.items():
        bar = BARS.get(name)
        print(f"  {name:<28}{figure:>10.1f}{f'   at most {bar:g}' if bar else ''}")
    print(json.dumps(found))


async def measure(options: argparse.Namespace) -> dict[str, float]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(running([sys.executable, str(HERE / "echo.py"), "http"]))
        address = f"http://127.0.0.1:{line_of(upstream)}/mcp"
        found: dict[str, float] = {}
        if "rest" in options.only:
            found |= await at_rest(folder, options.store, address)
        if "cost" in options.only:
            keys = await fill(folder / "some", options.store, options.configured, "")
            found |= await in_calls(folder, options, address, keys)
        if "scale" in options.only:
            keys = await fill(folder / "many", options.store, options.users, address)
            found |= await at_scale(folder / "many", options, address, keys)
        return found


async def at_rest(folder: Path, store: str, address: str) -> dict[str, float]:
    """Memory at rest, of a gateway with a store in which there is nobody, and of one without; the median of three."""
    more: list[float] = []
    for number in range(sized(3, smallest=1)):
        sizes: list[float] = []
        for kind in ("without", "with"):
            home = folder / f"{kind}{number}"
            if kind == "with":
                await fill(home, store, 0, address)
            with gateway(home, address, store if kind == "with" else "") as (url, process, _):
                await call(url)
                await asyncio.sleep(1.0)
                sizes.append(memory(process.pid))
        more.append(sizes[1] - sizes[0])
    return {"rest_more_mb": sorted(more)[len(more) // 2]}


async def at_scale(home: Path, options: argparse.Namespace, address: str, keys: list[str]) -> dict[str, float]:
    """The start, memory and first calls with many people in the store."""
    count = sized(50, smallest=1)
    callers, others, later = keys[:count], keys[2 * count :][: options.here], keys[count : 2 * count]
    with gateway(home.with_name("nobody"), address, "") as (_, process, began):
        found = {"start_without_s": began, "start_without_cpu_s": cpu_of(process.pid)}
    with gateway(home, address, options.store) as (url, process, began):
        found |= {"start_s": began, "start_cpu_s": cpu_of(process.pid), "memory_at_start_mb": memory(process.pid)}
        found |= await first_and_further(url, process.pid, callers, "")
        found["memory_mb"] = memory(process.pid)
        await asyncio.gather(*(call_as(url, others[start::4]) for start in range(4)))
        await asyncio.sleep(sized(3, smallest=0))  # until their servers are connected
        found |= await first_and_further(url, process.pid, later, "crowded_")
        found["crowded_memory_mb"] = memory(process.pid)
    return found


async def first_and_further(url: str, pid: int, keys: list[str], prefix: str) -> dict[str, float]:
    """How long users wait who come one after the other, and who call once more."""
    found: dict[str, float] = {}
    for name in (f"{prefix}first_call", f"{prefix}further_call"):
        before = spent_by(pid)
        took = sorted([await timed(url, key) for key in keys])
        found |= {f"{name}_ms": took[len(took) // 2], f"{name}_p95_ms": took[int(len(took) * 0.95)]}
        # With what goes on behind it: a user's servers are reached when they come.
        found[f"{name}_cpu_ms"] = (spent_by(pid) - before) / len(keys) * 1000
    return found


async def in_calls(folder: Path, options: argparse.Namespace, address: str, keys: list[str]) -> dict[str, float]:
    """What a call costs with people configured, beside a gateway that has none."""
    with (
        gateway(folder / "none", address, "") as (plain, plain_process, _),
        gateway(folder / "some", address, options.store) as (url, process, _),
    ):
        await asyncio.gather(*(call_as(url, keys[start::8]) for start in range(8)))
        return await race(plain, plain_process.pid, url, process.pid, keys, options.seconds)


async def race(plain: str, plain_pid: int, url: str, pid: int, keys: list[str], seconds: float) -> dict[str, float]:
    """CPU of the gateway for each call, the least of several rounds taken in turns."""
    best = {"without": float("inf"), "one": float("inf"), "many": float("inf")}
    whose = {"without": (plain, plain_pid, [""]), "one": (url, pid, keys[:1]), "many": (url, pid, keys)}
    idle = {process: await idling(process) for process in (plain_pid, pid)}
    for _ in range(ROUNDS):
        for name, (address, process, own) in whose.items():
            began, before = time.perf_counter(), spent_by(process)
            count = await load(address, own, seconds / ROUNDS)
            spent = spent_by(process) - before - idle[process] * (time.perf_counter() - began)
            best[name] = min(best[name], spent / count * 1e6)
    figures = {f"cpu_{name}_us": cost for name, cost in best.items()}
    figures["idle_without_us_per_s"], figures["idle_us_per_s"] = idle[plain_pid] * 1e6, idle[pid] * 1e6
    return figures | {"cpu_more_us": best["many"] - best["without"], "cpu_many_over_one_us": best["many"] - best["one"]}


async def idling(pid: int) -> float:
    """CPU seconds for each second in which nobody calls: that is no call's cost, and weighs most where few are made."""
    before = spent_by(pid)
    await asyncio.sleep(sized(4, smallest=1))
    return (spent_by(pid) - before) / sized(4, smallest=1)


async def fill(home: Path, store: str, users: int, address: str) -> list[str]:
    """A store with so many users, each with a key, threads, and servers at the address if there is one; their keys."""
    async with open_tenancy(StoreConfig(url=store, key=SECRET), home) as tenancy:
        opened = await tenancy.store()
        pepper = await tenancy.vault.pepper(opened, bytes.fromhex(SECRET))
        maker = KeyMaker(lambda: pepper)
        keys: list[str] = []
        async with opened.changing("user", "", "") as session:
            for number in range(users):
                made = maker.make()
                name = f"user{number:05}"
                keys.append(made.text)
                await put_user(session, User(name))
                await put_key(session, Key(made.id, name), made.digest)
                for document in belongings(tenancy, name, address):
                    await documents.put_in(session, document)
        return keys


def belongings(tenancy: Tenancy, user: str, address: str) -> list[Document]:
    count = SERVERS if address else 0
    servers = [tenancy.servers.checked({"name": f"s{one}", "url": address}, user).document for one in range(count)]
    content: dict[str, Any] = {"tools": ["*"], "overrides": {"timeout": 20.0}}
    return servers + [tenancy.threads.checked(user, f"t{one}", content) for one in range(THREADS)]


@contextlib.contextmanager
def gateway(home: Path, address: str, store: str) -> Generator[tuple[str, Any, float]]:
    """A gateway as a process of its own: its address, the process, and the seconds until it listened."""
    home.mkdir(exist_ok=True)
    config = home / "config.json"
    config.write_text(json.dumps({"mcpServers": {"echo": {"url": address}}}))
    argv = [sys.executable, "-m", "trunkline", "up", "--config", str(config), "--port", "0", "--quiet"]
    began = time.perf_counter()
    with running(
        [*argv, *(["--store", store] if store else [])], TRUNKLINE_HOME=str(home), TRUNKLINE_STORE_KEY=SECRET
    ) as process:
        url = line_of(process).removeprefix("Trunkline listens at ")
        yield url, process, time.perf_counter() - began


def spent_by(pid: int) -> float:
    """CPU of the gateway itself, as exactly as the kernel knows it: a process's usual times come in ticks of 10 ms."""
    threads = Path(f"/proc/{pid}/task")
    if not (threads / str(pid) / "schedstat").exists():
        return cpu_of(pid)
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads.iterdir()) / 1e9


def memory(pid: int) -> float:
    """What the gateway and its helpers take for themselves, in MB."""
    root = psutil.Process(pid)
    return sum(process.memory_full_info().uss for process in [root, *root.children(recursive=True)]) / 2**20


def headers(key: str) -> dict[str, str]:
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent |= {name.decode(): value.decode() for name, value in HEADERS.items()}
    return {**sent, "authorization": f"Bearer {key}", "trunkline-thread": "t1"} if key else sent


async def call(url: str, key: str = "") -> None:
    await load(url, [key], 0, clients=1)


async def timed(url: str, key: str) -> float:
    """One call over a new connection, in milliseconds."""
    began = time.perf_counter()
    await call(url, key)
    return (time.perf_counter() - began) * 1000


async def call_as(url: str, keys: list[str]) -> None:
    """One call of each."""
    for key in keys:
        await call(url, key)


async def load(url: str, keys: list[str], seconds: float, clients: int = 8) -> int:
    """Call as all of them in turn; how often."""
    import aiohttp

    until = time.perf_counter() + seconds
    count = 0

    async def caller(http: aiohttp.ClientSession, start: int) -> None:
        nonlocal count
        number = start
        while number == start or time.perf_counter() < until:
            async with http.post(url, data=MODERN, headers=headers(keys[number % len(keys)])) as response:
                text = await response.read()
                if b"hello world" not in text:
                    raise RuntimeError(f"wrong answer: {response.status} {text[:200]!r}")
            number, count = number + clients, count + 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await asyncio.gather(*(caller(http, start) for start in range(clients)))
    return count


if __name__ == "__main__":
    os.environ.pop("TRUNKLINE_STORE_URL", None)
    main()
