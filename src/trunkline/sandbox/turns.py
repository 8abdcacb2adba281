"""One turn of a program after the other, in the keeper's process: until it ends, or all of it waits for calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from trunkline.config.programs import ProgramsSection
from trunkline.errors import ProgramError
from trunkline.sandbox.faults import program_error
from trunkline.sandbox.messages import SLEEP, Answered, Dumped, Settled, Step, Thrown, Wanted, raised
from trunkline.sandbox.values import read_blocks, read_value
from trunkline.wire.members import decode, encode

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult, FutureSnapshot, MontySession, SyncSnapshot

Knows = Callable[[str], str]
"""Why a name is no function of the program's; empty for one that is."""
_LONGEST_NAME = 200
_PRINT_LESS = "Print less, or give a value."


class Turns:
    """A session of a worker. Nothing here waits for anybody but the worker."""

    def __init__(
        self,
        config: ProgramsSection,
        checkout: Callable[[], MontySession],
        knows: Knows,
        heard: Callable[[str], None],
        *,
        made: int = 0,
        printed: int = 0,
    ) -> None:
        self._config, self._checkout, self._knows, self._heard = config, checkout, knows, heard
        self._names: dict[str, str] = {}
        self._session: MontySession | None = None
        self._waits: FutureSnapshot | None = None
        self._arguments = 0
        self._made = made
        """Calls that were wanted until now."""
        self._printed = printed
        """Bytes that were printed."""
        self._pid = 0
        self._left = False
        """Nobody waits for it any more."""

    def _begun(self) -> MontySession:
        """Check a worker out."""
        session = self._checkout()
        session.__enter__()
        self._session = session
        self._pid = session.worker_pid or 0
        if self._left:  # before there was a worker that could be ended
            raise ProgramError("It was ended before it began.")
        return session

    def end(self) -> None:
        """Give the worker back; what the program had is gone."""
        session, self._session, self._waits, self._pid = self._session, None, None, 0
        if session is not None:
            session.__exit__(None, None, None)

    def kill(self) -> None:
        """End the worker in the middle of a turn; called by another thread."""
        self._left = True
        if self._pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)

    def start(self, code: str) -> Step:
        """Run a text from its beginning."""
        session = self._begun()
        return self._until_it_waits(lambda: session.feed_start(code, print_callback=self._hear))

    def resume(self, settled: Settled) -> Step:
        """Go on."""
        assert self._waits is not None
        waits = self._waits
        self._arguments = 0
        return self._until_it_waits(lambda: waits.resume({id: _taken(one) for id, one in settled.items()}))

    def dump(self) -> Dumped:
        """The waiting program as bytes; nothing proves their origin, so seal them."""
        assert self._waits is not None
        dump = self._waits.dump()
        return Dumped(len(dump), dump if len(dump) <= self._config.state else b"")

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
                    name = snapshot.variable_name
                    snapshot = snapshot.resume() if self._unknown(name) else snapshot.resume(value=_named(name))
                elif isinstance(snapshot, FutureSnapshot):
                    self._waits = snapshot
                    return Step(tuple(wanted), tuple(snapshot.pending_call_ids))
                else:
                    assert isinstance(snapshot, MontyComplete)
                    return Step(tuple(wanted), (), self._written(snapshot.output, wanted))
        except MontyError as error:
            failed = program_error(error, self._config)
        except MemoryError:
            failed = ProgramError("What it gives or passes is far too large.", hint="Give what is needed of it alone.")
        except (ValueError, TypeError, OverflowError, RecursionError):
            failed = ProgramError("What a tool gave cannot be taken into the program.")
        if self._printed > self._config.printed:
            failed = ProgramError(f"It printed more than {self._config.printed} bytes.", hint=_PRINT_LESS)
        raise failed  # not inside `except`: what it was raised in may hold all that the program held

    def _unknown(self, name: str) -> str:
        """Why a name is no function; asked once for each."""
        if len(name) > _LONGEST_NAME:
            return f"name {name[:80]!r} is not defined"
        if name not in self._names:
            self._names[name] = self._knows(name)
        return self._names[name]

    def _answer(self, asked: Any, wanted: list[Wanted]) -> SyncSnapshot:
        """What a program asks for in the middle of a turn; a call of a tool is noted, and answered later."""
        name: str = asked.function_name
        if asked.is_os_function:
            if name == SLEEP:
                wanted.append(Wanted(asked.call_id, SLEEP, _seconds(asked.args[0])))
                return asked.resume({"future": ...})
            if name == "time.sleep":
                return asked.resume(
                    _taken(raised("RuntimeError", "time.sleep is not here: write `await asyncio.sleep(...)`"))
                )
            return asked.resume_not_handled()
        unknown = "it is no tool" if asked.object_id is not None else self._unknown(name)
        if unknown:
            return asked.resume(_taken(raised("NameError", unknown)))
        if asked.args:
            return asked.resume(
                _taken(raised("TypeError", f"{name} takes keyword arguments alone: {name}(name=value)"))
            )
        self._made += 1
        if self._made > self._config.calls:
            raise ProgramError(f"It made more than {self._config.calls} calls.", hint="Do it in several programs.")
        try:
            arguments = self._arguments_of(asked.kwargs)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return asked.resume(_taken(raised("TypeError", f"an argument of {name} cannot be written as JSON")))
        wanted.append(Wanted(asked.call_id, name, arguments))
        return asked.resume({"future": ...})

    def _arguments_of(self, given: dict[str, Any]) -> bytes:
        left = self._config.arguments - self._arguments
        arguments = encode(given) if _fits(given, left) else b""
        if not 0 < len(arguments) <= left:
            raise ProgramError(
                f"Its calls have more than {self._config.arguments} bytes of arguments.",
                hint="Send less at a time: await some calls before you make others.",
            )
        self._arguments += len(arguments)
        return arguments

    def _written(self, value: Any, wanted: list[Wanted]) -> bytes:
        if wanted:
            name = wanted[0].name
            raise ProgramError(f"It called {name} without waiting for it.", hint=f"Write `await {name}(...)`.")
        most = self._config.value
        try:
            text = encode_value(value) if _fits(value, most) else b""
            if not 0 < len(text) <= most:
                raise ProgramError(
                    f"Its value has more than {most} bytes of JSON.", hint="Give what is needed of it alone."
                )
            decode(text)
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise ProgramError("Its value cannot be written as JSON.", hint="Give dicts, lists and texts.") from None
        return text

    def _hear(self, stream: str, text: str) -> None:
        """Something was printed; called by a thread of the worker's."""
        self._printed += len(text.encode())
        if self._printed <= self._config.printed:
            self._heard(text)
        else:
            self.kill()  # it would go on until its time is up


