"""What each server offered last, kept on disk so that a restart lists it at once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.model import Introduction, Kind, Listing
from trunkline.storage.files import try_replace_file
from trunkline.wire.members import encode

FORMAT = 2
IN_ADVANCE = "It was not reached yet; the tools that were given in advance are shown."
_ANY = {"type": "object"}


class ListStore:
    """One file for each server; a file of another configuration of the server is not used."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "catalogue"

    def load(self, spec: ServerSpec) -> tuple[Introduction | None, dict[Kind, Listing], float] | None:
        """Introduction, lists and when they were fetched, or the tools given in advance; `None` without any."""
        try:
            document = msgspec.json.decode(self._path(spec).read_bytes(), type=_Document)
            if document.format == FORMAT and document.fingerprint == spec.fingerprint:
                return _read_introduction(document.profile), _read_lists(document.lists), document.fetched
        except (OSError, ValueError, KeyError, TypeError):
            pass
        if not spec.minimal_tools:
            return None
        items = tuple(encode({**tool, "inputSchema": tool.get("inputSchema", _ANY)}) for tool in spec.minimal_tools)
        return None, {Kind.TOOL: Listing(items, problem=IN_ADVANCE)}, 0.0

    def save(self, spec: ServerSpec, introduction: Introduction, lists: dict[Kind, Listing], fetched: float) -> None:
        """Write the file anew, so that a crash leaves the old one or the new one, never half."""
        document = {
            "format": FORMAT,
            "fingerprint": spec.fingerprint,
            "fetched": fetched,
            "profile": {
                "modern": introduction.modern,
                "version": introduction.version,
                "capabilities": introduction.capabilities,
                "info": introduction.info.decode(),
                "instructions": introduction.instructions,
                "result": introduction.result.decode(),
            },
            "lists": {
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
        }
        # A full or read-only disk costs the quick restart, nothing else.
        try_replace_file(self._path(spec), msgspec.json.encode(document))

    def _path(self, spec: ServerSpec) -> Path:
        return self._folder / file_name(spec.name)


def file_name(server: str) -> str:
    """The name of a server's own file, whatever the server is called."""
    safe = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in server)
    return f"{safe}.json"


FOLDERS = "catalogue", "history"


def owned_files(home: Path, owner: str = "") -> set[str]:
    """The names of the files that are kept of servers that a user registered, or all users."""
    own = f"{file_name(owner).removesuffix('.json')}%2f*.json" if owner else "*%2f*.json"
    return {path.name for folder in FOLDERS for path in (home / folder).glob(own)}


def forget_files(home: Path, names: Collection[str]) -> None:
    """Delete what is kept of servers, by the names of their files."""
    for folder in FOLDERS:
        for name in names:
            (home / folder / name).unlink(missing_ok=True)


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
