"""What large results cost: keeping, previewing, reading, searching and querying 5 MB, and how long others wait.

    python bench/results.py

Times are CPU time of the whole process, so that other work on the machine counts for little; `stall` is the most of it
between two turns that the loop had for something else.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from trunkline.call.results import reading
from trunkline.call.results.shown import PreviewFacts, show, take
from trunkline.call.stages.results import ResultsStage
from trunkline.config.options import Config, GatewayConfig, ResultsSection
from trunkline.hub import open_hub
from trunkline.identity import Scope
from trunkline.model import Call, Reply
from trunkline.tools.tokens import estimated

SMALLEST = os.environ.get("BENCH") == "smallest"
SIZE = 20_000 if SMALLEST else 5_000_000
ROUNDS = 1 if SMALLEST else 7
CHANCE = random.Random(3)
PREVIEW = "dev.trunkline/preview"


def stock() -> bytes:
    """A list of records, as servers give them."""
    items: list[Any] = []
    size = 0
    while size < SIZE:
        at = len(items)
        owner = {"login": f"user{at % 100}", "admin": False}
        items.append(
            {"id": at, "name": f"item {at}", "price": CHANCE.random() * 100, "tags": ["a", "b"], "owner": owner}
        )
        size += 120
    return msgspec.json.encode({"total": len(items), "items": items})


def log() -> bytes:
    """Lines of text."""
    lines: list[str] = []
    size = 0
    while size < SIZE:
        lines.append(f"{len(lines)} the quick brown fox {CHANCE.random()} jumps over the lazy dog\n")
        size += len(lines[-1])
    return "".join(lines).encode()


def main() -> None:
    documents = {"JSON": stock(), "text": log()}
    results = {
        "JSON": msgspec.json.encode({"content": [{"type": "text", "text": documents["JSON"].decode()}]}),
        "both": msgspec.json.encode(
            {
                "content": [{"type": "text", "text": documents["JSON"].decode()}],
                "structuredContent": msgspec.Raw(documents["JSON"]),
            }
        ),
        "text": msgspec.json.encode({"content": [{"type": "text", "text": documents["text"].decode()}]}),
    }
    gc.collect()
    gc.freeze()  # what the bench made is not the gateway's to look through
    show_parts(documents, results)
    asyncio.run(show_calls(results))


def show_parts(documents: dict[str, bytes], results: dict[str, bytes]) -> None:
    """Each step alone, in CPU."""
    print(f"{'CPU of each step':<44}{'ms':>10}")
    for name, result in results.items():
        taken = timed(f"take apart, {name}", lambda result=result: take(result, 100))
        assert taken is not None
        timed(f"preview, {name}", lambda taken=taken: show(taken, PreviewFacts("a" * 16, 3600, 600), {}))
    document, text = documents["JSON"], documents["text"]
    last = json.loads(document)["total"] - 1
    for name, work in {
        "read the end of JSON": lambda: reading.read_json(document, "$.items", last - 20, 20, 4000),
        "search JSON": lambda: reading.search_json(document, f"ITEM {last}", 0, 20, 4000),
        "project JSON": lambda: reading.query_json(document, "$.items[*].name", [], last - 20, 20, 4000),
        "project JSON, two fields": lambda: reading.query_json(document, "$.items[*]", ["id", "name"], 0, 20, 4000),
        "filter JSON": lambda: reading.query_json(document, "$.items[?@.price > 99.99]", ["id"], 0, 20, 4000),
        "all below": lambda: reading.query_json(document, "$..login", [], 0, 20, 4000),
        "read the end of text": lambda: reading.read_text(text, last, 0, 20, 4000),
        "search text": lambda: reading.search_text(text, "no such words", 1, 20, 4000, regex=False),
        "search text by a pattern": lambda: reading.search_text(text, "no (such )?words", 1, 20, 4000, regex=True),
    }.items():
        timed(name, work)


def timed(name: str, work: Callable[[], Any]) -> Any:
    best, found = float("inf"), None
    for _ in range(ROUNDS):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    print(f"{name:<44}{best * 1e3:>10.1f}")
    return found


async def show_calls(results: dict[str, bytes]) -> None:
    """Through the stages: a call and everything that reads what it left."""
    print(f"\n{'through the stages':<44}{'ms':>10}{'stall':>10}")
    with tempfile.TemporaryDirectory() as home:
        section = ResultsSection(max_tokens=1000 if SMALLEST else 10_000)
        config = Config(gateway=GatewayConfig(expose="all"), results=section, home=Path(home))
        async with open_hub(config) as hub:
            keeping = next(stage for stage in hub.relay.stages if isinstance(stage, ResultsStage))
            for name, result in results.items():
                await show_result(keeping, name, result)


async def show_result(stage: ResultsStage, name: str, result: bytes) -> None:
    async def server(call: Call) -> Reply:
        return Reply(result=result)

    def asked(tool: str, **arguments: Any) -> Callable[[], Awaitable[Reply]]:
        params = {"name": msgspec.json.encode(tool), "arguments": msgspec.json.encode(arguments)}
        return lambda: stage(Call("tools/call", tool, params, scope=Scope()), server)

    made = json.loads((await waited(f"keep and preview, {name}", asked("anything"))).result)
    text = made["content"][0]["text"]
    print(f"{'  tokens of the preview':<44}{estimated(text):>10}")
    handle = made["_meta"][PREVIEW]["result"]
    await waited(
        "  read", asked("read_result", result=handle, start=5, **({} if name == "text" else {"path": "$.items"}))
    )
    await waited("  search", asked("search_result", result=handle, text="item 77" if name != "text" else "77 the"))
    if name != "text":
        await waited("  project", asked("query_result", result=handle, query="$.items[*].name", start=100))
        await waited("  filter", asked("query_result", result=handle, query="$.items[?@.price > 99.9]", fields=["id"]))


async def waited(name: str, ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The best of several, and the least stall: other work on the machine only ever adds to both."""
    best, stall, reply = float("inf"), float("inf"), Reply()
    for _ in range(ROUNDS):
        with watching() as ticks:
            await asyncio.sleep(0.005)
            start = time.process_time()
            reply = await ask()
            best = min(best, time.process_time() - start)
            await asyncio.sleep(0.005)
        stall = min(stall, max(later - earlier for earlier, later in itertools.pairwise(ticks)))
    assert b'"isError":true' not in reply.result, reply.result[:300]
    print(f"{name:<44}{best * 1e3:>10.1f}{stall * 1e3:>10.1f}")
    return reply


@contextmanager
def watching() -> Generator[list[float]]:
    """When the loop had a turn for something else."""
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.process_time())
            await asyncio.sleep(0.001)

    task = asyncio.ensure_future(tick())
    try:
        yield ticks
    finally:
        task.cancel()


if __name__ == "__main__":
    main()
