"""Tasks that belong to somebody: they end with the body that opened them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from trunkline.errors import TrunklineError

log = logging.getLogger("trunkline")

_SLICE = 0.005
"""Seconds of work after which others have their turn."""
LARGE = 2**20
"""Bytes of JSON that take some milliseconds to be gone through."""


class Tasks:
    """The running tasks of one owner."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> asyncio.Task[Any]:
        """Run `work` until it ends or its owner does."""
        task = asyncio.get_running_loop().create_task(work, name=name or None)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, TrunklineError):  # ours are handled by whoever awaits the task
            log.error("Task %s failed: %s", task.get_name(), error, exc_info=error)

    async def close(self) -> None:
        """Cancel what still runs, and wait for its end."""
        while self._running:
            running = list(self._running)
            for task in running:
                task.cancel()
            # Asked again if need be: foreign code may swallow a cancellation that comes as it finishes.
            await asyncio.wait(running, timeout=1.0)


def drop_outcome(task: asyncio.Future[Any]) -> None:
    """Called when a task is done whose outcome nobody may want: asyncio complains of errors that nobody looked at."""
    if not task.cancelled():
        task.exception()


def is_cancelled() -> bool:
    """Whether somebody cancelled the running task: else a cancellation that it meets is that of what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[Tasks]:
    """Tasks that are cancelled and awaited when the body ends."""
    tasks = Tasks()
    try:
        yield tasks
    finally:
        await tasks.close()


async def in_slices(steps: Iterable[object]) -> None:
    """Do long work step by step, and let others have their turn meanwhile."""
    until = time.monotonic() + _SLICE
    for _ in steps:
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + _SLICE


async def pause_after(text: bytes) -> None:
    """Let others have their turn where a text is so large that reading it once takes as long as a slice."""
    if len(text) > LARGE:
        await asyncio.sleep(0)
