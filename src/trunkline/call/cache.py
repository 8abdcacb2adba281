"""Keeps answers for a while, so that equal calls need not be made again."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from trunkline.call.cache_entries import ORDERS, CacheEntries, Reason, copied, immutable
from trunkline.call.single_flight import SingleFlight
from trunkline.config.options import CacheSection, CacheStrategy
from trunkline.errors import ConfigError, UpstreamTimeoutError
from trunkline.events import Emitter, Event
from trunkline.tool import ToolResult
from trunkline.tools.digest import digest, digest_json
from trunkline.tools.patterns import Glob

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """How much a cache keeps, and for how long; what the hub's cache can be told too has the default from there."""

    ttl: float = 300.0
    """Seconds an entry is kept, counted from when it was set; 0 keeps none."""
    max_size: int = CacheSection.max_size
    """Entries."""
    strategy: CacheStrategy = CacheSection.strategy
    """Who leaves a full cache: the least recently used, the oldest, or the least frequently used."""
    enable_auto_cleanup: bool = True
    """Expired entries leave even when nobody asks for them. No timer runs: whoever uses the cache next cleans up."""
    cleanup_interval: float = 60.0
    """Seconds between two cleanups."""
    namespace: str = ""
    """A name for the cache, which its events carry."""
    max_bytes: int = CacheSection.max_bytes
    """Bytes that all values may have together; 0 sets no bound."""
    factory_timeout: float = 30.0
    """Seconds that `get_or_set` waits for a value to be made."""

    def __post_init__(self) -> None:
        if not self.ttl >= 0:
            raise ConfigError(f"A cache's `ttl` cannot be {self.ttl:g}.", hint="Give seconds, or 0 to keep nothing.")
        if self.max_size < 1:
            raise ConfigError(f"A cache's `max_size` cannot be {self.max_size}.", hint="Let it hold 1 entry or more.")
        if self.strategy not in ORDERS:
            raise ConfigError(f"There is no `strategy` {self.strategy!r}.", hint=f"Take one of {', '.join(ORDERS)}.")
        if not self.cleanup_interval > 0:
            raise ConfigError(
                f"A cache's `cleanup_interval` cannot be {self.cleanup_interval:g}.",
                hint="Give seconds, or turn `enable_auto_cleanup` off.",
            )
        if self.max_bytes < 0:
            raise ConfigError(f"A cache's `max_bytes` cannot be {self.max_bytes}.", hint="0 sets no bound.")
        if not 0 < self.factory_timeout < math.inf:
            raise ConfigError(f"A cache's `factory_timeout` cannot be {self.factory_timeout:g}.", hint="Give seconds.")


