"""The calls of a program: each a call of its own, from the top of the stages, and its outcome as Python has it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trunkline.call.stages.elicit import ROUNDS, warn_of_secrets
from trunkline.call.stages.middleware import outcome_of
from trunkline.errors import (
    AuthorizationNeededError,
    HeldError,
    InvalidArgumentsError,
    TrunklineError,
    UnknownNameError,
    UnreachableError,
    UpstreamTimeoutError,
)
from trunkline.foreign import Raised, attempt, attempt_now
from trunkline.model import Answer, Call, Caller, Entry, Parked, Question, Reply
from trunkline.sandbox.messages import Answered, Given, Thrown, given, raised
from trunkline.telemetry.savings import Sampled
from trunkline.tool import PROGRAM, texts_in
from trunkline.tools.guidance import OWN
from trunkline.wire import meta
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import decode, encode, read_members, write_members
from trunkline.wire.questions import may_ask, not_asked, read_input_required

log = logging.getLogger("trunkline")


class Line(Protocol):
    """The stages, as a program's calls pass them."""

    handle: Callable[[Call], Awaitable[Reply]]

    async def resume(self, call: Call, parked: Parked, answers: Mapping[str, Answer]) -> Reply:
        """Give a call that asked something its answers."""
        ...

    def withdraw(self, parked: Parked | None) -> None:
        """Nobody will answer."""
        ...


@dataclass(frozen=True, slots=True)
class Asking:
    """A call whose server asks something before it gives anything."""

    questions: Mapping[str, Question]
    state: bytes = b""
    """What a modern server wants back with the answers: with it the call is data."""
    parked: Parked | None = None
    """The call itself, live, where its server is a legacy one."""
    rounds: int = 1
    """How often it asked by now."""
    agreed: bool = False
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """What a person said to it."""


REFUSED = "a person refused this call"
NOBODY = "this call needs a person's agreement, and nobody can be asked"
_KINDS: tuple[tuple[type[TrunklineError], str], ...] = (
    (UnknownNameError, "NameError"),
    (InvalidArgumentsError, "ValueError"),
    (UpstreamTimeoutError, "TimeoutError"),
    (HeldError, "PermissionError"),
    (AuthorizationNeededError, "PermissionError"),
    (UnreachableError, "OSError"),
)
"""What programs catch; everything else is a RuntimeError."""
LONGEST_SLEEP = 60.0
_SMALL = 4096
_PIECE = 256
"""Bytes of a result that is larger which are weighed for what no model had to read."""


