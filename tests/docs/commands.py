"""The reference of the command line, from the parser that reads it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, cast

from trunkline.cli.main import parser

INTRODUCTION = """# Commands

Written from the source by `python -m tests.docs.reference`; a test keeps it so.
"""
MOST = "Options of most commands"
EXAMPLES = "examples:\n"


def commands_page() -> str:
    """Every command, its arguments, its options, and its examples."""
    first, *commands = _commands(parser(), "trunkline")
    counts = Counter(row for command in commands for row in command.options)
    most = [row for row, count in counts.items() if 2 * count > len(commands)]
    overview = [Row(f"[`{each.name}`](#{each.name.replace(' ', '-')})", each.help) for each in commands]
    parts = [INTRODUCTION, f"{first.about}\n", *_table([*first.options, *overview])]
    parts += [f"## {MOST}\n", *_table(most)]
    for command in commands:
        own = [row for row in command.options if row not in most]
        shared = ", ".join(row.flags.partition(" ")[0].rstrip("`,") + "`" for row in command.options if row in most)
        also = [Row(shared, f"[as with most commands](#{MOST.lower().replace(' ', '-')})")] if shared else []
        parts += [f"## `{command.name}`\n", f"{command.about}\n"]
        parts += _table([*command.arguments, *own, *also])
        if command.examples:
            parts.append(f"```text\n{command.examples}\n```\n")
    return "\n".join(parts).rstrip() + "\n"


@dataclass(frozen=True)
class Row:
    """An argument or an option: how it is written, and what it means."""

    flags: str
    about: str


@dataclass(frozen=True)
class Command:
    """One command, by everything that its help says."""

    name: str
    help: str
    about: str
    arguments: list[Row]
    options: list[Row]
    examples: str


def _commands(parser: argparse.ArgumentParser, name: str, help: str = "") -> Iterator[Command]:
    arguments: list[Row] = []
    options: list[Row] = []
    below: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    actions = cast("list[argparse.Action]", vars(parser)["_actions"])  # argparse shows them in no other way
    for action in actions:
        choices: Any = action.choices
        if isinstance(choices, dict):
            below = cast("dict[str, argparse.ArgumentParser]", choices)
            entries = cast("list[argparse.Action]", vars(action)["_choices_actions"])
            helps = {entry.dest: entry.help or "" for entry in entries}
        elif action.dest != "help":
            (options if action.option_strings else arguments).append(_row(action))
    about, examples = _sentence(parser.description or help), ""
    epilog = parser.epilog or ""
    if epilog.startswith(EXAMPLES):
        examples = dedent(epilog.removeprefix(EXAMPLES)).strip()
    elif epilog:
        about += f" {epilog}"
    yield Command(name, help, about, arguments, options, examples)
    for word, parser_below in below.items():
        yield from _commands(parser_below, f"{name} {word}", helps.get(word, ""))


def _row(action: argparse.Action) -> Row:
    choices = "|".join(map(str, action.choices or ()))
    metavar = str(action.metavar or choices or action.dest.upper())
    several = {"?": f"[{metavar}]", "*": f"[{metavar} ...]", "+": f"{metavar} ...", "...": f"[{metavar} ...]"}
    value = "" if action.nargs == 0 else several.get(str(action.nargs), metavar)
    about = (action.help or "") % {**vars(action), "prog": "trunkline"}
    return Row(", ".join(f"`{' '.join((flag, value)).strip()}`" for flag in action.option_strings or [""]), about)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _table(rows: list[Row]) -> list[str]:
    lines = [f"| {_cell(row.flags)} | {_cell(row.about)} |" for row in rows]
    return ["| | |", "|---|---|", *lines, ""] if rows else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
