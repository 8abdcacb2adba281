"""The tasks of one modern server that somebody wants to hear of."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from trunkline.wire.members import decode_object

ACKNOWLEDGED_WITHIN = 5.0


class Followed:
    """Counts who wants news of which task, and knows for which of them the server agreed to send some."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        self._granted: set[str] = set()
        self._news = asyncio.Event()

    def add(self, own: str) -> bool:
        """Want news of a task; whether the server must be told."""
        self.tasks[own] += 1
        if own in self._granted:
            return False
        self._news.clear()
        return True

    def drop(self, own: str) -> None:
        """Want it no longer."""
        self.tasks[own] -= 1
        if self.tasks[own] <= 0:
            del self.tasks[own]

    def acknowledged(self, params: bytes) -> None:
        """The server says which tasks it will tell of."""
        wanted: Any = decode_object(params).get("notifications")
        agreed: Any = wanted.get("taskIds") if isinstance(wanted, dict) else None  # type: ignore[reportUnknownMemberType]
        self._granted = {str(one) for one in agreed} if isinstance(agreed, list) else set()  # type: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        self._news.set()

    async def granted(self, own: str) -> bool:
        """Whether the server agreed, once it said something about it."""
        if own not in self._granted:
            try:
                async with asyncio.timeout(ACKNOWLEDGED_WITHIN):
                    await self._news.wait()
            except TimeoutError:
                pass
        return own in self._granted
