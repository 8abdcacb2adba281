"""The trace that a call belongs to (W3C trace context): whose child it is, and what servers are told as theirs."""

from __future__ import annotations

import re
import secrets
import time
from contextvars import Token
from dataclasses import dataclass, field

_CONTEXT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace, as a `traceparent` says it."""

    trace: str
    span: str
    sampled: bool


def read_context(text: bytes) -> TraceContext | None:
    """What a `traceparent` says; `None` when it is none, which is as if nothing were said."""
    found = _CONTEXT.fullmatch(text)
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5]):
        return None
    if not found[2].strip(b"0") or not found[3].strip(b"0"):
        return None
    return TraceContext(found[2].decode(), found[3].decode(), sampled=bool(int(found[4], 16) & 1))


@dataclass(slots=True)
class Leg:
    """One request to a server on behalf of a call."""

    span: str
    server: str
    transport: str
    """`stdio`, `http`, `sse` or `local`."""
    version: str
    begin: int
    """In nanoseconds since the epoch."""
    end: int = 0
    failed: str = ""
    """What went wrong, as the name of an error."""


@dataclass(slots=True)
class Trace:
    """What is noted of a call that is traced; a call that is not has none."""

    id: str
    parent: str = ""
    """The span that it is a child of; empty where the trace begins here."""
    link: TraceContext | None = None
    """Where else it came from: the HTTP request, if the message says another parent."""
    arguments: bytes = b""
    """Where they are asked for."""
    span: str = field(default_factory=lambda: secrets.token_hex(8))
    legs: list[Leg] = field(default_factory=list[Leg])
    token: Token[str] | None = None
    """Gives the log its trace of before."""

    def leg(self, server: str, transport: str, version: str) -> Leg:
        """A request goes to a server."""
        made = Leg(secrets.token_hex(8), server, transport, version, time.time_ns())
        self.legs.append(made)
        return made

    def told(self, leg: Leg) -> str:
        """The `traceparent` that its server gets."""
        return f"00-{self.id}-{leg.span}-01"
