"""Files that are replaced at once, so that a crash leaves the old one or the new one; and files made for one owner."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from trunkline.errors import ConfigError

log = logging.getLogger("trunkline")

STORE = "trunkline.db"
"""The embedded store's file in the home folder."""


def replace_file(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o600,
    folder_mode: int = 0o700,
    sync: bool = False,
    keep_owner: bool = False,
) -> None:
    """Put a file, made if need be with its folder, in the place of what is there: an atomic write.

    `sync` waits until the disk has it; `keep_owner` leaves a file that root changes to its owner. Raises `OSError`,
    and then what was there still is.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=folder_mode)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, mode)
        if keep_owner:
            _give_to_owner(temporary, path)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def try_replace_file(path: Path, content: bytes) -> bool:
    """The same for what can be done without; false when the disk does not take it."""
    try:
        replace_file(path, content)
    except OSError:
        return False
    return True


class Formatted(Protocol):
    """What says in which format it was written."""

    @property
    def format(self) -> int: ...


T = TypeVar("T", bound=Formatted)


def read_document(path: Path, type: type[T], *, format: int, largest: int) -> T | None:
    """A JSON file of ours; `None` where there is none. `ValueError` says why one that is there cannot be used."""
    try:
        if path.stat().st_size > largest:
            raise ValueError("it is too large")
        return document_of(path.read_bytes(), type, format=format)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


def document_of(content: bytes, type: type[T], *, format: int) -> T:
    """The same of what was read already."""
    document = msgspec.json.decode(content, type=type)
    if document.format != format:
        raise ValueError(f"its format is {document.format}")
    return document


def write_private(path: Path, content: bytes) -> None:
    """A new file that its owner alone can read; `FileExistsError` when something is there."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def seal_key_file(home: Path) -> Path:
    """Where the key of what must outlive us is, unless the operator keeps it elsewhere."""
    return home / "seal.key"


def seal_key(home: Path, *, make: bool = True, file: Path | None = None) -> bytes:
    """The key of what must outlive us, made once; ids of tasks are sealed with it."""
    file = file or seal_key_file(home)
    try:
        key = file.read_bytes()
        _keep_private(file)
        if len(key) == 32:
            return key
        hint = "Delete it; ids of running tasks and secrets kept in a file will be lost."
        raise ConfigError(f"{file} is not a key of ours.", hint=hint)
    except FileNotFoundError:
        if not make:
            hint = "Bring it back from a backup: another one opens nothing of what was sealed with it."
            raise ConfigError(f"The master key {file} is missing.", hint=hint) from None
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = os.urandom(32)
        write_private(file, key)
        return key


def _keep_private(file: Path) -> None:
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        try:
            file.chmod(0o600)
        except OSError:
            hint = f"Have its owner give it the mode 600: chmod 600 {file}"
            raise ConfigError(f"{file} is a key that others can read (mode {mode:o}).", hint=hint) from None
        log.warning("%s was a key that others could read (mode %o): its mode is 600 now.", file, mode)


def _give_to_owner(temporary: str, path: Path) -> None:
    try:
        found = path.stat()
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            os.chown(temporary, found.st_uid, found.st_gid)
    except OSError:
        pass
