"""Standard input and output as lines, kept clear of everything that is not MCP."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

LONGEST = 64 * 2**20
"""Bytes of a line; who sends more is cut off."""


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
