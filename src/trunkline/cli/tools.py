"""`trunkline tools`: what the servers offer, by what is known of it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from trunkline.cli.console import first_line, print_json, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.open import check_server, config_to_look_at, hint_to_begin, only, opened, run
from trunkline.cli.show import WELL, add_timeout
from trunkline.config.options import Config, ServerSpec
from trunkline.control.change import ToolChange
from trunkline.model import Entry
from trunkline.tools.annotations import get_annotation_summary, get_tool_safety_level
from trunkline.tools.categories import infer_category


def add_commands(commands: Commands) -> None:
    """Add the command."""
    tools = commands.add("tools", commands.formatted)
    tools.add_argument("--server", metavar="NAME", help="only this server's")
    tools.add_argument("--search", metavar="TEXT", help="only those whose name or description has all these words")
    tools.add_argument("--safety", choices=("safe", "moderate", "dangerous"), help="only those of this level")
    tools.add_argument("--category", metavar="WORD", help="only those of this category, such as file-system")
    tools.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="WORD",
        help="only those with this tag, or whose server has it in the catalogue; repeatable",
    )
    tools.add_argument("--annotations", action="store_true", help="also show what is known of how they behave")
    tools.add_argument("--changes", action="store_true", help="show how they changed since they were first seen")
    tools.add_argument("--tokens", action="store_true", help="show what they take of a model's context instead")
    add_timeout(tools)
    tools.set_defaults(run=_tools)


def _tools(options: argparse.Namespace) -> int:
    from trunkline.wire.members import decode

    config = config_to_look_at(options)
    if options.server:
        check_server(config, options.server, looks=True)
    if options.changes:
        return show_changes(config, options)
    started = config if options.tokens else only(config, options.server)  # what callers are shown depends on all
    tools, view, away = run(lambda: _collect(started, options.timeout))
    tags = _server_tags(config) if options.tag else {}
    known = [ShownTool(entry, decode(entry.definition), tags.get(entry.server, frozenset())) for entry in tools]
    found = [tool for tool in known if _wanted(tool, options)]
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
        if not config.servers:
            say(hint_to_begin(config, options.server))
    for name, reason in away.items():
        say(f"Not listed: {name}, {reason}")
    return 0


@dataclass(frozen=True)
class ShownTool:
    """A tool with what a list of tools asks of it."""

    entry: Entry
    definition: dict[str, Any]
    server_tags: frozenset[str] = frozenset()
    """What the catalogue says its server is about."""

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
    tags = {*tool.entry.annotations.tags, *tool.server_tags}
    return (
        (not options.server or options.server in (tool.entry.server, *tool.entry.members))
        and all(word in text for word in (options.search or "").lower().split())
        and (not options.safety or tool.safety == options.safety)
        and (not options.category or tool.category == options.category)
        and tags.issuperset(options.tag)
    )


def _server_tags(config: Config) -> dict[str, frozenset[str]]:
    """The catalogue's tags by server, and by group those of all its servers."""
    from trunkline.cli.registry import entry_of

    def tags(specs: Iterable[ServerSpec]) -> frozenset[str]:
        return frozenset(tag for spec in specs if (entry := entry_of(spec)) for tag in entry.tags)

    groups = {group.name: tags(config.servers[name] for name in group.servers) for group in config.groups.values()}
    return {name: tags([spec]) for name, spec in config.servers.items()} | groups


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
            view.name: f"{view.state.value}. {view.reason}".strip() for view in hub.servers() if view.state not in WELL
        }
        return await hub.tools(), hub.view().tools, away


def show_changes(config: Config, options: argparse.Namespace) -> int:
    """Start the servers, note what they changed meanwhile, and print all that is remembered, the newest first."""
    changes = run(lambda: _collect_changes(only(config, options.server), options.timeout))
    found = [change for change in changes if _is_wanted(change, config, options)]
    if options.format == "json":
        print_json({"changes": [{**asdict(change), "when": _time_of(change)} for change in found]})
    elif options.format == "compact":
        for change in found:
            print(f"{_time_of(change)} {change.server} {change.tool} {','.join(change.what)}")
    else:
        rows = [[_time_of(change), change.server, change.tool, ", ".join(change.what)] for change in found]
        print_table(("time", "server", "tool", "what changed"), rows)
        say(f"{len(found)} changes." if found else "No changes since the servers were first seen.")
    return 0


async def _collect_changes(config: Config, seconds: float) -> list[ToolChange]:
    async with opened(config, seconds) as hub:
        return await hub.history.changes()


def _is_wanted(change: ToolChange, config: Config, options: argparse.Namespace) -> bool:
    group = config.groups.get(options.server or "")
    servers = group.servers if group else (options.server,) if options.server else tuple(config.servers)
    words = (options.search or "").lower().split()
    return change.server in servers and all(word in change.tool.lower() for word in words)


def _time_of(change: ToolChange) -> str:
    return datetime.fromtimestamp(change.when).astimezone().isoformat(timespec="seconds")
