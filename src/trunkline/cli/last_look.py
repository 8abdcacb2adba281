"""What is new of a server's tools since somebody last looked: from the history, and the time of that look."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trunkline.control.change import ToolChange
from trunkline.storage.files import try_replace_file


@dataclass(frozen=True)
class News:
    """What became of one tool."""

    what: Literal["new", "changed", "gone", "back"]
    parts: tuple[str, ...] = ()
    """The parts of its definition that differ."""

    def __str__(self) -> str:
        return f"{self.what}: {', '.join(self.parts)}" if self.parts else self.what


def news_of(changes: Iterable[ToolChange]) -> dict[str, News]:
    """The changes of one server, the newest first, as one piece of news for each tool."""
    found: dict[str, list[ToolChange]] = {}
    for change in changes:
        found.setdefault(change.tool, []).append(change)
    return {tool: _told(its) for tool, its in found.items()}


def _told(changes: list[ToolChange]) -> News:
    words = dict.fromkeys(word for change in reversed(changes) for word in change.what)
    parts = tuple(word for word in words if word not in ("added", "removed", "restored"))
    if changes[0].what == ("removed",):
        return News("gone")
    if "added" in words:
        return News("new")
    return News("back", parts) if "restored" in words else News("changed", parts)


class LastLook:
    """When each server was last looked at, in one file; one that cannot be read counts as never."""

    def __init__(self, home: Path) -> None:
        self._path = home / "discovered.json"

    def read(self) -> dict[str, float]:
        """Seconds since the epoch, by server."""
        try:
            document: Any = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict):
            return {}
        times = cast("dict[str, Any]", document)
        return {name: float(when) for name, when in times.items() if isinstance(when, int | float)}

    def write(self, looks: Mapping[str, float]) -> bool:
        """Remember these besides the others; false when the disk does not take it, and then news are told again."""
        return try_replace_file(self._path, json.dumps({**self.read(), **looks}).encode())
