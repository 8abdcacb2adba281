"""Active health: every server is asked from time to time, all at once, each within a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from trunkline.errors import TrunklineError
from trunkline.tasks import open_tasks

log = logging.getLogger("trunkline")

Probe = Callable[[str], Awaitable[bool]]
"""Asks a server whether it is well; an error means no."""
Sleep = Callable[[float], Awaitable[object]]
AT_ONCE = 32
"""Servers that are asked at the same time."""


async def check(servers: Iterable[str], probe: Probe, *, timeout: float = 5.0) -> dict[str, bool]:
    """Ask the servers, and wait for none longer than `timeout`."""
    gate = asyncio.Semaphore(AT_ONCE)
    found: dict[str, bool] = {}

    async def ask(server: str) -> None:
        async with gate:
            found[server] = await _answers(server, probe, timeout)

    async with open_tasks() as tasks:
        names = tuple(servers)
        running = [tasks.start(ask(server), name=f"check {server}") for server in names]
        if running:
            await asyncio.wait(running)
    return {server: found.get(server, False) for server in names}


@asynccontextmanager
async def open_checks(
    once: Callable[[], Awaitable[object]], *, interval: float, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[None]:
    """Check now and every `interval` seconds, until the body ends."""

    async def loop() -> None:
        while True:
            await once()
            await sleep(interval)

    async with open_tasks() as tasks:
        tasks.start(loop(), name="health checks")
        yield


async def _answers(server: str, probe: Probe, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout):
            return bool(await probe(server))
    except (TrunklineError, OSError):
        return False
    except Exception:  # a probe is somebody else's code, and one bad answer must not end the checks
        log.exception("The health check of %s failed.", server)
        return False
