"""What each server offered last, kept on disk so that a restart lists it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trunkline.config.options import ServerSpec
from trunkline.model import Introduction, Kind, Listing
from trunkline.storage.files import try_replace_file

FORMAT = 2


class ListStore:
    """One file for each server; a file of another configuration of the server is not used."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "catalogue"

    def load(self, spec: ServerSpec) -> tuple[Introduction, dict[Kind, Listing], float] | None:
        """Introduction, lists and when they were fetched; `None` when nothing usable is there."""
        try:
            document = json.loads(self._path(spec).read_bytes())
            if document["format"] != FORMAT or document["fingerprint"] != spec.fingerprint:
                return None
            return _read_introduction(document["profile"]), _read_lists(document["lists"]), float(document["fetched"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

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
                kind.value: {
                    "items": [item.decode() for item in listing.items],
                    "extras": {name: value.decode() for name, value in listing.extras.items()},
                    "ttl": listing.ttl,
                    "public": listing.public,
                    "for_askable": [item.decode() for item in listing.for_askable],
                    "varies": listing.varies,
                }
                for kind, listing in lists.items()
            },
        }
        # A full or read-only disk costs the quick restart, nothing else.
        try_replace_file(self._path(spec), json.dumps(document).encode())

    def _path(self, spec: ServerSpec) -> Path:
        return self._folder / file_name(spec.name)


def file_name(server: str) -> str:
    """The name of a server's own file, whatever the server is called."""
    safe = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in server)
    return f"{safe}.json"


def _read_introduction(document: dict[str, Any]) -> Introduction:
    return Introduction(
        modern=bool(document["modern"]),
        version=str(document["version"]),
        capabilities=dict(document["capabilities"]),
        info=str(document["info"]).encode(),
        instructions=str(document["instructions"]),
        result=str(document["result"]).encode(),
    )


def _read_lists(document: dict[str, Any]) -> dict[Kind, Listing]:
    return {
        Kind(kind): Listing(
            tuple(str(item).encode() for item in listing["items"]),
            {name: str(value).encode() for name, value in listing["extras"].items()},
            float(listing["ttl"]),
            bool(listing["public"]),
            for_askable=tuple(str(item).encode() for item in listing["for_askable"]),
            varies=bool(listing.get("varies")),
        )
        for kind, listing in document.items()
    }
