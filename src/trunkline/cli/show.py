"""`trunkline list`, `servers`, `tools`: what there is, and how it fares."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from trunkline.catalog.annotations import get_annotation_summary, get_tool_safety_level
from trunkline.catalog.categories import infer_category
from trunkline.cli.open import opened, read_config, run
from trunkline.cli.output import MARKS, first_line, print_json, print_table, say
from trunkline.config import Config
from trunkline.control.joining import options_of
from trunkline.gateway.admin import count, summary
from trunkline.model import Entry, Kind, Listing, ServerView, State
from trunkline.wire.members import decode_object


def add_commands(commands: Any, common: argparse.ArgumentParser, formatted: argparse.ArgumentParser) -> None:
    """Add the commands that look and change nothing."""
    listing = commands.add_parser("list", parents=[common, formatted], help="list the configured servers; starts none")
    listing.set_defaults(run=_list)
    servers = commands.add_parser(
        "servers", parents=[common, formatted], help="start the servers and show how they fare"
    )
    states = [state.value for state in State]
    servers.add_argument(
        "--status", choices=states, metavar="STATE", help=f"only those in this state: {', '.join(states)}"
    )
    servers.add_argument(
        "--category", metavar="WORD", help="only those with a tool of this category, such as file-system"
    )
    servers.add_argument(
        "--detailed",
        action="store_true",
        help="also versions, lists, how calls of the running gateway went, and what a failing server said",
    )
    _add_timeout(servers)
    servers.set_defaults(run=_servers)
    tools = commands.add_parser("tools", parents=[common, formatted], help="list the tools of all servers")
    tools.add_argument("--server", metavar="NAME", help="only this server's")
    tools.add_argument("--search", metavar="TEXT", help="only those whose name or description contains it")
    tools.add_argument("--safety", choices=("safe", "moderate", "dangerous"), help="only those of this level")
    tools.add_argument("--category", metavar="WORD", help="only those of this category, such as file-system")
    tools.add_argument(
        "--tag", action="append", default=[], metavar="WORD", help="only those with this tag; repeatable"
    )
    tools.add_argument("--annotations", action="store_true", help="also show what is known of how they behave")
    tools.add_argument("--changes", action="store_true", help="show how they changed since they were first seen")
    tools.add_argument("--tokens", action="store_true", help="show what they take of a model's context instead")
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
    if options.category:
        views = [view for view in views if options.category in _categories(view, config)]
    told = running_statistics(config) if options.detailed else {}
    if options.format == "json":
        servers = [{**described(view, words.get(view.name, "")), **told.get(view.name, {})} for view in views]
        print_json({"servers": servers})
    elif options.format == "compact":
        print("\n".join(f"{view.name} {view.state.value}" for view in views))
    else:
        for view in views:
            _print_server(view, words.get(view.name, ""), detailed=options.detailed)
            if view.name in told:
                _print_statistics(told[view.name])
        if options.detailed and not told:
            say("No gateway of this configuration runs, so there are no statistics of calls.")
        well = sum(view.state in (State.READY, State.DEGRADED) for view in views)
        total = sum(count(view, Kind.TOOL) for view in views)
        say(f"{well} of {len(views)} servers ready, {total} tools.")
    return 0


def _categories(view: ServerView, config: Config) -> set[str]:
    """The kinds of tools that a server has."""
    said = config.servers[view.name].tools
    tools = [decode_object(item) for item in view.lists.get(Kind.TOOL, Listing()).items]
    named = [(str(tool.get("name", "")), str(tool.get("description", ""))) for tool in tools]
    return {options_of(name, said).category or infer_category(name, text) for name, text in named}


async def _look(config: Config, seconds: float) -> tuple[list[ServerView], dict[str, str]]:
    async with opened(config, seconds) as hub:
        return hub.servers(), {view.name: hub.last_words(view.name) for view in hub.servers()}


def described(view: ServerView, words: str = "") -> dict[str, Any]:
    """A server for programs to read."""
    return {**summary(view), **({"stderr": words[-2000:]} if words else {})}


STATISTICS = ("calls", "failures", "tool_errors", "success_rate", "average_seconds", "in_flight", "waiting", "group")


def running_statistics(config: Config) -> dict[str, dict[str, Any]]:
    """How calls went, asked of the gateway that runs with this configuration; nothing when none does."""
    from http.client import HTTPConnection

    gateway = config.gateway
    token = gateway.token or next(iter(gateway.users.values()), "")
    connection = HTTPConnection(gateway.host, gateway.port, timeout=2)
    try:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/api/v1/servers", headers=headers)
        answer = connection.getresponse()
        told: Any = json.loads(answer.read()) if answer.status == 200 else {}
        return {one["name"]: {key: one[key] for key in STATISTICS if key in one} for one in told.get("servers", [])}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}
    finally:
        connection.close()


def _print_statistics(told: dict[str, Any]) -> None:
    if told.get("calls"):
        share = f"{told['success_rate']:.1%} went well, {told['average_seconds'] * 1000:.1f} ms on average"
        print(f"    {told['calls']} calls: {share}; {told['failures']} could not be made")
    else:
        print("    no calls yet")
    if told.get("in_flight") or told.get("waiting"):
        print(f"    {told['in_flight']} calls under way, {told['waiting']} wait")
    if "group" in told:
        print(f"    in group {told['group']['name']}: {told['group']['health']}")


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
    known = (*config.servers, *config.groups)
    if options.server and options.server not in known:
        from trunkline.errors import ConfigError

        raise ConfigError(f"There is no server {options.server!r}.", hint=f"There are: {', '.join(known)}.")
    if options.changes:
        from trunkline.cli.changes import show_changes

        return show_changes(config, options)
    tools, view, away = run(lambda: _collect(config, options.timeout))
    found = [shown for entry in tools if _wanted(shown := ShownTool(entry, decode(entry.definition)), options)]
    if options.tokens:
        from trunkline.cli.tokens import print_tokens

        print_tokens([tool.entry for tool in found], view, away, format=options.format)
    elif options.format == "json":
        listed = [tool.described(annotations=options.annotations) for tool in found]
        print_json({"tools": listed, "unavailable": away})
    elif options.format == "compact":
        print("\n".join(tool.entry.shown for tool in found))
    else:
        _print_tools(found, annotations=options.annotations)
    for name, reason in away.items():
        say(f"Not listed: {name}, {reason}")
    return 0


@dataclass(frozen=True)
class ShownTool:
    """A tool with what a list of tools asks of it."""

    entry: Entry
    definition: dict[str, Any]

    @property
    def description(self) -> str:
        return str(self.definition.get("description", ""))

    @property
    def category(self) -> str:
        return self.entry.options.category or infer_category(self.entry.name, self.description)

    @property
    def safety(self) -> str:
        return get_tool_safety_level(self.entry.annotations)

    def described(self, *, annotations: bool) -> dict[str, Any]:
        """The tool for programs to read; what we know beside what the server says."""
        made = {"server": self.entry.server, **self.definition}
        if annotations:
            known = {
                name: value for name, value in asdict(self.entry.annotations).items() if value not in (None, "", ())
            }
            made |= {"safety": self.safety, "category": self.category, "known": known}
        return made


def _wanted(tool: ShownTool, options: argparse.Namespace) -> bool:
    text = f"{tool.entry.shown} {tool.description}".lower()
    return (
        (not options.server or options.server in (tool.entry.server, *tool.entry.members))
        and (options.search or "").lower() in text
        and (not options.safety or tool.safety == options.safety)
        and (not options.category or tool.category == options.category)
        and all(tag in tool.entry.annotations.tags for tag in options.tag)
    )


def _print_tools(tools: list[ShownTool], *, annotations: bool) -> None:
    if annotations:
        heads = ("tool", "server", "category", "safety", "annotations")
        rows = [
            [t.entry.shown, t.entry.server, t.category, t.safety, get_annotation_summary(t.entry.annotations)]
            for t in tools
        ]
    else:
        heads = ("tool", "server", "description")
        rows = [[tool.entry.shown, tool.entry.server, first_line(tool.description)] for tool in tools]
    print_table(heads, rows)
    levels = Counter(tool.safety for tool in tools)
    say(f"{len(tools)} tools ({levels['safe']} safe, {levels['dangerous']} dangerous).")


async def _collect(config: Config, seconds: float) -> tuple[list[Entry], tuple[Entry, ...], dict[str, str]]:
    async with opened(config, seconds) as hub:
        away = {
            view.name: f"{view.state.value}. {view.reason}".strip()
            for view in hub.servers()
            if view.state not in (State.READY, State.DEGRADED)
        }
        return await hub.tools(), hub.view().tools, away
