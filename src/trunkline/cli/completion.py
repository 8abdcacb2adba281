"""`trunkline completion`: scripts that let a shell complete commands, options, their values, servers and users."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from trunkline.cli.main import Commands
from trunkline.config.reading import find_file, load

SHELLS = ("bash", "zsh", "fish")
FILES, SERVERS, USERS = "files", "servers", "users"
NAMES = {kind: f"trunkline completion {kind} 2>/dev/null" for kind in (SERVERS, USERS)}
"""What a script runs to learn which there are."""
MOST_USERS = 1000

EXAMPLES = """examples:
  source <(trunkline completion bash)                                        for this bash; or put it into ~/.bashrc
  trunkline completion zsh > "${fpath[1]}/_trunkline"                        for every zsh from now on
  trunkline completion fish > ~/.config/fish/completions/trunkline.fish      for every fish from now on
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    completion = commands.add(
        "completion",
        description="Print a script that completes commands, options, their values, and names of servers and users.",
        examples=EXAMPLES,
    )
    completion.add_argument(
        "shell", choices=(*SHELLS, *NAMES), help="the shell; `servers` and `users` print the names that scripts ask for"
    )
    completion.set_defaults(run=_completion, debug=False, quiet=True, config=None, store="")


def _completion(options: argparse.Namespace) -> int:
    shell = options.shell
    if shell == SERVERS:
        return print_servers()
    if shell == USERS:
        return print_users(options)
    from trunkline.cli.main import parser

    made = list(commands_of(parser(), ()))
    print({"bash": bash, "zsh": zsh, "fish": fish}[shell](made), end="")
    return 0


def print_servers() -> int:
    """The names of the configured servers and groups, one a line; of a configuration that cannot be read, none."""
    from trunkline.errors import ConfigError

    try:
        config = load(find_file(os.environ, Path.cwd()), env=os.environ)
    except ConfigError:
        return 1
    print("\n".join((*config.servers, *config.groups)))
    return 0


def print_users(options: argparse.Namespace) -> int:
    """The names of the first so many users, one a line; where nobody was ever added, none."""
    from trunkline.cli.admin import Admin, administer

    async def look(admin: Admin) -> list[str]:
        return [one["name"] for one in (await admin.ask("GET", "users", limit=MOST_USERS))["users"]]

    print("\n".join(administer(options, look)))
    return 0


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    flags: tuple[str, ...]
    help: str
    takes: bool
    """Whether a value follows."""
    values: tuple[str, ...] = ()
    kind: str = ""
    """`files`, `servers` or `users`, where such a value is wanted."""


