"""Whether anything of a server is held back, told from its file without loading what judges definitions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from trunkline.control.server_files import ServerFiles

FOLDER = "pins"
FORMAT = 1
LARGEST = 128 * 2**20
"""Bytes of a file that is read at all."""


def may_hold(home: Path, servers: Iterable[str]) -> bool:
    """Whether the file of one of the servers says that something waits, or cannot be read."""
    files = ServerFiles(home / FOLDER, _Waits, format=FORMAT, largest=LARGEST)
    try:
        found = [files.read(server) for server in servers]
    except ValueError:
        return True
    return any(any(document.waiting.values()) for document in found if document is not None)


class _Waits(msgspec.Struct):
    """What matters here of what `pin_files` writes."""

    format: int
    waiting: dict[str, dict[str, msgspec.Raw]] = {}
