"""`trunkline add`, `remove`: change the configuration file, and leave the rest of it as it is."""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trunkline.cli.console import agrees, can_ask, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file, run
from trunkline.clients.secret import holds_secret
from trunkline.config.file import read_file, servers_of, write_file
from trunkline.config.reading import parse, user_file
from trunkline.errors import ConfigError, TrunklineError
from trunkline.untrusted import printable

_SAID = ("command", "args", "url", "env", "headers", "cwd", "transport")


def add_commands(commands: Commands) -> None:
    """Add the commands that write."""
    add = commands.add(
        "add",
        commands.formatted,
        description="Add a server: `trunkline add time uvx mcp-server-time`, or `trunkline add docs https://host/mcp`, "
        "or what a manifest describes: `trunkline add --manifest ./plugins/github`. The command may be one text in "
        "quotes. To add the same once more changes nothing.",
    )
    needed = [
        add.add_argument("name", help="how it is called here"),
        add.add_argument("address", metavar="COMMAND|URL", help="the program to start, or a remote server's address"),
        add.add_argument(
            "args",
            nargs=argparse.REMAINDER,
            help="the program's arguments; what stands behind `--` is the program's in any case",
        ),
    ]
    needed[-1].required = False  # most programs need none
    _add_flags(add)
    add_manifest_flags(add, needed)
    add.set_defaults(run=partial(_add, formatted=commands.formatted))
    remove = commands.add("remove", commands.formatted)
    remove.add_argument("name", help="the server, as `trunkline list` calls it")
    _add_scope(remove)
    remove.add_argument(
        "--force", "-f", "--yes", "-y", action="store_true", help="do not ask, as without a terminal nobody is"
    )
    remove.set_defaults(run=_remove)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="give it this variable")
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help="send this header")
    parser.add_argument("--cwd", help="start it in this folder")
    parser.add_argument("--transport", choices=("stdio", "http", "sse"), help="when the address does not tell")
    parser.add_argument("--force", action="store_true", help="replace a server of the same name")
    parser.add_argument("--no-download", action="store_true", help="do not have npx, uvx and the like fetch it first")
    _add_scope(parser)


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope", choices=("app", "user"), help="in the store and not in the file: everybody's, or one user's own"
    )
    parser.add_argument("--user", metavar="NAME", help="whose it is, with --scope user")
    parser.add_argument("--store", default="", metavar="URL", help="with --scope, in this store, whatever runs")


def _add(options: argparse.Namespace, formatted: argparse.ArgumentParser) -> int:
    if options.manifest:
        from trunkline.cli.manifest import add_manifest

        return add_manifest(options)
    if options.args and options.address.startswith(("http://", "https://")):
        # A remote server has no arguments of its own, so what follows its address is meant for us.
        behind = argparse.ArgumentParser(prog="trunkline add", parents=[formatted])
        _add_flags(behind)
        options = behind.parse_args(options.args, argparse.Namespace(**{**vars(options), "args": []}))
    else:
        options.words = _program(options)
    path = config_file(options) or user_file(os.environ)
    spec = _spec(options, path)
    if _is_registered(options):
        from trunkline.cli.people import register

        return register(options, spec)
    already = _is_there(path, options.name, spec)
    failed = ""
    if not already:
        check_new(path, options.name, spec, force=options.force)
        failed = "" if options.no_download else download(options.name, spec)
        put_server(path, options.name, dict(spec), force=options.force)
    if options.format == "json":
        print_json(
            {"added": options.name, "file": str(path), "already": already, **({"problem": failed} if failed else {})}
        )
        return 0
    said = f"{options.name!r} is in {path} already, the same." if already else f"Added {options.name!r} to {path}."
    if failed:
        say(f"{said} It does not start yet: {printable(failed)} See why: trunkline doctor {options.name}")
    else:
        say(f"{said} Try it: trunkline test {options.name}")
    if holds_secret(spec.get("args", ())):
        say("An argument looks like a secret: it is in the file now. If the program takes it as a variable, write")
        say(f"  trunkline secret set NAME, then: trunkline add --force --env 'KEY=${{secret:NAME}}' {options.name} …")
    if "cwd" in spec and not options.cwd:
        say(f"It is started in {spec['cwd']}, as its command names a file from there.")
    return 0


