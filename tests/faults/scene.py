"""What fault tests look at: callers by their era, a server's log, the gateway's answers about itself, processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests.harness import FORK_SERVER, LegacyCaller, ModernCaller, until

ERAS = ("modern", "legacy")


async def caller_of(era: str, url: str, http: aiohttp.ClientSession) -> ModernCaller | LegacyCaller:
    """A caller of this era, ready to call."""
    return ModernCaller(url, http) if era == "modern" else await LegacyCaller(url, http).open()


def lines(log: Path) -> list[str]:
    """What a faulty server saw so far."""
    return log.read_text().splitlines() if log.exists() else []


def count(log: Path, beginning: str) -> int:
    """How many lines of a server's log begin so."""
    return sum(line.startswith(beginning) for line in lines(log))


def number_of(log: Path, tool: str) -> str:
    """The id under which the server saw its last call of a tool."""
    return [line.split()[2] for line in lines(log) if line.startswith(f"call {tool} ")][-1]


async def get(http: aiohttp.ClientSession, url: str, path: str, **headers: str) -> dict[str, Any]:
    """What the gateway says at another path than /mcp."""
    async with http.get(url.removesuffix("/mcp") + path, headers=headers) as response:
        return json.loads(await response.read())


async def all_tried(http: aiohttp.ClientSession, url: str, **headers: str) -> None:
    """Wait until a gateway in a process of its own has reached every server, or failed to."""
    async with asyncio.timeout(10):
        while True:
            shown = (await get(http, url, "/readyz", **headers))["servers"]
            if all(server["state"] != "starting" for server in shown.values()):
                return
            await asyncio.sleep(0.01)


def descendants(pid: int) -> list[psutil.Process]:
    """Every process below this one, but for what tests of this worker share, which is nobody's server."""
    return [process for process in psutil.Process(pid).children(recursive=True) if not is_shared(process)]


def is_shared(process: psutil.Process) -> bool:
    """Whether it is the fork server of the tests, or of the database that some of them use."""
    try:
        return process.name() == "postgres" or str(FORK_SERVER) in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that is dead and not yet collected does not."""
    return [process for process in processes if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Watch:
    """The most memory that a process ever had, and the most it computed before an answer of another server came."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process = psutil.Process(pid)
        self._before = self._process.memory_info().rss
        self.slowest = 0.0
        self.answers = 0

    @property
    def growth(self) -> float:
        """Megabytes by which the worst moment exceeded the beginning."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024 - self._before / 2**20
        return 0.0

    async def run(self, caller: ModernCaller, tool: str) -> None:
        """Call a tool again and again, and measure, until cancelled."""
        while True:
            before = self._computed()
            heard = await caller.call(tool, {"text": "still here"})
            assert heard.text == "still here"
            # Seconds of its own work: how long others had the processor says nothing about it.
            self.slowest = max(self.slowest, self._computed() - before)
            self.answers += 1
            await asyncio.sleep(0.002)

    def _computed(self) -> float:
        used = self._process.cpu_times()
        return used.user + used.system


@asynccontextmanager
async def watching(pid: int, caller: ModernCaller, tool: str) -> AsyncGenerator[Watch]:
    """Watch a gateway during the body, while a caller uses another server's tool."""
    await caller.call(tool, {"text": "first"})
    watch = Watch(pid)
    running = asyncio.create_task(watch.run(caller, tool))
    try:
        yield watch
        await until(lambda: watch.answers or running.done())
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    error = None if running.cancelled() else running.exception()
    assert error is None, f"the other server's caller failed: {error!r}"
