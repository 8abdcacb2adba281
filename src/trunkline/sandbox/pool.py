"""The workers that run programs: one pool of few processes; a program has one only while it computes, or may soon."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.config.programs import ProgramsSection
from trunkline.errors import BusyError, ConfigError, ProgramError, TrunklineError
from trunkline.foreign import Raised, attempt
from trunkline.sandbox.runtime import INSTALL, Runtime, is_installed, prepare
from trunkline.sandbox.turns import Knows, Settled, Step, Turns
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from pydantic_monty import Monty

log = logging.getLogger("trunkline")
T = TypeVar("T")

_FAREWELL = 1.0
"""Seconds that a thread has to notice that its worker is gone."""


class Pool:
    """Made with the relay; its processes start with the first program, and end with it."""

    def __init__(self, config: ProgramsSection, home: Path) -> None:
        self.config, self._home = config, home
        self.processes = config.processes or os.cpu_count() or 1
        self.runtime: Runtime | None = None
        """How workers are started; known once one was."""
        self._monty: Monty | None = None
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(self.processes)
        self._waiting = 0
        self._of_user: Counter[str] = Counter()
        self._sessions: set[Session] = set()
        self.crowded = asyncio.Event()
        """Set while somebody waits for a worker."""

    @property
    def busy(self) -> int:
        """Workers that are taken."""
        return len(self._sessions)

    @property
    def queued(self) -> int:
        """Programs that wait for a worker."""
        return self._waiting

    async def check(self) -> Runtime:
        """Make sure that programs can be run; ConfigError says why not."""
        if not is_installed():
            raise ConfigError("Programs cannot be run here: their sandbox is not installed.", hint=INSTALL)
        async with self._opening:
            found = self.runtime or await in_thread(partial(prepare, self.config, self._home))
            self.runtime = found
            return found

    async def take(self, knows: Knows, heard: Callable[[str], None], *, stubs: str = "") -> Session:
        """A worker for one program, as soon as one is free; `knows` says what tools there are, `heard` takes prints."""
        monty = await self._open()
        if self._slots.locked() and self._waiting >= self.config.queue:
            raise BusyError("Too many programs wait to be run.", hint="Try again later, or raise `programs.queue`.")
        self._waiting += 1
        self.crowded.set()
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.crowded.clear()
        session = Session(Turns(self.config, knows, heard), self._given_back)
        session.begin(monty, self.config, stubs)
        self._sessions.add(session)
        return session

    def _given_back(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            self._slots.release()

    async def _open(self) -> Monty:
        runtime = await self.check()
        async with self._opening:
            if self._monty is None:
                from pydantic_monty import Monty

                monty = Monty(
                    binary_path=runtime.launcher,
                    min_processes=1,
                    max_processes=self.processes,
                    checkout_timeout=_FAREWELL * 10,
                    max_checkouts_per_worker=self.config.runs_per_worker or None,
                )
                await _unbroken(in_thread(monty.__enter__))
                self._monty = monty
        return self._monty

    async def close(self) -> None:
        """End every worker."""
        for session in list(self._sessions):
            session.kill()
            await session.close()
        monty, self._monty = self._monty, None
        if monty is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(in_thread(partial(monty.__exit__, None, None, None)), _FAREWELL * 5)


class Session:
    """One program in one worker. Each turn runs in a thread; whoever is cancelled meanwhile ends the worker."""

    def __init__(self, turns: Turns, given_back: Callable[[Session], None]) -> None:
        self._turns, self._given_back = turns, given_back

    def begin(self, monty: Monty, config: ProgramsSection, stubs: str) -> None:
        """Have a worker to oneself, from the first turn on."""
        self._turns.checkout = partial(
            monty.checkout,
            script_name="program",
            limits={
                "max_feed_duration_secs": config.compute,
                "max_memory": config.memory,
                "max_recursion_depth": 400,
                "max_suspensions": 4 * config.calls + 2000,
            },
            os_policy={"sleep": "call_host"},
            type_check=bool(stubs),
            type_check_stubs=stubs or None,
            type_check_format="concise" if stubs else None,
        )

    async def start(self, code: str) -> Step:
        """Run a program until it ends, or until all of it waits for calls."""
        return await self._turn(partial(self._turns.start, code))

    async def resume(self, settled: Settled) -> Step:
        """Go on with what came of some calls."""
        return await self._turn(partial(self._turns.resume, settled))

    async def dump(self) -> bytes:
        """The program as data, while it waits."""
        return await self._turn(self._turns.dump)

    async def load(self, dump: bytes) -> Step:
        """Take up a program that was data; it waits for the same calls as before."""
        return await self._turn(partial(self._turns.load, dump))

    def count(self, made: int, printed: int) -> None:
        """What the program had used before it came to this worker."""
        self._turns.made, self._turns.printed = made, printed

    def kill(self) -> None:
        """End the worker, whatever it does."""
        self._turns.left = True
        if self._turns.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._turns.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Give the worker back."""
        if not self._turns.has_worker:
            self._given_back(self)
            return
        ending: asyncio.Future[Any] = in_thread(self._turns.end)
        try:
            await asyncio.wait([ending], timeout=_FAREWELL)
        finally:
            ending.add_done_callback(_seen)
            self._given_back(self)

    async def _turn(self, work: Callable[[], Any]) -> Any:
        turn: asyncio.Future[Any] = in_thread(work)
        try:
            return await _unbroken(asyncio.shield(turn))
        except asyncio.CancelledError:
            self.kill()
            await asyncio.wait([turn], timeout=_FAREWELL)
            if turn.done() and not turn.cancelled():
                turn.exception()  # nobody else asks for it
            raise


async def _unbroken(work: Awaitable[T]) -> T:
    """What the interpreter's own library gave; if it broke, that is told without its words."""

    async def waited() -> T:
        return await work

    came = await attempt(waited)
    if not isinstance(came, Raised):
        return came
    if isinstance(came.error, TrunklineError):
        raise came.error
    log.error("The sandbox of programs failed.", exc_info=came.error)
    raise ProgramError("Its sandbox failed.", hint="Run it again; the log says what happened.") from came.error


def _seen(ending: asyncio.Future[Any]) -> None:
    """A worker that could not be given back is gone, which is what was wanted."""
    if not ending.cancelled():
        ending.exception()
