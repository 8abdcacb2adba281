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
from trunkline.model import NOTHING, Entry, Parked, Question
from trunkline.sandbox.bridge import NOBODY, REFUSED, Asking, Bridge
from trunkline.sandbox.messages import SLEEP, Settled, Step, Wanted, raised
from trunkline.sandbox.pool import Pool, Session
from trunkline.tasks import Tasks, open_tasks
from trunkline.telemetry.savings import Sampled

LATE = "its server asked something, and nobody answered before the call was over"
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


class AskedCall(msgspec.Struct, frozen=True):
    """A call whose server asks a person something, as data."""

    call: Wanted
    questions: dict[str, Question]
    state: bytes
    """What a modern server wants back with the answers."""
    live: bool
    """Its server is a legacy one: the call itself goes on waiting here, and is no data."""
    rounds: int
    agreed: bool


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
    asked: tuple[AskedCall, ...] = ()
    """The calls whose servers ask something."""


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
        self._asking: dict[int, Asking] = {}
        self._again: dict[int, Asking] = {}
        self._sent: dict[int, Wanted] = {}
        self.live: dict[int, Parked] = {}
        """The calls of a program that waits which are no data: whoever keeps it keeps them, or withdraws them."""
        self._printed: list[str] = []
        self._made = self._ended = 0
        self._spent = 0.0
        self._news = asyncio.Event()
        """Set by each call that ends."""
        self._loop = asyncio.get_running_loop()

    # From outside.

    async def start(self, code: str, stubs: str = "", *, timeout: float = 0.0) -> ProgramResult | Kept:
        """Run it from its beginning."""

        async def begin(session: Session) -> Step:
            return await session.start(code, stubs)

        return await self._through(begin, timeout)

    async def take_up(
        self, kept: Kept, agreed: set[int], answered: Mapping[int, Asking] = NOTHING, *, timeout: float = 0.0
    ) -> ProgramResult | Kept:
        """Go on with one that waited: make the calls that were agreed to, and give servers their answers."""
        self._printed, self._made, self._spent = [kept.printed], kept.made, kept.spent
        self._ended, self._bridge.read = kept.made - len(kept.wanted) - len(kept.asked), Sampled(kept.read)
        self._again = dict(answered)
        calls = [*kept.wanted, *(one.call for one in kept.asked)]
        go_on = {call.id for call in calls if call.id in agreed or call.id in answered}
        asked = {one.call.id for one in kept.asked}

        async def load(session: Session) -> Step:
            step = await self._loaded(session, kept.dump)
            for call in calls:
                if call.id not in go_on:
                    self._refused[call.id] = (
                        raised("TimeoutError", LATE) if call.id in asked else raised("PermissionError", REFUSED)
                    )
                    self._ended += 1
            return Step(tuple(call for call in calls if call.id in go_on), step.pending)

        return await self._through(load, timeout, go_on)

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
        return self._bridge.read.tokens

    def entry_of(self, call: Wanted) -> Entry:
        """The tool of a call; one that is gone meanwhile is told when it is called."""
        return self._functions.get(call.name) or Entry(call.name, "", call.name, b"{}")

    # Inside.

    async def _through(
        self, begin: Callable[[Session], Any], timeout: float, go_on: set[int] | None = None
    ) -> ProgramResult | Kept:
        most = timeout or self._pool.config.timeout
        since = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, most - self._spent)):
                self._session = await self._take()
                async with open_tasks() as tasks:  # whatever ends it, its calls end first
                    value = await self._drive(await begin(self._session), tasks, go_on or set())
                self._spent += time.monotonic() - since
                return self._result(value) if value is not None else await self._kept()
        except TimeoutError:
            what = f"It took more than {most:g} s with its tools; those still at work were cancelled."
            raise ProgramError(what, printed=self.printed) from None
        except ProgramError as error:
            error.printed = self.printed
            raise
        finally:
            for asking in (*self._asking.values(), *self._again.values()):
                self._bridge.withdraw(asking.parked)
            await self._let_go()

    def _result(self, value: bytes) -> ProgramResult:
        return ProgramResult(msgspec.json.decode(value), self.printed, self._made, self._spent)

    async def _kept(self) -> Kept:
        assert self._session is not None
        dumped = await self._session.dump()
        if not dumped.dump:
            most = self._pool.config.state
            hint = "Let it hold less when it asks: ask first, or in smaller steps."
            raise ProgramError(f"It holds {dumped.size} bytes while a person is asked, and may hold {most}.", hint=hint)
        wanted = tuple(self._asked.values())
        asked = tuple(
            AskedCall(self._sent[id], dict(one.questions), one.state, one.parked is not None, one.rounds, one.agreed)
            for id, one in self._asking.items()
        )
        self.live = {id: one.parked for id, one in self._asking.items() if one.parked is not None}
        self._asking = {}
        return Kept(self.id, dumped.dump, wanted, self.printed, self._made, self.read, self._spent, asked)

    async def _drive(self, step: Step, tasks: Tasks, go_on: set[int]) -> bytes | None:
        """Until there is a value, or (`None`) until nothing is under way but questions."""
        while step.value is None:
            for call in step.wanted:
                self._begin(call, tasks, goes_on=call.id in go_on)
            settled = await self._settled(step.pending)
            if not settled:
                return None
            assert self._session is not None
            step = await self._session.resume(settled)
        return step.value

    def _begin(self, call: Wanted, tasks: Tasks, *, goes_on: bool) -> None:
        asleep = call.name == SLEEP
        if not (goes_on or asleep):
            self._made += 1
        if goes_on or asleep or not self._needs(self.entry_of(call)):
            self._calls[call.id] = tasks.start(self._call(call, goes_on=goes_on), name=f"program calls {call.name}")
        elif self.askable:
            self._asked[call.id] = call
        else:
            self._refused[call.id] = raised("PermissionError", NOBODY)

    async def _call(self, call: Wanted, *, goes_on: bool) -> Any:
        try:
            if call.name == SLEEP:
                return await self._bridge.sleep(call.arguments)
            entry, again = self.entry_of(call), self._again.pop(call.id, None)
            agreed = goes_on if again is None else again.agreed
            settled = await self._bridge.make(entry, call.arguments, agreed=agreed, again=again)
            if isinstance(settled, Asking):
                self._asking[call.id], self._sent[call.id] = settled, call
                return settled
            self._ended += 1
            self._told.called(entry.shown, self._ended)
            return settled
        finally:
            self._news.set()

    async def _settled(self, pending: Sequence[int]) -> Settled:
        """What came of some calls; nothing when all that is pending waits for a person."""
        refused = {id: self._refused.pop(id) for id in pending if id in self._refused}
        settled: Settled = refused
        while not settled and (running := [self._calls[id] for id in pending if id in self._calls]):
            while not any(call.done() for call in running):
                await self._wait(running)
            if len(running) > 1:
                await asyncio.sleep(0)  # others may be done in the same moment
            settled = self._done(pending)
        return settled | self._done(pending)

    def _done(self, pending: Sequence[int]) -> Settled:
        """What came of the calls that are done, but for those whose servers asked something."""
        done = [id for id in pending if id in self._calls and self._calls[id].done()]
        came = {id: _came(self._calls.pop(id)) for id in done}
        return {id: one for id, one in came.items() if not isinstance(one, Asking)}

    async def _wait(self, running: Sequence[asyncio.Task[Any]]) -> None:
        """Until one of the calls is done. Who waits long, while others want a worker, gives its own up meanwhile."""
        if await self._heard(REST):
            return
        crowd = self._loop.create_task(self._pool.crowded.wait())
        try:
            await asyncio.wait([*running, crowd], return_when=asyncio.FIRST_COMPLETED)
        finally:
            crowd.cancel()
        if any(call.done() for call in running):
            return
        assert self._session is not None
        dump = (await self._session.dump()).dump
        if dump:
            await self._let_go()
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self._session = await self._take()
            await self._loaded(self._session, dump)
        else:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    async def _heard(self, seconds: float) -> bool:
        """Whether a call ends within some seconds; told by the call itself, which takes less than watching its task."""
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                return await self._news.wait()
        except TimeoutError:
            return False

    async def _take(self) -> Session:
        return await self._pool.take(self._functions.why_unknown, self._hear)

    async def _loaded(self, session: Session, dump: bytes) -> Step:
        return await session.load(dump, made=self._made, printed=len(self.printed.encode()))

    async def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _hear(self, text: str) -> None:
        self._printed.append(text)
        self._told.printed(text)


def _came(call: asyncio.Task[Any]) -> Any:
    """What came of a call; one that somebody cancelled, or that broke, fails in the program and does not end it."""
    if call.cancelled() or call.exception() is not None:
        return raised("RuntimeError", "the call was ended before it gave anything")
    return call.result()