@dataclass(frozen=True)
class Command:
    """A command, by the words that lead to it."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    below: tuple[str, ...] = ()
    """The commands that may follow, or the values of what must."""
    kind: str = ""
    """What its arguments are, if that is known."""

    @property
    def path(self) -> str:
        """The words, as scripts compare them."""
        return " ".join(self.words)

    @property
    def flags(self) -> list[str]:
        """All its options."""
        return [flag for option in self.options for flag in option.flags]


def commands_of(parser: argparse.ArgumentParser, words: tuple[str, ...], help: str = "") -> Iterator[Command]:
    """A command and all below it, read from the parser itself."""
    actions: Sequence[Any] = vars(parser)["_actions"]  # argparse shows them in no other way
    below: dict[str, argparse.ArgumentParser] = {}
    told: dict[str, str] = {}
    options: list[Option] = []
    values: tuple[str, ...] = ()
    kind = ""
    for action in actions:
        choices: Any = action.choices
        if isinstance(choices, dict):
            below = cast("dict[str, argparse.ArgumentParser]", choices)
            entries = cast("list[argparse.Action]", vars(action)["_choices_actions"])
            told = {entry.dest: entry.help or "" for entry in entries}
        elif action.option_strings:
            options.append(_option(action))
        elif not values and not kind:
            values = tuple(map(str, choices or ()))
            kind = _names(action, words)
    yield Command(words, help, tuple(options), (*below, *values), kind)
    for name, parser_below in below.items():
        yield from commands_of(parser_below, (*words, name), told.get(name, ""))


def _option(action: argparse.Action) -> Option:
    kind = FILES if action.metavar in ("FILE", "DIR") else _names(action, ())
    text = (action.help or "").replace("%%", "%")
    return Option(tuple(action.option_strings), text, action.nargs != 0, tuple(map(str, action.choices or ())), kind)


def _names(action: argparse.Action, words: tuple[str, ...]) -> str:
    """What names an argument or option takes, if any that can be known."""
    if action.dest in ("server", "servers") or words in (("remove",), ("exec",)):
        return SERVERS
    return USERS if action.dest == "user" or words in _OF_USERS else ""


_OF_USERS = tuple(("user", verb) for verb in ("set", "show", "remove"))


# Each script first finds the command that is typed, then looks at the word before, then at what is begun.


def bash(commands: Sequence[Command]) -> str:
    """For bash 3.2 and newer, without the package bash-completion; no variable is called `path`, for zsh's sake."""
    paths = " | ".join(f'"{command.path}"' for command in commands if command.words)
    lines = [
        "# Completes trunkline in bash: source <(trunkline completion bash)",
        "_trunkline() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" typed="" at=1',
        "    COMPREPLY=()",
        "    while ((at < COMP_CWORD)); do",
        '        case "${typed:+$typed }${COMP_WORDS[at]}" in',
        f'            {paths}) typed="${{typed:+$typed }}${{COMP_WORDS[at]}}" ;;',
        "        esac",
        "        at=$((at + 1))",
        "    done",
        '    case "$typed:$before" in',
    ]
    for command in commands:
        for option in command.options:
            if option.takes:
                flags = " | ".join(f'"{command.path}:{flag}"' for flag in option.flags)
                lines.append(f"        {flags}) {_reply(option.values, option.kind)}; return ;;")
    lines += ["    esac", '    case "$typed:$current" in']
    for command in commands:
        lines.append(f'        "{command.path}:-"*) {_reply(command.flags, "")} ;;')
        if command.below or command.kind:
            lines.append(f'        "{command.path}:"*) {_reply(command.below, command.kind)} ;;')
    return "\n".join((*lines, "    esac", "}", "complete -o default -F _trunkline trunkline", ""))


def _reply(values: Sequence[str], kind: str) -> str:
    if kind == FILES:
        return 'COMPREPLY=($(compgen -f -- "$current"))'
    words = f"$({NAMES[kind]})" if kind in NAMES else " ".join(values)
    return f'COMPREPLY=($(compgen -W "{words}" -- "$current"))' if words else ":"


def zsh(commands: Sequence[Command]) -> str:
    """For zsh, which understands what bash does when it is asked to."""
    return "\n".join(("#compdef trunkline", "autoload -U +X bashcompinit && bashcompinit", bash(commands)))


def fish(commands: Sequence[Command]) -> str:
    """For fish."""
    paths = " ".join(_quoted(command.path) for command in commands if command.words)
    lines = [
        "# Completes trunkline in fish: trunkline completion fish > ~/.config/fish/completions/trunkline.fish",
        "function __trunkline_at",
        "    set -l path",
        "    for word in (commandline -opc)[2..-1]",
        f'        if contains -- (string join -- " " $path $word) {paths}',
        "            set -a path $word",
        "        end",
        "    end",
        '    test "$path" = "$argv[1]"',
        "end",
        "complete -c trunkline -f",
    ]
    helps = {command.words: command.help for command in commands}
    for command in commands:
        at = f"complete -c trunkline -n {_quoted(f'__trunkline_at {_quoted(command.path)}')}"
        for word in command.below:
            told = helps.get((*command.words, word), "")
            lines.append(f"{at} -a {_quoted(word)}" + (f" -d {_quoted(told)}" if told else ""))
        if command.kind in NAMES:
            lines.append(f"{at} -a {_quoted(f'({NAMES[command.kind]})')}")
        for option in command.options:
            lines.append(f"{at} {_fish_option(option)}")
    return "\n".join((*lines, ""))


def _fish_option(option: Option) -> str:
    parts = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.kind == FILES:
        parts.append("-r -F")
    elif option.takes:
        values = f"({NAMES[option.kind]})" if option.kind in NAMES else " ".join(option.values)
        parts.append(f"-x -a {_quoted(values)}" if values else "-x")
    return " ".join((*parts, f"-d {_quoted(option.help)}"))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
