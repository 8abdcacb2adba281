"""Programs for whoever looks at them: those that run, the last that ended, and word of each change."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from trunkline.events import Emitter, Event
from trunkline.sandbox.run import Run

MOST = 100
"""Programs that ended which are remembered, of all users."""
_SHOWN_CODE = 2000
_SHOWN_ERROR = 1000

ProgramState = Literal["running", "waiting", "ended", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class ProgramChanged(Event):
    """A program began to run, waits for a person, or is over."""

    id: str
    user: str
    state: ProgramState


@dataclass
class RunningProgram:
    """A program that runs now."""

    run: Run
    user: str
    code: str
    """Its first part."""
    task: asyncio.Task[Any]
    since: float
    """Seconds since the epoch."""

    @property
    def id(self) -> str:
        """What it is known by."""
        return self.run.id


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """A program that is over."""

    id: str
    user: str
    code: str
    since: float
    seconds: float
    calls: int
    error: str
    """Why it failed; empty when it did not."""


class KnownPrograms:
    """Kept in memory alone, and bounded: what programs did is in the audit."""

    def __init__(self) -> None:
        self._running: dict[str, RunningProgram] = {}
        self._ended: deque[EndedProgram] = deque(maxlen=MOST)
        self._events = Emitter(ProgramChanged)
        self.on, self.off = self._events.on, self._events.off

    def begin(self, run: Run, user: str, code: str, task: asyncio.Task[Any]) -> None:
        """A program runs, or goes on."""
        self._running[run.id] = RunningProgram(run, user, code[:_SHOWN_CODE], task, time.time())
        self.tell(run.id, user, "running")

    def rest(self, id: str) -> None:
        """It runs no longer: it is about to wait for a person."""
        self._running.pop(id, None)

    def end(self, id: str, error: str) -> None:
        """It is over."""
        one = self._running.pop(id, None)
        if one is not None:
            seconds = round(time.time() - one.since, 3)
            self._ended.appendleft(
                EndedProgram(id, one.user, one.code, one.since, seconds, one.run.made, error[:_SHOWN_ERROR])
            )
            self.tell(id, one.user, "failed" if error else "ended")

    def tell(self, id: str, user: str, state: ProgramState) -> None:
        """Say that a program is in another state."""
        if self._events.hears(ProgramChanged):
            self._events.emit(ProgramChanged(id, user, state))

    def find(self, id: str) -> RunningProgram | None:
        """One that runs."""
        return self._running.get(id)

    def running(self, user: str | None) -> list[RunningProgram]:
        """Those that run, of one user or of all."""
        return [one for one in self._running.values() if user is None or one.user == user]

    def ended(self, user: str | None) -> Iterator[EndedProgram]:
        """The last that ended, of one user or of all, the latest first."""
        return (one for one in tuple(self._ended) if user is None or one.user == user)

    def forget(self, user: str) -> None:
        """Somebody is gone, and with them what is known of their programs."""
        self._ended = deque((one for one in self._ended if one.user != user), maxlen=MOST)
