"""What the cache costs, in microseconds: a hit, an insert into a full cache of any size, a digest, a pattern.

    python bench/cache.py

It is CPU time, and the best of several rounds, so that other work on the machine hardly shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scale import sized

from trunkline.call.cache import ToolCache
from trunkline.call.result_cache import ToolResultCache
from trunkline.tools.digest import digest, digest_json
from trunkline.tools.patterns import Glob

ROUNDS = sized(5, smallest=1)
SIZES = (100, sized(100_000, smallest=1000))
ARGUMENTS = {"city": "Oslo", "days": 3, "metric": True}
JSON = b'{"city":"Oslo","days":3,"metric":true}'
SPACED = b'{"city": "Oslo", "days": 3, "metric": true}'


def main() -> None:
    show_hits()
    show_inserts()
    show_digests()
    show_patterns()


def show_hits() -> None:
    print(f"{'hit':<44}{'µs':>8}")
    for strategy in ("lru", "fifo", "lfu"):
        cache = ToolCache[bytes](strategy=strategy)
        for number in range(500):
            cache.set(str(number), b"x" * 1000)
        print(f"  {strategy + ', 1 kB of bytes':<42}{measured(lambda cache=cache: cache.get('250')):>8.2f}")
    cache = ToolCache[dict[str, object]]()
    cache.set("a", {"id": 123, "name": "Alice", "tags": ["x", "y"]})
    print(f"  {'a small dict, copied':<42}{measured(lambda: cache.get('a')):>8.2f}")
    results = ToolResultCache()
    results.cache_result("forecast", JSON, b"x" * 1000, server="weather", tenant="ann")
    found = measured(lambda: results.get_cached_result("forecast", JSON, server="weather", tenant="ann"))
    print(f"  {'a result by tenant, server, tool, raw JSON':<42}{found:>8.2f}")


def show_inserts() -> None:
    print(f"\n{'insert that drives an entry out, of':<36}" + "".join(f"{size:>10,}" for size in SIZES) + "     ratio")
    for strategy, mixed in (("lru", False), ("fifo", False), ("lfu", False), ("lru", True)):
        times = [insert(strategy, size, mixed=mixed) for size in SIZES]
        name = f"  {strategy}, {'lifetimes of all kinds' if mixed else 'one lifetime'}"
        print(f"{name:<36}" + "".join(f"{each:>10.2f}" for each in times) + f"{times[-1] / times[0]:>9.2f}×")


def insert(strategy: str, size: int, *, mixed: bool) -> float:
    """The time of one insert into a full cache, on average."""
    cache = ToolCache[bytes](max_size=size, strategy=strategy)
    count = max(size // 2, sized(10_000, smallest=100))
    keys = [f"forecast:{number:064x}" for number in range(size + count * 3)]
    lifetimes = [300.0 + number % 9973 / 10 if mixed else 300.0 for number in range(len(keys))]
    for key, ttl in zip(keys[:size], lifetimes, strict=False):
        cache.set(key, b"x", ttl)
    best = float("inf")
    for start in range(size, len(keys), count):
        batch = list(zip(keys[start : start + count], lifetimes[start : start + count], strict=True))
        before = time.process_time()
        for key, ttl in batch:
            cache.set(key, b"x", ttl)
        best = min(best, (time.process_time() - before) / count)
    return best * 1e6


def show_digests() -> None:
    print(f"\n{'digest of three arguments':<44}{'µs':>8}")
    print(f"  {'raw JSON':<42}{measured(lambda: digest_json(JSON)):>8.2f}")
    print(f"  {'raw JSON with blanks':<42}{measured(lambda: digest_json(SPACED)):>8.2f}")
    print(f"  {'Python':<42}{measured(lambda: digest(ARGUMENTS)):>8.2f}")


def show_patterns() -> None:
    print(f"\n{'pattern over one key':<44}{'µs':>8}")
    key = "tenant:server:forecast:" + "a" * 64
    for pattern in ("*:*:forecast:*", "**:forecast:*", "a*" * 8 + "x"):
        glob = Glob(pattern)
        text = "a" * 40 if pattern.endswith("x") else key
        print(f"  {pattern:<42}{measured(lambda glob=glob, text=text: glob.matches(text)):>8.2f}")


def measured(operation: Callable[[], object], count: int = sized(10_000, smallest=10)) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(count):
            operation()
        best = min(best, (time.process_time() - before) / count)
    return best * 1e6


if __name__ == "__main__":
    main()
