"""`trunkline search`: which tools fit what you want to do, how well, and why."""

from __future__ import annotations

import argparse
from typing import Any

from trunkline.cli.open import check_server, opened, read_config, run
from trunkline.cli.output import first_line, print_json, print_table, say
from trunkline.config.options import Config
from trunkline.control.search import Found
from trunkline.wire.members import decode_object


def add_commands(commands: Any, common: argparse.ArgumentParser, formatted: argparse.ArgumentParser) -> None:
    """Add the command."""
    search = commands.add_parser(
        "search",
        parents=[common, formatted],
        help="find tools by what they do",
        description='Find tools by what they do: `trunkline search "open a pull request"`. Several queries find the '
        "best tools of each. Exit code 1 means that nothing fits.",
    )
    search.add_argument("query", nargs="+", help="what you want to do; several find the best tools of each")
    search.add_argument("--limit", type=int, default=10, metavar="N", help="how many at most (default: 10)")
    search.add_argument("--min-score", type=float, metavar="X", help="leave out what fits less, from 0 to 1")
    search.add_argument("--server", action="append", default=[], metavar="NAME", help="only this server's; repeatable")
    search.add_argument("--safety", choices=("safe", "moderate", "dangerous"), help="only those of this level")
    search.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="to start (default: 30)")
    search.set_defaults(run=_search)


def _search(options: argparse.Namespace) -> int:
    config = read_config(options)
    for name in options.server:
        check_server(config, name)
    found = run(lambda: _find(config, options))
    if options.format == "json":
        print_json({"tools": [_described(one) for one in found]})
    elif options.format == "compact":
        print("\n".join(one.tool.shown for one in found))
    else:
        rows = [[f"{one.score:.2f}", one.tool.shown, _reasons(one), first_line(_description(one))] for one in found]
        print_table(("score", "tool", "because of", "description"), rows)
    if not found:
        say("Nothing fits. Say it in other words, or lower --min-score.")
    return 0 if found else 1


async def _find(config: Config, options: argparse.Namespace) -> list[Found]:
    query = options.query[0] if len(options.query) == 1 else options.query
    async with opened(config, options.timeout) as hub:
        return await hub.find(
            query, limit=options.limit, min_score=options.min_score, servers=options.server, safety=options.safety
        )


def _described(found: Found) -> dict[str, Any]:
    return {
        "tool": found.tool.shown,
        "server": found.tool.server,
        "score": round(found.score, 4),
        "reasons": [{"word": reason.word, "fields": list(reason.fields)} for reason in found.reasons],
        "description": _description(found),
    }


def _description(found: Found) -> str:
    return str(decode_object(found.tool.definition).get("description", ""))


def _reasons(found: Found) -> str:
    return ", ".join(reason.word for reason in found.reasons[:4])
