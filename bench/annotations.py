"""What one inference costs, in microseconds, and how it fares on tools whose authors declared their hints.

    python bench/annotations.py [TOOLS.jsonl]

Without a file, a few dozen tools of common kinds are timed. A file has one tool in each line:
{"server", "name", "description", "inputSchema"?, "annotations"?}. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from scale import sized

from trunkline.tools.infer import infer

VERBS = ["get", "list", "search", "create", "update", "delete", "send", "run"]
NOUNS = ("user", "calendar_event", "merge_request", "storage_account", "dashboard_panel")
TEXT = "{} {}s of the signed-in account. Requires an id; returns the full details, with paging where there are many. "
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "query", "limit", "path")}}
ROUNDS = sized(30, smallest=1)
BATCH = 20


def main() -> None:
    tools = read(Path(sys.argv[1])) if len(sys.argv) > 1 else made()
    cost = measure(tools)
    print(f"{len(tools)} tools, {cost:.1f} µs for one inference")
    declared = [tool for tool in tools if tool.get("annotations")]
    found: dict[str, Any] = {"tools": len(tools), "us": round(cost, 1)}
    if declared:
        found |= judge(declared)
    print(json.dumps(found))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def made() -> list[dict[str, Any]]:
    return [
        {"name": f"{verb}_{noun}", "description": TEXT.format(verb.title(), noun) * 3, "inputSchema": SCHEMA}
        for verb in VERBS
        for noun in NOUNS
    ]


def measure(tools: list[dict[str, Any]]) -> float:
    """The best of many rounds for each few tools: what else the machine does hardly shows."""
    total = 0.0
    for start in range(0, len(tools), BATCH):
        batch = [
            (tool["name"], tool.get("description") or "", tool.get("inputSchema")) for tool in tools[start:][:BATCH]
        ]
        total += min(timed(batch) for _ in range(ROUNDS))
    return total / len(tools) * 1e6


def timed(batch: list[tuple[str, str, Any]]) -> float:
    start = time.perf_counter()
    for name, description, schema in batch:
        infer(name, description, schema)
    return time.perf_counter() - start


def judge(tools: list[dict[str, Any]]) -> dict[str, Any]:
    rows: list[tuple[str, dict[str, bool], dict[str, bool | None]]] = []
    for tool in tools:
        hints = infer(tool["name"], tool.get("description") or "", tool.get("inputSchema")).annotations
        said = {"readOnlyHint": hints.read_only_hint, "destructiveHint": hints.destructive_hint}
        rows.append((tool.get("server", ""), tool["annotations"], said))
    servers: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        servers[row[0]].append(row)
    found: dict[str, Any] = {}
    print(f"{'':18}{'precision':>10}{'recall':>8}   mean over {len(servers)} servers")
    for hint in ("readOnlyHint", "destructiveHint"):
        pooled = rates(rows, hint)
        each = [rates(some, hint) for some in servers.values()]
        mean = [sum(column) / len(each) for column in zip(*each, strict=True)]
        found[hint] = [round(rate, 3) for rate in (*pooled, *mean)]
        print(f"{hint:18}{pooled[0]:10.3f}{pooled[1]:8.3f}{mean[0]:10.3f}{mean[1]:8.3f}")
    writes = [row for row in rows if is_write(row[1])]
    wrong = sum(row[2]["readOnlyHint"] is True for row in writes)
    print(f"called read-only and is not: {wrong} of {len(writes)}")
    return found | {"dangerous": wrong, "of": len(writes)}


def rates(rows: list[Any], hint: str) -> tuple[float, float]:
    right = sum(declared.get(hint) is True and said[hint] is True for _, declared, said in rows)
    told = sum(said[hint] is True and hint in declared for _, declared, said in rows)
    true = sum(declared.get(hint) is True for _, declared, _ in rows)
    return right / told if told else 1.0, right / true if true else 1.0


def is_write(declared: dict[str, bool]) -> bool:
    reads = declared.get("readOnlyHint")
    return reads is False or (declared.get("destructiveHint") is True and reads is not True)


if __name__ == "__main__":
    main()
