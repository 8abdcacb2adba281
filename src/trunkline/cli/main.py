"""The command line: what there is, and what happens when something goes wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trunkline.version import __version__

if TYPE_CHECKING:
    import argparse

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
    "search": ("search",),
    "use": ("exec", "test"),
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
    import argparse
    from importlib import import_module

    from trunkline.cli.examples import add_examples

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


if __name__ == "__main__":
    raise SystemExit(main())
