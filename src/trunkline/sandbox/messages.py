"""What the gateway and the keepers of its workers say to each other: one request at a time, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from trunkline.config.programs import ProgramsSection
from trunkline.wire.members import encode

HEAD = 4
"""Bytes in front of a message that say how long it is."""
SLEEP = "asyncio.sleep"
"""What a program that sleeps wants called."""
_LONGEST_MESSAGE = 2000
_ROOM = 2**20
"""Bytes that a message may have for names and numbers beside what an option bounds."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that a program wants made."""

    id: int
    name: str
    arguments: bytes
    """As JSON."""


class Given(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a call gave, as JSON."""

    value: bytes


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a call gave, as the blocks of a result."""

    content: bytes


class Thrown(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a call raises in the program: an exception of a kind that programs know."""

    kind: str
    message: str


Settled = dict[int, Given | Answered | Thrown]
"""What came of calls, by their numbers."""


def given(value: Any) -> Given:
    """What a call gave."""
    return Given(encode(value))


def raised(kind: str, message: str) -> Thrown:
    """What a call raises in the program."""
    return Thrown(kind, whole(message[:_LONGEST_MESSAGE]))


def whole(text: str) -> str:
    """A text without halves of characters, which JSON can write and no message can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# What a keeper is told.


class Setup(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first word: how workers are started, and what programs may use."""

    launcher: str
    config: ProgramsSection


class Start(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Run a text from its beginning."""

    code: str
    stubs: str


class Load(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Take up a program that was data, and what it had used by then."""

    dump: bytes
    made: int
    printed: int


class Resume(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Go on with what came of some calls."""

    settled: Settled


class Dump(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Give the program as data."""


class End(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Nobody wants the program any more."""


class Known(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Why a name is no function of the program's; empty for one that is."""

    why: str


class Kill(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """End the worker in the middle of a turn; the turn is answered all the same."""


Request = Setup | Start | Load | Resume | Dump | End | Known | Kill


# What a keeper says.


class Printed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Something was printed."""

    text: str


class Asked(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Is this name a function?"""

    name: str


class Step(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Where a program stopped."""

    wanted: tuple[Wanted, ...] = ()
    """Calls that it wants since the last step."""
    pending: tuple[int, ...] = ()
    """Every call that it waits for."""
    value: bytes | None = None
    """What it gave in the end, as JSON; `None` while it goes on."""


class Dumped(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The program as data."""

    size: int
    dump: bytes
    """Empty when it is larger than may be kept."""


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Why a program came to no good end."""

    message: str
    hint: str
    line: int


class Broken(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The keeper, or what it keeps, does not work; it leaves after this."""

    text: str


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The program is gone; said after its value and its failure as well."""

    worn: bool
    """The keeper has grown, and leaves after this."""


Told = Printed | Asked | Step | Dumped | Failed | Broken | Ended

_encode = msgspec.msgpack.Encoder().encode
_read_request = msgspec.msgpack.Decoder(Request).decode
_read_told = msgspec.msgpack.Decoder(Told).decode


def written(message: Request | Told) -> bytes:
    """A message with its length in front."""
    text = _encode(message)
    return len(text).to_bytes(HEAD, "little") + text


def length_of(head: bytes) -> int:
    """How long the message is that comes now."""
    return int.from_bytes(head, "little")


def read_request(text: bytes) -> Request:
    """What the gateway says."""
    return _read_request(text)


def read_told(text: bytes) -> Told:
    """What a keeper says; ValueError for what is no message."""
    return _read_told(text)


def longest(config: ProgramsSection) -> int:
    """Bytes of the longest message that a keeper has reason to send."""
    return max(config.arguments, config.value, config.state) + config.printed + _ROOM
