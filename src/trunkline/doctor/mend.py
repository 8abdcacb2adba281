"""What `--fix` does: only what is safe, can be undone, and is about files of ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from trunkline.config.client_forms import ADDRESS_KEYS
from trunkline.config.file import read_file, servers_of, write_file
from trunkline.doctor.finding import Deletion, Folder, Mode, Remedy, Url
from trunkline.errors import ConfigError


def apply(remedy: Remedy) -> str:
    """Do it, and say what was done; ConfigError when it does not work."""
    try:
        match remedy:
            case Mode():
                os.chmod(remedy.path, remedy.mode)
                return f"gave {remedy.path} the mode {remedy.mode:o}"
            case Folder():
                return _make(remedy.path)
            case Deletion():
                remedy.path.unlink(missing_ok=True)
                return f"deleted {remedy.path}"
            case Url():
                return _write_url(remedy)
    except OSError as error:
        raise ConfigError(f"It did not work: {error.strerror or error}.", hint="Do it by hand.") from error


def _make(path: Path) -> str:
    aside = ""
    if path.exists() and not path.is_dir():
        kept = _free(path)
        path.rename(kept)
        aside = f", and moved what was there to {kept}"
    target = Path(os.path.realpath(path))
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"made the folder {target}{aside}"


def _write_url(remedy: Url) -> str:
    document = read_file(remedy.path)
    entry: Any = servers_of(document, remedy.path)[remedy.server]
    key = next((key for key in ADDRESS_KEYS if key in entry), "url")
    if "${" in str(entry[key]):
        raise ConfigError(f"The url of {remedy.server!r} is made of variables.", hint="Change it by hand.")
    kept = _free(remedy.path)
    shutil.copy2(remedy.path, kept)
    entry[key] = remedy.url
    write_file(remedy.path, document)
    return f"wrote the url of {remedy.server!r} into {remedy.path}; as it was before, it is at {kept}"


def _free(path: Path) -> Path:
    """A name beside the file that nothing has."""
    tries = (path.with_name(f"{path.name}.before-doctor{f'-{number}' if number else ''}") for number in range(1000))
    return next(name for name in tries if not name.exists())
