"""What was agreed to of each server in a file of the home: where there is no store, and until there is one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trunkline.control.held_files import FOLDER, FORMAT, LARGEST
from trunkline.control.server_files import ServerFiles
from trunkline.storage.pins import Key
from trunkline.tools.trust.agreement import (
    MOST,
    VARIANTS,
    Agreed,
    Identity,
    ServerPins,
    Unsaved,
    WaitingItem,
    met_another,
    rejected_meanwhile,
)


class PinFiles:
    """Everything here is done in threads."""

    def __init__(self, home: Path) -> None:
        self._files = ServerFiles(home / FOLDER, _Document, format=FORMAT, largest=LARGEST)
        self.forget, self.forget_owner = self._files.forget, self._files.forget_owner

    def servers(self) -> list[str]:
        """Of whom anything is kept that can be read."""
        return [found.server for _, found in self._files.each() if not isinstance(found, ValueError)]

    def load(self, server: str) -> ServerPins:
        """What is kept of a server; nothing where it was never seen. `ValueError` when that cannot be known."""
        document = self._files.read(server)
        return ServerPins() if document is None else _kept(document)

    def whole(self, server: str) -> tuple[ServerPins, Unsaved] | None:
        """The same with every definition, to be kept elsewhere."""
        if not self._files.path(server).exists():
            return None
        document = self._files.read(server)
        if document is None:
            return None
        unsaved = Unsaved()
        for kind, names in document.agreed.items():
            for name, found in names.items():
                unsaved.agreed[kind, name] = {one.pin: bytes(one.definition) for one in reversed(found)}
        unsaved.first = set(unsaved.agreed)
        kept = _kept(document)
        unsaved.waiting = set(kept.waiting)
        return kept, unsaved

    def save(self, server: str, kept: ServerPins, unsaved: Unsaved) -> set[Key] | None:
        """Write what changed; gives names of which others agreed to something else first, and theirs counts.

        `None` when it could not be written: the disk does not take it, or what is there cannot be read.
        """
        try:
            # The file is read each time: another process may have agreed to something meanwhile.
            document = self._files.read(server) or _Document(FORMAT, server)
        except ValueError:
            return None
        document.identity = kept.identity
        document.begun = sorted(kept.begun.union(document.begun))
        contested: set[Key] = set()
        for (kind, name), definitions in unsaved.agreed.items():
            names = document.agreed.setdefault(kind, {})
            before = names.pop(name, [])
            if (kind, name) in unsaved.first and met_another([one.pin for one in before], definitions):
                names[name] = before
                contested.add((kind, name))
                continue
            fresh = [Agreed(pin, msgspec.Raw(item)) for pin, item in list(definitions.items())[::-1]]
            names[name] = [*fresh, *(one for one in before if one.pin not in definitions)][:VARIANTS]
            while len(names) > MOST:
                del names[next(iter(names))]
        for kind, name in unsaved.waiting:
            one = kept.waiting.get((kind, name))
            theirs = document.waiting.get(kind, {}).get(name)
            if (kind, name) not in unsaved.decided and rejected_meanwhile(theirs, one):
                contested.add((kind, name))
            elif one is None:
                document.waiting.get(kind, {}).pop(name, None)
            else:
                document.waiting.setdefault(kind, {})[name] = WaitingItem.of(one)
        return contested if self._write(server, document) else None

    def agreed(self, server: str, key: Key) -> bytes:
        """The definition that was agreed to last; empty where none was."""
        try:
            document = self._files.read(server)
        except ValueError:
            return b""
        kind, name = key
        found = document.agreed.get(kind, {}).get(name, []) if document is not None else []
        return bytes(found[0].definition) if found else b""

    def _write(self, server: str, document: _Document) -> bool:
        if self._files.write(server, document):
            return True
        # What only a diff needs is left out; were the pins, anything would be agreed to.
        for names in document.agreed.values():
            for found in names.values():
                found[:] = [Agreed(one.pin, msgspec.Raw(b"{}")) for one in found]
        return self._files.write(server, document)


def _kept(document: _Document) -> ServerPins:
    return ServerPins(
        document.identity,
        set(document.begun),
        {
            kind: {name: b"".join(one.pin for one in found) for name, found in names.items()}
            for kind, names in document.agreed.items()
        },
        {(kind, name): one.waiting for kind, names in document.waiting.items() for name, one in names.items()},
    )


class _Document(msgspec.Struct):
    format: int
    server: str
    identity: Identity | None = None
    begun: list[str] = []
    agreed: dict[str, dict[str, list[Agreed]]] = {}
    waiting: dict[str, dict[str, WaitingItem]] = {}
