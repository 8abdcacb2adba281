"""What each server offered last, kept on disk so that a restart lists it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.control.server_files import ServerFiles
from trunkline.model import Introduction, Kind, Listing
from trunkline.wire.members import encode

FORMAT = 2
LARGEST = 256 * 2**20
"""Bytes of a file that is read at all."""
IN_ADVANCE = "It was not reached yet; the tools that were given in advance are shown."
_ANY = {"type": "object"}


class ListStore:
    """One file for each server; a file of another configuration of the server is not used."""

    def __init__(self, home: Path) -> None:
        self._files = ServerFiles(home / "catalogue", _Document, format=FORMAT, largest=LARGEST)

    def load(self, spec: ServerSpec) -> tuple[Introduction | None, dict[Kind, Listing], float] | None:
        """Introduction, lists and when they were fetched, or the tools given in advance; `None` without any."""
        try:
            document = self._files.read(spec.name)
            if document is not None and document.fingerprint == spec.fingerprint:
                return _read_introduction(document.profile), _read_lists(document.lists), document.fetched
        except (ValueError, KeyError, TypeError):
            pass
        if not spec.minimal_tools:
            return None
        items = tuple(encode({**tool, "inputSchema": tool.get("inputSchema", _ANY)}) for tool in spec.minimal_tools)
        return None, {Kind.TOOL: Listing(items, problem=IN_ADVANCE)}, 0.0

    def save(self, spec: ServerSpec, introduction: Introduction, lists: dict[Kind, Listing], fetched: float) -> None:
        """Write the file anew, so that a crash leaves the old one or the new one, never half."""
        document = _Document(
            FORMAT,
            spec.fingerprint,
            fetched,
            {
                "modern": introduction.modern,
                "version": introduction.version,
                "capabilities": introduction.capabilities,
                "info": introduction.info.decode(),
                "instructions": introduction.instructions,
                "result": introduction.result.decode(),
            },
            {
                kind.value: _List(
                    # Written one by one: a thread that is busy with one large text would hold up the others.
                    [msgspec.Raw(msgspec.json.encode(item.decode())) for item in listing.items],
                    {name: value.decode() for name, value in listing.extras.items()},
                    listing.ttl,
                    listing.public,
                    [item.decode() for item in listing.for_askable],
                    listing.dropped,
                    listing.varies,
                )
                for kind, listing in lists.items()
            },
        )
        # A full or read-only disk costs the quick restart, nothing else.
        self._files.write(spec.name, document)


def _read_introduction(document: dict[str, Any]) -> Introduction:
    return Introduction(
        modern=bool(document["modern"]),
        version=str(document["version"]),
        capabilities=dict(document["capabilities"]),
        info=str(document["info"]).encode(),
        instructions=str(document["instructions"]),
        result=str(document["result"]).encode(),
    )


def _read_lists(document: dict[str, _List]) -> dict[Kind, Listing]:
    return {
        Kind(kind): Listing(
            tuple(msgspec.json.decode(item, type=str).encode() for item in listing.items),
            {name: value.encode() for name, value in listing.extras.items()},
            listing.ttl,
            listing.public,
            for_askable=tuple(item.encode() for item in listing.for_askable),
            dropped=listing.dropped,
            varies=listing.varies,
        )
        for kind, listing in document.items()
    }


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
    extras: dict[str, str]
    ttl: float
    public: bool
    for_askable: list[str]
    dropped: str = ""
    varies: bool = False


class _Document(msgspec.Struct):
    format: int
    fingerprint: str
    fetched: float
    profile: dict[str, Any]
    lists: dict[str, _List]
