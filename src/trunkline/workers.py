"""Runs others' functions: async ones on the loop, the rest in threads that never hold up the end of the program."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from trunkline.tasks import is_cancelled

MOST = 64
"""Threads that may work at once; further calls wait."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes something to await."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    own = getattr(function, "__call__", None)  # noqa: B004 # an object may have an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(own)


async def run(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function and wait for its result; a thread whose caller is gone finishes by itself."""
    if is_async(function):
        try:
            return await function(*args, **named)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise RuntimeError("What it waited for was cancelled.") from None
    result = await in_thread(functools.partial(function, *args, **named))
    return await result if inspect.isawaitable(result) else result


class Workers:
    """Threads that are started when needed and wait for further work; at the program's end they are not waited for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0

    def start(self, job: Callable[[], None]) -> None:
        """Have a job done, as soon as a thread is free; it must not raise."""
        self._jobs.put(job)
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if self._count < self._most:
                self._count += 1
                # Not those of a pool: Python waits for them as it ends, so that one endless tool would keep it up.
                threading.Thread(target=self._work, name="trunkline tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.release()


_workers = Workers(MOST)


def in_thread(function: Callable[[], Any], *, always: bool = False) -> asyncio.Future[Any]:
    """Have a function called in a thread; what it returns, or raises, is the future's.

    If nobody waits any more by the time that a thread is free, it is called only `always`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def job() -> None:
        if future.cancelled() and not always:
            return
        result, error = None, None
        try:
            result = context.run(function)
        except StopIteration:
            error = RuntimeError("It raised StopIteration.")  # which a future cannot carry
        except (SystemExit, KeyboardInterrupt):
            error = RuntimeError("It wanted to end the program.")
        except BaseException as raised:  # noqa: BLE001 - whoever waits gets it; a panic of foreign code as an error
            ours = isinstance(raised, Exception)
            error = raised if ours else RuntimeError(f"It failed with {type(raised).__name__}: {raised}")
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            loop.call_soon_threadsafe(settle, result, error)

    _workers.start(job)
    return future
