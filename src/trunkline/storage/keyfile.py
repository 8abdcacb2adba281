"""The key of what must outlive us, kept in a file that its owner alone can read."""

from __future__ import annotations

import os
from pathlib import Path

from trunkline.errors import ConfigError


def seal_key(home: Path) -> bytes:
    """The key, made once; ids of tasks are sealed with it."""
    file = home / "seal.key"
    try:
        key = file.read_bytes()
        if len(key) == 32:
            return key
        hint = "Delete it; ids of running tasks and secrets kept in a file will be lost."
        raise ConfigError(f"{file} is not a key of ours.", hint=hint)
    except FileNotFoundError:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = os.urandom(32)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(key)
        return key
