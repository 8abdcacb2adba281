"""A client's file on disk: read as it is, and replaced at once, with its mode and the link that leads to it kept."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from trunkline.config.reading import LARGEST_FILE
from trunkline.errors import ConfigError
from trunkline.storage.files import replace_file


@dataclass(frozen=True)
class Original:
    """A file at one moment."""

    path: Path
    target: Path
    """The file itself, where links lead to."""
    data: bytes | None
    """`None` when there is no file."""
    mode: int = 0o600


def look(path: Path) -> Original:
    """The file as it is now."""
    target = Path(os.path.realpath(path))
    try:
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path} is not a file.")
        if found.st_size > LARGEST_FILE:
            raise ConfigError(f"{path} has more than {LARGEST_FILE // 2**20} MiB.")
        return Original(path, target, target.read_bytes(), stat.S_IMODE(found.st_mode))
    except (FileNotFoundError, NotADirectoryError):
        return Original(path, target, None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error


def check_writable(original: Original) -> None:
    """Refuse what its owner made read-only: a file may be replaced all the same, but is not meant to be."""
    if original.data is not None and not original.mode & 0o222:
        raise ConfigError(f"{original.path} is read-only.", hint="Make it writable, if you are meant to change it.")


def replace(original: Original, data: bytes, mode: int) -> None:
    """Put other bytes into its place, unless somebody was faster; folders that are missing are made."""
    if look(original.path).data != original.data:
        raise ConfigError(f"{original.path} was just changed by somebody else.", hint="Try again.")
    made = missing_folders(original.target.parent)
    try:
        replace_file(original.target, data, mode=mode, folder_mode=0o777, sync=True, keep_owner=True)
    except OSError as error:
        _remove_empty(made)
        raise ConfigError(f"{original.path} cannot be written: {error.strerror or error}.") from error


def missing_folders(folder: Path) -> list[Path]:
    """The folders that are not there yet, the innermost first."""
    return [parent for parent in (folder, *folder.parents) if not parent.exists()]


def remove(path: Path, folders: list[Path]) -> None:
    """Delete a file, and the folders that were made for it if nothing else came into them."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be deleted: {error.strerror or error}.") from error
    _remove_empty(folders)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
