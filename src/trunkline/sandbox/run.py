"""One program from its first line to its value: its calls run beside it, and end with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trunkline.call.functions import Functions
from trunkline.errors import ProgramError
from trunkline.model import Entry
from trunkline.sandbox.bridge import NOBODY, REFUSED, Bridge
from trunkline.sandbox.pool import Pool, Session
from trunkline.sandbox.turns import SLEEP, Step, Wanted, raised
from trunkline.tasks import Tasks, open_tasks

REST = 0.05
"""Seconds that a program waits for its tools before others may have its worker."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What came of a program that ended well."""

    value: Any
    """What its last expression gave, as JSON has it."""
    printed: str = ""
    calls: int = 0
    """Calls of tools that it made."""
    duration: float = 0.0
    """Seconds it took, those in which a person was asked not counted."""


class Kept(msgspec.Struct, frozen=True):
    """A program that waits for a person, as data; whoever has it can go on with it."""

    id: str
    dump: bytes
    wanted: tuple[Wanted, ...]
    """The calls that nobody agreed to yet."""
    printed: str
    made: int
    read: int
    spent: float


@dataclass(frozen=True)
class Told:
    """Who hears of a program while it runs."""

    called: Callable[[str, int], None]
    """A call of a tool ended; the tool, and how many did by now."""
    printed: Callable[[str], None]


