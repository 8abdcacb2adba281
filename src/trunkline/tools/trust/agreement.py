"""What was agreed to of a server, and what waits to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from trunkline.model import Kind
from trunkline.storage.pins import Key
from trunkline.tools.trust.definition import Pin, Sign, describe

VARIANTS = 4
"""Definitions of one name that are agreed to at once: servers may show callers different ones."""
MOST = 20_000
"""Names of one kind of one server whose definitions are remembered; more are held, or the oldest forgotten for them."""

WaitingState = Literal["held", "changed", "rejected"]
SERVER = "server"
"""Stands for a kind where the server itself waits, which presents another identity."""
WORDS = {Kind.TOOL.value: "tool", Kind.PROMPT.value: "prompt", Kind.TEMPLATE.value: "template", SERVER: SERVER}
"""What each kind is called for people and programs."""


@dataclass(frozen=True)
class Identity:
    """Who a server is: what it calls itself, where it is, and how it is started."""

    name: str = ""
    origin: str = ""
    launch: str = ""


@dataclass(frozen=True)
class Waiting:
    """A definition that was not agreed to."""

    state: WaitingState
    definition: bytes
    digest: str
    since: float
    what: tuple[str, ...] = ()
    """The parts that differ from what was agreed to."""
    signs: tuple[Sign, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it is not served."""
        return self.state != "changed"

    @property
    def why(self) -> str:
        """Why it is not served, in a sentence without a full stop; never in the server's own words."""
        return "what it became was rejected" if self.state == "rejected" else describe(self.signs, self.what)


@dataclass
class ServerPins:
    """What is kept of one server. In memory a definition that was agreed to is its pin alone, some dozens of bytes."""

    identity: Identity | None = None
    begun: set[str] = field(default_factory=set[str])
    """Which of its lists were seen whole: what comes later was not there when it was agreed to."""
    pins: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    """By kind and name; those of several definitions stand one behind the other, the newest first."""
    waiting: dict[tuple[str, str], Waiting] = field(default_factory=dict[tuple[str, str], Waiting])
    lost: bool = False
    """What was agreed to cannot be read: nothing of the server is served before somebody agrees to it anew."""
    away: bool = False
    """It cannot be read now, since the store is away: nothing is decided before it is back."""

    @property
    def held(self) -> dict[str, str]:
        """What is not served, with why."""
        return {name: one.why for (_, name), one in self.waiting.items() if one.is_held}


@dataclass
class Unsaved:
    """What changed of a server since it was last written."""

    agreed: dict[Key, dict[bytes, bytes]] = field(default_factory=dict[Key, dict[bytes, bytes]])
    """The definitions that were agreed to, by their pins."""
    first: set[Key] = field(default_factory=set[Key])
    """Those that were at first sight: if others saw another before, theirs counts."""
    waiting: set[Key] = field(default_factory=set[Key])
    """What began to wait, or no longer does."""
    decided: set[Key] = field(default_factory=set[Key])
    """What somebody decided on: whoever else serves the server is told, and what others merely saw counts less."""

    def followed_by(self, later: Unsaved) -> Unsaved:
        """Both, where this could not be written."""
        agreed = {key: {**self.agreed.get(key, {}), **later.agreed.get(key, {})} for key in self.agreed | later.agreed}
        first = (self.first - later.agreed.keys()) | later.first
        return Unsaved(agreed, first, self.waiting | later.waiting, self.decided | later.decided)


def met_another(kept: Iterable[bytes], mine: Iterable[bytes]) -> bool:
    """Whether something was agreed to, and it is not what we saw."""
    theirs = {Pin(one).canonical for one in kept}
    return bool(theirs) and theirs.isdisjoint(Pin(one).canonical for one in mine)


def rejected_meanwhile(theirs: WaitingItem | None, mine: Waiting | None) -> bool:
    """Whether somebody else rejected what we only see."""
    return theirs is not None and mine is not None and (theirs.state, theirs.digest) == ("rejected", mine.digest)


class Agreed(msgspec.Struct, array_like=True):
    """A definition that was agreed to, as it is written."""

    pin: bytes
    definition: msgspec.Raw


class WaitingItem(msgspec.Struct):
    """What waits, as it is written."""

    state: WaitingState
    definition: msgspec.Raw
    digest: str
    since: float
    what: list[str]
    signs: list[Sign]

    @classmethod
    def of(cls, one: Waiting) -> WaitingItem:
        """How something is written."""
        raw = msgspec.Raw(one.definition or b"{}")
        return cls(one.state, raw, one.digest, one.since, list(one.what), list(one.signs))

    @property
    def waiting(self) -> Waiting:
        """What was written."""
        known = self.state, bytes(self.definition), self.digest, self.since
        return Waiting(*known, tuple(self.what), tuple(self.signs))
