"""A client's file on disk: read as it is, replaced at once, and kept as it was, so that a change can be undone."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trunkline.clients.client import Keys
from trunkline.config.reading import LARGEST_FILE
from trunkline.errors import ConfigError
from trunkline.storage.files import replace_file, write_private


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


@dataclass(frozen=True)
class Backup:
    """A file as it was before one change, kept in two files of ours: what is known of it, and its bytes."""

    record: Path
    client: str
    path: Path
    target: Path
    time: float
    mode: int
    after: str
    """The digest of what was written."""
    folders: tuple[Path, ...] = ()
    existed: bool = True
    touched: tuple[Keys, ...] = ()
    """Where the entries stand that were written or taken out."""

    @property
    def kept(self) -> Path:
        """Where the bytes are."""
        return self.record.with_suffix(".before")

    def before(self) -> bytes | None:
        """The bytes as they were; `None` when there was no file."""
        if not self.existed:
            return None
        try:
            return self.kept.read_bytes()
        except OSError as error:
            raise ConfigError(f"The backup {self.kept} cannot be read: {error.strerror}.") from error


def write(
    home: Path, client: str, original: Original, data: bytes, now: float, *, touched: Iterable[Keys] = ()
) -> Path:
    """Change a client's file, after what it was is safe; where that is noted."""
    folder = home / "backups"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        record = _free(folder, client, now)
        if original.data is not None:
            write_private(record.with_suffix(".before"), original.data)
        # The record is there before the change: a crash in between leaves one too many, never one too few.
        known = _backup_facts(client, original, data, now) | {"touched": [list(keys) for keys in touched]}
        write_private(record, json.dumps(known, indent=2).encode())
    except OSError as error:
        raise ConfigError(
            f"No backup can be made in {folder}: {error.strerror or error}.", hint="Nothing was changed."
        ) from error
    try:
        replace(original, data, original.mode)
    except ConfigError:
        _forget(record)
        raise
    return record


def backups(home: Path, client: str = "") -> list[Backup]:
    """What can be undone, the latest first."""
    found = [_read(record) for record in sorted((home / "backups").glob("*.json"), reverse=True)]
    return [backup for backup in found if backup is not None and client in ("", backup.client)]


def changed_since(backup: Backup) -> bool:
    """Whether somebody else changed the file after us."""
    return _digest(look(backup.path).data) != backup.after


def restore(backup: Backup) -> None:
    """Put the file back as it was, and forget the backup."""
    data = backup.before()
    now = look(backup.path)
    if data is None:
        remove(backup.target, list(backup.folders))
    else:
        replace(now, data, backup.mode)
    _forget(backup.record)


def settle(backup: Backup, now: Original, data: bytes) -> None:
    """Write the file as it is without our change, and forget the backup."""
    replace(now, data, now.mode)
    _forget(backup.record)


def _backup_facts(client: str, original: Original, data: bytes, now: float) -> dict[str, Any]:
    return {
        "client": client,
        "path": os.path.abspath(original.path),
        "target": str(original.target),
        "time": now,
        "mode": original.mode,
        "existed": original.data is not None,
        "after": _digest(data),
        "folders": [str(folder) for folder in missing_folders(original.target.parent)],
    }


def _read(record: Path) -> Backup | None:
    try:
        known: Any = json.loads(record.read_bytes())
        return Backup(
            record,
            str(known["client"]),
            Path(known["path"]),
            Path(known["target"]),
            float(known["time"]),
            int(known["mode"]),
            str(known["after"]),
            tuple(Path(folder) for folder in known["folders"]),
            bool(known["existed"]),
            tuple(tuple(map(str, keys)) for keys in known.get("touched", ())),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not one of ours


def _forget(record: Path) -> None:
    for left in (record.with_suffix(".before"), record):
        left.unlink(missing_ok=True)


def _free(folder: Path, client: str, now: float) -> Path:
    """A name that sorts by time."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%f")
    tries = (folder / f"{moment}-{number:03}-{client}.json" for number in range(1000))
    return next(path for path in tries if not path.exists())


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