DEFAULT_CACHE_CONFIG = CacheConfig()


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How a cache has fared since it was made or its statistics were reset."""

    hits: int
    misses: int
    evictions: int
    """Entries that left: expired, for lack of room, or deleted."""
    size: int
    max_size: int
    hit_rate: float
    """Hits among all lookups, from 0 to 1."""
    bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class CacheHit(Event):
    """A lookup found an entry."""

    event: ClassVar[str] = "hit"
    key: str
    size: int
    """The bytes of the value, which is not shown: it may be secret."""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CacheMiss(Event):
    """A lookup found nothing, or only what had expired."""

    event: ClassVar[str] = "miss"
    key: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CacheSet(Event):
    """An entry was stored."""

    event: ClassVar[str] = "set"
    key: str
    size: int
    ttl: float
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CacheEvict(Event):
    """An entry left."""

    event: ClassVar[str] = "evict"
    key: str
    reason: Reason
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CacheClear(Event):
    """All entries were removed at once."""

    event: ClassVar[str] = "clear"
    entries_removed: int
    namespace: str = ""


class ToolCache(Generic[T]):
    """Values by key, each for a limited time, in limited space; for one event loop.

    Values cannot be changed through the cache: immutable ones are handed out as they are, all others are copied on
    their way in and out.
    """

    def __init__(
        self,
        config: CacheConfig = DEFAULT_CACHE_CONFIG,
        *,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.config = dataclasses.replace(config, **options) if options else config
        self._clock = clock
        self._kept = CacheEntries(self.config.strategy, max_size=self.config.max_size, max_bytes=self.config.max_bytes)
        self._entries = self._kept.entries
        self._flights: SingleFlight[T] = SingleFlight()
        self._hits = self._misses = self._evictions = 0
        self._destroyed = False
        self._cleanup_at = clock() + self.config.cleanup_interval if self.config.enable_auto_cleanup else math.inf
        self._events = Emitter(CacheHit, CacheMiss, CacheSet, CacheEvict, CacheClear)
        self.on, self.off = self._events.on, self._events.off

    @staticmethod
    def generate_key(name: str, args: Mapping[str, Any] | bytes | None = None) -> str:
        """A tool's name and the digest of its arguments: a mapping, or the bytes of a JSON object."""
        return f"{name}:{digest_json(args) if isinstance(args, bytes) else digest(args or {})}"

    @overload
    def get(self, key: str) -> T | None: ...
    @overload
    def get(self, key: str, default: D) -> T | D: ...
    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` when there is none or it has expired."""
        now = self._now()
        entry = self._entries.get(key)
        if entry is None or now >= entry.expires:
            if entry is not None:
                self._evict(key, "expired")
            self._misses += 1
            if self._events.hears(CacheMiss):
                self._events.emit(CacheMiss(key, self.config.namespace))
            return default
        self._kept.touch(key)
        self._hits += 1
        if self._events.hears(CacheHit):
            self._events.emit(CacheHit(key, entry.size, self.config.namespace))
        return entry.value if entry.shared else copy.deepcopy(entry.value)

    def set(self, key: str, value: T, ttl: float | None = None) -> bool:
        """Keep a value for `ttl` seconds; false when it was not stored.

        Errors are not stored, nor is anything larger than the whole cache. Without a positive `ttl` nothing is stored,
        and an older value leaves.
        """
        self._flights.forget(key)
        return self._keep(key, value, self.config.ttl if ttl is None else ttl)

    def has(self, key: str) -> bool:
        """Whether there is a value; neither counts nor uses it."""
        now = self._now()
        entry = self._entries.get(key)
        if entry is not None and now >= entry.expires:
            self._evict(key, "expired")
            return False
        return entry is not None

    def delete(self, key: str) -> bool:
        """Remove one entry; whether there was one. Work that `get_or_set` has under way will not be kept."""
        self._flights.forget(key)
        if key not in self._entries:
            return False
        self._evict(key, "manual")
        return True

    def invalidate(self, pattern: str) -> int:
        """Remove entries whose keys match (`*` stops at ':', `**` does not, `?` is one character); how many."""
        glob = Glob(pattern)
        if glob.literal:
            return int(self.delete(pattern))
        for key in filter(glob.matches, self._flights.keys()):
            self._flights.forget(key)
        return sum(self.delete(key) for key in list(filter(glob.matches, self._entries)))

    def clear(self) -> None:
        """Remove all entries."""
        self._flights.forget_all()
        removed = len(self._entries)
        self._kept.clear()
        if self._events.hears(CacheClear):
            self._events.emit(CacheClear(removed, self.config.namespace))

    async def get_or_set(self, key: str, factory: Callable[[], Awaitable[T]], ttl: float | None = None) -> T:
        """The value; when there is none, what `factory` makes, which is kept unless it is an error.

        However many ask at the same time, one factory runs, and its error reaches them all. It is an
        UpstreamTimeoutError when the factory takes longer than `factory_timeout`.
        """
        found = self.get(key, _MISSING)
        if not isinstance(found, _Missing):
            return found

        async def fill() -> T:
            value = await self._value_of(key, factory)
            if self._flights.leads(key):
                self._keep(key, value, self.config.ttl if ttl is None else ttl)
            return value

        value = await self._flights.join(key, fill)
        return value if immutable(value) else copied(key, value)

    def get_stats(self) -> CacheStats:
        """Hits, misses, evictions and sizes."""
        lookups = self._hits + self._misses
        return CacheStats(
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            size=len(self._entries),
            max_size=self.config.max_size,
            hit_rate=self._hits / lookups if lookups else 0.0,
            bytes=self._kept.bytes,
            max_bytes=self.config.max_bytes,
        )

    def reset_stats(self) -> None:
        """Count hits, misses and evictions from zero."""
        self._hits = self._misses = self._evictions = 0

    def keys(self) -> list[str]:
        """The keys that `get` would find."""
        now = self._now()
        return [key for key, entry in self._entries.items() if now < entry.expires]

    @property
    def size(self) -> int:
        """Entries held, with those that have expired and were not noticed yet."""
        return len(self._entries)

    def destroy(self) -> None:
        """Remove all entries and store no more."""
        if not self._destroyed:
            self._destroyed = True
            self.clear()

    def _keep(self, key: str, value: T, ttl: float) -> bool:
        if self._destroyed or says_error(value):
            return False
        now = self._now()
        gone = self._kept.put(key, value, ttl=ttl, now=now) if ttl > 0 else None
        if gone is None:
            if key in self._entries:
                self._evict(key, "manual")
            return False
        size = self._entries[key].size
        # Told only now that all is in place: a listener may use the cache.
        for left, reason in gone:
            self._tell_evicted(left, reason)
        if self._events.hears(CacheSet):
            self._events.emit(CacheSet(key, size, ttl, self.config.namespace))
        return True

    def _now(self) -> float:
        now = self._clock()
        if now >= self._cleanup_at:
            self._clean_up(now)
        return now

    def _clean_up(self, now: float) -> None:
        self._cleanup_at = now + self.config.cleanup_interval
        for _ in range(_AT_ONCE):
            key = self._kept.take_expired(now)
            if key is None:
                return
            self._tell_evicted(key, "expired")
        self._cleanup_at = now

    def _evict(self, key: str, reason: Reason) -> None:
        self._kept.take_out(key)
        self._tell_evicted(key, reason)

    def _tell_evicted(self, key: str, reason: Reason) -> None:
        self._evictions += 1
        if self._events.hears(CacheEvict):
            self._events.emit(CacheEvict(key, reason, self.config.namespace))

    async def _value_of(self, key: str, factory: Callable[[], Awaitable[T]]) -> T:
        deadline = asyncio.timeout(self.config.factory_timeout)
        try:
            async with deadline:
                return await factory()
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise UpstreamTimeoutError(
                f"The value for {key!r} was not made within {self.config.factory_timeout:g}s.",
                hint="Raise the cache's `factory_timeout`.",
            ) from error


def create_tool_cache(config: CacheConfig = DEFAULT_CACHE_CONFIG, **options: Any) -> ToolCache[Any]:
    """A cache for any values."""
    return ToolCache(config, **options)


def says_error(value: object) -> bool:
    """Whether a value is a tool's answer that says it failed."""
    if isinstance(value, ToolResult):
        return value.is_error
    return isinstance(value, Mapping) and cast("Mapping[Any, Any]", value).get("isError") is True


@dataclass(frozen=True, slots=True)
class _Missing:
    """What no value is."""


_MISSING = _Missing()
_AT_ONCE = 1000
"""Entries that one cleanup removes, so that no call waits long for it; the next use goes on."""
