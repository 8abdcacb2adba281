"""What batches and lanes cost, and whether they keep servers and owners apart.

    python bench/batcher.py

Costs are CPU microseconds, least of several runs; times are of the wall clock, with the executor asleep in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from scale import sized

from trunkline.call.batcher import BatchRequest, BatchResult, RequestBatcher
from trunkline.call.lanes import Lane, Limits
from trunkline.call.tool_batcher import ToolCallBatcher

MANY = sized(20_000, smallest=100)
AT_ONCE = sized(10_000, smallest=200)
ONE_BY_ONE = sized(5_000, smallest=50)
REPEATED = sized(5, smallest=1)


def main() -> None:
    print("cost, CPU µs")
    show("lane: enter + leave, free", lane_cost(), "< 0.5")
    show("lane: enter + leave, with 100 waiting", asyncio.run(contended_cost()), "")
    show("bare task + future (what asyncio takes)", asyncio.run(cost(bare)), "")
    show("batcher: one call after the other", asyncio.run(cost(one_by_one)), "")
    show("batcher: 10 000 calls at once, batches of 10", asyncio.run(cost(all_at_once)), "")
    print("\ntime, ms")
    show("4 servers × 50 ms", asyncio.run(side_by_side()), "50")
    show("40 batches of 20 ms on 40 servers, 5 at once", asyncio.run(forty(servers=40)), "160")
    show("40 batches of 20 ms on 1 server, all 5 slots its own", asyncio.run(forty(servers=1)), "160")
    show("1000 calls, 10 servers, batches of 10 of 5 ms", asyncio.run(thousand()), "100")
    show("lone call, tool that answers at once", asyncio.run(lone()), "~0")
    print("\nbeside others: p50 and p99, ms, of all calls of 5 interleaved rounds; the bar is a p99 of 2× at most")
    compare("3 servers of 5 ms | and a stuck one, 500 callers", quick, 500)
    compare("an owner, lane of 4 slots × 20 ms | and one with 50 callers", owner, 50)


def compare(name: str, run: Callable[[int], Awaitable[list[float]]], crowd: int) -> None:
    """Rounds alternate, so that whatever else the machine does falls on both sides; no sample is left out."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(REPEATED):
        alone += asyncio.run(measured(run, 0))
        beside += asyncio.run(measured(run, crowd))
    ratio = percentile(beside, 0.99) / percentile(alone, 0.99)
    one, other = (f"{percentile(found, 0.5):.1f} / {percentile(found, 0.99):.1f}" for found in (alone, beside))
    print(f"  {name:<60} {one:>12} | {other:>12}   p99 ×{ratio:.2f} {'' if ratio <= 2 else 'MISSED'}")


async def measured(run: Callable[[int], Awaitable[list[float]]], crowd: int) -> list[float]:
    return await run(crowd)


def show(name: str, value: float, bar: str) -> None:
    print(f"  {name:<55} {value:>9.3f}   {bar}")


def lane_cost() -> float:
    lane = Lane("files", Limits(4))
    best = float("inf")
    for _ in range(10):
        started = time.process_time()
        for _ in range(MANY):
            if not lane.try_enter():
                raise AssertionError
            lane.leave()
        best = min(best, time.process_time() - started)
    return best / MANY * 1e6


async def contended_cost() -> float:
    lane = Lane("files", Limits(1))

    async def visit(owner: str) -> None:
        for _ in range(100):
            if not lane.try_enter():
                await lane.enter(owner)
            try:
                await asyncio.sleep(0)
            finally:
                lane.leave()

    started = time.process_time()
    await asyncio.gather(*(visit(f"owner{number % 10}") for number in range(100)))
    return (time.process_time() - started) / 10_000 * 1e6


async def cost(run: Callable[[], Awaitable[int]]) -> float:
    best = float("inf")
    for _ in range(4):
        started = time.process_time()
        calls = await run()
        best = min(best, (time.process_time() - started) / calls * 1e6)
    return best


async def bare() -> int:
    async def call() -> None:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        loop.call_soon(answer.set_result, None)
        await answer

    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return AT_ONCE


async def one_by_one() -> int:
    batcher = RequestBatcher(executor=at_once)
    for _ in range(ONE_BY_ONE):
        await batcher.add("t", {}, "files")
    return ONE_BY_ONE


async def all_at_once() -> int:
    batcher = RequestBatcher(executor=at_once, max_queue=AT_ONCE)
    await asyncio.gather(*(batcher.add("t", {}, "files") for _ in range(AT_ONCE)))
    return AT_ONCE


async def at_once(requests: list[BatchRequest]) -> list[BatchResult]:
    return [BatchResult(True) for _ in requests]


def sleeper(seconds: float) -> Callable[[list[BatchRequest]], Awaitable[list[BatchResult]]]:
    async def execute(requests: list[BatchRequest]) -> list[BatchResult]:
        await asyncio.sleep(seconds)
        return await at_once(requests)

    return execute


async def timed(work: Awaitable[Any]) -> float:
    started = time.perf_counter()
    await work
    return (time.perf_counter() - started) * 1e3


async def side_by_side() -> float:
    batcher = RequestBatcher(executor=sleeper(0.05))
    return await timed(asyncio.gather(*(batcher.add("t", {}, f"s{n % 4}") for n in range(20))))


async def forty(servers: int) -> float:
    batcher = RequestBatcher(executor=sleeper(0.02), max_batch_size=1, max_batches_per_server=5)
    return await timed(asyncio.gather(*(batcher.add("t", {}, f"s{n % servers}") for n in range(40))))


async def thousand() -> float:
    batcher = RequestBatcher(executor=sleeper(0.005))
    return await timed(asyncio.gather(*(batcher.add("t", {}, f"s{n % 10}") for n in range(1000))))


async def lone() -> float:
    batcher = ToolCallBatcher(tool_executor=lambda tool, args, server_id: tool)
    return min([await timed(batcher.execute("t", {}, "files")) for _ in range(50)])


async def quick(crowd: int) -> list[float]:
    async def execute(requests: list[BatchRequest]) -> list[BatchResult]:
        await asyncio.sleep(3600 if requests[0].server_id == "stuck" else 0.005)
        return await at_once(requests)

    batcher = RequestBatcher(executor=execute)
    stuck = [asyncio.create_task(batcher.add("t", {}, "stuck")) for _ in range(crowd)]
    await asyncio.sleep(0.15)

    async def caller(server: str) -> list[float]:
        return [await timed(batcher.add("t", {}, server)) for _ in range(20)]

    found = await asyncio.gather(*(caller(f"s{number}") for number in range(3)))
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    return [one for times in found for one in times]


async def owner(crowd: int) -> list[float]:
    lane = Lane("files", Limits(4, queue=1000))

    async def call(whose: str) -> None:
        if not lane.try_enter():
            await lane.enter(whose)
        try:
            await asyncio.sleep(0.02)  # long beside what a busy machine adds, which would hide the wait
        finally:
            lane.leave()

    async def repeat() -> None:
        while True:
            await call("noisy")

    others = [asyncio.create_task(repeat()) for _ in range(crowd)]
    await asyncio.sleep(0.01)
    found = [await timed(call("quiet")) for _ in range(30)]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return found


def percentile(found: list[float], part: float) -> float:
    return sorted(found)[int(len(found) * part)]


if __name__ == "__main__":
    main()
