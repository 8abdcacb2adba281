"""One record for each call: who called what, how it ended, how long it took, and its way through the stages."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from trunkline.errors import (
    BusyError,
    CancelledCallError,
    HeldError,
    InvalidArgumentsError,
    RefusedError,
    ServerRefusedError,
    TrunklineError,
    UnknownNameError,
)
from trunkline.identity import Scope
from trunkline.model import Call, Caller, Entry, Reply
from trunkline.tools.guidance import OWN
from trunkline.tools.tokens import estimated
from trunkline.trace import Trace
from trunkline.wire.envelope import read_string
from trunkline.wire.members import decode_object, read_members
from trunkline.wire.questions import read_input_required

Outcome = Literal["running", "answered", "tool-error", "failed", "refused", "cancelled", "asked"]
OUTCOMES: tuple[Outcome, ...] = ("answered", "tool-error", "failed", "refused", "cancelled", "asked")

ROOM = 256 * 2**10
"""Bytes that calls which ended may take before they are looked at together."""
EACH = ROOM // 64
"""What a call takes of them besides its own bytes: of the shortest, so many are looked at together."""
PAUSE = 0.1
"""Seconds after which they are, however few they are."""
LOOKED_AT = 64 * 2**10
"""Bytes of an answer in which its outcome is looked for: what asks, or says that Trunkline refused, is short."""
MOST_COMMON = 4096
"""Callers and tools whose next record is made quickly."""
LONGEST = 300
"""Characters that are kept of a name or an error."""
ASKED = "asked"
"""Noted where a caller is asked in the middle of a call; other questions end a record, and answers begin another."""

Step = tuple[str, str, float]
"""What a stage noted: what, how, and how many seconds after the call began."""


class CallRecord(msgspec.Struct, gc=False):  # one is made for each call, and a dataclass takes eight times as long
    """What is kept of a call; never its arguments or its answer."""

    id: str
    """Sorts by when the call began."""
    time: float
    """When it began, in seconds since the epoch."""
    user: str
    person: str
    """The user, told from all others who ever had the name."""
    key: str
    thread: str
    profile: str
    program: str
    client: str
    """What the caller calls itself."""
    method: str
    name: str
    """What was called, by the name that callers see; empty for an address that no list shows."""
    server: str
    """Who answered, or would have; empty where that was not found out."""
    tool: str
    """The server's own name for the tool; empty for what is no tool."""
    listed: bool
    """Whether its server lists it: others may be any text."""
    outcome: Outcome = "running"
    seconds: float = 0.0
    code: int = 0
    """The JSON-RPC code of an error."""
    error: str = ""
    """What went wrong, in our words: what servers say may hold anything."""
    bytes_in: int = 0
    bytes_out: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    """About how many tokens of a model's context the answer takes."""
    cost: float = 0.0
    """What the tool is said to cost."""
    digest: str = ""
    """Of the arguments, where there is an audit."""
    trace: str = ""
    span: Trace | None = None
    """What else is known of it where it is traced."""
    path: Sequence[Step] = ()
    alike: int = 0
    """A number that calls of one caller to one tool at one server have in common; 0 where none is kept."""

    if TYPE_CHECKING:

        def __copy__(self) -> CallRecord: ...


class Running(msgspec.Struct, gc=False):
    """A call that has not ended, or of which no record was made yet."""

    number: int
    call: Call
    since: float
    """When it began, on the clock that measures how long it takes."""
    notes: Sequence[Step]
    """What is noted until its end: when a call is resumed, it begins a new list."""
    reply: Reply | None = None
    error: BaseException | None = None
    seconds: float = -1.0
    """How long it took; less than 0 while it runs."""
    trace: Trace | None = None
    time: float = 0.0
    """When it began, in seconds since the epoch, once somebody asked."""


Reader = Callable[[Sequence[CallRecord]], None]
"""Takes records of calls that ended, a few at a time."""
Digest = Callable[[bytes], str]


class TracerLike(Protocol):
    """Decides which calls are traced."""

    def begin(self, call: Call) -> Trace | None:
        """The trace of a call that comes in, if it is traced."""
        ...

    def end(self, trace: Trace) -> None:
        """The call ended."""
        ...