def _is_registered(options: argparse.Namespace) -> bool:
    """Whether a server is the store's, and not the file's."""
    if not options.scope and (options.user or options.store):
        raise ConfigError("--user and --store are for servers in the store.", hint="Say --scope user, or app.")
    return bool(options.scope)


def _is_there(path: Path, name: str, spec: dict[str, Any]) -> bool:
    """Whether a server of that name is what would be added; what else is said of it does not count."""
    known: Any = servers_of(read_file(path), path).get(name)
    return known is not None and all(known.get(key) == spec.get(key) for key in _SAID)


def put_server(path: Path, name: str, spec: dict[str, Any], *, force: bool) -> None:
    """Write a server into a configuration; ConfigError when it is wrong, or there already."""
    check_new(path, name, spec, force=force)
    document = read_file(path)
    servers = servers_of(document, path)
    transport = spec.pop("transport", "") if path.suffix != ".toml" else ""
    servers[name] = {**spec, "type": transport} if transport else spec
    write_file(path, document)


def check_new(path: Path, name: str, spec: dict[str, Any], *, force: bool) -> None:
    """ConfigError when a server is wrong, or there already: a wrong entry would be refused at the next start."""
    parse({"servers": {name: spec}}, env=os.environ)
    if name in servers_of(read_file(path), path) and not force:
        raise ConfigError(f"There is a server {name!r} already.", hint="Replace it with --force.")


def download(name: str, spec: dict[str, Any]) -> str:
    """Start a server once that `npx`, `uvx` or the like must fetch first; why it did not start, if it did not."""
    made = parse({"servers": {name: spec}}, env=os.environ).servers[name]
    if made.kind != "stdio" or made.problem:
        return made.problem
    from trunkline.install.manifests.inventory import read_tools
    from trunkline.upstream.download import package_of, runner_of

    runner = runner_of(made)[0]
    if not runner:
        return ""
    what = printable(package_of(made).partition(" ")[2] or made.command)[:60]
    say(f"{runner} downloads and starts {what} once; the first time that may take minutes.")
    try:
        run(lambda: _with_seconds(read_tools(made)))
    except TrunklineError as error:
        return str(error)
    return ""


async def _with_seconds(work: Coroutine[Any, Any, Any]) -> None:
    """Do the work, and show on a terminal how long it takes already."""
    import asyncio

    async def count() -> None:
        for seconds in itertools.count():
            print(f"\r\033[K{seconds} s", end="", file=sys.stderr, flush=True)
            await asyncio.sleep(1.0)

    counting = asyncio.ensure_future(count()) if sys.stderr.isatty() else None
    try:
        await work
    finally:
        if counting is not None:
            counting.cancel()
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _remove(options: argparse.Namespace) -> int:
    if _is_registered(options):
        from trunkline.cli.people import unregister

        return unregister(options)
    path = config_file(options)
    if path is None:
        raise ConfigError("There is no configuration, and so no server to remove.", hint="See `trunkline add --help`.")
    document = read_file(path)
    servers = servers_of(document, path)
    if options.name not in servers:
        raise ConfigError(f"There is no server {options.name!r}.", hint=f"There are: {', '.join(servers) or 'none'}.")
    for group, spec in document.get("groups", {}).items():
        if options.name in spec.get("servers", ()):
            raise ConfigError(f"Group {group!r} needs server {options.name!r}.", hint="Take it out of the group first.")
    if not options.force and can_ask() and not agrees(f"Remove {options.name!r} from {path}?"):
        say("Nothing was removed.")
        return 1
    del servers[options.name]
    write_file(path, document)
    if options.format == "json":
        print_json({"removed": options.name, "file": str(path)})
    else:
        say(f"Removed {options.name!r} from {path}.")
    return 0


