"""`trunkline annotate`: what is known of how tools behave, and what you know better."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from trunkline.cli.console import counted, print_json, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.open import ask_servers, check_server, config_file, config_to_look_at, hint_to_begin, only
from trunkline.cli.tools import known_of
from trunkline.config.file import read_file, servers_of, super_table, write_file
from trunkline.config.options import Config
from trunkline.config.reading import user_file
from trunkline.errors import ConfigError
from trunkline.model import Entry
from trunkline.tool import Annotations, Tool
from trunkline.tools.annotations import get_annotation_summary, get_tool_safety_level, to_mcp, validate_annotations
from trunkline.tools.infer import infer

FLAGS = {
    "read_only_hint": "it only reads",
    "destructive_hint": "it deletes, overwrites, or cannot be undone",
    "idempotent_hint": "calling it twice is like calling it once",
    "open_world_hint": "it touches systems beyond its server",
    "requires_confirmation": "a person must agree to every call",
    "audit_required": "every call is in the audit, or is not made",
    "volatile_hint": "its answers change by themselves, so that none is kept",
}
VALUES: dict[str, tuple[type[Any], str]] = {
    "estimated_duration": (float, "seconds it usually takes"),
    "rate_limit_hint": (float, "calls in a minute that it bears"),
    "cost_hint": (float, "what a call costs, in units of your own"),
    "complexity": (str, "simple, medium or complex"),
    "security_level": (str, "public, internal or restricted"),
    "title": (str, "a name for people"),
}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    annotate = commands.add(
        "annotate",
        commands.formatted,
        description="Say how a tool behaves: `trunkline annotate --tool delete_note --destructive`. It is kept in the "
        "configuration, counts before what the server says, and is shown to callers.",
    )
    what = annotate.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="every tool, with what is known of it (the default)")
    what.add_argument("--infer", action="store_true", help="only what can be told from names, words and schemas")
    what.add_argument("--validate", action="store_true", help="find annotations that contradict themselves")
    annotate.add_argument("--tool", "-t", metavar="NAME", help="this tool, or a pattern such as 'delete_*'")
    annotate.add_argument("--server", "-s", metavar="NAME", help="of this server")
    for name, help_text in FLAGS.items():
        annotate.add_argument(_flag(name), dest=name, action=argparse.BooleanOptionalAction, help=help_text)
    for name, (kind, help_text) in VALUES.items():
        annotate.add_argument(_flag(name), dest=name, type=kind, help=help_text)
    annotate.add_argument("--tags", help="words to find it by, with commas between them")
    annotate.add_argument("--annotations", "-a", metavar="JSON", help="all of this in one object")
    annotate.add_argument("--tools", metavar="FILE", help="with --infer: tools to read from a file, instead of servers")
    annotate.add_argument("--out", metavar="FILE", help="with --infer --tools: where to write, one JSON object a line")
    annotate.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="to start, once downloaded (default: 30)"
    )
    annotate.set_defaults(run=_annotate)


def _flag(name: str) -> str:
    return "--" + name.removesuffix("_hint").removesuffix("_required").replace("_", "-")


def _annotate(options: argparse.Namespace) -> int:
    said = _given(options)
    if options.tools or options.out:
        if not (options.infer and options.tools and options.out):
            raise ConfigError("--tools and --out belong together, with --infer.")

        return infer_file(Path(options.tools), Path(options.out))
    if said:
        if not options.tool:
            raise ConfigError("Of which tool?", hint="Name it with --tool.")
        return _set(options, said)
    return _show(options)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags say, by the names of the configuration's fields."""
    said: dict[str, Any] = {}
    if options.annotations:
        try:
            given = json.loads(options.annotations)
        except ValueError as error:
            raise ConfigError(f"--annotations is not JSON: {error}.") from error
        if not isinstance(given, dict):
            raise ConfigError("--annotations must be a JSON object.")
        said.update({_snake(key): value for key, value in cast("dict[str, Any]", given).items()})
    said.update({name: getattr(options, name) for name in (*FLAGS, *VALUES) if getattr(options, name) is not None})
    if options.tags is not None:
        said["tags"] = [tag.strip() for tag in options.tags.split(",") if tag.strip()]
    return said


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _set(options: argparse.Namespace, said: dict[str, Any]) -> int:
    """Write it into the file; a tool whose server is not named is looked for."""
    known = {field.name for field in dataclasses.fields(Annotations)}
    for name in said:
        if name not in known:
            raise ConfigError(f"There is no annotation {name!r}.", hint=f"There are: {', '.join(sorted(known))}.")
    path = config_file(options) or user_file(os.environ)
    config = config_to_look_at(options)
    if path.suffix != ".toml":
        raise ConfigError(f"{path} is a client's file, which has no place for annotations.", hint="Use trunkline.toml.")
    document = read_file(path)
    server, tool = _find(config, options, known=document.get("tools", {}))
    holder: Any = servers_of(document, path)[server] if server else document
    spoken: Any = holder.setdefault("tools", {} if server else super_table()).setdefault(tool, {})
    problems = validate_annotations({**spoken, **said})
    if problems:
        raise ConfigError(" ".join(problems))
    spoken.update(said)
    write_file(path, document)
    if options.format == "json":
        print_json({"server": server, "tool": tool, "annotations": dict(spoken), "file": str(path)})
    else:
        whose = f"{server}'s {tool}" if server else f"{tool}, of whichever server has it"
        say(f"{whose}: {', '.join(f'{k} = {json.dumps(v)}' for k, v in dict(spoken).items())} (in {path})")
    return 0


