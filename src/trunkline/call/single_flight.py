"""Equal work that is wanted several times at once is done once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from trunkline.errors import CancelledCallError
from trunkline.tasks import is_cancelled

T = TypeVar("T")
CLEANUP = 1.0
"""Seconds that cancelled work may take to end before its last waiter goes on without it."""
log = logging.getLogger("trunkline")


class SingleFlight(Generic[T]):
    """Work under way, by key. It lives as long as somebody waits for it, and its end, good or bad, is not kept."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    async def join(self, key: str, factory: Callable[[], Awaitable[T]]) -> T:
        """Wait for the work of that key, which starts now unless it is under way.

        All who wait get the same result or error. Whoever is cancelled leaves the others alone; with the last of them
        the work is cancelled.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._start(key, factory)
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            if flight.task.cancelled() and not is_cancelled():
                raise CancelledCallError(f"The work for {key!r} was cancelled.") from None
            raise
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                self._drop(key, flight)
                await self._end(key, flight.task)

    def forget(self, key: str) -> None:
        """Let the next one who joins start anew; who waits already is served as before."""
        self._flights.pop(key, None)

    def forget_all(self) -> None:
        """Let everybody who joins start anew."""
        self._flights.clear()

    def leads(self, key: str) -> bool:
        """Whether the running task is the work of that key: false once it was forgotten."""
        flight = self._flights.get(key)
        return flight is not None and flight.task is asyncio.current_task()

    def keys(self) -> list[str]:
        """What is under way."""
        return list(self._flights)

    def _start(self, key: str, factory: Callable[[], Awaitable[T]]) -> _Flight[T]:
        flight = _Flight[T]()

        async def fly() -> T:
            try:
                return await factory()
            finally:
                self._drop(key, flight)

        flight.task = asyncio.get_running_loop().create_task(fly(), name=f"flight {key}")
        self._flights[key] = flight
        self._tasks.add(flight.task)
        flight.task.add_done_callback(self._ended)
        return flight

    def _drop(self, key: str, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    async def _end(self, key: str, task: asyncio.Task[T]) -> None:
        if task.done():
            return
        task.cancel()
        _, running = await asyncio.wait([task], timeout=CLEANUP)
        if running:
            log.warning("The work for %s goes on, although it was cancelled.", key)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # asked for, so that asyncio does not complain when nobody waits any more


class _Flight(Generic[T]):
    __slots__ = ("task", "waiters")
    task: asyncio.Task[T]

    def __init__(self) -> None:
        self.waiters = 0
