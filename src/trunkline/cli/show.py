"""`trunkline list`, `servers`, `tools`: what there is, and how it fares."""

from __future__ import annotations

import argparse
from typing import Any

from trunkline.cli.open import opened, read_config, run
from trunkline.cli.output import MARKS, first_line, print_json, print_table, say
from trunkline.config import Config
from trunkline.model import Entry, Kind, ServerView, State


def add_commands(commands: Any, common: argparse.ArgumentParser, formatted: argparse.ArgumentParser) -> None:
    """Add the commands that look and change nothing."""
    listing = commands.add_parser("list", parents=[common, formatted], help="list the configured servers; starts none")
    listing.set_defaults(run=_list)
    servers = commands.add_parser(
        "servers", parents=[common, formatted], help="start the servers and show how they fare"
    )
    servers.add_argument("--status", choices=[state.value for state in State], help="only those in this state")
    servers.add_argument("--detailed", action="store_true", help="also versions, lists, and what a failing server said")
    _add_timeout(servers)
    servers.set_defaults(run=_servers)
    tools = commands.add_parser("tools", parents=[common, formatted], help="list the tools of all servers")
    tools.add_argument("--server", metavar="NAME", help="only this server's")
    tools.add_argument("--search", metavar="TEXT", help="only those whose name or description contains it")
    _add_timeout(tools)
    tools.set_defaults(run=_tools)


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="to start (default: 30)")


def _list(options: argparse.Namespace) -> int:
    config = read_config(options)
    rows = [
        {
            "name": spec.name,
            "transport": spec.kind,
            "address": spec.address,
            "enabled": spec.enabled,
            **({"problem": spec.problem} if spec.problem else {}),
        }
        for spec in config.servers.values()
    ]
    if options.format == "json":
        print_json({"source": str(config.source), "servers": rows})
    elif options.format == "compact":
        print("\n".join(spec.name for spec in config.servers.values()))
    else:
        cells = [
            [str(row["name"]), str(row["transport"]), "" if row["enabled"] else "disabled", str(row["address"])]
            for row in rows
        ]
        print_table(("name", "transport", "", "address"), cells)
        say(f"{len(rows)} servers in {config.source}." + ("" if rows else " Add one: trunkline add NAME COMMAND"))
    return 0


def _servers(options: argparse.Namespace) -> int:
    config = read_config(options)
    views, words = run(lambda: _look(config, options.timeout))
    views = [view for view in views if not options.status or view.state.value == options.status]
    if options.format == "json":
        print_json({"servers": [described(view, words.get(view.name, "")) for view in views]})
    elif options.format == "compact":
        print("\n".join(f"{view.name} {view.state.value}" for view in views))
    else:
        for view in views:
            _print_server(view, words.get(view.name, ""), detailed=options.detailed)
        well = sum(view.state in (State.READY, State.DEGRADED) for view in views)
        total = sum(count(view, Kind.TOOL) for view in views)
        say(f"{well} of {len(views)} servers ready, {total} tools.")
    return 0


async def _look(config: Config, seconds: float) -> tuple[list[ServerView], dict[str, str]]:
    async with opened(config, seconds) as hub:
        return hub.servers(), {view.name: hub.last_words(view.name) for view in hub.servers()}


def described(view: ServerView, words: str = "") -> dict[str, Any]:
    """A server for programs to read."""
    return {
        "name": view.name,
        "state": view.state.value,
        "reason": view.reason,
        "transport": view.transport,
        "address": view.address,
        "protocol": view.profile.version if view.profile else "",
        **{kind.value: count(view, kind) for kind in Kind},
        **({"stderr": words[-2000:]} if words else {}),
    }


def count(view: ServerView, kind: Kind) -> int:
    """How many a server offers of one kind."""
    return len(view.lists[kind].items) if kind in view.lists else 0


def _print_server(view: ServerView, words: str, *, detailed: bool) -> None:
    print(f"{MARKS.get(view.state, '✗')} {view.name} [{view.state.value}] {count(view, Kind.TOOL)} tools")
    if view.reason:
        print(f"    {view.reason}")
    if detailed:
        print(f"    {view.transport}: {view.address}")
        if view.profile:
            offered = ", ".join(f"{count(view, kind)} {kind.value}" for kind in Kind if count(view, kind))
            print(f"    protocol {view.profile.version}; {offered or 'offers nothing'}")
        if words and view.state is not State.READY:
            print("    stderr: " + "\n            ".join(words.splitlines()[-5:]))


def _tools(options: argparse.Namespace) -> int:
    from trunkline.wire.members import decode

    config = read_config(options)
    if options.server and options.server not in config.servers:
        from trunkline.errors import ConfigError

        raise ConfigError(f"There is no server {options.server!r}.", hint=f"There are: {', '.join(config.servers)}.")
    tools, away = run(lambda: _collect(config, options.timeout))
    found: list[tuple[Entry, dict[str, Any]]] = []
    for entry in tools:
        definition = decode(entry.definition)
        text = f"{entry.shown} {definition.get('description', '')}".lower()
        if (not options.server or entry.server == options.server) and (options.search or "").lower() in text:
            found.append((entry, definition))
    if options.format == "json":
        print_json(
            {"tools": [{"server": entry.server, **definition} for entry, definition in found], "unavailable": away}
        )
    elif options.format == "compact":
        print("\n".join(entry.shown for entry, _ in found))
    else:
        print_table(
            ("tool", "server", "description"),
            [[entry.shown, entry.server, first_line(str(d.get("description", "")))] for entry, d in found],
        )
        say(f"{len(found)} tools.")
    for name, reason in away.items():
        say(f"Not listed: {name}, {reason}")
    return 0


async def _collect(config: Config, seconds: float) -> tuple[list[Entry], dict[str, str]]:
    async with opened(config, seconds) as hub:
        away = {
            view.name: f"{view.state.value}. {view.reason}".strip()
            for view in hub.servers()
            if view.state not in (State.READY, State.DEGRADED)
        }
        return await hub.tools(), away
