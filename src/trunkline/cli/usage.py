"""`trunkline usage`: tokens and cost of calls, by user, server, tool or thread."""

from __future__ import annotations

import argparse
import os
from typing import Any

from trunkline.cli.console import print_json, print_table, shown_time
from trunkline.cli.main import OK, Commands
from trunkline.cli.open import config_file
from trunkline.cli.running import find_running, running_at
from trunkline.config.reading import load
from trunkline.untrusted import printable

EXAMPLES = """examples:
  trunkline usage                    by user
  trunkline usage --by tool          which tools take most of models' contexts
  trunkline usage --format json      for programs, with the limits

Of a gateway with a store these are sums of the last days ([calls] `days`), else since it was started.
"""

MOST = 1000
"""Lines that are printed."""
_COLUMNS = {
    "calls": "calls",
    "errors": "errors",
    "tokens_in": "arguments",
    "tokens_out": "answers",
    "list_tokens": "lists",
    "search_tokens": "searches",
    "cost": "cost",
}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    usage = commands.add(
        "usage",
        commands.formatted,
        description="What calls of the running gateway used: about how many tokens of models' contexts their "
        "arguments, answers, lists and searches took, and what the tools are said to cost.",
        examples=EXAMPLES,
    )
    usage.add_argument("--by", choices=("user", "server", "tool", "thread"), default="user", help="what is summed up")
    usage.add_argument("--url", default="", metavar="URL", help="the gateway to ask (default: that of the file)")
    usage.set_defaults(run=_usage)


def _usage(options: argparse.Namespace) -> int:
    config = load(config_file(options), env=os.environ)
    running = (find_running(config) if not options.url else None) or running_at(options.url, config.gateway)
    told = running.request("GET", f"usage?by={options.by}&limit={MOST}")
    if options.format == "json":
        print_json(told)
        return OK
    rows = [_row(one, options.by) for one in told["usage"]]
    if options.format == "compact":
        for row in rows:
            print(" ".join(row))
        return OK
    print(f"Since {shown_time(told['since'])}, tokens are estimates.")
    print_table([*_names(options.by), *_COLUMNS.values()], rows)
    if told["count"] > len(rows):
        print(f"... and {told['count'] - len(rows)} more. In all: {told['total']['calls']} calls.")
    for name, limit in told["limits"].items():
        print(f"{name}: {limit['used']:g} of {limit['limit']:g}")
    return OK


def _names(by: str) -> list[str]:
    return {"tool": ["server", "tool"], "thread": ["user", "thread"]}.get(by, [by])


def _row(one: dict[str, Any], by: str) -> list[str]:
    return [*(printable(one[name]) or "-" for name in _names(by)), *(f"{one[name]:g}" for name in _COLUMNS)]
