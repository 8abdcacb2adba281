"""What a cache holds: values that nobody can change from outside, within bounds of number and bytes."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

import msgspec

from trunkline.call.eviction import ORDERS, CacheStrategy, Expiry

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