def _find(config: Config, options: argparse.Namespace, *, known: Collection[str]) -> tuple[str, str]:
    """The server and the name of a tool; no server if there is none yet: then it is said of whichever will have it."""
    if options.server:
        group = config.groups.get(options.server)
        check_server(config, options.server)
        # Said of one server of a group, it counts for all.
        return group.servers[0] if group else options.server, options.tool
    if options.tool in known or not config.servers:
        return "", options.tool
    if len(config.servers) == 1:
        return next(iter(config.servers)), options.tool
    entries = ask_servers(config, options.timeout, lambda hub: hub.tools())
    found = {(entry.members or (entry.server,))[0]: entry for entry in entries if _named(entry, options.tool)}
    if not found:
        raise ConfigError(
            f"No server that can be reached has {options.tool!r}.",
            hint=f"If one will have it, name it with --server: {', '.join(config.servers)}.",
        )
    if len(found) > 1:
        raise ConfigError(f"Several servers have {options.tool!r}.", hint="Name the server with --server.")
    server, entry = next(iter(found.items()))
    return server, entry.name


def _named(entry: Entry, name: str) -> bool:
    return name in (entry.name, entry.shown)


def _show(options: argparse.Namespace) -> int:
    from trunkline.tools.patterns import Glob

    config = config_to_look_at(options)
    if options.server:
        check_server(config, options.server, looks=True)
        config = only(config, options.server)
    if options.infer:
        config = _without_words(config)
    pattern = Glob((options.tool or "*").replace("*", "**"))
    entries = [
        entry
        for entry in ask_servers(config, options.timeout, lambda hub: hub.tools())
        if (not options.server or options.server in (entry.server, *entry.members))
        and (pattern.matches(entry.name) or _named(entry, options.tool))
    ]
    if options.tool and not entries:
        raise ConfigError(f"There is no tool {options.tool!r}.", hint="See `trunkline tools`.")
    if options.validate:
        return _validate(entries, options)
    if options.format == "json":
        print_json({"tools": [_described(entry, infer=options.infer) for entry in entries]})
        return 0
    rows = [[entry.shown, *_summary(entry, infer=options.infer)] for entry in entries]
    print_table(("tool", "safety", "annotations"), rows)
    count = {level: sum(row[1] == level for row in rows) for level in ("safe", "moderate", "dangerous")}
    counts = ", ".join(f"{number} {level}" for level, number in count.items())
    say(f"{counted(len(rows), 'tool')}: {counts}. {hint_to_begin(config, options.server)}".rstrip())
    return 0


