"""Runs a server as a program: from its start to its end by a signal, or by the caller that left."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from trunkline.authoring.options import Transport
from trunkline.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.authoring.server import MCPServerBase

log = logging.getLogger("trunkline")

STOPPING = 5.0
"""Seconds that `on_stop` gets when the program is told to end."""


def run(server: MCPServerBase, transport: Transport, *, host: str, port: int, token: str) -> None:
    """Serve until the end; SIGTERM and Ctrl-C are good ends."""
    if transport not in ("stdio", "http"):
        raise ConfigError(f"A server cannot be served by {transport!r}.", hint="Take stdio or http.")
    asyncio.run(_run(server, transport, host, port, token))


async def _run(server: MCPServerBase, transport: Transport, host: str, port: int, token: str) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    serving = asyncio.ensure_future(_stdio(server) if transport == "stdio" else _http(server, host, port, token))
    waiting = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        ended = serving.done()
        serving.cancel()
        await asyncio.wait([serving], timeout=STOPPING)
        try:
            async with asyncio.timeout(STOPPING):
                await server.stop("The caller left." if ended else "It was told to.")
        except TimeoutError:
            log.warning("Server %s did not stop within %g s, and is left as it is.", server.config.id, STOPPING)
    if ended:
        serving.result()


async def _stdio(server: MCPServerBase) -> None:
    from trunkline.authoring.stdio import open_stdio

    async with open_stdio() as (lines, write):
        await server.serve_lines(lines, write)


async def _http(server: MCPServerBase, host: str, port: int, token: str) -> None:
    from trunkline.authoring.http import open_http

    async with open_http(await server.protocol(), host=host, port=port, token=token) as url:
        print(f"{server.config.name} listens at {url}", file=sys.stderr, flush=True)  # noqa: T201
        await asyncio.Event().wait()
