"""`trunkline servers`: how the servers fare."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from trunkline.cli.configured import held_back_in, print_held
from trunkline.cli.console import counted, print_json, print_lines, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_to_look_at, hint_to_begin, run, running_gateway, started
from trunkline.config.options import Config
from trunkline.model import Kind, Listing, ServerView, State

if TYPE_CHECKING:
    from trunkline.cli.running import Running

MARKS = {State.READY: "●", State.DEGRADED: "◐", State.STARTING: "○", State.STOPPED: "·"}
WELL = (State.READY, State.DEGRADED)
STATUSES: dict[str, tuple[State, ...]] = {
    "all": tuple(State),
    "connected": WELL,
    "disconnected": tuple(state for state in State if state not in WELL),
    "failed": (State.UNREACHABLE, State.NEEDS_AUTHORIZATION),
    **{state.value: (state,) for state in State},
}
"""What `--status` may be: a state, or a word for several."""


def add_commands(commands: Commands) -> None:
    """Add the command that looks at servers and changes nothing."""
    servers = commands.add("servers", commands.formatted)
    servers.add_argument(
        "--status", choices=tuple(STATUSES), metavar="STATE", help=f"only those in this state: {', '.join(STATUSES)}"
    )
    servers.add_argument(
        "--category", metavar="WORD", help="only those of this category in the catalogue, or with a tool of it"
    )
    servers.add_argument(
        "--detailed",
        action="store_true",
        help="also versions, lists, how calls of the running gateway went, and what a failing server said",
    )
    add_timeout(servers)
    servers.set_defaults(run=_servers)


_WORDS = {
    Kind.TOOL: ("tool",),
    Kind.PROMPT: ("prompt",),
    Kind.RESOURCE: ("resource",),
    Kind.TEMPLATE: ("template of resources", "templates of resources"),
}


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """How long the servers may take to start."""
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="to start, once downloaded (default: 30)"
    )


def _servers(options: argparse.Namespace) -> int:
    from trunkline.gateway.api.status import count

    config = config_to_look_at(options)
    views, words = look_at_servers(config, options.timeout)
    views = [view for view in views if view.state in STATUSES[options.status or "all"]]
    if options.category:
        views = [view for view in views if options.category in _categories(view, config)]
    told = running_statistics(config) if options.detailed else {}
    if options.format == "json":
        servers = [{**described(view, words.get(view.name, "")), **told.get(view.name, {})} for view in views]
        print_json({"servers": servers})
    elif options.format == "compact":
        print_lines(f"{view.name} {view.state.value}" for view in views)
    else:
        for view in views:
            _print_server(view, words.get(view.name, ""), detailed=options.detailed)
            if view.name in told:
                _print_statistics(told[view.name])
        if options.detailed and views and not told:
            say("No gateway of this configuration runs, so there are no statistics of calls.")
        well = sum(view.state in WELL for view in views)
        tools = counted(sum(count(view, Kind.TOOL) for view in views), "tool")
        say(f"{well} of {counted(len(views), 'server')} ready, {tools}. {hint_to_begin(config)}".rstrip())
        print_held(held_back_in(config))
    return 0


def _categories(view: ServerView, config: Config) -> set[str]:
    """What a server is for: as the catalogue has it, and by the kinds of its tools."""
    from trunkline.cli.registry import entry_of
    from trunkline.control.item import options_of
    from trunkline.tools.categories import infer_category
    from trunkline.wire.members import decode_object

    spec = config.servers[view.name]
    entry, said = entry_of(spec), spec.tools
    tools = [decode_object(item) for item in view.lists.get(Kind.TOOL, Listing()).items]
    named = [(str(tool.get("name", "")), str(tool.get("description", ""))) for tool in tools]
    kinds = {options_of(name, said).category or infer_category(name, text) for name, text in named}
    return kinds | set(entry.categories if entry else ())


def look_at_servers(config: Config, seconds: float, *, again: bool = False) -> tuple[list[ServerView], dict[str, str]]:
    """How the servers fare, and what each said last on its standard error.

    Those that the running gateway could not reach are tried `again`, here and now.
    """
    running = running_gateway(config)
    if running is None:
        return run(lambda: _started(config, seconds))
    views, words = run(lambda: _running(running, config, seconds))
    away = {view.name: config.servers[view.name] for view in views if view.state not in WELL}
    if not away or not again:
        return views, words
    fresh, said = run(lambda: _started(dataclasses.replace(config, servers=away, groups={}, profiles={}), seconds))
    latest = {view.name: view for view in fresh}
    return [latest.get(view.name, view) for view in views], words | said


async def _running(running: Running, config: Config, seconds: float) -> tuple[list[ServerView], dict[str, str]]:
    from trunkline.cli.running import RunningHub

    servers = RunningHub(running, config)
    await servers.ready(seconds)
    told = servers.told()
    return [one.view for one in told], {one.view.name: one.words for one in told}


async def _started(config: Config, seconds: float) -> tuple[list[ServerView], dict[str, str]]:
    from trunkline.doctor.words import without_secrets

    def words(text: str, server: str) -> str:
        return "\n".join(without_secrets(line, config.servers[server]) for line in text.splitlines())

    async with started(config, seconds) as hub:
        return hub.servers(), {view.name: words(hub.last_words(view.name), view.name) for view in hub.servers()}


def described(view: ServerView, words: str = "") -> dict[str, Any]:
    """A server for programs to read."""
    from trunkline.gateway.api.status import summary

    return {**summary(view), **({"stderr": words[-2000:]} if words else {})}


STATISTICS = ("calls", "failures", "tool_errors", "success_rate", "average_seconds", "in_flight", "waiting", "group")


def running_statistics(config: Config) -> dict[str, dict[str, Any]]:
    """How calls went, asked of the gateway that runs with this configuration; nothing when none does."""
    from trunkline.cli.running import running_at

    told = (running_gateway(config) or running_at("", config.gateway)).servers()
    return {one["name"]: {key: one[key] for key in STATISTICS if key in one} for one in told}


def _print_statistics(told: dict[str, Any]) -> None:
    if told.get("calls"):
        share = f"{told['success_rate']:.1%} went well, {told['average_seconds'] * 1000:.1f} ms on average"
        print(f"    {counted(told['calls'], 'call')}: {share}; {told['failures']} could not be made")
    else:
        print("    no calls yet")
    if told.get("in_flight") or told.get("waiting"):
        print(f"    {counted(told['in_flight'], 'call')} under way, {told['waiting']} wait")
    if "group" in told:
        print(f"    in group {told['group']['name']}: {told['group']['health']}")


def _print_server(view: ServerView, words: str, *, detailed: bool) -> None:
    from trunkline.gateway.api.status import count

    print(f"{MARKS.get(view.state, '✗')} {view.name} [{view.state.value}] {counted(count(view, Kind.TOOL), 'tool')}")
    if view.reason:
        print(f"    {view.reason}")
    if detailed:
        print(f"    {view.transport}: {view.address}")
        if view.introduction:
            offered = ", ".join(counted(count(view, kind), *_WORDS[kind]) for kind in Kind if count(view, kind))
            print(f"    protocol {view.introduction.version}; {offered or 'offers nothing'}")
        if words and view.state is not State.READY:
            print("    stderr: " + "\n            ".join(words.splitlines()[-5:]))
