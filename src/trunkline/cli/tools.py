"""`trunkline tools`: what the servers offer, by what is known of it, and how that changed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trunkline.cli.console import counted, exact_time, first_line, print_json, print_lines, print_list, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.open import ask_servers, check_server, config_to_look_at, hint_to_begin, only
from trunkline.cli.show import WELL, add_timeout
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.change import ToolChange
from trunkline.model import Entry
from trunkline.tool import Annotations
from trunkline.tools.annotations import get_annotation_summary, get_tool_safety_level
from trunkline.tools.categories import infer_category
from trunkline.wire.members import decode, decode_object

if TYPE_CHECKING:
    from trunkline.cli.running import Servers


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
    config = config_to_look_at(options)
    if options.server:
        check_server(config, options.server, looks=True)
    if options.changes:
        return show_changes(config, options)
    started = config if options.tokens else only(config, options.server)  # what callers are shown depends on all
    tools, view, away = ask_servers(started, options.timeout, _offered)
    tags = _server_tags(config) if options.tag else {}
    found = [tool for tool in tools if _wanted(tool, options, tags)]
    if options.tokens:
        from trunkline.cli.tokens import print_tokens

        print_tokens(found, view, away, format=options.format)
    elif options.format == "json":
        listed = [_described(tool, annotations=options.annotations) for tool in found]
        print_json({"tools": listed, "unavailable": away})
    elif options.format == "compact":
        print_lines(tool.shown for tool in found)
    else:
        _print_tools(found, annotations=options.annotations)
        if not config.servers:
            say(hint_to_begin(config, options.server))
    for name, reason in away.items():
        say(f"Not listed: {name}, {reason}")
    return 0


def description_of(tool: Entry) -> str:
    """What its server says that it does."""
    return str(decode_object(tool.definition).get("description", ""))


def known_of(annotations: Annotations) -> dict[str, Any]:
    """How a tool behaves, for programs to read: what is not known is left out."""
    return {name: value for name, value in asdict(annotations).items() if value not in (None, "", ())}


def _category(tool: Entry) -> str:
    return tool.options.category or infer_category(tool.name, description_of(tool))


def _described(tool: Entry, *, annotations: bool) -> dict[str, Any]:
    """The tool for programs to read; what we know beside what the server says."""
    made = {"server": tool.server, **decode(tool.definition)}
    if annotations:
        made |= {"safety": get_tool_safety_level(tool.annotations), "category": _category(tool)}
        made["known"] = known_of(tool.annotations)
    return made


def _wanted(tool: Entry, options: argparse.Namespace, server_tags: Mapping[str, frozenset[str]]) -> bool:
    text = f"{tool.shown} {description_of(tool)}".lower()
    tags = {*tool.annotations.tags, *server_tags.get(tool.server, ())}
    return (
        (not options.server or options.server in (tool.server, *tool.members))
        and all(word in text for word in (options.search or "").lower().split())
        and (not options.safety or get_tool_safety_level(tool.annotations) == options.safety)
        and (not options.category or _category(tool) == options.category)
        and tags.issuperset(options.tag)
    )


def _server_tags(config: Config) -> dict[str, frozenset[str]]:
    """The catalogue's tags by server, and by group those of all its servers."""
    from trunkline.cli.registry import entry_of

    def tags(specs: Iterable[ServerSpec]) -> frozenset[str]:
        return frozenset(tag for spec in specs if (entry := entry_of(spec)) for tag in entry.tags)

    groups = {group.name: tags(config.servers[name] for name in group.servers) for group in config.groups.values()}
    return {name: tags([spec]) for name, spec in config.servers.items()} | groups


def _print_tools(tools: list[Entry], *, annotations: bool) -> None:
    safety = [get_tool_safety_level(tool.annotations) for tool in tools]
    if annotations:
        heads = ("tool", "server", "category", "safety", "annotations")
        rows = [
            [tool.shown, tool.server, _category(tool), level, get_annotation_summary(tool.annotations)]
            for tool, level in zip(tools, safety, strict=True)
        ]
    else:
        heads = ("tool", "server", "description")
        rows = [[tool.shown, tool.server, _about(tool)] for tool in tools]
    print_table(heads, rows)
    say(f"{counted(len(tools), 'tool')} ({safety.count('safe')} safe, {safety.count('dangerous')} dangerous).")


def _about(tool: Entry) -> str:
    changed = f"[changed: {', '.join(tool.changed)}] " if tool.changed else ""
    return changed + first_line(description_of(tool))


def away_of(hub: Servers) -> dict[str, str]:
    """The servers that could not be asked, with the reason."""
    return {view.name: f"{view.state.value}. {view.reason}".strip() for view in hub.servers() if view.state not in WELL}


async def _offered(hub: Servers) -> tuple[list[Entry], tuple[Entry, ...], dict[str, str]]:
    """All tools, those that callers are shown, and the servers that could not be asked, with the reason."""
    return await hub.tools(), hub.view().tools, away_of(hub)


def show_changes(config: Config, options: argparse.Namespace) -> int:
    """Start the servers, note what they changed meanwhile, and print all that is remembered, the newest first."""
    changes = ask_servers(only(config, options.server), options.timeout, lambda hub: hub.history.changes())
    found = [change for change in changes if _is_wanted(change, config, options)]
    print_list(
        options.format,
        {"changes": [{**asdict(change), "when": exact_time(change.when)} for change in found]},
        [f"{exact_time(change.when)} {change.server} {change.tool} {','.join(change.what)}" for change in found],
        ("time", "server", "tool", "what changed"),
        [[exact_time(change.when), change.server, change.tool, ", ".join(change.what)] for change in found],
        empty="No changes since the servers were first seen.",
    )
    if options.format == "table" and found:
        say(f"{counted(len(found), 'change')}.")
    return 0


def _is_wanted(change: ToolChange, config: Config, options: argparse.Namespace) -> bool:
    group = config.groups.get(options.server or "")
    servers = group.servers if group else (options.server,) if options.server else tuple(config.servers)
    words = (options.search or "").lower().split()
    return change.server in servers and all(word in change.tool.lower() for word in words)
