"""The workers that run programs: few, each with a keeper; a program has one while it computes, or may soon."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import trunkline
from trunkline.config.programs import ProgramsSection
from trunkline.errors import BusyError, ConfigError, ProgramError
from trunkline.sandbox.messages import (
    HEAD,
    Asked,
    Broken,
    Dump,
    Dumped,
    End,
    Ended,
    Failed,
    Kill,
    Known,
    Load,
    Printed,
    Request,
    Resume,
    Settled,
    Setup,
    Start,
    Step,
    Told,
    length_of,
    longest,
    read_told,
    whole,
    written,
)
from trunkline.sandbox.runtime import INSTALL, Runtime, is_installed, prepare
from trunkline.workers import in_thread

log = logging.getLogger("trunkline")

Knows = Callable[[str], str]
"""Why a name is no function of a program's; empty for one that is."""
_FAREWELL = 1.0
"""Seconds that a keeper has to end its worker, or itself."""
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from trunkline.sandbox.keeper import main; main()"


class Pool:
    """Made with the relay; its processes start with the first programs, and end with it."""

    def __init__(self, config: ProgramsSection, home: Path) -> None:
        self.config, self._home = config, home
        self.processes = config.processes or os.cpu_count() or 1
        self.runtime: Runtime | None = None
        """How workers are started; known once one was."""
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(self.processes)
        self._waiting = 0
        self._sessions: set[Session] = set()
        self._idle: list[Keeper] = []
        self._closed = False
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

    async def take(self, knows: Knows, heard: Callable[[str], None]) -> Session:
        """A worker for one program, as soon as one is free; `knows` says what tools there are, `heard` takes prints."""
        runtime = await self.check()
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
        if self._closed:
            self._slots.release()
            raise BusyError("No more programs are run here.")
        session = Session(knows, heard, self._given_back)
        self._sessions.add(session)
        try:
            session.keeper = await self._idle_keeper() or await open_keeper(runtime, self.config)
            return session
        finally:
            if session.keeper is None:
                self._given_back(session)

    async def _idle_keeper(self) -> Keeper | None:
        while self._idle:
            keeper = self._idle.pop()
            if keeper.lives:
                return keeper
            await keeper.close()
        return None

    def _given_back(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            self._slots.release()
            if session.keeper is not None and session.keeper.lives:
                self._idle.append(session.keeper)

    async def close(self) -> None:
        """End every worker; those who had one hear of it in the middle of their turns."""
        self._closed = True
        idle, self._idle = self._idle, []
        for keeper in (*idle, *(session.keeper for session in tuple(self._sessions))):
            if keeper is not None:
                keeper.kill()
                await keeper.close()


class Session:
    """One program in one worker; whoever is cancelled during a turn ends the worker."""

    def __init__(self, knows: Knows, heard: Callable[[str], None], given_back: Callable[[Session], None]) -> None:
        self._knows, self._heard, self._given_back = knows, heard, given_back
        self.keeper: Keeper | None = None
        self._begun = False
        """There is something of the program in the worker."""
        self._unheard = False
        """A turn was left before it was answered."""

    async def start(self, code: str, stubs: str = "") -> Step:
        """Run a program until it ends, or until all of it waits for calls."""
        self._begun = True
        return await self._step(Start(code, whole(stubs)))

    async def resume(self, settled: Settled) -> Step:
        """Go on with what came of some calls."""
        return await self._step(Resume(settled))

    async def dump(self) -> Dumped:
        """The program as data, while it waits."""
        dumped = await self._turn(Dump())
        assert isinstance(dumped, Dumped)
        return dumped

    async def load(self, dump: bytes, *, made: int, printed: int) -> Step:
        """Take up a program that was data; it waits for the same calls as before, and had used so much."""
        self._begun = True
        return await self._step(Load(dump, made, printed))

    async def close(self) -> None:
        """Give the worker back; one that cannot be had back in time is ended."""
        keeper = self.keeper
        if keeper is None:
            return
        free = False
        try:
            async with asyncio.timeout(_FAREWELL):
                if self._unheard:
                    with suppress(ProgramError):
                        await self._came(keeper)
                if self._begun and keeper.lives:
                    await self._turn(End())
            free = True
        except (ProgramError, TimeoutError):
            pass
        finally:
            if not (free and keeper.lives):
                keeper.kill()
                await keeper.close()
            self._given_back(self)

    async def _step(self, request: Request) -> Step:
        step = await self._turn(request)
        assert isinstance(step, Step)
        return step

    async def _turn(self, request: Request) -> Step | Dumped | Ended:
        keeper = self.keeper
        assert keeper is not None
        keeper.send(request)
        try:
            return await self._came(keeper)
        except asyncio.CancelledError:
            # What comes of it is heard when the worker is given back: calls of the program are not to wait for that.
            self._unheard = True
            keeper.send(Kill())
            raise

    async def _came(self, keeper: Keeper) -> Step | Dumped | Ended:
        """What comes of a request; what is printed or asked on the way is heard and answered."""
        while True:
            told = await keeper.hear()
            if isinstance(told, Printed):
                self._heard(told.text)
            elif isinstance(told, Asked):
                keeper.send(Known(self._knows(told.name)))
            elif isinstance(told, Broken):
                log.error("The sandbox of programs failed: %s", told.text)
                keeper.kill()
                raise ProgramError("Its sandbox failed.", hint="Run it again; the log says what happened.")
            elif isinstance(told, Failed):
                await self._over(keeper)
                raise ProgramError(told.message, hint=told.hint, line=told.line)
            else:
                if isinstance(told, Step) and told.value is not None:
                    await self._over(keeper)
                elif isinstance(told, Ended):
                    self._ended(keeper, told)
                return told

    async def _over(self, keeper: Keeper) -> None:
        ended = await keeper.hear()
        assert isinstance(ended, Ended)
        self._ended(keeper, ended)

    def _ended(self, keeper: Keeper, ended: Ended) -> None:
        self._begun = False
        if ended.worn:
            keeper.kill()


async def open_keeper(runtime: Runtime, config: ProgramsSection) -> Keeper:
    """Start a worker's keeper; the worker itself starts with it."""
    ours, its = socket.socketpair()
    with ExitStack() as unless_open:
        unless_open.callback(ours.close)
        try:
            with its:
                process = _process(its)
            unless_open.callback(process.wait)
            unless_open.callback(process.kill)
            reader, writer = await asyncio.open_connection(sock=ours)
        except OSError as error:
            raise ProgramError("Its sandbox does not start.", hint="Try again later.") from error
        unless_open.pop_all()
    keeper = Keeper(process, reader, writer, longest(config))
    keeper.send(Setup(str(runtime.launcher), config))
    return keeper


def _process(link: socket.socket) -> subprocess.Popen[bytes]:
    # Nothing of our environment, and our own modules by the paths that we found them by.
    paths = [*(path for path in sys.path if path), str(Path(trunkline.__file__).parents[1])]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, *paths],
        stdin=link.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,  # without our terminal; and the kernel weighs sessions against each other
    )


class Keeper:
    """The process beside a worker, as the gateway has it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        most: int,
    ) -> None:
        self._process, self._reader, self._writer, self._most = process, reader, writer, most
        self._length = 0
        """Bytes of the message that comes now; 0 before that is known."""
        self._killed = False

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it can be given something to do."""
        return not (self._killed or self._reader.at_eof())

    def send(self, request: Request) -> None:
        """Tell it something."""
        self._writer.write(written(request))

    async def hear(self) -> Told:
        """What it says next; a ProgramError where it is gone, or says what it has no reason to."""
        try:
            if not self._length:
                self._length = length_of(await self._reader.readexactly(HEAD))
            if self._length <= self._most:
                text, self._length = await self._reader.readexactly(self._length), 0
                return read_told(text)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        self.kill()
        raise ProgramError("Its sandbox was ended.", hint="It may have used too much at once; do it in smaller steps.")

    def kill(self) -> None:
        """End it, and its worker with it."""
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End it, and wait for that."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        try:
            await in_thread(partial(self._process.wait, 5 * _FAREWELL))
        except subprocess.TimeoutExpired:
            self._process.kill()
            await in_thread(self._process.wait)
