"""`trunkline tools --tokens`: what the list of tools takes of a model's context, before the model's first word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trunkline.cli.output import print_json, print_table, say
from trunkline.control.model_formats import formatted
from trunkline.model import Entry
from trunkline.tools.tokens import ENCODING, HINT, can_count, counted, estimated


@dataclass(frozen=True, slots=True)
class Cost:
    """What several tools take together."""

    tools: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Bill:
    """What each tool takes, the largest first, each server's together, and all of them."""

    tools: list[tuple[Entry, int]]
    servers: dict[str, Cost]
    total: Cost


def print_tokens(tools: Iterable[Entry], shown: Iterable[Entry], away: Mapping[str, str], *, format: str) -> None:
    """What `tools` would take if they were all listed, and what those take that callers are `shown`."""
    exact = can_count()
    count = counted if exact else estimated
    bill, view = bill_of(tools, count), bill_of(shown, count).total
    if format == "json":
        print_json(_described(bill, view, exact=exact) | {"unavailable": dict(away)})
        return
    if format == "compact":
        print("\n".join(f"{tokens} {entry.shown}" for entry, tokens in bill.tools))
    elif bill.tools:
        wide = max(len("tokens"), len(f"{bill.total.tokens:,}"))
        print_table(
            ("tokens", "tool", "server"),
            [[f"{tokens:>{wide},}", entry.shown, entry.server] for entry, tokens in bill.tools],
        )
        print()
        print_table(
            ("tokens", "server", "tools"),
            [[f"{cost.tokens:>{wide},}", server, f"{cost.tools:,}"] for server, cost in bill.servers.items()],
        )
    about = "" if exact else "about "
    say(f"{bill.total.tools} tools take {about}{bill.total.tokens:,} tokens if all are listed.")
    say(f"Callers of the gateway are shown {view.tools}, which take {about}{view.tokens:,}.")
    if not exact:
        say(f"The numbers are estimated. To count, there is a tokenizer. {HINT}")


def bill_of(entries: Iterable[Entry], count: Callable[[str], int]) -> Bill:
    """What tools take, in the words that a model's vendor gets: name, description and schema."""
    listed = [entry for entry in entries if not entry.app_only]
    taken = [count(_text(definition)) for definition in formatted(listed, "anthropic")]
    tools = sorted(zip(listed, taken, strict=True), key=lambda pair: (-pair[1], pair[0].shown))
    by_server: dict[str, list[int]] = {}
    for entry, tokens in tools:
        by_server.setdefault(entry.server, []).append(tokens)
    servers = {server: Cost(len(each), sum(each)) for server, each in by_server.items()}
    largest = dict(sorted(servers.items(), key=lambda pair: (-pair[1].tokens, pair[0])))
    return Bill(tools, largest, Cost(len(taken), sum(taken)))


def _text(definition: Mapping[str, Any]) -> str:
    told = {key: definition[key] for key in ("name", "description", "input_schema") if key in definition}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _described(bill: Bill, view: Cost, *, exact: bool) -> dict[str, Any]:
    return {
        "counted": exact,
        "encoding": ENCODING,
        "tools": [{"tool": entry.shown, "server": entry.server, "tokens": tokens} for entry, tokens in bill.tools],
        "servers": {server: asdict(cost) for server, cost in bill.servers.items()},
        "total": asdict(bill.total),
        "shown": asdict(view),
    }
