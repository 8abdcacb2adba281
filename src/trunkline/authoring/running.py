"""Runs a server as a program: from its start to its end by a signal, or by the caller that left."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from trunkline.authoring.server import MCPServerBase, Transport
from trunkline.errors import ConfigError

log = logging.getLogger("trunkline")

STOPPING = 5.0
"""Seconds that `on_stop` gets when the program is told to end."""
LONGEST = 64 * 2**20
"""Bytes of a line; who sends more is cut off."""


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
    async with open_stdio() as (lines, write):
        await server.serve_lines(lines, write)


async def _http(server: MCPServerBase, host: str, port: int, token: str) -> None:
    from trunkline.authoring.serving import open_http

    async with open_http(await server.protocol(), host=host, port=port, token=token) as url:
        print(f"{server.config.name} listens at {url}", file=sys.stderr, flush=True)  # noqa: T201
        await asyncio.Event().wait()


@asynccontextmanager
async def open_stdio() -> AsyncGenerator[tuple[AsyncIterator[bytes], Callable[[bytes], None]]]:
    """The caller's lines, and a way to write some; meanwhile what is printed goes to standard error.

    The threads that read and write are not waited for: one that hangs must not keep the program from ending.
    """
    sys.stdout.flush()
    private_in, private_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    incoming: asyncio.Queue[bytes] = asyncio.Queue()
    outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    written = asyncio.Event()

    def say(line: bytes) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(incoming.put_nowait, line)

    def read() -> None:
        with os.fdopen(private_in, "rb", closefd=False) as file, suppress(OSError):
            while (line := file.readline(LONGEST)) and line.endswith(b"\n"):
                say(line)
        say(b"")

    def write() -> None:
        with suppress(OSError):  # nobody reads any more; the end of their input says so as well
            while (line := outgoing.get()) is not None:
                _write_all(private_out, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(written.set)

    async def lines() -> AsyncIterator[bytes]:
        while line := await incoming.get():
            yield line

    for work in (read, write):
        threading.Thread(target=work, name=f"trunkline stdio {work.__name__}", daemon=True).start()
    try:
        yield lines(), outgoing.put
    finally:
        outgoing.put(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await written.wait()
        sys.stdout.flush()
        os.dup2(private_in, 0)
        os.dup2(private_out, 1)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
