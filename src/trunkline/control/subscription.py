"""What we follow at one server: its lists, and the resources and tasks that somebody wants to hear of."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from trunkline.config.server import ServerSpec
from trunkline.control.listing import listen_params, subscribe_filter
from trunkline.errors import UpstreamError
from trunkline.model import Reply
from trunkline.tasks import Tasks
from trunkline.upstream.connection import Connection
from trunkline.upstream.exchange import FOREVER, Exchange
from trunkline.wire.envelope import error_object
from trunkline.wire.members import decode_object, encode

ACKNOWLEDGED_WITHIN = 5.0


class Subscription:
    """Follows everything once for all who want it; a legacy server is asked each time, a modern one on one stream."""

    def __init__(
        self, spec: ServerSpec, tasks: Tasks, hear: Callable[[str, bytes], None], missed: Callable[[], None]
    ) -> None:
        self._spec, self._tasks, self._hear, self._missed = spec, tasks, hear, missed
        self.connection: Connection | None = None
        """The live connection; nothing can be followed without one."""
        self._resources: Counter[str] = Counter()
        self._followed: Counter[str] = Counter()
        self._granted: set[str] = set()
        """The tasks that the server agreed to tell of."""
        self._acknowledged = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def watch(self, uri: str) -> Reply:
        """Follow a resource."""
        self._resources[uri] += 1
        if self._resources[uri] > 1:
            return Reply(result=b"{}")
        reply: Reply | None = None
        try:
            reply = await self._ask(uri, "resources/subscribe", self._spec.timeout)
            return reply
        finally:
            if reply is None or reply.error:
                self._resources.pop(uri, None)  # the next one who wants it must ask again

    async def unwatch(self, uri: str) -> Reply:
        """Stop following a resource when the last one who wanted it left."""
        self._resources[uri] -= 1
        if self._resources[uri] > 0:
            return Reply(result=b"{}")
        del self._resources[uri]
        return await self._ask(uri, "resources/unsubscribe", self._spec.timeout)

    def follows(self, uri: str = "") -> bool:
        """Whether somebody wants to hear of a resource, or of any."""
        return uri in self._resources if uri else bool(self._resources)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody wants to hear of anything."""
        return bool(self._resources or self._followed)

    async def follow_task(self, own: str) -> bool:
        """Follow a task of a modern server; whether the server agreed."""
        if self.connection is None or not self.connection.introduction.modern:
            return False
        self._followed[own] += 1
        if own not in self._granted:
            self._acknowledged.clear()
            self.renew()
            try:
                async with asyncio.timeout(ACKNOWLEDGED_WITHIN):
                    await self._acknowledged.wait()
            except TimeoutError:
                pass
        granted = own in self._granted
        if not granted:
            self.unfollow_task(own)
        return granted

    def unfollow_task(self, own: str) -> None:
        """Stop following a task; the server hears of it when it is next told what to tell us."""
        self._followed[own] -= 1
        if self._followed[own] <= 0:
            del self._followed[own]

    def acknowledged(self, params: bytes) -> None:
        """The server says which tasks it will tell of."""
        wanted: Any = decode_object(params).get("notifications")
        agreed: Any = wanted.get("taskIds") if isinstance(wanted, dict) else None  # type: ignore[reportUnknownMemberType]
        self._granted = {str(one) for one in agreed} if isinstance(agreed, list) else set()  # type: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        self._acknowledged.set()

    async def restore(self, seconds: float) -> None:
        """Follow on a new connection to a legacy server what was followed on the one before."""
        if self.connection is not None and not self.connection.introduction.modern:
            for uri in list(self._resources):
                try:
                    await self._ask(uri, "resources/subscribe", seconds, background=True)
                except UpstreamError:
                    continue  # the next one who wants it may have more luck

    def renew(self) -> None:
        """Tell a modern server anew what we want to hear of."""
        connection = self.connection
        if connection is not None and connection.introduction.modern:
            self.end()
            self._listening = self._tasks.start(self._listen(connection), name=f"{self._spec.name} changes")

    def end(self) -> None:
        """Listen no longer."""
        if self._listening is not None:
            self._listening.cancel()

    def notify(self, method: str, params: bytes) -> None:
        """Take a notification from the stream of changes."""
        self._hear(method, params)

    def hang_up(self, retry: float) -> None:
        """Nothing is lost by it: the stream is opened again."""

    async def _listen(self, connection: Connection) -> None:
        wait = 1.0
        while connection.alive:
            capabilities = dict(connection.introduction.capabilities)
            wanted = subscribe_filter(capabilities, sorted(self._resources), sorted(self._followed))
            if not wanted:
                return
            exchange = Exchange(
                self._spec.name,
                "subscriptions/listen",
                listen_params(wanted),
                listener=self,
                timeout=FOREVER,
                background=True,
            )
            started = time.monotonic()
            try:
                reply = await connection.request(exchange)
                if reply.error:
                    return  # it does not do what it announced; nothing to follow
            except UpstreamError:
                pass
            wait = 1.0 if time.monotonic() - started > 10 else min(wait * 2, 60.0)
            await asyncio.sleep(wait)
            self._missed()

    async def _ask(self, uri: str, method: str, seconds: float, *, background: bool = False) -> Reply:
        connection = self.connection
        if connection is None:
            return Reply(error=error_object(-32000, f"Server {self._spec.name!r} is not reachable now."))
        if connection.introduction.modern:
            self.renew()
            return Reply(result=b"{}")
        params = encode({"uri": uri})
        return await connection.request(
            Exchange(self._spec.name, method, params, timeout=seconds, max_timeout=seconds, background=background)
        )
