"""Resources that callers follow on connections of their own: what they do there is what they hear of."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trunkline.control.fleet import Fleet
from trunkline.control.subscription import Subscription
from trunkline.errors import TrunklineError
from trunkline.identity import Scope
from trunkline.model import Caller, Reply
from trunkline.tasks import Tasks
from trunkline.upstream.connection_key import ConnectionKey, owner_of

RESTORE_WITHIN = 5.0
REOPEN_AGAIN = 10.0
"""Seconds between two connections that are opened for nothing but what is followed on them."""


@dataclass(slots=True)
class _Followed:
    scope: Scope
    caller: Caller
    subscription: Subscription
    reopened: float = -REOPEN_AGAIN


class OwnSubscriptions:
    """One subscription for each connection of a caller's own; it is taken up again when the connection is replaced."""

    def __init__(self, fleet: Fleet, tasks: Tasks) -> None:
        self._fleet, self._tasks = fleet, tasks
        self._followed: dict[ConnectionKey, _Followed] = {}

    async def watch(self, server: str, uri: str, scope: Scope, caller: Caller) -> Reply | None:
        """Follow a resource on the caller's own connection; `None` for one that shares its connection with all."""
        spec = self._fleet.specs.get(server)
        if spec is None or not owner_of(scope, caller):
            return None
        found = await self._fleet.pool.own(spec, scope, caller)
        if found is None:
            return None
        key, connection = found
        if key not in self._followed:
            subscription = Subscription(spec, self._tasks, lambda method, params: None, lambda: None)
            self._followed[key] = _Followed(scope, caller, subscription)
            self._fleet.pool.pin(key)
        subscription = self._followed[key].subscription
        subscription.connection = connection
        try:
            return await subscription.watch(uri)
        finally:
            self._drop_if_over(key)

    async def unwatch(self, uri: str, scope: Scope, caller: Caller) -> Reply | None:
        """Stop following a resource; `None` if it was not followed on a connection of the caller's own."""
        owner = owner_of(scope, caller)
        mine = (key for key, one in self._followed.items() if key.owner == owner and one.subscription.follows(uri))
        key = next(mine, None)
        if key is None:
            return None
        try:
            return await self._followed[key].subscription.unwatch(uri)
        finally:
            self._drop_if_over(key)

    def hears(self, owner: str, whose: str, server: str, uri: str) -> bool:
        """Whether a caller hears that a resource changed on a connection: on that where it follows it, and no other."""
        return owner == whose if whose else not self._has(owner, server, uri)

    def _has(self, owner: str, server: str, uri: str) -> bool:
        return any(
            key.server == server and key.owner == owner and one.subscription.follows(uri)
            for key, one in self._followed.items()
        )

    def woke(self, key: ConnectionKey) -> None:
        """A connection was opened, or ended: what was followed on the one before is followed on the next."""
        if key in self._followed:
            self._tasks.start(self._restore(key, self._followed[key]), name=f"{key.server} followed again")

    async def _restore(self, key: ConnectionKey, followed: _Followed) -> None:
        spec = self._fleet.specs.get(key.server)
        there = any(key == one for one, _ in self._fleet.pool.owned(key.owner))
        if spec is None or (not there and time.monotonic() - followed.reopened < REOPEN_AGAIN):
            return  # a server that dies of being asked must not be started for ever
        if not there:
            followed.reopened = time.monotonic()
        try:
            found = await self._fleet.pool.own(spec, followed.scope, followed.caller)
        except TrunklineError:
            return  # the next call may have more luck
        if found is None or self._followed.get(key) is not followed or followed.subscription.connection is found[1]:
            return
        followed.subscription.connection = found[1]
        await followed.subscription.restore(RESTORE_WITHIN)

    def close(self) -> None:
        """Follow nothing any more."""
        self._followed.clear()

    def _drop_if_over(self, key: ConnectionKey) -> None:
        if key in self._followed and not self._followed[key].subscription.follows():
            del self._followed[key]
            self._fleet.pool.unpin(key)
