"""What a cache keeps, for how long, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import pytest

from trunkline.call.cache import (
    DEFAULT_CACHE_CONFIG,
    CacheClear,
    CacheConfig,
    CacheEvict,
    CacheHit,
    CacheMiss,
    CacheSet,
    CacheStats,
    ToolCache,
    create_tool_cache,
)
from trunkline.errors import ConfigError, UpstreamTimeoutError
from trunkline.events import Event
from trunkline.tool import ToolResult

EVENTS = (CacheHit, CacheMiss, CacheSet, CacheEvict, CacheClear)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def heard(cache: ToolCache[Any]) -> list[Event]:
    """What the cache tells from now on."""
    events: list[Event] = []
    for kind in EVENTS:
        cache.on(kind, events.append)
    return events


class Factory:
    """Makes a value when it is let, and counts how often it was asked to."""

    def __init__(self, value: Any = "made") -> None:
        self.value = value
        self.calls = 0
        self.started = asyncio.Event()
        self.finish = asyncio.Event()

    async def __call__(self) -> Any:
        self.calls += 1
        self.started.set()
        await self.finish.wait()
        return self.value


# Options.


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert (
        ToolCache[str]().config
        == DEFAULT_CACHE_CONFIG
        == CacheConfig(
            ttl=300,
            max_size=500,
            strategy="lru",
            enable_auto_cleanup=True,
            cleanup_interval=60,
            namespace="",
            max_bytes=64 * 1024 * 1024,
            factory_timeout=30,
        )
    )


def test_options_are_given_as_an_object_or_by_name() -> None:
    by_name = create_tool_cache(ttl=5, strategy="lfu")
    as_object = create_tool_cache(CacheConfig(ttl=5, strategy="lfu"))
    both = create_tool_cache(CacheConfig(ttl=5), strategy="lfu")

    assert by_name.config == as_object.config == both.config


@pytest.mark.parametrize(
    "options",
    [
        {"max_size": 0},
        {"max_size": -5},
        {"strategy": "newest"},
        {"ttl": -1},
        {"ttl": float("nan")},
        {"cleanup_interval": 0},
        {"max_bytes": -1},
        {"factory_timeout": 0},
        {"factory_timeout": float("inf")},
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ToolCache[str](**options)


# Keeping.


def test_a_value_is_kept_and_found() -> None:
    cache = ToolCache[bytes]()

    assert cache.set("a", b"1")
    assert cache.get("a") == b"1"
    assert cache.has("a")
    assert cache.size == 1


def test_a_miss_can_be_told_from_a_none_that_was_kept() -> None:
    cache = ToolCache[Any]()
    cache.set("none", None)

    assert cache.get("none") is None
    assert cache.get("none", "default") is None
    assert cache.has("none")
    assert cache.get("other") is None
    assert cache.get("other", "default") == "default"
    assert not cache.has("other")


def test_a_lifetime_counts_from_when_the_value_was_set_and_not_from_its_use() -> None:
    clock = Clock()
    cache = ToolCache[str](ttl=10, clock=clock)
    cache.set("a", "1")
    for _ in range(9):
        clock.now += 1
        assert cache.get("a") == "1"
    clock.now += 1

    assert cache.get("a") is None
    assert cache.size == 0


def test_setting_a_value_again_begins_its_lifetime_anew() -> None:
    clock = Clock()
    cache = ToolCache[str](ttl=10, clock=clock)
    cache.set("a", "1")
    clock.now += 9
    cache.set("a", "2")
    clock.now += 9

    assert cache.get("a") == "2"


def test_an_entry_may_have_a_lifetime_of_its_own() -> None:
    clock = Clock()
    cache = ToolCache[str](ttl=10, clock=clock)
    cache.set("short", "1", ttl=1)
    cache.set("endless", "2", ttl=float("inf"))
    cache.set("usual", "3")
    clock.now += 5
    assert cache.keys() == ["endless", "usual"]
    clock.now += 1e9

    assert cache.keys() == ["endless"]


@pytest.mark.parametrize("ttl", [0, -1, float("nan")])
def test_without_a_positive_lifetime_nothing_is_kept_and_an_older_value_leaves(ttl: float) -> None:
    cache = ToolCache[str]()
    cache.set("a", "old")

    assert not cache.set("a", "new", ttl=ttl)
    assert cache.get("a") is None


def test_a_cache_without_a_lifetime_keeps_nothing_unless_told() -> None:
    cache = ToolCache[str](ttl=0)

    assert not cache.set("a", "1")
    assert cache.set("b", "2", ttl=1)
    assert cache.keys() == ["b"]


@pytest.mark.parametrize("failure", [ToolResult.failed("no such user"), {"isError": True, "content": []}])
async def test_an_answer_that_says_it_failed_is_never_kept(failure: Any) -> None:
    cache = ToolCache[Any]()

    async def fails() -> Any:
        return failure

    assert not cache.set("a", failure)
    assert await cache.get_or_set("a", fails) == failure
    assert cache.size == 0


# Values.


@dataclass(frozen=True)
class Answer:
    text: str
    parts: tuple[int, ...] = ()
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Box:
    items: list[int] = field(default_factory=list[int])


class Loose(Answer):
    """Frozen by birth, and yet it may hold anything."""


@pytest.mark.parametrize("value", [b"x", "x", 1, 1.5, None, (1, "a", (b"",)), frozenset({1}), Answer("x", (1, 2))])
def test_an_immutable_value_is_handed_out_as_it_is(value: Any) -> None:
    cache = ToolCache[Any]()
    cache.set("a", value)

    assert cache.get("a") is value


CHANGES: list[tuple[Any, Callable[[Any], object]]] = [
    ({"a": [1]}, lambda value: value["a"].append(2)),
    ([{"a": 0}], lambda value: value.append(1)),
    (([],), lambda value: value[0].append(1)),
    (Box([1]), lambda value: value.items.append(2)),
    (Loose("x"), lambda value: object.__setattr__(value, "more", 1)),
    (ToolResult([{"type": "text", "text": "x"}]), lambda value: value.content.clear()),
    (bytearray(b"x"), lambda value: value.clear()),
]


@pytest.mark.parametrize(("value", "change"), CHANGES)
def test_nobody_can_change_what_is_kept(value: Any, change: Callable[[Any], object]) -> None:
    cache = ToolCache[Any]()
    cache.set("a", value)
    before = shown(cache.get("a"))
    change(value)
    change(cache.get("a"))

    assert shown(cache.get("a")) == before


def shown(value: Any) -> str:
    return f"{value!r} {getattr(value, '__dict__', '')}"


async def test_those_who_wait_for_one_value_do_not_share_it() -> None:
    cache, factory = ToolCache[dict[str, int]](), Factory({"count": 0})
    factory.finish.set()

    one, other = await asyncio.gather(*[cache.get_or_set("a", factory) for _ in range(2)])
    one["count"] = 1

    assert factory.calls == 1
    assert other == cache.get("a") == {"count": 0}


def test_a_value_that_cannot_be_copied_is_refused_and_the_older_one_stays() -> None:
    cache = ToolCache[Any]()
    cache.set("a", "old")

    with pytest.raises(TypeError, match="'a' cannot be copied"):
        cache.set("a", [Lock()])
    assert cache.get("a") == "old"


# Room.


@pytest.mark.parametrize(("strategy", "kept"), [("lru", ["a", "c"]), ("fifo", ["b", "c"]), ("lfu", ["a", "c"])])
def test_a_full_cache_spares_what_its_strategy_says(strategy: Any, kept: list[str]) -> None:
    cache = ToolCache[int](max_size=2, strategy=strategy, clock=Clock())
    cache.set("a", 1)
    cache.set("b", 2)
    cache.get("a")  # at the same moment of the clock: only the order of use counts
    cache.set("c", 3)

    assert cache.keys() == kept


def test_frequency_counts_from_when_the_value_was_set_last() -> None:
    cache = ToolCache[int](max_size=2, strategy="lfu")
    cache.set("a", 1)
    cache.set("b", 2)
    for _ in range(5):
        cache.get("a")
    cache.get("b")
    cache.set("a", 3)
    cache.set("c", 4)

    assert cache.keys() == ["b", "c"]


def test_asking_whether_there_is_a_value_does_not_use_it() -> None:
    cache = ToolCache[int](max_size=2)
    cache.set("a", 1)
    cache.set("b", 2)
    cache.has("a")
    cache.set("c", 3)

    assert cache.keys() == ["b", "c"]
    assert (cache.get_stats().hits, cache.get_stats().misses) == (0, 0)


def test_setting_a_value_again_needs_no_room() -> None:
    cache = ToolCache[int](max_size=2)
    for key in "abab":
        cache.set(key, 1)

    assert cache.keys() == ["a", "b"]
    assert cache.get_stats().evictions == 0


@pytest.mark.parametrize("strategy", ["lru", "fifo", "lfu"])
def test_what_has_expired_leaves_before_anything_else(strategy: Any) -> None:
    clock = Clock()
    cache = ToolCache[int](max_size=3, strategy=strategy, enable_auto_cleanup=False, clock=clock)
    cache.set("old", 1)
    cache.set("brief", 2, ttl=1)
    cache.get("brief")
    cache.set("young", 3)
    clock.now += 1
    events = heard(cache)
    cache.set("new", 4)

    assert cache.keys() == ["old", "young", "new"]
    assert events[0] == CacheEvict("brief", "expired")


def test_a_cache_holds_no_more_bytes_than_it_may() -> None:
    cache = ToolCache[bytes](max_bytes=10)
    for key in "abc":
        cache.set(key, b"1234")

    assert cache.keys() == ["b", "c"]
    assert cache.get_stats().bytes == 8
    cache.set("d", b"1" * 10)
    assert cache.keys() == ["d"]


def test_a_value_larger_than_the_cache_is_not_kept_and_an_older_one_leaves() -> None:
    cache = ToolCache[bytes](max_bytes=10)
    cache.set("a", b"1234")
    cache.set("b", b"1234")

    assert not cache.set("a", b"1" * 11)
    assert cache.keys() == ["b"]
    assert cache.get_stats().bytes == 4


def test_without_a_bound_any_size_is_kept() -> None:
    cache = ToolCache[bytes](max_bytes=0)

    assert cache.set("a", bytes(1_000_000))


class Odd:
    def __init__(self) -> None:
        self.text = "x" * 1000


def circle() -> list[Any]:
    ring: list[Any] = ["x" * 100]
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (b"12345", 5, 5),
        ("12345", 5, 5),
        ("é€", 5, 5),
        ("\ud800", 3, 3),
        ({"a": [1, 2]}, 11, 11),
        (ToolResult.of("hello"), 30, 200),
        ({("a", "tuple"): "as a name"}, 30, 2000),
        (Odd(), 1000, 3000),
        (circle(), 100, 1000),
    ],
)
def test_every_value_has_a_size(value: Any, least: int, most: int) -> None:
    cache = ToolCache[Any]()
    cache.set("a", value)

    assert least <= cache.get_stats().bytes <= most
    cache.delete("a")
    assert cache.get_stats().bytes == 0


# Cleaning up.


def test_expired_entries_leave_when_the_cache_is_used_after_the_interval() -> None:
    clock = Clock()
    cache = ToolCache[int](ttl=10, cleanup_interval=60, clock=clock)
    cache.set("a", 1)
    cache.set("b", 2, ttl=1000)
    clock.now += 59
    cache.get("b")
    assert cache.size == 2
    clock.now += 1
    cache.get("b")

    assert cache.size == 1
    assert cache.get_stats().evictions == 1


def test_without_cleanup_expired_entries_stay_until_somebody_asks() -> None:
    clock = Clock()
    cache = ToolCache[int](ttl=10, enable_auto_cleanup=False, clock=clock)
    cache.set("a", 1)
    clock.now += 1000
    cache.get("b")
    assert cache.size == 1

    assert cache.keys() == []
    assert not cache.has("a")
    assert cache.size == 0


def test_a_great_cleanup_is_spread_over_several_uses() -> None:
    clock = Clock()
    cache = ToolCache[int](ttl=10, max_size=2500, clock=clock)
    for number in range(2500):
        cache.set(str(number), number)
    clock.now += 60
    sizes: list[int] = []
    for _ in range(3):
        cache.has("nothing")
        sizes.append(cache.size)

    assert sizes == [1500, 500, 0]


# Removing.


def test_deleting_counts_as_an_eviction() -> None:
    cache = ToolCache[int]()
    cache.set("a", 1)
    cache.set("b:1", 2)
    cache.set("b:2", 3)

    assert cache.delete("a")
    assert not cache.delete("a")
    assert cache.invalidate("b:*") == 2
    assert cache.get_stats().evictions == 3


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("user:*", ["user:1:profile", "users", "colour"]),
        ("user:**", ["users", "colour"]),
        ("*", ["user:1", "user:1:profile"]),
        ("**", []),
        ("user:?", ["user:1:profile", "users", "colour"]),
        ("colou?r", ["user:1", "user:1:profile", "users", "colour"]),
        ("user:1", ["user:1:profile", "users", "colour"]),
        ("user", ["user:1", "user:1:profile", "users", "colour"]),
        ("user.*", ["user:1", "user:1:profile", "users", "colour"]),
    ],
)
def test_a_pattern_removes_the_keys_it_matches(pattern: str, left: list[str]) -> None:
    cache = ToolCache[int]()
    for key in ["user:1", "user:1:profile", "users", "colour"]:
        cache.set(key, 1)
    cache.invalidate(pattern)

    assert cache.keys() == left


def test_a_pattern_of_many_stars_does_not_stall() -> None:
    cache = ToolCache[int]()
    cache.set("a" * 4000, 1)

    assert cache.invalidate("a*" * 20 + "x") == 0


def test_clearing_removes_everything_and_counts_no_evictions() -> None:
    cache = ToolCache[int](max_size=3)
    for key in "abc":
        cache.set(key, 1)
    events = heard(cache)
    cache.clear()

    assert events == [CacheClear(3)]
    assert (cache.size, cache.get_stats().bytes, cache.get_stats().evictions) == (0, 0, 0)
    for key in "abcd":
        cache.set(key, 1)
    assert cache.keys() == ["b", "c", "d"]


async def test_a_destroyed_cache_keeps_nothing_more() -> None:
    cache, factory = ToolCache[str](), Factory()
    cache.set("a", "1")
    events = heard(cache)
    cache.destroy()
    cache.destroy()
    factory.finish.set()

    assert events == [CacheClear(1)]
    assert not cache.set("b", "2")
    assert await cache.get_or_set("c", factory) == "made"
    assert cache.size == 0


# Events and statistics.


def test_events_tell_what_happened_and_never_the_value() -> None:
    clock = Clock()
    cache = ToolCache[str](ttl=10, max_size=1, namespace="mine", clock=clock)
    events = heard(cache)
    cache.set("a", "secret")
    cache.get("a")
    cache.get("b")
    cache.set("c", "secret", ttl=5)
    clock.now += 5
    cache.get("c")
    cache.set("d", "secret")
    cache.delete("d")

    assert events == [
        CacheSet("a", 6, 10, "mine"),
        CacheHit("a", 6, "mine"),
        CacheMiss("b", "mine"),
        CacheEvict("a", "capacity", "mine"),
        CacheSet("c", 6, 5, "mine"),
        CacheEvict("c", "expired", "mine"),
        CacheMiss("c", "mine"),
        CacheSet("d", 6, 10, "mine"),
        CacheEvict("d", "manual", "mine"),
    ]
    assert "secret" not in repr(events)


def test_a_listener_may_come_by_name_and_leave() -> None:
    cache = ToolCache[int]()
    keys: list[str] = []

    def listener(event: CacheMiss) -> None:
        keys.append(event.key)

    cache.on("miss", listener)
    cache.get("a")
    cache.off("miss", listener)
    cache.get("b")

    assert keys == ["a"]


@pytest.mark.parametrize("strategy", ["lru", "fifo", "lfu"])
def test_a_listener_may_use_the_cache(strategy: Any) -> None:
    clock = Clock()
    cache = ToolCache[int](max_size=2, strategy=strategy, clock=clock)

    def again(event: CacheEvict) -> None:
        cache.delete("c")
        cache.set(event.key + "'", 1)

    stop = cache.on(CacheEvict, again)
    cache.on(CacheSet, lambda event: stop() if event.key == "a'" else None)
    for key in "abc":
        cache.set(key, 1)
    clock.now += 1000

    assert cache.size == 2
    assert cache.keys() == []
    cache.clear()
    assert cache.get_stats().bytes == 0


def test_keys_and_events_name_an_entry_as_it_was_set_in_any_namespace() -> None:
    cache = ToolCache[int](namespace="mine")
    cache.set("a", 1)

    [key] = cache.keys()
    assert cache.get(key) == 1
    assert cache.invalidate("a*") == 1


def test_statistics_count_and_can_be_reset() -> None:
    cache = ToolCache[bytes](max_size=2, max_bytes=100)
    assert cache.get_stats().hit_rate == 0
    for key in "abc":
        cache.set(key, b"12")
    for key in "abcc":
        cache.get(key)

    assert cache.get_stats() == CacheStats(
        hits=3, misses=1, evictions=1, size=2, max_size=2, hit_rate=0.75, bytes=4, max_bytes=100
    )
    cache.reset_stats()
    assert cache.get_stats() == CacheStats(
        hits=0, misses=0, evictions=0, size=2, max_size=2, hit_rate=0, bytes=4, max_bytes=100
    )


# Keys.


def test_a_key_is_the_tool_and_the_whole_digest() -> None:
    key = ToolCache.generate_key("query", {"limit": 10, "table": "users"})

    assert key == ToolCache.generate_key("query", {"table": "users", "limit": 10})
    assert key == ToolCache.generate_key("query", b'{"table": "users", "limit": 10}')
    assert key.startswith("query:")
    assert len(key) == len("query:") + 64


def test_no_arguments_are_empty_arguments() -> None:
    assert ToolCache.generate_key("list") == ToolCache.generate_key("list", None) == ToolCache.generate_key("list", {})


# Making values.


async def test_a_thousand_who_ask_at_once_make_one_value() -> None:
    cache, factory = ToolCache[str](), Factory()
    async with asyncio.timeout(5):
        tasks = [asyncio.create_task(cache.get_or_set("a", factory)) for _ in range(1000)]
        await factory.started.wait()
        factory.finish.set()

        assert await asyncio.gather(*tasks) == ["made"] * 1000
    assert factory.calls == 1
    assert cache.get("a") == "made"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_value_that_is_there_is_not_made_again() -> None:
    cache, factory = ToolCache[Any](), Factory(None)
    factory.finish.set()

    assert await cache.get_or_set("a", factory) is None
    assert await cache.get_or_set("a", factory) is None
    assert factory.calls == 1


async def test_a_made_value_may_have_a_lifetime_of_its_own() -> None:
    clock, factory = Clock(), Factory()
    cache = ToolCache[str](clock=clock)
    factory.finish.set()
    await cache.get_or_set("a", factory, ttl=5)
    clock.now += 5

    assert not cache.has("a")


async def test_an_error_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    cache = ToolCache[str]()
    calls: list[int] = []

    async def fails_once() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise RuntimeError("broken")
        return "made"

    outcomes = await asyncio.gather(*[cache.get_or_set("a", fails_once) for _ in range(3)], return_exceptions=True)

    assert [repr(outcome) for outcome in outcomes] == ["RuntimeError('broken')"] * 3
    assert await cache.get_or_set("a", fails_once) == "made"
    assert len(calls) == 2


async def test_a_factory_that_takes_too_long_is_stopped() -> None:
    cache, factory = ToolCache[str](factory_timeout=0.01), Factory()

    with pytest.raises(UpstreamTimeoutError, match=r"not made within 0\.01s"):
        await cache.get_or_set("a", factory)
    assert cache.size == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_timeout_of_the_factorys_own_stays_its_own() -> None:
    async def times_out() -> str:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await ToolCache[str]().get_or_set("a", times_out)


REMOVALS: dict[str, Callable[[ToolCache[Any]], object]] = {
    "delete": lambda cache: cache.delete("a:1"),
    "invalidate": lambda cache: cache.invalidate("a:*"),
    "clear": lambda cache: cache.clear(),
    "set": lambda cache: cache.set("a:1", "newer"),
}


@pytest.mark.parametrize("how", REMOVALS)
async def test_a_value_that_was_outdated_while_it_was_made_is_not_kept(how: str) -> None:
    cache, factory = ToolCache[Any](), Factory("outdated")
    async with asyncio.timeout(5):
        task = asyncio.create_task(cache.get_or_set("a:1", factory))
        await factory.started.wait()
        REMOVALS[how](cache)
        factory.finish.set()

        assert await task == "outdated"
    assert cache.get("a:1") == ("newer" if how == "set" else None)


async def test_one_who_gives_up_does_not_disturb_the_others() -> None:
    cache, factory = ToolCache[str](), Factory()
    async with asyncio.timeout(5):
        first, second = [asyncio.create_task(cache.get_or_set("a", factory)) for _ in range(2)]
        await factory.started.wait()
        first.cancel()
        await asyncio.wait([first])
        factory.finish.set()

        assert await second == "made"
    assert cache.get("a") == "made"


async def test_a_value_that_nobody_waits_for_any_more_is_not_made() -> None:
    cache, factory = ToolCache[str](), Factory()
    async with asyncio.timeout(5):
        task = asyncio.create_task(cache.get_or_set("a", factory))
        await factory.started.wait()
        task.cancel()
        await asyncio.wait([task])

    assert cache.size == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
