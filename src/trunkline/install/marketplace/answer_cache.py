"""What registries answered, kept on disk: taken without asking while it is fresh, and when nobody can be asked."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.storage.files import try_replace_file

FORMAT = 1
MOST_ANSWERS = 64
"""Answers of one registry that are kept."""


@dataclass(frozen=True)
class CachedAnswer:
    """One answer."""

    content: bytes
    fetched: float
    """When, in seconds since 1970."""
    mark: str = ""
    """What to ask with whether it has changed: an `ETag`, or a time."""


class AnswerCache:
    """The answers of one registry, each under what was asked; files of anybody else are not used."""

    def __init__(self, home: Path, registry: str) -> None:
        self._folder = home / "registries" / _digest(registry)

    def load(self, asked: str) -> CachedAnswer | None:
        """The answer, however old it is."""
        return _read(self._path(asked), asked)

    def save(self, asked: str, kept: CachedAnswer) -> None:
        """Keep an answer; the oldest ones leave. A full or read-only disk costs the next answer time, nothing else."""
        text = kept.content.decode("utf-8", "replace")
        document = {"format": FORMAT, "asked": asked, "fetched": kept.fetched, "mark": kept.mark, "content": text}
        if try_replace_file(self._path(asked), json.dumps(document).encode()):
            self._forget_oldest()

    def all(self) -> Iterator[CachedAnswer]:
        """Every answer, the newest first."""
        found = [kept for path in self._files() if (kept := _read(path)) is not None]
        return iter(sorted(found, key=lambda kept: -kept.fetched))

    def clear(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, asked: str) -> Path:
        return self._folder / f"{_digest(asked)}.json"

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))

    def _forget_oldest(self) -> None:
        files = self._files()
        for path in sorted(files, key=_age)[: max(0, len(files) - MOST_ANSWERS)]:
            path.unlink(missing_ok=True)


def _read(path: Path, asked: str | None = None) -> CachedAnswer | None:
    try:
        document: Any = json.loads(path.read_bytes())
        if document["format"] != FORMAT or (asked is not None and document["asked"] != asked):
            return None
        return CachedAnswer(document["content"].encode(), float(document["fetched"]), str(document["mark"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
