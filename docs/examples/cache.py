"""Answers that are kept: looked up, made once for all who ask, removed when they are out of date."""

from __future__ import annotations

import asyncio

from trunkline import ToolCache, ToolResult, ToolResultCache
from trunkline.call.cache import CacheEvict


async def fetch_user(number: int) -> dict[str, object]:
    """Stands for a slow call."""
    print(f"  fetching user {number}")
    await asyncio.sleep(0.01)
    return {"id": number, "name": "Alice"}


async def main() -> None:
    cache = ToolCache[dict[str, object]](ttl=300, max_size=1000, strategy="lru")
    cache.on(CacheEvict, lambda event: print(f"  evicted {event.key} ({event.reason})"))

    print("Ten who ask at once cause one fetch:")
    await asyncio.gather(*[cache.get_or_set("user:456", lambda: fetch_user(456), ttl=30) for _ in range(10)])
    print(f"  kept: {cache.get('user:456')}")

    print("A pattern removes what a change has outdated:")
    cache.invalidate("user:*")

    print("Arguments in any order have one key:")
    one = ToolCache.generate_key("query", {"table": "users", "limit": 10})
    other = ToolCache.generate_key("query", {"limit": 10, "table": "users"})
    print(f"  {one[:22]}… {one == other}")

    stats = cache.get_stats()
    print(f"Hits {stats.hits}, misses {stats.misses}, evictions {stats.evictions}.")
    cache.destroy()

    print("Answers of tools are kept apart by tenant and server, and failures are not kept:")
    results = ToolResultCache(ttl=120, strategy="lfu")
    results.cache_result("get_mail", {"id": 1}, "Dear Ann", server="mail", tenant="ann")
    print(f"  Ann gets {results.get_cached_result('get_mail', {'id': 1}, server='mail', tenant='ann')!r}")
    print(f"  Bob gets {results.get_cached_result('get_mail', {'id': 1}, server='mail', tenant='bob')!r}")
    print(f"  kept a failure: {results.cache_result('get_mail', {'id': 2}, ToolResult.failed('no such mail'))}")
    results.destroy()


if __name__ == "__main__":
    asyncio.run(main())