class Records:
    """Knows which calls run, and tells readers of those that ended: behind the calls, not within them."""

    def __init__(self, *, clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._timer = clock, timer
        self.live: dict[int, Running] = {}
        """Calls that run."""
        self.readers: tuple[Reader, ...] = ()
        self.started: Callable[[CallRecord], None] | None = None
        """Told of each call that begins, while somebody watches."""
        self.tracer: TracerLike | None = None
        """Says which calls are traced, where any are."""
        self.digest: Digest | None = None
        """What becomes of arguments where there is an audit."""
        self.eager = False
        """Readers hear of each call before it is answered."""
        self.traced_only = False
        """Readers want to hear of calls alone that are traced."""
        self._node = secrets.token_hex(2)
        self._numbers = itertools.count(1)
        self._epoch = clock() - timer()
        self._latest = (0, "")
        self._ended: list[Running] = []
        self._room = ROOM
        self._later: asyncio.TimerHandle | None = None
        self.weights = Weights()
        self._alike = itertools.count(1)
        self._common: dict[tuple[int, int, int, str, str, str], _Common] = {}

    def begin(self, call: Call) -> Running:
        """A call comes in."""
        call.began = since = self._timer()
        call.notes = notes = [] if call.parked is None else [("resumed", "", 0.0)]
        number = next(self._numbers)
        self.live[number] = running = Running(number, call, since, notes)
        if self.tracer is not None:
            running.trace = call.trace = self.tracer.begin(call)
        if self.started is not None:
            self.started(*self._records((running,)))
        return running

    def end(self, running: Running, reply: Reply | None, error: BaseException | None) -> None:
        """It ended, by a reply or an error; readers hear of it in a moment."""
        running.seconds = self._timer() - running.since
        del self.live[running.number]
        if self.tracer is not None:
            if running.trace is not None:
                self.tracer.end(running.trace)
            elif self.traced_only:
                return
        running.reply, running.error = reply, error
        self._ended.append(running)
        self._room -= EACH + len(running.call.raw_params) + (len(reply.result) if reply is not None else 0)
        if self._room <= 0 or self.eager:
            self.drain()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(PAUSE, self.drain)

    def drain(self) -> None:
        """Let readers have what ended until now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        ended, self._ended, self._room = self._ended, [], ROOM
        self._epoch = self._clock() - self._timer()  # somebody may have set the clock
        if ended:
            records = self._records(ended)
            for reader in self.readers:
                reader(records)

    def running(self) -> list[CallRecord]:
        """The calls that run, as far as they are, the latest first."""
        return self._records(reversed(self.live.values()))

    def _records(self, calls: Iterable[Running]) -> list[CallRecord]:
        """A record of each call, whether it runs or ended."""
        made: list[CallRecord] = []
        epoch, (latest, begins) = self._epoch, self._latest
        for running in calls:
            call = running.call
            key = id(call.scope), id(call.caller), id(call.entry), call.name, call.method, call.program
            known, reply = self._common.get(key) or self._learn(key, call), running.reply
            if reply is not None and reply.server and reply.server != known.record.server:
                known = known.elsewhere.get(reply.server) or self._learn_elsewhere(known, reply.server)
            record = known.record.__copy__()
            record.time = when = running.time or running.since + epoch
            moment = int(when * 1000)
            if moment != latest:  # there are often several calls in a millisecond
                latest, begins = moment, f"{moment:011x}{self._node}"
            record.id = begins + (running.number & 0xFFFFFF).to_bytes(3, "big").hex()
            if running.trace is not None:
                record.trace, record.span = running.trace.id, running.trace
            elif (about := call.params.get("_meta", b"")).partition(b"traceparent")[1]:
                record.trace = _trace(about)
            arguments = call.params.get("arguments", b"")
            record.bytes_in = len(arguments)
            if running.seconds >= 0:
                record.seconds, record.path = running.seconds, running.notes
                self._finish(record, running, arguments, known)
            else:
                running.time = when
                record.seconds, record.path = self._timer() - running.since, tuple(running.notes)
            made.append(record)
        self._latest = latest, begins
        return made

    def _learn(self, key: tuple[int, int, int, str, str, str], call: Call) -> _Common:
        """What all calls of one caller to one thing have in common: made once, and copied for each."""
        first = _begun(call)
        weight = self.weights.of(first.server, first.tool or first.method)
        known = _Common((call.scope, call.caller, call.entry), first, weight)
        if first.listed:  # else its name may be any text
            if len(self._common) >= MOST_COMMON:
                self._common.clear()
            first.alike = next(self._alike)
            self._common[key] = known
        return known

    def _learn_elsewhere(self, known: _Common, server: str) -> _Common:
        """The same for another server than the one that was asked: a member of a group."""
        first = known.record.__copy__()
        first.server = server
        found = _Common(known.kept, first, self.weights.of(server, first.tool or first.method))
        if first.alike:
            first.alike = next(self._alike)
            known.elsewhere[server] = found
        return found

    def _finish(self, record: CallRecord, running: Running, arguments: bytes, known: _Common) -> None:
        """Say how it ended."""
        reply, result = running.reply, b""
        if reply is None:
            record.outcome, record.code, record.error = _failure(running.error)
        else:
            result = reply.result
            record.outcome = _outcome(reply)
            record.bytes_out = len(result) or len(reply.error)
            if reply.error:
                record.code = _code(reply.error)
                record.error = "The server answered with an error."
        if arguments and self.digest is not None:
            record.digest = self.digest(arguments)
        record.tokens_in, record.tokens_out = known.weight.tokens(arguments, result)
        if record.cost and record.outcome not in ("answered", "tool-error"):
            record.cost = 0.0


class _Common(msgspec.Struct):
    kept: tuple[Scope, Caller, Entry | None]
    """So that nothing else is ever found by where they are in memory."""
    record: CallRecord
    weight: Weight
    elsewhere: dict[str, _Common] = {}


def _begun(call: Call) -> CallRecord:
    """The record of a call that has only begun."""
    scope, entry = call.scope, call.entry
    listed = entry is not None and bool(entry.definition)
    return CallRecord(
        "",
        0.0,
        scope.user,
        scope.person,
        scope.key,
        scope.thread,
        scope.profile,
        call.program or scope.program,
        _client(call.caller.client_info) if call.caller.client_info else "",
        call.method,
        call.name[:LONGEST] if listed or call.method in _NAMED else "",
        call.server,
        entry.name if entry is not None and call.method == "tools/call" else "",
        listed,
        cost=(entry.annotations.cost_hint or 0.0) if entry is not None else 0.0,
    )


class Weights:
    """How many tokens the bytes of a tool's calls make: looked at now and then, as it takes long and changes little."""

    MOST = 10_000

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Weight] = {}

    def of(self, server: str, tool: str) -> Weight:
        """The weight of a tool."""
        found = self._of.get((server, tool))
        if found is None:
            if len(self._of) >= self.MOST:
                self._of.clear()
            found = self._of[server, tool] = Weight()
        return found


