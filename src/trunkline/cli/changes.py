"""`trunkline tools --changes`: how the servers changed their tools."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime

from trunkline.cli.open import only, opened, run
from trunkline.cli.output import print_json, print_table, say
from trunkline.config.options import Config
from trunkline.control.change import ToolChange


def show_changes(config: Config, options: argparse.Namespace) -> int:
    """Start the servers, note what they changed meanwhile, and print all that is remembered, the newest first."""
    changes = run(lambda: _collect(only(config, options.server), options.timeout))
    found = [change for change in changes if _wanted(change, config, options)]
    if options.format == "json":
        print_json({"changes": [{**asdict(change), "when": _time(change)} for change in found]})
    elif options.format == "compact":
        for change in found:
            print(f"{_time(change)} {change.server} {change.tool} {','.join(change.what)}")
    else:
        rows = [[_time(change), change.server, change.tool, ", ".join(change.what)] for change in found]
        print_table(("time", "server", "tool", "what changed"), rows)
        say(f"{len(found)} changes." if found else "No changes since the servers were first seen.")
    return 0


async def _collect(config: Config, seconds: float) -> list[ToolChange]:
    async with opened(config, seconds) as hub:
        return await hub.history.changes()


def _wanted(change: ToolChange, config: Config, options: argparse.Namespace) -> bool:
    group = config.groups.get(options.server or "")
    servers = group.servers if group else (options.server,) if options.server else tuple(config.servers)
    words = (options.search or "").lower().split()
    return change.server in servers and all(word in change.tool.lower() for word in words)


def _time(change: ToolChange) -> str:
    return datetime.fromtimestamp(change.when).astimezone().isoformat(timespec="seconds")
