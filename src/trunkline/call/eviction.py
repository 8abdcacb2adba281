"""Who must leave a full cache: first what has expired, then what its strategy can spare most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Literal, Protocol

CacheStrategy = Literal["lru", "fifo", "lfu"]


class Order(Protocol):
    """The keys in the order in which they would have to leave; every method takes constant time."""

    def add(self, key: str) -> None:
        """Take in a key that is not there."""
        ...

    def touch(self, key: str) -> None:
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


class Lru:
    """The least recently used leaves first."""

    def __init__(self) -> None:
        # A plain dict would look for its first key among all those deleted before it.
        self._keys: OrderedDict[str, None] = OrderedDict()
        self.touch = self._keys.move_to_end

    def add(self, key: str) -> None:
        self._keys[key] = None

    def discard(self, key: str) -> None:
        del self._keys[key]

    def first(self) -> str:
        return next(iter(self._keys))

    def clear(self) -> None:
        self._keys.clear()


class Fifo:
    """The oldest leaves first, used or not."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()

    def add(self, key: str) -> None:
        self._keys[key] = None

    def touch(self, key: str) -> None:
        pass

    def discard(self, key: str) -> None:
        del self._keys[key]

    def first(self) -> str:
        return next(iter(self._keys))

    def clear(self) -> None:
        self._keys.clear()


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


ORDERS: dict[str, Callable[[], Order]] = {"lru": Lru, "fifo": Fifo, "lfu": Lfu}


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
