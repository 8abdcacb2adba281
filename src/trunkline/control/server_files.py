"""One file for each server in a folder of the home: read and written alike, whatever is kept of servers there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Generic

import msgspec

from trunkline.storage.files import T, read_document, try_replace_file

FOLDERS = "catalogue", "history"
"""What can be learned anew, and goes with whose it is."""


class ServerFiles(Generic[T]):
    """Files of one kind, for their owner alone to read. Everything here is done in threads."""

    def __init__(self, folder: Path, type: type[T], *, format: int, largest: int) -> None:
        self._folder, self._type, self._format, self._largest = folder, type, format, largest

    def path(self, server: str) -> Path:
        """Where a server's file is, or would be."""
        return self._folder / file_name(server)

    def read(self, server: str) -> T | None:
        """What is kept of a server; `None` where nothing is. `ValueError` says why it cannot be read."""
        return self._read(self.path(server))

    def each(self) -> Iterator[tuple[Path, T | ValueError]]:
        """All that is kept, of whichever server; where one cannot be read, why."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                found = self._read(path)
            except ValueError as error:
                yield path, error
                continue
            if found is not None:
                yield path, found

    def write(self, server: str, document: T) -> bool:
        """Put it in the place of what is there; false when the disk does not take it, or it is too large."""
        content = msgspec.json.encode(document)
        return len(content) <= self._largest and try_replace_file(self.path(server), content)

    def forget(self, server: str) -> None:
        """Keep nothing of a server."""
        self.path(server).unlink(missing_ok=True)

    def forget_owner(self, user: str) -> None:
        """Keep nothing of a user's own servers."""
        for path in self._folder.glob(_owned_by(user)):
            path.unlink(missing_ok=True)

    def _read(self, path: Path) -> T | None:
        return read_document(path, self._type, format=self._format, largest=self._largest)


def file_name(server: str) -> str:
    """The name of a server's own file, whatever the server is called."""
    safe = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):x}" for c in server)
    return f"{safe}.json"


def owned_files(home: Path, owner: str = "") -> set[str]:
    """The names of the files that are kept of servers that a user registered, or all users."""
    own = _owned_by(owner) if owner else "*%2f*.json"
    return {path.name for folder in FOLDERS for path in (home / folder).glob(own)}


def forget_files(home: Path, names: Collection[str]) -> None:
    """Delete what is kept of servers, by the names of their files."""
    for folder in FOLDERS:
        for name in names:
            (home / folder / name).unlink(missing_ok=True)


def _owned_by(user: str) -> str:
    return f"{file_name(user).removesuffix('.json')}%2f*.json"
