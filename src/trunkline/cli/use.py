"""`trunkline search`, `exec`, `test`: find tools by what they do, call one, and try whether servers work."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from trunkline.cli.console import counted, first_line, print_json, print_list, say
from trunkline.cli.main import Commands
from trunkline.cli.open import (
    ask_servers,
    check_server,
    config_to_look_at,
    only,
    read_config,
    run,
    running_gateway,
    started,
)
from trunkline.cli.show import WELL, described, look_at_servers
from trunkline.cli.tools import away_of, description_of
from trunkline.config.options import Config, SearchStrategy
from trunkline.errors import ConfigError, TrunklineError, UnknownNameError, UnreachableError
from trunkline.gateway.api.status import count
from trunkline.gateway.local_api import find_tool
from trunkline.model import Entry, Kind, ServerView, State
from trunkline.tool import ToolResult
from trunkline.tools.names import did_you_mean
from trunkline.untrusted import as_object
from trunkline.wire.members import decode_object

if TYPE_CHECKING:
    from trunkline.cli.running import FoundTool, Running, Servers
    from trunkline.questions.manager import ElicitationManager


def add_commands(commands: Commands) -> None:
    """Add the commands that use tools: find them, call them, and try whether they can be called."""
    _add_search(commands)
    execute = commands.add(
        "exec",
        commands.formatted,
        description="Call a tool: `trunkline exec time__get_current_time timezone=UTC`. Or name its server first: "
        "`trunkline exec time get_current_time timezone=UTC`.",
    )
    execute.add_argument(
        "names", nargs="+", metavar="TOOL", help="the tool, or its server and the tool; then KEY=VALUE"
    )
    execute.add_argument(
        "--params", "-p", metavar="JSON", help="the arguments as a JSON object; - reads standard input"
    )
    execute.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for the call (default: 60)")
    execute.set_defaults(run=_exec)
    test = commands.add("test", commands.formatted)
    test.add_argument("server", nargs="?", help="only this one")
    test.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="to wait for each, once it is downloaded: seconds, not milliseconds (default: 10)",
    )
    test.set_defaults(run=_test)


def _exec(options: argparse.Namespace) -> int:
    names = [word for word in options.names if "=" not in word]
    pairs = [word for word in options.names if "=" in word]
    if len(names) > 2:
        raise ConfigError("There are too many names.", hint="Write SERVER TOOL, then KEY=VALUE.")
    config = _config(options, names[0] if len(names) == 2 else "")
    words = dict(word.split("=", 1) for word in pairs)
    shown, result = run(lambda: _call(config, names, _params(options.params), words, options.timeout))
    if options.format == "json":
        print_json(json.loads(result.raw))
    elif options.format == "compact":
        print(result.text)
    else:
        _print_result(shown, result)
    return 1 if result.is_error else 0


def _config(options: argparse.Namespace, server: str) -> Config:
    """The configuration; where a server is named that is not there, the hint is about that server."""
    if not server:
        return read_config(options)
    config = config_to_look_at(options)
    check_server(config, server)
    return config


async def _call(
    config: Config, names: list[str], params: dict[str, Any], words: dict[str, str], timeout: float
) -> tuple[str, ToolResult]:
    server = names[0] if len(names) == 2 else ""
    config = only(config, server)
    running = running_gateway(config)
    if running is not None:
        return await _call_there(running, config, (server, names[-1]), (params, words), timeout)
    async with started(config, timeout) as hub:
        answer_here(hub.elicitation)
        entry = find_tool(hub.snapshot, server, names[-1])
        if entry is None:
            raise _unknown(server, names[-1], list(hub.snapshot.tools), hub.servers(), timeout)
        arguments = {**params, **_read(words, entry)}
        return entry.shown, await hub.call(entry.shown, arguments, timeout=timeout, cached=False)


async def _call_there(
    running: Running,
    config: Config,
    named: tuple[str, str],
    said: tuple[dict[str, Any], dict[str, str]],
    timeout: float,
) -> tuple[str, ToolResult]:
    """The same through the gateway that has the servers already, so that the call is one of its calls."""
    from trunkline.call.stages.middleware import result_of
    from trunkline.cli.line import call_tool
    from trunkline.cli.running import RunningHub
    from trunkline.questions.bridge import LocalAnswers

    server, name = named
    servers = RunningHub(running, config)
    await servers.ready(timeout)
    found = running.ask("tool", Entry, server=server, name=name)
    if not found:
        raise _unknown(server, name, running.ask("names", str), servers.servers(), timeout)
    answers = LocalAnswers(config.gateway.question_timeout)
    answer_here(answers.elicitation)
    entry, (params, words) = found[0], said
    arguments = {**params, **_read(words, entry)}
    return entry.shown, result_of(await call_tool(running, entry, arguments, timeout=timeout, answers=answers))


def answer_here(elicitation: ElicitationManager) -> None:
    """Questions go to the terminal; where there is none, nobody is there to be asked, and servers are told so."""
    if sys.stdin.isatty():
        from trunkline.questions.terminal import TerminalHandler

        elicitation.register_handler(TerminalHandler())


def _unknown(server: str, name: str, known: list[str], views: Iterable[ServerView], timeout: float) -> TrunklineError:
    for view in views:
        meant = view.name == server or (not server and name.startswith(f"{view.name}__"))
        if meant and view.state not in WELL:
            late = f"It did not answer within {timeout:g} s. Wait longer with --timeout."
            return UnreachableError(f"Server {view.name!r} is {view.state.value}.", hint=view.reason or late)
    return UnknownNameError(
        f"There is no tool {f'{server} {name}'.strip()!r}.",
        hint=did_you_mean(name, known) or "See `trunkline tools`.",
    )


def _params(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise ConfigError(f"--params is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ConfigError("--params must be a JSON object.")
    return value  # type: ignore[reportUnknownVariableType]


def _read(words: dict[str, str], entry: Entry) -> dict[str, Any]:
    """Arguments as they were typed: JSON where it is some, but a text where the tool wants one."""
    properties = as_object(as_object(decode_object(entry.definition).get("inputSchema")).get("properties"))
    found: dict[str, Any] = {}
    for key, text in words.items():
        if as_object(properties.get(key)).get("type") == "string":
            found[key] = text
            continue
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def _print_result(shown: str, result: ToolResult) -> None:
    for block in result.content:
        if block.get("type") == "text":
            print(block.get("text", ""))
        else:
            print(f"[{block.get('type', 'unknown')} {block.get('mimeType', '')}]".replace(" ]", "]"))
    if result.structured is not None and not result.content:
        print_json(result.structured)
    if result.is_error:
        say(f"{shown} failed.")


def _test(options: argparse.Namespace) -> int:
    config = _config(options, options.server or "")
    if options.server:
        alone = config.servers.get(options.server)
        config = only(config, options.server)
        if alone is not None:  # whatever group it is in
            config = dataclasses.replace(config, servers={alone.name: alone}, groups={})
    if not config.servers:
        raise ConfigError("No server is configured.", hint="Add one: trunkline add NAME COMMAND")
    started = time.monotonic()
    views, words = look_at_servers(config, options.timeout, again=True)
    took = time.monotonic() - started
    failed = [view for view in views if view.state not in (State.READY, State.DEGRADED)]
    if options.format == "json":
        print_json(
            {"servers": [described(view, words.get(view.name, "")) for view in views], "seconds": round(took, 2)}
        )
    else:
        for view in views:
            _print_test(view, words.get(view.name, ""), options)
        say(f"{len(views) - len(failed)} of {counted(len(views), 'server')} {'works' if len(views) == 1 else 'work'}.")
    return 3 if failed else 0


def _print_test(view: ServerView, words: str, options: argparse.Namespace) -> None:
    works = view.state in (State.READY, State.DEGRADED)
    if options.format == "compact":
        print(f"{'ok' if works else 'failed'} {view.name}")
        return
    print(f"{'✓' if works else '✗'} {view.name}: {view.state.value}, {counted(count(view, Kind.TOOL), 'tool')}")
    if view.reason:
        print(f"    {view.reason}")
    elif view.state is State.STARTING:
        print(f"    It did not answer within {options.timeout:g} s. Wait longer with --timeout.")
    if words and not works:
        from trunkline.doctor.words import without_chatter

        words = without_chatter(words)
    if words and not works:
        print("    It said: " + "\n             ".join(words.splitlines()[-5:]))


def _add_search(commands: Commands) -> None:
    search = commands.add(
        "search",
        commands.formatted,
        description='Find tools by what they do: `trunkline search "open a pull request"`. Several queries find the '
        "best tools of each. Exit code 1 means that nothing fits.",
    )
    search.add_argument("query", nargs="+", help="what you want to do; several find the best tools of each")
    search.add_argument("--limit", type=int, default=10, metavar="N", help="how many at most (default: 10)")
    search.add_argument("--min-score", type=float, metavar="X", help="leave out what fits less, from 0 to 1")
    search.add_argument(
        "--strategy", choices=get_args(SearchStrategy), help="search in another way than `[search]` says"
    )
    search.add_argument("--server", action="append", default=[], metavar="NAME", help="only this server's; repeatable")
    search.add_argument("--safety", choices=("safe", "moderate", "dangerous"), help="only those of this level")
    search.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="to start, once downloaded (default: 30)"
    )
    search.set_defaults(run=_search)


def _search(options: argparse.Namespace) -> int:
    config = read_config(options)
    for name in options.server:
        check_server(config, name)
    query = options.query[0] if len(options.query) == 1 else options.query
    wanted = {name: getattr(options, name) for name in ("limit", "min_score", "safety", "strategy")}
    if not any(map(str.strip, options.query)):
        raise ConfigError("Say what you look for.", hint='Such as: trunkline search "open a pull request"')

    async def look(servers: Servers) -> tuple[Sequence[FoundTool], dict[str, str]]:
        return await servers.find(query, servers=options.server, **wanted), away_of(servers)

    found, away = ask_servers(config, options.timeout, look)
    print_list(
        options.format,
        {"tools": [_described_found(one) for one in found]},
        [one.tool.shown for one in found],
        ("score", "tool", "because of", "description"),
        [[f"{one.score:.2f}", one.tool.shown, _reasons(one), first_line(description_of(one.tool))] for one in found],
    )
    if any(one.words_alone for one in found):
        say("Found by words alone: what the query means was not known in time.")
    if not found:
        say("Nothing fits. Say it in other words, or lower --min-score.")
    for name, reason in away.items() if not found else ():
        say(f"Not searched: {name}, {reason}")
    return 0 if found else 1


def _described_found(found: FoundTool) -> dict[str, Any]:
    return {
        "tool": found.tool.shown,
        "server": found.tool.server,
        "score": round(found.score, 4),
        "reasons": [{"word": reason.word, "fields": list(reason.fields)} for reason in found.reasons],
        "description": description_of(found.tool),
    }


def _reasons(found: FoundTool) -> str:
    return ", ".join(reason.word for reason in found.reasons[:4])