def _without_words(config: Config) -> Config:
    servers = {name: dataclasses.replace(spec, tools={}) for name, spec in config.servers.items()}
    return dataclasses.replace(config, servers=servers)


def _known(entry: Entry, *, infer: bool) -> Annotations:
    if not infer:
        return entry.annotations
    from trunkline.tools.annotations import infer_annotations
    from trunkline.wire.members import decode_object

    definition = decode_object(entry.definition)
    tool = Tool(entry.name, str(definition.get("description", "")), definition.get("inputSchema") or {})
    return infer_annotations(tool)


def _summary(entry: Entry, *, infer: bool) -> tuple[str, str]:
    known = _known(entry, infer=infer)
    return get_tool_safety_level(known), get_annotation_summary(known)


def _described(entry: Entry, *, infer: bool) -> dict[str, Any]:
    known = _known(entry, infer=infer)
    return {
        "tool": entry.shown,
        "server": entry.server,
        "safety": get_tool_safety_level(known),
        "annotations": known_of(known),
    }


def _validate(entries: list[Entry], options: argparse.Namespace) -> int:
    found = {entry.shown: validate_annotations(entry.annotations) for entry in entries}
    wrong = {shown: problems for shown, problems in found.items() if problems}
    if options.format == "json":
        print_json({"valid": not wrong, "problems": wrong})
    else:
        for shown, problems in wrong.items():
            print(f"{shown}: {' '.join(problems)}")
        say(f"{len(entries) - len(wrong)} of {len(entries)} tools are annotated without contradiction.")
    return 1 if wrong else 0


def infer_file(tools: Path, out: Path) -> int:
    """Write one line of inferred hints for each tool in a file; the hints that the file declares are not looked at."""
    definitions = _read_tools(tools)
    lines = [
        json.dumps(
            {
                "server": tool.get("server", ""),
                "name": tool["name"],
                "annotations": to_mcp(infer(tool["name"], tool["description"], tool["inputSchema"]).annotations),
            },
            ensure_ascii=False,
        )
        for tool in definitions
    ]
    try:
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}.") from error
    say(f"{len(lines)} tools annotated in {out}.")
    return 0


def _read_tools(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint="Name a file of tools.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8.") from error
    return [_checked(tool, where) for tool, where in _entries(text, path)]


def _entries(text: str, path: Path) -> list[tuple[Any, str]]:
    """The tools of a list, of a `tools/list` result or of one JSON object in each line, and where each stands."""
    try:
        whole = json.loads(text)
    except ValueError:
        return _entries_by_line(text, path)
    if isinstance(whole, dict):
        whole = cast(dict[str, Any], whole)
        whole = whole.get("result", whole)
    if isinstance(whole, dict):
        whole = cast(dict[str, Any], whole)
        whole = whole.get("tools", [whole])
    if not isinstance(whole, list):
        raise ConfigError(
            f"{path} holds no list of tools.",
            hint='Give it a JSON list, a tools/list result, or one {"name": ...} in each line.',
        )
    return [(tool, f"{path}, tool {count}") for count, tool in enumerate(cast(list[Any], whole), 1)]


def _entries_by_line(text: str, path: Path) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = []
    for count, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append((json.loads(line), f"{path}, line {count}"))
        except ValueError as error:
            raise ConfigError(f"{path}, line {count} is not JSON: {error}.") from error
    return found


def _checked(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ConfigError(f"{where} is not a tool.", hint='A tool is an object with a "name".')
    tool = cast(dict[str, Any], tool)
    name, server = tool.get("name"), tool.get("server", "")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where} has no name.", hint='Give it a "name" that is a text.')
    if not isinstance(server, str):
        raise ConfigError(f"{where}: the server of {name!r} is not a text.")
    description, schema = tool.get("description") or "", tool.get("inputSchema")
    if not isinstance(description, str):
        raise ConfigError(f"{where}: the description of {name!r} is not a text.")
    if not isinstance(schema, dict | None):
        raise ConfigError(f"{where}: the inputSchema of {name!r} is not an object.")
    return {"server": server, "name": name, "description": description, "inputSchema": schema}