def _taken(one: Any) -> ExternalSettledResult:
    """What came of a call, as the interpreter takes it."""
    if not isinstance(one, Thrown):
        try:
            return {"return_value": read_blocks(one.content) if isinstance(one, Answered) else read_value(one.value)}
        except ValueError:
            one = raised("RuntimeError", "what it gave cannot be read: it is no JSON, or nested too deeply")
    return cast("ExternalSettledResult", {"exc_type": one.kind, "message": one.message})


def _seconds(wanted: Any) -> bytes:
    """How long a program sleeps, as JSON; what is no number is told by whoever would sleep."""
    try:
        return encode(float(wanted))
    except (TypeError, ValueError, OverflowError):
        return b"null"


def _fits(value: Any, most: int) -> bool:
    """Whether JSON of it may be as short: what is in it a million times is held once, and written a million times."""
    left = most
    unseen: list[Any] = [value]
    while unseen and left >= 0:
        one = unseen.pop()
        one = getattr(one, "attributes", one)  # those of objects of the program's own classes
        left -= len(one) if isinstance(one, Sized) else 1
        if left >= 0 and isinstance(one, dict):
            unseen += one
            unseen += one.values()
        elif left >= 0 and isinstance(one, list | tuple | set | frozenset):
            unseen += one
    return left >= 0


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
