"""What the catalogue costs at 10,000 tools of 100 servers: discovering, searching by criteria, changes, history.

    python bench/discovery.py

Times are CPU time, the best of many rounds. One tool in five was called.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scale import sized

from trunkline import Annotations
from trunkline.control.discovery.manager import EnhancedToolDiscovery
from trunkline.control.history import History
from trunkline.wire.members import encode

SERVERS = sized(100, smallest=10)
TOOLS = sized(100, smallest=20)
ROUNDS = sized(200, smallest=2)
CHANCE = random.Random(7)
VERBS = ("get", "list", "create", "update", "delete", "search", "send", "read", "write", "convert", "check", "deploy")
NOUNS = ("file", "user", "repository", "invoice", "table", "message", "branch", "token", "page", "alert", "ticket")
COMMON = ("the", "given", "of", "an", "with", "all", "its", "and", "for", "by", "to", "in", "a", "this", "or", "from")
RARE = ("account", "database", "details", "options", "number", "customer", "folder", "status", "project", "team")
MORE = ("name", "format", "result", "filter", "date", "content", "owner", "address", "channel", "report", "commit")


class Client:
    """Lists some tools, fifty to a page."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        self.tools = tools

    async def list_tools(self, cursor: str | None = None) -> dict[str, Any]:
        start = int(cursor or 0)
        more = {"nextCursor": str(start + 50)} if start + 50 < len(self.tools) else {}
        return {"tools": self.tools[start : start + 50], **more}


async def main() -> None:
    servers = {f"server{n}": [a_tool(k) for k in range(TOOLS)] for n in range(SERVERS)}
    discovery = EnhancedToolDiscovery()
    start = time.process_time()
    for name, tools in servers.items():
        await discovery.discover_tools_with_annotations(name, Client(tools))
    print(f"{'discover, with its history':<44}{time.process_time() - start:>10.2f} s")
    for tool in CHANCE.sample(discovery.get_all_tools(), SERVERS * TOOLS // 5):
        for _ in range(CHANCE.randrange(1, 4)):
            discovery.record_call(tool.server_id, tool.name, CHANCE.random(), success=CHANCE.random() < 0.9)
    show_searches(discovery)
    server = servers["server5"]
    took = []
    for n in range(20):
        changed = [{**server[0], "description": f"Number {n}"}, *server[1:]]
        await discovery.discover_tools_with_annotations("server5", Client(changed))
        took.append(timed(lambda: discovery.search_tools(name="file", limit=20)))
    print(f"{'first search after a change':<44}{best(took):>10.0f} us")
    print(f"{'statistics':<44}{best([timed(discovery.get_statistics) for _ in range(20)]):>10.0f} us")
    await show_history(
        [encode({**tool, "name": f"{tool['name']}{n}"}) for n, tools in enumerate(servers.values()) for tool in tools]
    )


def show_searches(discovery: EnhancedToolDiscovery) -> None:
    reads = Annotations(read_only_hint=True)
    everything: dict[str, Any] = {
        "name": "file", "description": "database", "server_ids": [f"server{n}" for n in range(50)],
        "category": "file-system", "annotations": reads, "sort_by": "success_rate", "sort_direction": "desc",
    }  # fmt: skip
    searches: dict[str, dict[str, Any]] = {
        "name (712 in the original)": {"name": "file"},
        "name, sorted, limit 10 (979)": {"name": "file", "sort_by": "name", "limit": 10},
        "description (1289)": {"description": "database"},
        "description, limit 20": {"description": "database", "limit": 20},
        "read-only, sorted by name (3913)": {"annotations": reads, "sort_by": "name"},
        "read-only, sorted by name, limit 20": {"annotations": reads, "sort_by": "name", "limit": 20},
        "safety, category, limit 20": {"safety": "safe", "category": "file-system", "limit": 20},
        "all criteria (4709)": {**everything, "limit": 20},
        "all criteria, no limit": everything,
        "everything, by calls, limit 20": {"sort_by": "calls", "sort_direction": "desc", "limit": 20},
        "everything, no limit (141)": {},
        "query, limit 10": {"query": "read a file of an account", "limit": 10},
        "query among safe tools, limit 10": {"query": "read a file of an account", "safety": "safe", "limit": 10},
    }
    for label, options in searches.items():
        discovery.search_tools(**options)
        rounds = ROUNDS if "query" not in options else 20
        took = best([timed(lambda options=options: discovery.search_tools(**options)) for _ in range(rounds)])
        result = discovery.search_tools(**options)
        print(f"{label:<44}{took:>10.0f} us   {len(result.tools)} of {result.total_count}")


async def show_history(items: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        for label in ("history, first list of 10,000 tools", "history, the same list again"):
            start = time.process_time()
            await history.note("one", items)
            print(f"{label:<44}{1000 * (time.process_time() - start):>10.0f} ms")
        start = time.process_time()
        await history.note("one", [items[0].replace(b'"description":"', b'"description":"More '), *items[1:]])
        print(f"{'history, one tool of them changed':<44}{1000 * (time.process_time() - start):>10.0f} ms")
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
        print(f"{'history, its file':<44}{size / 1e6:>10.1f} MB")


def a_tool(number: int) -> dict[str, Any]:
    name = f"{CHANCE.choice(VERBS)}_{CHANCE.choice(NOUNS)}_{number}"
    words = [*CHANCE.choices(COMMON, k=9), *CHANCE.choices(RARE + MORE, k=3)]
    about = f"{name.replace('_', ' ').capitalize()} {' '.join(words)}."
    properties = {word: {"type": "string", "description": f"The {word}."} for word in CHANCE.sample(NOUNS, 3)}
    hints = {"annotations": {"readOnlyHint": True}} if name.startswith(("get", "list", "read")) else {}
    return {"name": name, "description": about, "inputSchema": {"type": "object", "properties": properties}, **hints}


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1e6 * (time.process_time() - start)


def best(took: list[float]) -> float:
    return min(took)


if __name__ == "__main__":
    asyncio.run(main())
