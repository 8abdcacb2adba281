"""What was agreed to of each server, and what waits to be: kept on disk, so that a restart forgets neither."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from trunkline.control.list_store import file_name
from trunkline.identity import server_id
from trunkline.model import Kind
from trunkline.storage.files import read_document, try_replace_file
from trunkline.tools.trust.definition import Sign, describe

FORMAT = 1
LARGEST = 128 * 2**20
"""Bytes of a file that is read at all."""
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
class Kept:
    """What is kept of one server. In memory a definition that was agreed to is its pin alone, some dozens of bytes."""

    identity: Identity | None = None
    begun: set[str] = field(default_factory=set[str])
    """Which of its lists were seen whole: what comes later was not there when it was agreed to."""
    pins: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    """By kind and name; those of several definitions stand one behind the other, the newest first."""
    waiting: dict[tuple[str, str], Waiting] = field(default_factory=dict[tuple[str, str], Waiting])
    lost: bool = False
    """What was agreed to cannot be read: nothing of the server is served before somebody agrees to it anew."""

    @property
    def held(self) -> dict[str, str]:
        """What is not served, with why."""
        return {name: one.why for (_, name), one in self.waiting.items() if one.is_held}


class PinStore:
    """One file for each server, for its owner alone to read. Everything here is done in threads."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "pins"

    def servers(self) -> list[str]:
        """Of whom anything is kept that can be read."""
        found: list[str] = []
        for path in sorted(self._folder.glob("*.json")):
            with suppress(ValueError):
                document = self._read(path)
                found += [document.server] if document is not None else []
        return found

    def load(self, server: str) -> Kept:
        """What is kept of a server; nothing where it was never seen. `ValueError` when that cannot be known."""
        document = self._read(self._path(server))
        if document is None:
            return Kept()
        return Kept(
            document.identity,
            set(document.begun),
            {kind: {name: _joined(one) for name, one in pins.items()} for kind, pins in document.agreed.items()},
            {
                (kind, name): Waiting(
                    one.state, bytes(one.definition), one.digest, one.since, tuple(one.what), tuple(one.signs)
                )
                for kind, names in document.waiting.items()
                for name, one in names.items()
            },
        )

    def save(self, server: str, kept: Kept, agreed: Mapping[tuple[str, str], Mapping[bytes, bytes]]) -> bool:
        """Write what changed; of what was `agreed` to since, the definitions by their pins, too.

        False when it could not be written: the disk does not take it, or what is there cannot be read.
        """
        try:
            # The file is read each time: another process may have agreed to something meanwhile.
            document = self._read(self._path(server)) or _Document(FORMAT, server)
        except ValueError:
            return False
        document.identity = kept.identity
        document.begun = sorted(kept.begun)
        for (kind, name), definitions in agreed.items():
            names = document.agreed.setdefault(kind, {})
            before = names.pop(name, [])
            fresh = [_Agreed(pin, msgspec.Raw(item)) for pin, item in list(definitions.items())[::-1]]
            names[name] = [*fresh, *(one for one in before if one.pin not in definitions)][:VARIANTS]
            while len(names) > MOST:
                del names[next(iter(names))]
        document.waiting = {}
        for (kind, name), one in kept.waiting.items():
            raw = msgspec.Raw(one.definition or b"{}")
            made = _Waiting(one.state, raw, one.digest, one.since, list(one.what), list(one.signs))
            document.waiting.setdefault(kind, {})[name] = made
        content = msgspec.json.encode(document)
        if len(content) > LARGEST:
            # What only a diff needs is left out; were the pins, anything would be agreed to.
            for names in document.agreed.values():
                for found in names.values():
                    found[:] = [_Agreed(one.pin, msgspec.Raw(b"{}")) for one in found]
            content = msgspec.json.encode(document)
        return len(content) <= LARGEST and try_replace_file(self._path(server), content)

    def agreed(self, server: str, kind: str, name: str) -> bytes:
        """The definition that was agreed to last; empty where none was."""
        try:
            document = self._read(self._path(server))
        except ValueError:
            return b""
        found = document.agreed.get(kind, {}).get(name, []) if document is not None else []
        return bytes(found[0].definition) if found else b""

    def forget(self, server: str) -> None:
        """Whoever has the name next is seen for the first time."""
        self._path(server).unlink(missing_ok=True)

    def forget_owner(self, user: str) -> None:
        """The same for all that was a user's own."""
        stem = file_name(server_id(user, "")).removesuffix(".json")
        for path in self._folder.glob("*.json"):
            if path.name.startswith(stem):
                path.unlink(missing_ok=True)

    def _path(self, server: str) -> Path:
        return self._folder / file_name(server)

    def _read(self, path: Path) -> _Document | None:
        return read_document(path, _Document, format=FORMAT, largest=LARGEST)


def _joined(agreed: list[_Agreed]) -> bytes:
    return b"".join(one.pin for one in agreed)


class _Agreed(msgspec.Struct, array_like=True):
    pin: bytes
    definition: msgspec.Raw


class _Waiting(msgspec.Struct):
    state: WaitingState
    definition: msgspec.Raw
    digest: str
    since: float
    what: list[str]
    signs: list[Sign]


class _Document(msgspec.Struct):
    format: int
    server: str
    identity: Identity | None = None
    begun: list[str] = []
    agreed: dict[str, dict[str, list[_Agreed]]] = {}
    waiting: dict[str, dict[str, _Waiting]] = {}
