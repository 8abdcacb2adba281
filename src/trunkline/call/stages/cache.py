"""The stage that keeps answers: equal calls of the same user that change nothing share one."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from trunkline.call.cache import ToolCache
from trunkline.call.call_key import sameness, share
from trunkline.call.result_cache import escaped, is_final
from trunkline.call.single_flight import SingleFlight
from trunkline.call.stage import Handler
from trunkline.config.options import CacheSection
from trunkline.model import Call, Reply
from trunkline.tools.annotations import only_reads
from trunkline.wire.members import read_members, write_members


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A result as its server sent it, and in which era."""

    result: bytes
    modern: bool
    until: float
    """When its time is up."""


class CacheStage:
    """Keeps answers of tools that only read what holds still, of those that were chosen, and what servers let it."""

    def __init__(self, config: CacheSection, unit: Callable[[str], str], identity: Callable[[str], str]) -> None:
        self._config, self._unit, self._identity = config, unit, identity
        self.cache: ToolCache[CachedReply] = ToolCache(
            ttl=config.ttl, max_size=config.max_size, max_bytes=config.max_bytes, strategy=config.strategy
        )
        self._flights: SingleFlight[Reply] = SingleFlight()
        self._generations: Counter[str] = Counter()

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        if call.method not in ("tools/call", "resources/read"):
            return await call_next(call)
        ttl = self._ttl(call) if call.parked is None else 0.0
        key = self._key(call) if ttl != 0 and call.cached else ""
        if not key:
            return await self._uncached(call, call_next, ttl)
        kept = self.cache.get(key)
        call.note("cache", "miss" if kept is None else "hit")
        if kept is not None:
            return Reply(result=_aged(kept), modern=kept.modern)
        if ttl < 0:  # only its answer says whether it may be kept, so nobody waits for it
            return self._keep(key, call, ttl, await call_next(call))

        async def made() -> Reply:
            return self._keep(key, call, ttl, await call_next(call))

        reply, own = await share(self._flights, key, call, made)
        if own:
            return reply
        if _shareable(reply):
            call.note("cache", "shared")
            return Reply(result=reply.result, modern=reply.modern)
        return await call_next(call)  # another's question or error is not ours

    def forget(self, server: str) -> None:
        """What this server said, or its group, no longer counts."""
        self._generations[self._unit(server)] += 1

    def forget_user(self, user: str) -> None:
        """Somebody is gone; what was kept for them is, too."""
        for person in (f"{escaped(user)}/*", escaped(user)):
            self.cache.invalidate(f"* {person} *:**")

    async def _uncached(self, call: Call, call_next: Handler, ttl: float) -> Reply:
        try:
            return await call_next(call)
        finally:
            if call.method == "tools/call" and ttl == 0 and self._config.clear_on_write and not _reads(call):
                self.forget(call.entry.server if call.entry is not None else call.server)

    def _ttl(self, call: Call) -> float:
        """Seconds to keep the answer; 0 for not at all, less than 0 where the answer itself will say."""
        if call.method == "resources/read":
            return -1.0
        if call.entry is None:
            return 0.0
        if call.entry.options.cache_ttl is not None:
            return call.entry.options.cache_ttl
        if not _reads(call):
            return 0.0
        # What is not known to hold still for a moment may change by itself.
        return self._config.ttl or -1.0 if call.entry.annotations.volatile_hint is False else -1.0

    def _key(self, call: Call) -> str:
        server = call.server
        return sameness(call, f"{server} {self._identity(server)} {self._generations[server]}")

    def _keep(self, key: str, call: Call, ttl: float, reply: Reply) -> Reply:
        if not _shareable(reply):
            return reply
        if call.entry is None or call.entry.options.cache_ttl is None:
            ttl = _said_ttl(reply, ttl)
        # A change that came while the server answered makes the answer old before it is kept.
        if ttl > 0 and key == self._key(call):
            self.cache.set(key, CachedReply(reply.result, reply.modern, time.monotonic() + ttl), ttl=ttl)
        return reply


def _reads(call: Call) -> bool:
    return call.entry is not None and only_reads(call.entry.annotations)


def _shareable(reply: Reply) -> bool:
    """Never an error, never a question nor what came of one, never a task that goes on."""
    return not reply.error and not reply.questions and not reply.asked and is_final(reply.result)


def _said_ttl(reply: Reply, otherwise: float) -> float:
    """How long a modern server lets its answer be kept. Only its own user ever gets it, so any scope will do."""
    if not reply.modern or b'"ttlMs"' not in reply.result:
        return otherwise
    said = read_members(reply.result).get("ttlMs")
    if said is None:
        return otherwise
    return float(said) / 1000 if said.isdigit() else 0.0


def _aged(kept: CachedReply) -> bytes:
    """An answer as it is now: whoever gets it may keep it for what is left of its time, and no longer."""
    if not kept.modern or b'"ttlMs"' not in kept.result or kept.until == math.inf:
        return kept.result
    members = read_members(kept.result)
    if "ttlMs" in members:
        members["ttlMs"] = b"%d" % (max(0.0, kept.until - time.monotonic()) * 1000)
    return write_members(members)
