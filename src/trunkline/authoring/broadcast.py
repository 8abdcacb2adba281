"""Carries news of changes to those who listen, also to those who begin a moment too late."""

from __future__ import annotations

import time
from collections.abc import Callable

from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent

RECENT = 10.0
"""Seconds for which news are told to whoever begins to listen: they may have read the lists before the change."""

MOST = 1000
"""News that are remembered."""


class News(InMemorySubscriptionBus):
    """The SDK's bus, with a short memory."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._recent: dict[ServerEvent, float] = {}

    async def publish(self, event: ServerEvent) -> None:
        """Tell those who listen, and remember."""
        self._recent.pop(event, None)
        self._recent[event] = self._clock()
        self._forget()
        await super().publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Tell a new listener what is recent, and what comes."""
        self._forget()
        for event in self._recent:
            listener(event)
        return super().subscribe(listener)

    def _forget(self) -> None:
        oldest = self._clock() - RECENT
        while self._recent and (len(self._recent) > MOST or next(iter(self._recent.values())) <= oldest):
            del self._recent[next(iter(self._recent))]
