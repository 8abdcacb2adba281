"""One turn of a program after the other, in whatever thread: until it ends, or all of it waits for calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec

from trunkline.config.programs import ProgramsSection
from trunkline.errors import ProgramError
from trunkline.foreign import attempt_now
from trunkline.sandbox.faults import program_error
from trunkline.wire.members import decode, encode

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult, FutureSnapshot, MontySession, SyncSnapshot

Knows = Callable[[str], str]
"""Why a name is no function of the program's; empty for one that is."""
Settled = Mapping[int, Any]
"""What came of calls, by their numbers: `given(value)` or `raised(kind, message)`."""

SLEEP = "asyncio.sleep"
"""What a program that sleeps wants called."""
_LONGEST_MESSAGE = 2000


def given(value: Any) -> Any:
    """What a call gave."""
    return {"return_value": value}


def raised(kind: str, message: str) -> Any:
    """What a call raises in the program: an exception of a kind that programs know."""
    return {"exc_type": kind, "message": message[:_LONGEST_MESSAGE]}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that a program wants made."""

    id: int
    name: str
    arguments: bytes
    """As JSON."""


@dataclass(frozen=True, slots=True)
class Step:
    """Where a program stopped."""

    wanted: tuple[Wanted, ...] = ()
    """Calls that it wants since the last step."""
    pending: tuple[int, ...] = ()
    """Every call that it waits for."""
    value: bytes | None = None
    """What it gave in the end, as JSON; `None` while it goes on."""


class Turns:
    """A session of a worker. Nothing here waits for anybody but the worker."""

    def __init__(self, config: ProgramsSection, knows: Knows, heard: Callable[[str], None]) -> None:
        self._config, self._knows, self._heard = config, knows, heard
        self.checkout: Callable[[], MontySession] | None = None
        """Gives a worker; taken with the first turn, in whose thread that is done."""
        self._session: MontySession | None = None
        self._waits: FutureSnapshot | None = None
        self._arguments = 0
        self.made = 0
        """Calls that were wanted until now."""
        self.printed = 0
        """Bytes that were printed."""
        self.pid = 0
        self.left = False
        """Nobody waits for it any more."""

    @property
    def has_worker(self) -> bool:
        """Whether there is anything to be given back."""
        return self._session is not None

    def _begun(self) -> MontySession:
        """Check a worker out."""
        assert self.checkout is not None
        session = self.checkout()
        session.__enter__()
        self._session = session
        self.pid = session.worker_pid or 0
        if self.left:  # before there was a worker that could be ended
            self.end()
            raise ProgramError("It was ended before it began.")
        return session

    def end(self) -> None:
        """Give it back; what it had is gone."""
        session, self._session, self._waits, self.pid = self._session, None, None, 0
        if session is not None:
            session.__exit__(None, None, None)

    def start(self, code: str) -> Step:
        """Run a text from its beginning."""
        session = self._begun()
        return self._until_it_waits(lambda: session.feed_start(code, print_callback=self._hear))

    def resume(self, settled: Mapping[int, ExternalSettledResult]) -> Step:
        """Go on."""
        assert self._waits is not None
        waits = self._waits
        self._arguments = 0
        return self._until_it_waits(lambda: waits.resume(dict(settled)))

    def dump(self) -> bytes:
        """The waiting program as bytes; nothing proves their origin, so seal them."""
        assert self._waits is not None
        return self._waits.dump()

    def load(self, dump: bytes) -> Step:
        """The opposite."""
        session = self._begun()
        return self._until_it_waits(lambda: session.load_snapshot(dump, print_callback=self._hear))

    # The turn itself.

    def _until_it_waits(self, turn: Callable[[], SyncSnapshot]) -> Step:
        from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, MontyError, NameLookupSnapshot

        wanted: list[Wanted] = []
        try:
            snapshot = turn()
            while True:
                if isinstance(snapshot, FunctionSnapshot):
                    snapshot = self._answer(snapshot, wanted)
                elif isinstance(snapshot, NameLookupSnapshot):
                    unknown = self._knows(snapshot.variable_name)
                    snapshot = snapshot.resume() if unknown else snapshot.resume(value=_named(snapshot.variable_name))
                elif isinstance(snapshot, FutureSnapshot):
                    self._waits = snapshot
                    return Step(tuple(wanted), tuple(snapshot.pending_call_ids))
                else:
                    assert isinstance(snapshot, MontyComplete)
                    value = self._written(snapshot.output, wanted)
                    attempt_now(self.end)  # while there is a thread for it
                    return Step(tuple(wanted), (), value)
        except MontyError as error:
            if self.printed > self._config.printed:
                most = self._config.printed
                raise ProgramError(f"It printed more than {most} bytes.", hint="Print less, or give a value.") from None
            raise program_error(error, self._config) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise ProgramError("What a tool gave cannot be taken into the program.") from None

    def _answer(self, asked: Any, wanted: list[Wanted]) -> SyncSnapshot:
        """What a program asks for in the middle of a turn; a call of a tool is noted, and answered later."""
        name: str = asked.function_name
        if asked.is_os_function:
            if name == SLEEP:
                wanted.append(Wanted(asked.call_id, SLEEP, encode(asked.args[0])))
                return asked.resume({"future": ...})
            if name == "time.sleep":
                return asked.resume(raised("RuntimeError", "time.sleep is not here: write `await asyncio.sleep(...)`"))
            return asked.resume_not_handled()
        unknown = "it is no tool" if asked.object_id is not None else self._knows(name)
        if unknown:
            return asked.resume(raised("NameError", unknown))
        if asked.args:
            return asked.resume(raised("TypeError", f"{name} takes keyword arguments alone: {name}(name=value)"))
        self.made += 1
        if self.made > self._config.calls:
            raise ProgramError(f"It made more than {self._config.calls} calls.", hint="Do it in several programs.")
        try:
            arguments = encode(asked.kwargs)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return asked.resume(raised("TypeError", f"an argument of {name} cannot be written as JSON"))
        self._arguments += len(arguments)
        if self._arguments > self._config.arguments:
            raise ProgramError(
                f"Its calls have more than {self._config.arguments} bytes of arguments.",
                hint="Send less at a time: await some calls before you make others.",
            )
        wanted.append(Wanted(asked.call_id, name, arguments))
        return asked.resume({"future": ...})

    def _written(self, value: Any, wanted: list[Wanted]) -> bytes:
        if wanted:
            name = wanted[0].name
            raise ProgramError(f"It called {name} without waiting for it.", hint=f"Write `await {name}(...)`.")
        try:
            text = encode_value(value)
            decode(text)
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise ProgramError("Its value cannot be written as JSON.", hint="Give dicts, lists and texts.") from None
        if len(text) > self._config.value:
            raise ProgramError(
                f"Its value has {len(text)} bytes of JSON, and may have {self._config.value}.",
                hint="Give what is needed of it alone.",
            )
        return text

    def _hear(self, stream: str, text: str) -> None:
        """Something was printed; called by a thread of the worker's."""
        self.printed += len(text.encode())
        if self.printed <= self._config.printed:
            self._heard(text)
        elif self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)  # it would go on until its time is up


def encode_value(value: Any) -> bytes:
    """A program's value as JSON: objects of its own classes by their attributes, what else JSON lacks as a text."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    attributes: Any = getattr(value, "attributes", None)
    return cast("Any", attributes) if isinstance(attributes, dict) else str(value)


def _named(name: str) -> Callable[[], None]:
    """What stands for a tool in a program that passes it around."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function
