"""Who wants to hear of what outside a call: legacy callers while their session lasts, modern ones while they listen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent
from mcp_types import LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]

RECENT = 10.0
"""Seconds for which news are told to whoever begins to listen: they may have read the lists before the change."""
MOST = 1000
"""News that are remembered."""

_KEY = "trunkline"
_LEVELS: tuple[str, ...] = get_args(LoggingLevel)


@dataclass(eq=False)
class Session:
    """One legacy caller."""

    connection: Connection
    level: str = "debug"
    """The least level of log messages that it wants."""
    followed: set[str] = field(default_factory=set[str])
    """Resources whose changes it wants to hear of."""


class Sessions:
    """The legacy callers that are there now."""

    def __init__(self) -> None:
        self._open: set[Session] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._open))

    def of(self, ctx: Context) -> Session:
        """The session that a request belongs to; it is forgotten when its connection ends."""
        # Sessions of the SDK live for one request, and do not say which connection is theirs in any other way.
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        known = connection.state.get(_KEY)
        if isinstance(known, Session):
            return known
        session = Session(connection)
        connection.state[_KEY] = session
        self._open.add(session)
        connection.exit_stack.callback(self._open.discard, session)
        return session


def is_modern(ctx: Context) -> bool:
    """Whether a request was made under the revision of 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def wants_log(ctx: Context, sessions: Sessions) -> Callable[[str], bool]:
    """Which levels of log messages whoever made this request wants: a modern one says so with each."""
    if is_modern(ctx):
        meta: Any = ctx.meta
        return allowed_log_levels(ctx.protocol_version, meta).__contains__
    session = sessions.of(ctx)
    return lambda level: _LEVELS.index(level) >= _LEVELS.index(session.level)


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
