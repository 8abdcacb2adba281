"""The command line: what there is, and what happens when something goes wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from trunkline.version import __version__

OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code says how it went."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # also while modules are loaded
        if sys.stderr.isatty():
            print(file=sys.stderr)  # so that the shell's prompt does not stand behind what was asked
        return INTERRUPTED


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"trunkline {__version__}")
        return OK
    if words == ["completion", "servers"]:
        from trunkline.cli.completion import print_servers

        return print_servers()  # while somebody waits at the prompt
    options = parser(words[0] if words else "--help").parse_args(words)
    if not hasattr(options, "run"):
        parser("--help").print_help(sys.stderr)
        return USAGE
    return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    import logging

    from trunkline.errors import ConfigError, RefusedError, TrunklineError, UnreachableError
    from trunkline.telemetry.logs import use_format

    global _typed
    _typed = _how_called(sys.argv, getattr(options, "config", None))
    level = logging.DEBUG if options.debug else logging.ERROR if options.quiet else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr)
    use_format("text")
    for noisy in ("watchfiles", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
    try:
        return options.run(options)
    except (ConfigError, RefusedError) as error:
        _complain(error)
        return USAGE
    except UnreachableError as error:
        _complain(error)
        return UNREACHABLE
    except TrunklineError as error:
        _complain(error)
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has enough of it
        return OK
    except Exception as error:  # the outermost place: a person gets a line to report, and not a traceback
        if options.debug:
            raise
        print(f"trunkline: unexpected {type(error).__name__}: {error} (run again with --debug)", file=sys.stderr)
        return FAILED


def _complain(error: Exception) -> None:
    from trunkline.cli.console import say

    say(f"trunkline: {error}", failed=True)


_typed: tuple[str, str] = ("", "")
"""How we were called, where `trunkline` alone would be another program or none; and the options to repeat."""
_ALONE = ("secret", "completion", "registry")
_OF_SEVERAL = ("user", "key", "keys", "thread", "store")
"""Commands whose options stand behind a second word."""


def as_typed(text: str) -> str:
    """A text in which the commands are such that this person can type them, here and for the same configuration."""
    program, config = _typed
    if not (program or config) or "trunkline " not in text:
        return text
    import re

    def typed(found: re.Match[str]) -> str:
        repeated = config if found[1] not in _ALONE else ""
        return f"{program or 'trunkline'} {found[1]}{repeated}"

    names = "|".join((*(f"{name} [a-z]+" for name in _OF_SEVERAL), *COMMANDS))
    return re.sub(rf"(?<![\w./-])trunkline ({names})(?![\w-])", typed, text)


def _how_called(words: Sequence[str], config: str | None) -> tuple[str, str]:
    import shlex
    import shutil
    from pathlib import Path

    program, found = Path(words[0]), shutil.which("trunkline")
    path = "" if program.name != "trunkline" or (found and Path(found).samefile(program)) else shlex.quote(words[0])
    if program.name == "__main__.py":
        path = f"{Path(sys.executable).name} -m trunkline" if found is None else ""
    return path, f" --config {shlex.quote(config)}" if config else ""


COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("up", "start the gateway"),
    "stdio": ("stdio", "serve a client that starts us as its server, such as Claude Desktop"),
    "top": ("top", "watch the running gateway: servers, calls, errors, tokens saved"),
    "usage": ("usage", "see what calls used: tokens and cost"),
    "audit": ("audit", "read the audit, and check that nobody changed it"),
    "list": ("configured", "list the configured servers; starts none"),
    "servers": ("show", "start the servers and show how they fare"),
    "tools": ("tools", "list the tools of all servers"),
    "discover": ("discover", "see what the servers offer, and what is new"),
    "search": ("use", "find tools by what they do"),
    "exec": ("use", "call a tool"),
    "run": ("program", "run a program over tools"),
    "test": ("use", "try whether servers can be reached"),
    "doctor": ("doctor", "find out why something does not work, and what to do"),
    "review": ("review", "see what servers changed of their tools, and agree to it"),
    "add": ("edit", "add a server"),
    "login": ("sign_in", "sign in to a remote server"),
    "logout": ("sign_in", "sign out of one"),
    "connections": ("sign_in", "list the remote servers that you are signed in to"),
    "remove": ("edit", "remove a server"),
    "create-server": ("create", "begin a server of your own"),
    "install": ("install", "install a server of the catalogue or a registry"),
    "registry": ("registry", "look for servers to install"),
    "import": ("imports", "take over the servers of Claude, Cursor, VS Code and others"),
    "connect": ("connect", "let Claude, Cursor, VS Code and others use Trunkline"),
    "undo": ("connect", "take back the last `connect`"),
    "user": ("people", "say who may call"),
    "key": ("people", "make keys that let users in, and revoke them"),
    "thread": ("thread", "say what one conversation of a user has"),
    "store": ("store", "look after what is kept of users, keys, servers and threads"),
    "keys": ("keys", "look after the keys that secrets are sealed with"),
    "annotate": ("annotate", "say how tools behave, or see what is known of it"),
    "bench": ("bench", "measure how well and how fast tools are found"),
    "secret": ("secret", "keep a secret for the configuration"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}
"""Every command in the order of the help: the module that has it, and what it does."""


def parser(*wanted: str) -> argparse.ArgumentParser:
    """Everything that can be typed, with the arguments of the commands `wanted`, or of all, which takes a while."""
    made = argparse.ArgumentParser(
        prog="trunkline",
        description="One line to every MCP tool: a gateway in front of many MCP servers.",
        epilog="`trunkline COMMAND --help` has examples. "
        "Exit codes: 0 done, 1 it failed, 2 wrong use or configuration, 3 a server cannot be reached.",
    )
    made.add_argument("--version", "-V", action="version", version=f"trunkline {__version__}")
    commands = Commands(made)
    loaded = {COMMANDS[name][0] for name in wanted or COMMANDS if name in COMMANDS}
    for name, (module, _) in COMMANDS.items():
        if module not in loaded:
            commands.add(name)
        elif name not in commands.names:
            import_module(f"trunkline.cli.{module}").add_commands(commands)
    return made


class Commands:
    """What a module adds its commands to: each gets its line in the help, and its examples."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.common = argparse.ArgumentParser(add_help=False)
        self.common.add_argument("--config", metavar="FILE", help="trunkline.toml, or any MCP client's JSON file")
        self.common.add_argument("--quiet", "-q", action="store_true", help="log errors only")
        self.common.add_argument("--debug", action="store_true", help="log everything, and show tracebacks")
        self.formatted = argparse.ArgumentParser(add_help=False, parents=[self.common])
        self.formatted.add_argument(
            "--format", choices=("table", "json", "compact"), default="table", help="how to print"
        )
        self.names: set[str] = set()
        self._parsers: Any = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(
        self, name: str, *options: argparse.ArgumentParser, description: str = "", examples: str = ""
    ) -> argparse.ArgumentParser:
        """A command with these options: `common`, `formatted` ones that include them, or none."""
        self.names.add(name)
        lines = EXAMPLES.get(name, ())
        return self._parsers.add_parser(
            name,
            parents=options,
            help=COMMANDS[name][1],
            description=description or None,
            epilog=examples or ("\n".join((_HEAD, *(f"  {line}" for line in lines))) if lines else None),
            formatter_class=Help,
        )


EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": (
        "trunkline up                                 the servers of trunkline.toml; without one, two to play with",
        "trunkline up --config ~/.cursor/mcp.json     those of another client's file, as it is",
        "trunkline up --port 9000 --expose search     any option of [gateway] is a flag",
    ),
    "login": (
        "trunkline login linear                       opens the browser, and waits",
        "trunkline login linear --no-browser          prints the address alone, for a browser elsewhere",
    ),
    "logout": ("trunkline logout linear                      forgets its tokens, and has them revoked",),
    "connections": ("trunkline connections --format json          who is signed in where",),
    "stdio": (
        "trunkline stdio                              the servers of the running gateway, or of trunkline.toml",
        "trunkline stdio --profile careful            only what this profile has",
        "trunkline stdio --url https://host/mcp       of a gateway elsewhere",
    ),
    "list": ("trunkline list", "trunkline list --format json"),
    "servers": (
        "trunkline servers                            every server: whether it works, and if not, why not",
        "trunkline servers --status connected         those that can be used now; also failed, or a state",
        "trunkline servers --category file-system     those with tools of this kind",
        "trunkline servers --detailed                 also how calls went, if the gateway runs",
    ),
    "discover": (
        "trunkline discover                           what each server offers, and what is new since the last time",
        "trunkline discover --server github           of one server alone",
        "trunkline discover --infer-annotations       also what the words of each tool say of it, and why",
    ),
    "tools": (
        'trunkline tools --search "read file"         those whose name or description has all these words',
        "trunkline tools --server notes --annotations",
        "trunkline tools --safety dangerous           those to be careful with",
        "trunkline tools --tokens                     what they take of a model's context",
        "trunkline tools --changes                    what is new since they were first seen",
    ),
    "search": (
        'trunkline search "what time is it"',
        'trunkline search "read a file" "send a mail" --limit 3    the best for each step',
    ),
    "exec": (
        "trunkline exec time__get_current_time timezone=UTC",
        "trunkline exec time get_current_time timezone=UTC         the server first, then its own name of the tool",
        'trunkline exec notes add_note --params \'{"title": "a", "text": "b"}\'',
    ),
    "run": (
        "trunkline run report.py                      its last expression is printed as JSON",
        "echo 'await time__get_current_time(timezone=\"UTC\")' | trunkline run -",
    ),
    "test": (
        "trunkline test                               every server",
        "trunkline test github --timeout 60           one of them, for a minute at most",
    ),
    "review": (
        "trunkline review                             what differs from what was agreed to, and what is held for it",
        "trunkline review github                      of one server alone",
        "trunkline review approve github              agree to all of it; callers have it at once",
        "trunkline review approve github create_issue",
        "trunkline review reject github create_issue  hold it for good",
    ),
    "add": (
        "trunkline add time uvx mcp-server-time",
        'trunkline add data-api "node ./servers/data.js"     the command in one',
        "trunkline add --env TOKEN=${env:GITHUB_TOKEN} github npx -y @modelcontextprotocol/server-github",
        'trunkline add docs https://mcp.example.org/mcp --header "Authorization: Bearer ${env:DOCS_TOKEN}"',
        "trunkline add --manifest ./plugins/github",
        "trunkline add git https://git.example/mcp --scope user --user ana     one user's own, while the gateway runs",
    ),
    "user": (
        "trunkline user add ana                       from now on the gateway wants a key of everybody",
        "trunkline user add ops --role admin          who may use the admin API",
        "trunkline user set ana --limit calls_per_hour=100",
        "trunkline user list",
        "trunkline user show ana                      their keys, servers and threads",
        "trunkline user remove ana --yes",
    ),
    "key": (
        "trunkline key create --user ana --name laptop --expires 30d",
        "trunkline key create --user ana --servers docs --tools 'docs__get_*' --read-only",
        'trunkline key create --user ana --format json       {"id": …, "key": …}',
        "trunkline key list --user ana",
        "trunkline key revoke 6b1f0c…                 felt at once, in what is open, too",
    ),
    "thread": (
        "trunkline thread set c-42 --user ana --servers docs,git --disable git",
        "trunkline thread set c-42 --user ana --timeout 20 --strategy bm25 --limit calls_per_hour=50",
        "trunkline thread list --user ana",
        "trunkline thread show c-42 --user ana",
        "trunkline thread clone c-42 c-43 --user ana",
        "trunkline thread remove c-42 --user ana      it has what its user has again",
    ),
    "store": (
        "trunkline store status",
        "trunkline store export people.json               without keys and secrets",
        "trunkline store export all.json --passphrase     with them, sealed",
        "trunkline store import people.json --yes",
        "trunkline store backup copy.db",
        "trunkline store migrate --store postgresql://trunkline@db.example/trunkline",
    ),
    "keys": (
        "trunkline keys status              where the master key is, and how much is sealed",
        "trunkline keys rotate              a new data key; a running gateway goes on",
        "trunkline keys rotate --master     a new master key first",
    ),
    "remove": ("trunkline remove time", "trunkline remove time --yes     without being asked"),
    "annotate": (
        "trunkline annotate                                     every tool, with what is known of it",
        "trunkline annotate --tool delete_note --destructive    what you know better",
        "trunkline annotate --validate                          what contradicts itself",
    ),
    "registry": (
        "trunkline registry search git          servers to install",
        "trunkline registry info github         one of them: its command, and what it wants to know",
        "trunkline registry list --category databases",
    ),
    "bench": ("trunkline bench search --tools tools.jsonl --queries queries.jsonl --out ranked.jsonl",),
    "secret": (
        "trunkline secret set GITHUB_TOKEN      asks for it; write ${secret:GITHUB_TOKEN} in the configuration",
        "trunkline secret list                  names, never values",
        "trunkline secret remove GITHUB_TOKEN",
    ),
}
_HEAD = "examples:"


class Help(argparse.HelpFormatter):
    """Fills lines, but for examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_HEAD):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)
