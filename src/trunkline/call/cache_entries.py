"""What a cache holds: values that nobody can change from outside, within bounds of time, number and bytes."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Literal, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from trunkline.config.options import CacheStrategy

T = TypeVar("T")
Reason = Literal["expired", "capacity", "manual"]


@dataclass(slots=True)
class Entry:
    """One value, and until when it may be used."""

    value: Any
    shared: bool
    """It is immutable, so that everybody may have the same."""
    size: int
    ttl: float
    expires: float


class CacheEntries:
    """The entries of a cache; when there are too many, the expired leave first, then those in the strategy's order."""

    def __init__(self, strategy: CacheStrategy, *, max_size: int, max_bytes: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.bytes = 0
        self._max_size = max_size
        self._max_bytes = max_bytes or math.inf
        self._order = ORDERS[strategy]()
        self._expiry = Expiry()
        self.touch = self._order.touch
        """A key was used."""

    def put(self, key: str, value: object, *, ttl: float, now: float) -> list[tuple[str, Reason]] | None:
        """Take a value in, in place of an older one; who had to leave for it, or None when it is too large."""
        shared = immutable(value)
        kept = value if shared else copied(key, value)
        size = weigh(kept)
        if size > self._max_bytes:
            return None
        if key in self.entries:
            self.take_out(key)
        gone = self._make_room(size, now)
        expires = now + ttl
        self.entries[key] = Entry(kept, shared, size, ttl, expires)
        self.bytes += size
        self._order.add(key)
        if expires < math.inf:
            self._expiry.add(key, ttl, expires)
        return gone

    def take_out(self, key: str) -> None:
        """Remove a key that is there."""
        entry = self.entries.pop(key)
        self.bytes -= entry.size
        self._order.discard(key)
        self._expiry.discard(key, entry.ttl)

    def take_expired(self, now: float) -> str | None:
        """Remove something that has expired, if there is any; its key."""
        key = self._expiry.pop(now)
        if key is not None:
            self.take_out(key)
        return key

    def clear(self) -> None:
        """Remove everything."""
        self.entries.clear()
        self.bytes = 0
        self._order.clear()
        self._expiry.clear()

    def _make_room(self, size: int, now: float) -> list[tuple[str, Reason]]:
        gone: list[tuple[str, Reason]] = []
        while len(self.entries) >= self._max_size or self.bytes + size > self._max_bytes:
            key = self.take_expired(now)
            if key is not None:
                gone.append((key, "expired"))
                continue
            key = self._order.first()
            self.take_out(key)
            gone.append((key, "capacity"))
        return gone


_ATOMS: frozenset[Any] = frozenset(
    {bytes, str, int, float, complex, bool, type(None), range, Decimal, UUID}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)


def immutable(value: Any) -> bool:
    """Whether nobody can change the value: atoms, and tuples, frozen sets and frozen dataclasses of such."""
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(immutable, value))
    # Its own, not inherited: a plain subclass of a frozen dataclass may hold anything.
    params = kind.__dict__.get("__dataclass_params__")
    if params is None or not params.frozen:
        return False
    return all(immutable(getattr(value, field.name)) for field in dataclasses.fields(value))


def copied(key: str, value: T) -> T:
    """A value that shares nothing with the given one."""
    try:
        return copy.deepcopy(value)
    except TypeError as error:
        raise TypeError(f"The value for {key!r} cannot be copied; keep bytes, text or plain data.") from error


def weigh(value: object) -> int:
    """The bytes that a value counts for: its own if it is bytes or text, otherwise those of its JSON."""
    if isinstance(value, bytes | bytearray):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return _weigh_parts(value)


