"""The process beside a worker: speaks with the interpreter, and measures what a program sends before it is passed on.

A gateway starts one for each worker, with a socket as its standard input. It ends with that, and the worker with it.
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from trunkline.errors import ProgramError
from trunkline.foreign import Raised, attempt_now
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
    Setup,
    Start,
    Step,
    Told,
    length_of,
    read_request,
    written,
)
from trunkline.sandbox.turns import Turns

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession

NICENESS = 5
"""Programs come after what answers calls, with a third of its weight: with less, a busy machine starves them."""
_COPIES = 4
"""What came from a worker is here as it was sent, as the interpreter's library has it, as Python does and as JSON."""
_ITSELF = 128 * 2**20
"""Bytes that a keeper may have beside that."""
_GROWN = 96 * 2**20
"""Bytes that one may have in memory after a program without being replaced."""
_PATIENCE = 10.0
_LONGEST = 4000


def main() -> None:
    """Serve until the gateway is gone."""
    _yield_to_others()
    keeper = Keeper(socket.socket(fileno=os.dup(0)))
    sys.excepthook = keeper.break_down
    threading.Thread(target=keeper.listen, name="listen", daemon=True).start()
    keeper.serve()


class Keeper:
    """One worker's: the programs that it runs, one after the other."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._turns: Turns | None = None

    def listen(self) -> None:
        """Hear what the gateway says, also in the middle of a turn; its end is ours."""
        try:
            with self._link.makefile("rb") as incoming:
                while head := incoming.read(HEAD):
                    request = read_request(incoming.read(length_of(head)))
                    if not isinstance(request, Kill):
                        self._requests.put(request)
                    elif self._turns is not None:
                        self._turns.kill()
        finally:
            os._exit(0)

    def tell(self, *messages: Told) -> None:
        """Say something."""
        with self._sending, suppress(OSError):  # the gateway is gone, which is heard elsewhere
            self._link.sendall(b"".join(map(written, messages)))

    def break_down(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        """Tell what nobody foresaw, a panic of native code among it, and end: another keeper begins anew."""
        self.tell(Broken("".join(traceback.format_exception(kind, error, where))[-_LONGEST:]))
        os._exit(1)  # at once: threads of the interpreter's library may be in the middle of anything

    def serve(self) -> None:
        """Do what the gateway wants, until it is gone."""
        setup = self._requests.get()
        assert isinstance(setup, Setup)
        _limit_memory(_COPIES * setup.config.memory + _ITSELF)
        self._setup = setup
        self._monty = _monty(setup)
        while True:
            request = self._requests.get()
            try:
                answer = self._answer(request)
            except ProgramError as error:
                answer = Failed(error.message, error.hint, error.line)
            if isinstance(answer, Failed | Ended) or (isinstance(answer, Step) and answer.value is not None):
                worn = isinstance(attempt_now(self._end), Raised) or _has_grown()
                self.tell(*(() if isinstance(answer, Ended) else (answer,)), Ended(worn))
            else:
                self.tell(answer)

    def _answer(self, request: Request) -> Step | Dumped | Failed | Ended:
        if isinstance(request, Start):
            self._turns = self._made(request.stubs)
            return self._turns.start(request.code)
        if isinstance(request, Load):
            self._turns = self._made("", request.made, request.printed)
            return self._turns.load(request.dump)
        if isinstance(request, End):
            return Ended(worn=False)
        assert self._turns is not None
        if isinstance(request, Resume):
            return self._turns.resume(request.settled)
        assert isinstance(request, Dump)
        return self._turns.dump()

    def _made(self, stubs: str, made: int = 0, printed: int = 0) -> Turns:
        config = self._setup.config
        checkout = partial(_checkout, self._monty, self._setup, stubs)
        return Turns(config, checkout, self._knows, lambda text: self.tell(Printed(text)), made=made, printed=printed)

    def _knows(self, name: str) -> str:
        self.tell(Asked(name))
        known = self._requests.get()
        assert isinstance(known, Known)
        return known.why

    def _end(self) -> None:
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.end()


def _monty(setup: Setup) -> Monty:
    from pydantic_monty import Monty

    monty = Monty(
        binary_path=setup.launcher,
        min_processes=1,
        max_processes=1,
        checkout_timeout=_PATIENCE,
        max_checkouts_per_worker=setup.config.runs_per_worker or None,
    )
    return monty.__enter__()


def _checkout(monty: Monty, setup: Setup, stubs: str) -> MontySession:
    config = setup.config
    return monty.checkout(
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


def _yield_to_others() -> None:
    """Let everything else go first, as a process and, where the kernel shares time out by sessions, as a session."""
    os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _limit_memory(most: int) -> None:
    """Have no more than some bytes: what does not fit ends this program's keeper, and nobody else."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _has_grown() -> bool:
    """Whether much of what programs sent stayed here, as allocators keep what they had."""
    if sys.platform != "linux":
        return False
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() > _GROWN