def _spec(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if options.address.startswith(("http://", "https://")):
        spec["url"] = options.address
    else:
        words = options.words
        spec["command"] = words[0]
        if words[1:]:
            spec["args"] = words[1:]
        # What is near here must be found from wherever Trunkline runs; a file beside the configuration moves with it.
        if any(word.startswith(("./", "../")) for word in words) and path.parent.resolve() != Path.cwd():
            spec["cwd"] = str(Path.cwd())
    if options.env:
        spec["env"] = dict(_split(pair, "=", "--env") for pair in options.env)
    if options.header:
        spec["headers"] = dict(_split(pair, ":", "--header") for pair in options.header)
    if options.cwd:
        spec["cwd"] = str(Path(options.cwd).expanduser().resolve())
    if options.transport:
        spec["transport"] = options.transport
    return spec


_TAKEN = {"--env": "env", "--header": "header", "--transport": "transport", "--force": "force"}
"""Options of ours that are taken behind the command as well."""
_DOUBTFUL = ("--cwd", "--config", "--format", "--manifest", "--set", "--package", "--scope", "--no-download")
"""Options of ours that a program may well have, too."""
_CONTAINERS = ("docker", "podman", "nerdctl")


def _program(options: argparse.Namespace) -> list[str]:
    """The command and its arguments; options of ours among them are taken out, and those in doubt are refused."""
    given: list[str] = _words(options.address) if not options.args else [options.address, *options.args]
    words, rest = given[:1], given[1:]
    while rest:
        word = rest.pop(0)
        if word == "--" and len(words) + len(rest) + 1 >= 2:
            return words + rest
        flag, equals, value = word.partition("=")
        if flag in _DOUBTFUL or (flag == "--env" and Path(words[0]).stem in _CONTAINERS):
            raise ConfigError(
                f"{flag} stands behind the command, so it may be ours or the program's.",
                hint=f"Ours: trunkline add {flag} … {options.name} {shlex.join(words)} … "
                f"The program's: trunkline add {options.name} {words[0]} -- {shlex.join(words[1:])} {flag} …".replace(
                    "  ", " "
                ),
            )
        if flag not in _TAKEN:
            words.append(word)
        elif flag == "--force":
            options.force = True
        elif not equals and not rest:
            raise ConfigError(f"{flag} wants a value.", hint="See `trunkline add --help`.")
        elif flag == "--transport":
            options.transport = value or rest.pop(0)
        else:
            getattr(options, _TAKEN[flag]).append(value if equals else rest.pop(0))
    return words


def _words(address: str) -> list[str]:
    """A command that came as one text; a program whose path has spaces is one word."""
    if " " not in address or Path(address).expanduser().exists():
        return [address]
    try:
        return shlex.split(address, posix=os.name != "nt") or [address]
    except ValueError as error:
        raise ConfigError(f"The command cannot be read: {error}.", hint="Close its quotes.") from error


def _split(pair: str, mark: str, flag: str) -> tuple[str, str]:
    key, found, value = pair.partition(mark)
    if not found or not key.strip():
        raise ConfigError(f"{flag} wants NAME{mark}VALUE.")
    return key.strip(), value.strip()


def add_manifest_flags(parser: argparse.ArgumentParser, needed: Sequence[argparse.Action]) -> None:
    """Add them; `needed` are the arguments that a manifest makes superfluous."""

    class Manifest(argparse.Action):
        def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
            namespace.manifest = values
            for action in needed:
                action.required = False

    parser.add_argument(
        "--manifest",
        action=Manifest,
        metavar="PATH|URL",
        help="add what a server.json or plugin.json describes; its command is shown, and nothing is run",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="answer what a manifest asks")
    parser.add_argument(
        "--package", default="", metavar="NAME", help="which of a manifest's packages, such as npm or 2"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="agree to the command that a manifest wants to run")