class Weight:
    """Tokens for each byte, in both directions."""

    __slots__ = ("_given", "_left", "_looked", "_taken")
    FIRST, EVERY, HEAD = 4, 256, 4096

    def __init__(self) -> None:
        self._left, self._looked, self._given, self._taken = 0, 0, 0.0, 0.0

    def tokens(self, arguments: bytes, result: bytes) -> tuple[int, int]:
        """About how many tokens arguments and an answer take."""
        if self._left:
            self._left -= 1
        else:
            self._looked += 1
            self._left = 0 if self._looked < self.FIRST else self.EVERY - 1
            self._given = _ratio(arguments, self._given)
            self._taken = _ratio(result, self._taken)
        return int(len(arguments) * self._given + 0.5), int(len(result) * self._taken + 0.5)


def _ratio(text: bytes, known: float) -> float:
    head = text[: Weight.HEAD]
    if not head:
        return known
    found = estimated(head) / len(head)
    return (known + found) / 2 if known else found


def _outcome(reply: Reply) -> Outcome:
    if reply.questions:
        return "asked"
    if reply.error:
        return "failed"
    if reply.failed:
        return "tool-error"
    if len(reply.result) <= LOOKED_AT:
        if not reply.server and reply.result.partition(b'"isError"')[1]:
            return _own_failure(reply.result)
        if read_input_required(reply.result) is not None:
            return "asked"
    return "answered"


def _own_failure(result: bytes) -> Outcome:
    """How an answer of ours ended that may say that it failed."""
    members = read_members(result)
    if members.get("isError") != b"true":
        return "answered"
    return "refused" if b"cancelled" in members.get("_meta", b"") and _cancelled(members["_meta"]) else "tool-error"


def _cancelled(about: bytes) -> bool:
    """Whether a person did not agree, or nobody could be asked."""
    return decode_object(about).get(OWN + "cancelled") is True


def _failure(error: BaseException | None) -> tuple[Outcome, int, str]:
    match error:
        case asyncio.CancelledError() | CancelledCallError():
            return "cancelled", CancelledCallError.code, ""
        case ServerRefusedError():
            return "failed", error.code, "The server answered with an error."
        case HeldError() | UnknownNameError() | InvalidArgumentsError() | RefusedError() | BusyError():
            return "refused", error.code, _words(error)
        case TrunklineError():
            return "failed", error.code, _words(error)
        case _:
            return "failed", TrunklineError.code, "Trunkline failed; its log says why."


def _words(error: TrunklineError) -> str:
    return error.message[:LONGEST]


def _code(error: bytes) -> int:
    found = re.search(rb'"code"\s*:\s*(-?[0-9]{1,9})', error[:LOOKED_AT])
    return int(found[1]) if found else 0


@lru_cache(maxsize=256)
def _client(info: bytes) -> str:
    """What a caller calls itself, and its version."""
    try:
        members = read_members(info)
    except ValueError:
        return ""
    parts = [read_string(members.get(name, b"")) for name in ("name", "version")]
    return " ".join(part for part in parts if part)[:LONGEST]


def _trace(about: bytes) -> str:
    """The id of the trace that a caller says its call belongs to."""
    found = _PARENT.search(about)
    return found[1].decode() if found else ""


_PARENT = re.compile(rb'"traceparent"\s*:\s*"[0-9a-f]{2}-([0-9a-f]{32})-')
_NAMED = ("tools/call", "prompts/get")