class Bridge:
    """Makes the calls of one program in the place of the call that brought it."""

    def __init__(self, call: Call, id: str, line: Line) -> None:
        self._outer, self._id, self._line = call, id, line
        self.scope = dataclasses.replace(call.scope, program=PROGRAM)
        """Whose the calls are, and that a program makes them."""
        self.caller: Caller = call.caller
        self.read = Sampled()
        """What no model had to read."""

    async def make(self, entry: Entry, arguments: bytes, *, agreed: bool, again: Asking | None = None) -> Any:
        """One call: what it gave, what it raises in the program, or what its server asks first.

        `again` goes on with one that asked, now that there are answers.
        """
        call = self._call(entry, arguments, agreed=agreed)
        if again is not None and again.parked is None:
            said = {key: one.result for key, one in again.answers.items()}
            call.params = {**call.params, "inputResponses": write_members(said)}
            call.params |= {"requestState": again.state} if again.state else {}
        elif again is not None:
            call.parked, call.answers = again.parked, again.answers
        came = await attempt(self._replied, call)
        if isinstance(came, Raised):
            return _raised(entry, came.error)
        asks = _asked(came)
        if asks is not None:
            rounds = again.rounds + 1 if again is not None else 1
            return self._asks(entry, dataclasses.replace(asks, rounds=rounds, agreed=agreed))
        taken = attempt_now(self._taken, entry, came)
        return _raised(entry, taken.error) if isinstance(taken, Raised) else taken

    def _taken(self, entry: Entry, reply: Reply) -> Given | Answered | Thrown:
        """What a call gave, taken apart no further than it has to be on our loop: a keeper reads the rest."""
        members = read_members(reply.result) if not reply.error else {}
        if reply.error or members.get("isError") == b"true":
            result = outcome_of(reply)
            self.read.add(result.text)
            refused = result.meta.get(f"{OWN}cancelled") is True
            return raised("PermissionError" if refused else "RuntimeError", result.text or f"{entry.shown} failed")
        structured, content = members.get("structuredContent", b"null"), members.get("content", b"")
        if len(content) <= _SMALL:
            self.read.add(texts_in(decode(content) if content else []))
        else:  # a piece from the middle is like the rest
            middle = len(content) // 2
            self.read.add(content[middle : middle + _PIECE].decode(errors="replace"), len(content))
        return Answered(content) if structured == b"null" else Given(structured)

    def _call(self, entry: Entry, arguments: bytes, *, agreed: bool) -> Call:
        outer = self._outer
        params = {"name": encode(entry.shown), "arguments": arguments}
        if self.caller.modern:
            stamp = meta.Meta(MODERN_VERSIONS[0], self.caller.capabilities, outer.caller.client_info)
            params = meta.stamp(params, stamp)
        return Call(
            "tools/call",
            entry.shown,
            params,
            scope=self.scope,
            caller=self.caller,
            timeout=self.scope.overrides.timeout,
            ask=outer.ask,
            answer_here=outer.answer_here,
            token=outer.token,
            program=self._id,
            agreed=agreed,
        )

    async def _replied(self, call: Call) -> Reply:
        """How the stages answered; what the caller does not answer is refused on the way."""
        reply = await self._line.handle(call)
        while reply.parked is not None:
            refused = {key: not_asked(one) for key, one in reply.questions.items() if not self._may_ask(one)}
            if not refused:
                break
            reply = await self._line.resume(call, reply.parked, refused)
        return reply

    def _asks(self, entry: Entry, asks: Asking) -> Any:
        if asks.rounds <= ROUNDS and all(self._may_ask(one) for one in asks.questions.values()):
            warn_of_secrets(entry.server, asks.questions.values())
            return asks
        self.withdraw(asks.parked)
        often = asks.rounds > ROUNDS
        return raised("RuntimeError", f"{entry.shown} asks {'too often' if often else 'what nobody here answers'}")

    def _may_ask(self, question: Question) -> bool:
        """Whether the program's caller answers it: those that hold the call open did so already."""
        return self._outer.ask is None and may_ask(question, self.caller.capabilities)

    def withdraw(self, parked: Parked | None) -> None:
        """Nobody will answer: the server is told that the call is off."""
        self._line.withdraw(parked)

    @staticmethod
    async def sleep(seconds: bytes) -> Any:
        """A program that waits a moment."""
        try:
            wanted = float(decode(seconds))
        except (TypeError, ValueError):
            return raised("TypeError", "asyncio.sleep takes a number of seconds")
        if not 0 <= wanted <= LONGEST_SLEEP:
            return raised("ValueError", f"asyncio.sleep takes 0 to {LONGEST_SLEEP:g} seconds")
        await asyncio.sleep(wanted)
        return given(None)


def _asked(reply: Reply) -> Asking | None:
    if reply.parked is not None and reply.questions:
        return Asking(reply.questions, parked=reply.parked)
    asked = read_input_required(reply.result) if reply.modern else None
    return Asking(*asked) if asked is not None else None


def _raised(entry: Entry, error: Exception) -> Any:
    if isinstance(error, TrunklineError):  # what it says is what any caller is told
        kind = next((kind for type_, kind in _KINDS if isinstance(error, type_)), "RuntimeError")
        return raised(kind, str(error))
    log.error("A program's call of %s failed.", entry.shown, exc_info=error)
    return raised("RuntimeError", f"{entry.shown} failed")
