"""Our own files: the home folder, the key, the secrets, and the catalogues in it."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trunkline.config.options import ServerSpec
from trunkline.control.list_store import FORMAT, ListStore, file_name
from trunkline.doctor.codes import Severity
from trunkline.doctor.finding import Deletion, Finding, Folder, Mode

PRIVATE = ("seal.key", "secrets.json", "secrets.lock")
"""Files that nobody but their owner may read."""


def examine_home(home: Path, servers: Iterable[ServerSpec]) -> list[Finding]:
    """What is wrong with the home folder; one that is not there yet is made when it is needed."""
    if home.is_symlink() and not home.exists():
        seen, advice = "it is a link that leads nowhere.", "Make the folder that it leads to."
        return [_unusable(home, seen, advice, Folder(home))]
    if home.exists() and not home.is_dir():
        return [_unusable(home, "it is a file.", "Move it away, and let a folder be made there.", Folder(home))]
    if not home.exists():
        return _not_made_yet(home)
    mode, owner = stat.S_IMODE(home.stat().st_mode), home.stat().st_uid
    if owner == os.geteuid() and mode & 0o700 != 0o700:
        return [_unusable(home, f"its mode is {mode:o}: you may not use it.", "Let yourself in.", Mode(home, 0o700))]
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        command = shlex.join(["sudo", "chown", "-R", str(os.geteuid()), str(home)])
        seen = "you may not write there: it belongs to somebody else, or the disk is read-only."
        return [_unusable(home, seen, "Make it yours, or set TRUNKLINE_HOME to a folder that is.", command=command)]
    return [*_exposed(home, mode), *_broken_key(home), *_catalogues(home, servers)]


def _not_made_yet(home: Path) -> list[Finding]:
    parent = next(folder for folder in home.absolute().parents if folder.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return []
    advice = "Let yourself write there, or set TRUNKLINE_HOME to a folder that is yours."
    return [_unusable(home, f"it is not there, and cannot be made in {parent}.", advice)]


def _unusable(home: Path, seen: str, advice: str, remedy: Folder | Mode | None = None, *, command: str = "") -> Finding:
    return Finding("TL505", seen, advice, file=str(home), command=command or _command(remedy), remedy=remedy)


def _command(remedy: Folder | Mode | None) -> str:
    return shlex.join(["chmod", f"{remedy.mode:o}", str(remedy.path)]) if isinstance(remedy, Mode) else ""


def _exposed(home: Path, mode: int) -> list[Finding]:
    found: list[Finding] = []
    if mode & 0o022:
        found.append(_private(home, f"its mode is {mode:o}: others may write there.", 0o700))
    for name in PRIVATE:
        file = home / name
        if file.is_file():
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                found.append(_private(file, f"its mode is {mode:o}: others may read or write it.", 0o600))
    return found


def _private(path: Path, seen: str, mode: int) -> Finding:
    advice = "Keep it to yourself. If others use this machine, think of what is in it as known to them."
    remedy = Mode(path, mode)
    return Finding("TL506", seen, advice, Severity.WARNING, file=str(path), command=_command(remedy), remedy=remedy)


def _broken_key(home: Path) -> list[Finding]:
    file = home / "seal.key"
    if not file.exists() or (file.is_file() and file.stat().st_size == 32):
        return []
    # Not ours to delete: secrets in the encrypted file are lost without the right key.
    advice = (
        "Put back a backup of it. Without one, delete it and a new one is made: ids of running tasks are lost, and "
        "secrets must be set again."
    )
    command = shlex.join(["rm", str(file)])
    return [Finding("TL507", "it is not a key of ours.", advice, file=str(file), command=command)]


def _catalogues(home: Path, servers: Iterable[ServerSpec]) -> list[Finding]:
    found: list[Finding] = []
    for spec in servers:
        file = home / "catalogue" / file_name(spec.name)
        if not file.exists() or ListStore(home).load(spec) is not None:
            continue
        remedy = Deletion(file)
        command = shlex.join(["rm", str(file)])
        if _is_other(file, spec):
            seen = "it is of another configuration of the server, or of another version of Trunkline."
            advice = "Nothing: it is not used, and replaced as soon as the server is reached."
            found.append(Finding("TL509", seen, advice, Severity.NOTE, spec.name, str(file), command, remedy))
        else:
            seen = "it cannot be read, so that the server's tools are missing until it was reached."
            advice = "Delete it: it is made anew as soon as the server is reached."
            found.append(Finding("TL508", seen, advice, Severity.WARNING, spec.name, str(file), command, remedy))
    return found


def _is_other(file: Path, spec: ServerSpec) -> bool:
    try:
        document: Any = json.loads(file.read_bytes())
        return document["format"] != FORMAT or document["fingerprint"] != spec.fingerprint
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
