"""What clients' files were before Trunkline was written into them, so that it can be undone to the byte."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trunkline.clients.file import Original, look, missing_folders, remove, replace
from trunkline.clients.place import Keys
from trunkline.errors import ConfigError
from trunkline.storage.files import write_private


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
        known = _known(client, original, data, now) | {"touched": [list(keys) for keys in touched]}
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


def _known(client: str, original: Original, data: bytes, now: float) -> dict[str, Any]:
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