class Run:
    """One program, until it ends or until all of it waits for a person."""

    def __init__(
        self, pool: Pool, bridge: Bridge, functions: Functions, needs: Callable[[Entry], bool], told: Told, id: str
    ) -> None:
        self._pool, self._bridge, self._functions, self._needs, self._told = pool, bridge, functions, needs, told
        self.id = id
        self.askable = True
        """Whether there is anybody who can agree to a call."""
        self._session: Session | None = None
        self._asked: dict[int, Wanted] = {}
        self._calls: dict[int, asyncio.Task[Any]] = {}
        self._refused: dict[int, Any] = {}
        self._printed: list[str] = []
        self._made = self._ended = 0
        self._spent = 0.0
        self._loop = asyncio.get_running_loop()

    # From outside.

    async def start(self, code: str, stubs: str = "", *, timeout: float = 0.0) -> ProgramResult | Kept:
        """Run it from its beginning."""

        async def begin(session: Session) -> Step:
            return await session.start(code)

        return await self._through(begin, stubs, timeout)

    async def take_up(self, kept: Kept, agreed: set[int], *, timeout: float = 0.0) -> ProgramResult | Kept:
        """Go on with one that waited, and make the calls that were agreed to."""
        self._printed, self._made, self._spent = [kept.printed], kept.made, kept.spent
        self._ended, self._bridge.read = kept.made - len(kept.wanted), kept.read

        async def load(session: Session) -> Step:
            step = await session.load(kept.dump)
            for call in kept.wanted:
                if call.id not in agreed:
                    self._refused[call.id] = raised("PermissionError", REFUSED)
                    self._ended += 1
            return Step(tuple(call for call in kept.wanted if call.id in agreed), step.pending)

        return await self._through(load, "", timeout, agreed)

    @property
    def printed(self) -> str:
        """What it printed until now."""
        return "".join(self._printed)

    @property
    def made(self) -> int:
        """Calls of tools that it made until now."""
        return self._made

    @property
    def read(self) -> int:
        """Tokens of results that it read."""
        return self._bridge.read

    def entry_of(self, call: Wanted) -> Entry:
        """The tool of a call; one that is gone meanwhile is told when it is called."""
        return self._functions.get(call.name) or Entry(call.name, "", call.name, b"{}")

    # Inside.

    async def _through(
        self, begin: Callable[[Session], Any], stubs: str, timeout: float, agreed: set[int] | None = None
    ) -> ProgramResult | Kept:
        most = timeout or self._pool.config.timeout
        since = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, most - self._spent)):
                self._session = await self._take(stubs)
                async with open_tasks() as tasks:  # whatever ends it, its calls end first
                    value = await self._drive(await begin(self._session), tasks, agreed or set())
                self._spent += time.monotonic() - since
                return self._result(value) if value is not None else await self._kept()
        except TimeoutError:
            what = f"It took more than {most:g} s with its tools; those still at work were cancelled."
            raise ProgramError(what, printed=self.printed) from None
        except ProgramError as error:
            error.printed = self.printed
            raise
        finally:
            await self._let_go()

    def _result(self, value: bytes) -> ProgramResult:
        return ProgramResult(msgspec.json.decode(value), self.printed, self._made, self._spent)

    async def _kept(self) -> Kept:
        assert self._session is not None
        dump = await self._session.dump()
        if len(dump) > self._pool.config.state:
            most = self._pool.config.state
            hint = "Let it hold less when it asks: ask first, or in smaller steps."
            raise ProgramError(f"It holds {len(dump)} bytes while a person is asked, and may hold {most}.", hint=hint)
        wanted = tuple(self._asked.values())
        return Kept(self.id, dump, wanted, self.printed, self._made, self._bridge.read, self._spent)

    async def _drive(self, step: Step, tasks: Tasks, agreed: set[int]) -> bytes | None:
        """Until there is a value, or (`None`) until nothing is under way but questions."""
        while step.value is None:
            for call in step.wanted:
                self._begin(call, tasks, agreed=call.id in agreed)
            settled = await self._settled(step.pending)
            if not settled:
                return None
            assert self._session is not None
            step = await self._session.resume(settled)
        return step.value

    def _begin(self, call: Wanted, tasks: Tasks, *, agreed: bool) -> None:
        if call.name == SLEEP:
            self._calls[call.id] = tasks.start(self._bridge.sleep(call.arguments), name="sleep of a program")
            return
        if not agreed:
            self._made += 1
        entry = self.entry_of(call)
        if agreed or not self._needs(entry):
            work = self._call(entry, call.arguments, agreed=agreed)
            self._calls[call.id] = tasks.start(work, name=f"program calls {entry.shown}")
        elif self.askable:
            self._asked[call.id] = call
        else:
            self._refused[call.id] = raised("PermissionError", NOBODY)

    async def _call(self, entry: Entry, arguments: bytes, *, agreed: bool) -> Any:
        settled = await self._bridge.make(entry, arguments, agreed=agreed)
        self._ended += 1
        self._told.called(entry.shown, self._ended)
        return settled

    async def _settled(self, pending: Sequence[int]) -> Mapping[int, Any]:
        """What came of some calls; nothing when all that is pending waits for a person."""
        running = [self._calls[id] for id in pending if id in self._calls]
        refused = {id: self._refused.pop(id) for id in pending if id in self._refused}
        if running and not refused and not any(call.done() for call in running):
            await self._wait(running)
            await asyncio.sleep(0)  # others may be done in the same moment
        done = {id: _came(self._calls.pop(id)) for id in pending if id in self._calls and self._calls[id].done()}
        return refused | done

    async def _wait(self, running: Sequence[asyncio.Task[Any]]) -> None:
        """Until one of the calls is done. Who waits long, while others want a worker, gives its own up meanwhile."""
        done, _ = await asyncio.wait(running, timeout=REST, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return
        crowd = self._loop.create_task(self._pool.crowded.wait())
        try:
            await asyncio.wait([*running, crowd], return_when=asyncio.FIRST_COMPLETED)
        finally:
            crowd.cancel()
        if any(call.done() for call in running):
            return
        assert self._session is not None
        dump = await self._session.dump()
        if len(dump) <= self._pool.config.state:
            await self._let_go()
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self._session = await self._take("")
            await self._session.load(dump)
        else:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    async def _take(self, stubs: str) -> Session:
        session = await self._pool.take(self._functions.why_unknown, self._hear, stubs=stubs)
        session.count(self._made, len(self.printed.encode()))
        return session

    async def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _hear(self, text: str) -> None:
        """Printed; said by a thread of the worker's."""
        self._printed.append(text)
        self._loop.call_soon_threadsafe(self._told.printed, text)


def _came(call: asyncio.Task[Any]) -> Any:
    """What came of a call; one that somebody cancelled, or that broke, fails in the program and does not end it."""
    if call.cancelled() or call.exception() is not None:
        return raised("RuntimeError", "the call was ended before it gave anything")
    return call.result()
