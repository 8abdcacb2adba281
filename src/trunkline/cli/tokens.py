"""`trunkline tools --tokens`: what the list of tools takes of a model's context, before the model's first word."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trunkline.cli.console import print_json, print_lines, print_table, say
from trunkline.cli.open import run
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.model_formats import formatted
from trunkline.hub import Hub, open_hub
from trunkline.model import Entry, State
from trunkline.tasks import open_tasks
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
        print_lines(f"{tokens} {entry.shown}" for entry, tokens in bill.tools)
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
    many = "1 tool takes" if bill.total.tools == 1 else f"{bill.total.tools} tools take"
    say(f"{many} {about}{bill.total.tokens:,} tokens if all are listed.")
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


@dataclass(frozen=True)
class Weight:
    """What each server costs by itself, and what all cost through Trunkline."""

    servers: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    away: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers that could not be asked, and why."""
    sign_in: tuple[str, ...] = ()
    """Those of them that want to know who asks."""
    through: Cost = field(default_factory=lambda: Cost(0, 0))
    exact: bool = True


def weigh(config: Config, specs: Mapping[str, ServerSpec], seconds: float, tell: Callable[[str], None]) -> Weight:
    """Start these servers side by side, count what they list, and stop them; nothing of it is kept."""
    with tempfile.TemporaryDirectory(prefix="trunkline-") as folder:
        quick = {
            name: dataclasses.replace(spec, start_timeout=min(spec.start_timeout, seconds), health_interval=0.0)
            for name, spec in specs.items()
            if spec.enabled
        }
        alone = dataclasses.replace(config, servers=quick, groups={}, profiles={}, home=Path(folder), source=None)
        return run(lambda: _weigh(alone, seconds, tell))


async def _weigh(config: Config, seconds: float, tell: Callable[[str], None]) -> Weight:
    count = counted if can_count() else estimated
    async with open_hub(config) as hub:
        news = _News(hub, tell)
        async with open_tasks() as tasks:
            tasks.start(news.follow(), name="progress")
            await hub.ready(seconds, downloads=True)
        news.tell_new()
        bill = bill_of(await hub.tools(), count)
        away = {
            view.name: view.reason or f"not ready after {seconds:g} s"
            for view in hub.servers()
            if view.state not in (State.READY, State.DEGRADED)
        }
        well = {view.name: Cost(0, 0) for view in hub.servers() if view.name not in away}
        strangers = tuple(view.name for view in hub.servers() if view.state is State.NEEDS_AUTHORIZATION)
        through = bill_of(hub.view().tools, count).total
        return Weight({**well, **bill.servers}, away, strangers, through, can_count())


class _News:
    """One line whenever another server answered or failed."""

    def __init__(self, hub: Hub, tell: Callable[[str], None]) -> None:
        self._hub = hub
        self._tell = tell
        self._told: set[str] = set()

    async def follow(self) -> None:
        while True:
            self.tell_new()
            await asyncio.sleep(0.05)

    def tell_new(self) -> None:
        views = self._hub.servers()
        for view in views:
            if view.state is not State.STARTING and view.name not in self._told:
                self._told.add(view.name)
                how = "ready" if view.state in (State.READY, State.DEGRADED) else view.reason or view.state.value
                self._tell(f"  [{len(self._told)}/{len(views)}] {view.name}: {how}")
