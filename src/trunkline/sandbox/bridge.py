"""The calls of a program: each a call of its own, from the top of the stages, and its outcome as Python has it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from trunkline.errors import (
    AuthorizationNeededError,
    HeldError,
    InvalidArgumentsError,
    TrunklineError,
    UnknownNameError,
    UnreachableError,
    UpstreamTimeoutError,
)
from trunkline.foreign import Raised, attempt
from trunkline.model import Call, Caller, Entry
from trunkline.sandbox.turns import given, raised
from trunkline.telemetry.savings import tokens_of
from trunkline.tool import PROGRAM, ToolResult
from trunkline.tools.guidance import OWN
from trunkline.wire import meta
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import decode, encode

log = logging.getLogger("trunkline")

Outcome = Callable[[Call], Awaitable[ToolResult]]
"""Takes a call through the stages to its end."""

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
_SURROGATE = re.compile(rb"(?i)\\ud[89a-f]")


class Bridge:
    """Makes the calls of one program in the place of the call that brought it."""

    def __init__(self, call: Call, id: str, outcome: Outcome) -> None:
        self._outer, self._id, self._outcome = call, id, outcome
        self.scope = dataclasses.replace(call.scope, program=PROGRAM)
        """Whose the calls are, and that a program makes them."""
        # A caller that answers by another request can be asked by the program alone, not by each server it calls.
        self.caller = call.caller if call.ask is not None else Caller(client_info=call.caller.client_info)
        self.read = 0
        """Tokens of results that no model had to read."""

    async def make(self, entry: Entry, arguments: bytes, *, agreed: bool) -> Any:
        """One call: what it gave, or what it raises in the program."""
        outer = self._outer
        params = {"name": encode(entry.shown), "arguments": arguments}
        if self.caller.modern:
            stamp = meta.Meta(MODERN_VERSIONS[0], self.caller.capabilities, outer.caller.client_info)
            params = meta.stamp(params, stamp)
        call = Call(
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
        result = await attempt(self._outcome, call)
        if isinstance(result, Raised):
            return _raised(entry, result.error)
        self.read += tokens_of(encode(result.content))
        if result.is_error:
            refused = result.meta.get(f"{OWN}cancelled") is True
            return raised("PermissionError" if refused else "RuntimeError", result.text or f"{entry.shown} failed")
        return given(value_of(result))

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


def value_of(result: ToolResult) -> Any:
    """What a tool gave, as a program wants it: structured content, else its one text, read where it is JSON."""
    if result.structured is not None:
        value = result.structured
    else:
        values = [_block(block) for block in result.content]
        value = values[0] if len(values) == 1 else values if values else None
    if _SURROGATE.search(result.raw):  # half of a pair JSON can write, but a program cannot hold
        value = decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def _block(block: dict[str, Any]) -> Any:
    if block.get("type") != "text":
        return block
    text = str(block.get("text", ""))
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text


def _raised(entry: Entry, error: Exception) -> Any:
    if isinstance(error, TrunklineError):  # what it says is what any caller is told
        kind = next((kind for type_, kind in _KINDS if isinstance(error, type_)), "RuntimeError")
        return raised(kind, str(error))
    log.error("A program's call of %s failed.", entry.shown, exc_info=error)
    return raised("RuntimeError", f"{entry.shown} failed")
