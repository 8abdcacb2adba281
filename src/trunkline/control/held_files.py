"""Whether anything of a server is held back, told from what is kept without loading what judges definitions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from trunkline.control.server_files import ServerFiles
from trunkline.storage.files import STORE

FOLDER = "pins"
FORMAT = 1
LARGEST = 128 * 2**20
"""Bytes of a file that is read at all."""


def may_hold(home: Path, servers: Iterable[str]) -> bool:
    """Whether the embedded store or the file of one of the servers says that something waits, or cannot be read."""
    if (home / STORE).exists() and _store_may_hold(home / STORE):
        return True
    files = ServerFiles(home / FOLDER, _Waits, format=FORMAT, largest=LARGEST)
    try:
        found = [files.read(server) for server in servers]
    except ValueError:
        return True
    return any(any(document.waiting.values()) for document in found if document is not None)


def _store_may_hold(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as store:
            return store.execute("SELECT 1 FROM waiting LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True  # it is of another time, or busy


class _Waits(msgspec.Struct):
    """What matters here of what `pin_files` writes."""

    format: int
    waiting: dict[str, dict[str, msgspec.Raw]] = {}
