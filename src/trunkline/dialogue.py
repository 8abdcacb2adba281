"""What is said between a call and whoever made it: what it hears, what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec


class Listener(Protocol):
    """Where a call's notifications go, and how its caller is known."""

    def notify(self, method: str, params: bytes) -> None:
        """Take one notification that belongs to the call; must not block."""
        ...

    def hang_up(self, retry: float) -> None:
        """The server closed its stream and wants to be polled for the rest in `retry` seconds."""
        ...


class Silent:
    """A listener for callers that hear nothing but the answer."""

    def notify(self, method: str, params: bytes) -> None:
        """Drop it."""

    def hang_up(self, retry: float) -> None:
        """Wait on."""


SILENT = Silent()


class Caller(msgspec.Struct, frozen=True):
    """What the protocol says of whoever sent a call; whose it is, its scope says."""

    modern: bool = True
    version: str = ""
    capabilities: bytes = b"{}"
    """What the caller declared it can be asked, as JSON."""
    client_info: bytes = b""
    log_level: str = ""


PYTHON = Caller()


@dataclass(frozen=True, slots=True)
class Question:
    """What a server asks a person, a model or the client in the middle of a call."""

    method: str
    params: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a question: one of the two is set."""

    result: bytes = b""
    error: bytes = b""


Ask = Callable[[Mapping[str, Question]], Awaitable[Mapping[str, Answer]]]
"""Puts questions to whoever can answer them, all at once."""


class Parked(Protocol):
    """A live call that waits for answers; opaque to everyone but the connection that made it."""

    @property
    def server(self) -> str:
        """The server that asked."""
        ...

    @property
    def questions(self) -> Mapping[str, Question]:
        """What is open now; more may have come since it was parked."""
        ...
