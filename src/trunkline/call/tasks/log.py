"""Who has which task: their ids are given out sealed, to the user they belong to, and remembered for a while."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from trunkline.errors import RefusedError
from trunkline.model import Call, Reply
from trunkline.telemetry.logs import utc_time
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.members import Members, decode, decode_object, encode
from trunkline.wire.seal import Seal, context_of

REMEMBERED = 10_000
KEPT = 1000
KEPT_BYTES = 32 * 2**20
KEPT_SECONDS = 600.0


class At(StrEnum):
    """Where a task is."""

    MODERN = "modern"
    LEGACY = "legacy"
    HERE = "here"
    """The call is over; its legacy caller asked for a task, and gets the result as if there had been one."""


@dataclass(frozen=True, slots=True)
class Task:
    """Something that a server goes on with by itself."""

    id: str
    """Its id as callers know it."""
    server: str
    own: str
    """Its server's own id for it."""
    at: At
    capabilities: str = ""
    """What a modern caller could be asked when it made a task at a legacy server: by this its connection is found."""


@dataclass(frozen=True, slots=True)
class Known:
    """A task that is remembered."""

    task: Task
    holder: str
    number: int
    """Greater than that of every task made before."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A call that ended at once."""

    state: Members
    reply: Reply
    until: float


class TaskLog:
    """Seals ids and opens them. What it remembers serves lists and news; a forgotten task can still be asked for."""

    def __init__(self, seal: Seal, clock: Callable[[], float] = time.time) -> None:
        self._seal, self._clock = seal, clock
        self._known: dict[tuple[str, str], Known] = {}
        self._kept: OrderedDict[str, FinishedTask] = OrderedDict()
        self._bytes = 0
        self._count = 0

    def made(self, call: Call, own: str, at: At, capabilities: str = "") -> Task:
        """A task that the call became."""
        sealed = self._seal.close(encode([call.server, own, at, capabilities]), _context(call))
        task = Task(sealed, call.server, own, at, capabilities)
        self._remember(task, call)
        return task

    def open(self, call: Call) -> Task:
        """The task that a request is about; refused when it is not this user's, as if it did not exist."""
        return self.read(call, read_string(call.params.get("taskId", b"")))

    def read(self, call: Call, id: str) -> Task:
        """The task of an id."""
        try:
            server, own, at, capabilities = decode(self._seal.open(id, _context(call)))
        except ValueError:
            raise no_such_task() from None
        task = Task(id, server, own, At(at), capabilities)
        self._remember(task, call)
        return task

    def find(self, server: str, own: str) -> Known | None:
        """A task by its server's own id."""
        return self._known.get((server, own))

    def held_by(self, holder: str, *, after: int) -> dict[int, Task]:
        """The tasks of a holder by number, the oldest first."""
        every = self._known.values() if holder else ()
        return {one.number: one.task for one in every if one.holder == holder and one.number > after}

    def forget(self, task: Task) -> None:
        """The task is no more."""
        self._known.pop((task.server, task.own), None)

    # Calls that were over before they became tasks.

    def keep(self, call: Call, reply: Reply) -> tuple[Task, Members]:
        """Keep an answer for a caller that asked for a task; the task, and its first state."""
        wanted = decode_object(call.params["task"]).get("ttl")
        seconds = min(wanted / 1000, KEPT_SECONDS) if isinstance(wanted, (int, float)) else KEPT_SECONDS
        task = self.made(call, secrets.token_hex(16), At.HERE)
        now = utc_time(self._clock())
        failed = decode_object(reply.result).get("isError") is True
        state: Members = {
            "taskId": encode(task.id),
            "status": encode("failed" if failed else "completed"),
            "createdAt": encode(now),
            "lastUpdatedAt": encode(now),
            "ttl": b"%d" % (seconds * 1000),
        }
        self._kept[task.own] = FinishedTask(state, reply, self._clock() + seconds)
        self._bytes += len(reply.result)
        while len(self._kept) > KEPT or (self._bytes > KEPT_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popitem(last=False)[1].reply.result)
        return task, {**state, "status": b'"working"', "pollInterval": b"10"}

    def kept(self, task: Task) -> FinishedTask:
        """A call that ended at once, while it is kept."""
        found = self._kept.get(task.own)
        if found is not None and found.until > self._clock():
            return found
        if found is not None:
            self._bytes -= len(self._kept.pop(task.own).reply.result)
        raise no_such_task()

    def _remember(self, task: Task, call: Call) -> None:
        key = task.server, task.own
        if key in self._known:
            return
        self._count += 1
        self._known[key] = Known(task, call.scope.holder, self._count)
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


def no_such_task() -> RefusedError:
    """The same for a task that never was, is no more, or is somebody else's."""
    return RefusedError("There is no such task.", code=INVALID_PARAMS)


def _context(call: Call) -> bytes:
    return context_of(b"task", call.scope.app.encode(), call.scope.person.encode())
