"""The command line: what there is, and what happens when something goes wrong."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any, cast

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
    options = parser(words[0] if words else "").parse_args(words)
    if not hasattr(options, "run"):
        parser().print_help(sys.stderr)
        return USAGE
    return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    import logging

    from trunkline.errors import ConfigError, RefusedError, TrunklineError, UnreachableError

    level = logging.DEBUG if options.debug else logging.ERROR if options.quiet else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
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
    except Exception as error:
        if options.debug:
            raise
        print(f"trunkline: unexpected {type(error).__name__}: {error} (run again with --debug)", file=sys.stderr)
        return FAILED


def _complain(error: Exception) -> None:
    print(f"trunkline: {error}", file=sys.stderr)


MODULES: dict[str, tuple[str, ...]] = {
    "up": ("up",),
    "top": ("top",),
    "show": ("list", "servers"),
    "tools": ("tools",),
    "discover": ("discover",),
    "use": ("search", "exec", "test"),
    "doctor": ("doctor",),
    "edit": ("add", "remove"),
    "create": ("create-server",),
    "install": ("install",),
    "registry": ("registry",),
    "imports": ("import",),
    "connect": ("connect", "undo"),
    "annotate": ("annotate",),
    "bench": ("bench",),
    "secret": ("secret",),
    "completion": ("completion",),
}
"""The modules of the commands, in the order of the help, and which commands each adds."""


def parser(command: str = "") -> argparse.ArgumentParser:
    """Everything that can be typed; for one command that is known, its module alone, as loading all takes a while."""
    made = argparse.ArgumentParser(
        prog="trunkline",
        description="One line to every MCP tool: a gateway in front of many MCP servers.",
        epilog="`trunkline COMMAND --help` has examples. "
        "Exit codes: 0 done, 1 it failed, 2 wrong use or configuration, 3 a server cannot be reached.",
    )
    made.add_argument("--version", "-V", action="version", version=f"trunkline {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", help="trunkline.toml, or any MCP client's JSON file")
    common.add_argument("--quiet", "-q", action="store_true", help="log errors only")
    common.add_argument("--debug", action="store_true", help="log everything, and show tracebacks")
    formatted = argparse.ArgumentParser(add_help=False)
    formatted.add_argument("--format", choices=("table", "json", "compact"), default="table", help="how to print")
    commands = made.add_subparsers(title="commands", metavar="COMMAND")
    wanted = [module for module, names in MODULES.items() if command in names] or list(MODULES)
    for module in wanted:
        import_module(f"trunkline.cli.{module}").add_commands(commands, common, formatted)
    add_examples(commands)
    return made


EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": (
        "trunkline up                                 the servers of trunkline.toml; without one, two to play with",
        "trunkline up --config ~/.cursor/mcp.json     those of another client's file, as it is",
        "trunkline up --port 9000 --expose search     any option of [gateway] is a flag",
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
    "test": (
        "trunkline test                               every server",
        "trunkline test github --timeout 60           one of them, for a minute at most",
    ),
    "add": (
        "trunkline add time uvx mcp-server-time",
        'trunkline add data-api "node ./servers/data.js"     the command in one',
        "trunkline add --env TOKEN=${env:GITHUB_TOKEN} github npx -y @modelcontextprotocol/server-github",
        'trunkline add docs https://mcp.example.org/mcp --header "Authorization: Bearer ${env:DOCS_TOKEN}"',
        "trunkline add --manifest ./plugins/github",
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


def add_examples(commands: Any) -> None:
    """Give every command that has none its examples."""
    for name, command in cast("dict[str, argparse.ArgumentParser]", commands.choices).items():
        command.formatter_class = Help
        if not command.epilog and name in EXAMPLES:
            command.epilog = "\n".join((_HEAD, *(f"  {line}" for line in EXAMPLES[name])))