def _weigh_parts(value: object) -> int:
    """A guess for what is not JSON: all that can be reached from it, once each."""
    seen: dict[int, object] = {}
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting.extend(_parts(part))
    return sum(sys.getsizeof(part) for part in seen.values())


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        return [*pairs.keys(), *pairs.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return cast("Iterable[object]", value)
    return getattr(value, "__dict__", {}).values() if not isinstance(value, type) else ()


class Order(Protocol):
    """The keys in the order in which they would have to leave; every method takes constant time."""

    def add(self, key: str) -> None:
        """Take in a key that is not there."""
        ...

    def touch(self, key: str, /) -> None:
        """The key was used."""
        ...

    def discard(self, key: str) -> None:
        """Forget a key that is there."""
        ...

    def first(self) -> str:
        """The key to leave next; there must be one."""
        ...

    def clear(self) -> None:
        """Forget them all."""
        ...


class ByAge:
    """The oldest leaves first: by when it came, or by when it was last used."""

    def __init__(self, *, used: bool) -> None:
        # A plain dict would look for its first key among all those deleted before it.
        self._keys: OrderedDict[str, None] = OrderedDict()
        self.touch: Callable[[str], None] = self._keys.move_to_end if used else _ignore

    def add(self, key: str) -> None:
        self._keys[key] = None

    def discard(self, key: str) -> None:
        del self._keys[key]

    def first(self) -> str:
        return next(iter(self._keys))

    def clear(self) -> None:
        self._keys.clear()


def _ignore(key: str) -> None:
    pass


class Lfu:
    """The least frequently used leaves first; of equals, the one that has been so for longest."""

    def __init__(self) -> None:
        self._levels: dict[str, _Level] = {}
        self._root = _Level(0)

    def add(self, key: str) -> None:
        self._raise(key, self._root)

    def touch(self, key: str) -> None:
        level = self._levels[key]
        if len(level.keys) == 1 and level.after.uses != level.uses + 1:
            level.uses += 1
            return
        del level.keys[key]
        self._raise(key, level)
        if not level.keys:
            level.unlink()

    def discard(self, key: str) -> None:
        level = self._levels.pop(key)
        del level.keys[key]
        if not level.keys:
            level.unlink()

    def first(self) -> str:
        return next(iter(self._root.after.keys))

    def clear(self) -> None:
        self._levels.clear()
        self._root = _Level(0)

    def _raise(self, key: str, level: _Level) -> None:
        above = level.after
        if above.uses != level.uses + 1:
            above = _Level(level.uses + 1, before=level, after=above)
        above.keys[key] = None
        self._levels[key] = above


class _Level:
    """The keys that were used equally often, between those used less and more: a ring, closed by a root of 0 uses."""

    __slots__ = ("after", "before", "keys", "uses")

    def __init__(self, uses: int, *, before: _Level | None = None, after: _Level | None = None) -> None:
        self.uses = uses
        self.keys: OrderedDict[str, None] = OrderedDict()
        self.before = before or self
        self.after = after or self
        self.before.after = self
        self.after.before = self

    def unlink(self) -> None:
        self.before.after = self.after
        self.after.before = self.before


ORDERS: dict[str, Callable[[], Order]] = {
    "lru": partial(ByAge, used=True),
    "fifo": partial(ByAge, used=False),
    "lfu": Lfu,
}


class Expiry:
    """When each key expires; the clock that callers read must never go back.

    Keys of the same lifetime expire in the order in which they came, so each lifetime has a lane, and only the heads of
    the lanes are compared.
    """

    def __init__(self) -> None:
        self._lanes: dict[float, OrderedDict[str, float]] = {}
        self._heads: list[tuple[float, float]] = []
        """A heap of (no key of the lane expires before, lifetime)."""
        self._sweep_at = 64

    def add(self, key: str, ttl: float, expires: float) -> None:
        """Take in a key that is not there."""
        lane = self._lanes.get(ttl)
        if lane is None:
            lane = self._open(ttl, expires)
        lane[key] = expires

    def discard(self, key: str, ttl: float) -> None:
        """Forget a key, if it is there."""
        lane = self._lanes.get(ttl)
        if lane is not None:
            lane.pop(key, None)

    def pop(self, now: float) -> str | None:
        """Take out a key that has expired, if there is one."""
        while self._heads and self._heads[0][0] <= now:
            ttl = self._heads[0][1]
            lane = self._lanes[ttl]
            if not lane:
                heappop(self._heads)
                del self._lanes[ttl]
                continue
            key, expires = next(iter(lane.items()))
            if expires <= now:
                del lane[key]
                return key
            heapreplace(self._heads, (expires, ttl))
        return None

    def clear(self) -> None:
        """Forget them all."""
        self._lanes.clear()
        self._heads.clear()

    def _open(self, ttl: float, expires: float) -> OrderedDict[str, float]:
        if len(self._heads) >= self._sweep_at:
            self._sweep()
        heappush(self._heads, (expires, ttl))
        lane = self._lanes[ttl] = OrderedDict()
        return lane

    def _sweep(self) -> None:
        """Drop empty lanes: where every key has a lifetime of its own, they would pile up."""
        self._lanes = {ttl: lane for ttl, lane in self._lanes.items() if lane}
        self._heads = [head for head in self._heads if head[1] in self._lanes]
        heapify(self._heads)
        self._sweep_at = max(64, 2 * len(self._heads))
