"""What commands print, for people, programs and the hurried, and what they ask whoever sits at the terminal."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from trunkline.cli.main import as_typed
from trunkline.cli.screen import columns_of, fit, pad
from trunkline.errors import TrunklineError
from trunkline.telemetry.logs import is_json

log = logging.getLogger("trunkline")


_WIDEST = 10_000
"""Columns of a line where nothing says how many there are."""


def print_json(value: Any) -> None:
    """One JSON document on standard output, and nothing else."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_lines(lines: Iterable[str]) -> None:
    """A line for each thing, and nothing where there is none."""
    for line in lines:
        print(line)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as needed; on a terminal the last one is cut at the edge."""
    if not rows:
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDEST
    lines = [[fit(cell, _WIDEST) for cell in row] for row in ([head.upper() for head in heads], *rows)]
    widths = [max(map(columns_of, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(fit("  ".join(map(pad, line, widths)).rstrip(), room))


def print_list(
    form: str,
    document: Any,
    lines: Iterable[str],
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str = "",
) -> None:
    """What a command lists: as JSON, a line for each thing, or a table; `empty` tells a person that there is none."""
    if form == "json":
        print_json(document)
    elif form == "compact":
        print_lines(lines)
    else:
        print_table(heads, rows)
        if empty and not rows:
            say(empty)


def first_line(text: str) -> str:
    """The beginning of a description."""
    return " ".join(text.strip().partition("\n")[0].split())


def shown_time(seconds: float | None) -> str:
    """A moment for people, by their own clock; empty for none."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""


def exact_time(seconds: float) -> str:
    """A moment for programs too, by the clock here; empty for none."""
    zone = time.strftime("%z", time.localtime(seconds))
    return time.strftime(f"%Y-%m-%dT%H:%M:%S{zone[:3]}:{zone[3:]}", time.localtime(seconds)) if seconds else ""


def counted(number: int, noun: str, many: str = "") -> str:
    """A number of things, in words."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def say(text: str = "", *, failed: bool = False, **facts: str) -> None:
    """A word to the person, beside the output that a program may read; where the log is for programs, a line of it."""
    if not is_json():
        print(as_typed(text), file=sys.stderr)
    elif text:
        log.log(logging.ERROR if failed else logging.INFO, "%s", as_typed(text.strip()), extra=facts)


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def agrees(question: str) -> bool:
    """Whether the person says yes."""
    return is_yes(ask(f"{question} [y/N] ") or "")


def is_yes(answer: str) -> bool:
    """Whether an answer means yes."""
    return answer.lower() in ("y", "yes")


def answer(question: str) -> str:
    """What the person types; when the input ends instead, so does the command, before it has changed anything."""
    typed = ask(question)
    if typed is None:
        raise no_answer()
    return typed


def no_answer() -> TrunklineError:
    """Ctrl-D in the place of an answer."""
    return TrunklineError("The input ended before an answer came. Nothing was changed.")


def ask(question: str) -> str | None:
    """What the person types; `None` when the input ends instead, which agrees to nothing."""
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        say()
    return answer.strip() if answer else None


def chosen(text: str, count: int) -> list[int] | None:
    """The numbers in an answer such as `all`, `none` or `1,3-5`; `None` when it is no such answer."""
    words = text.lower().replace(",", " ").split()
    if words in ([], ["all"], ["a"]):
        return list(range(1, count + 1))
    if words in (["none"], ["n"], ["no"], ["0"]):
        return []
    found: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return None
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[0] < 1 or numbers[-1] > count:
            return None
        found += [number for number in numbers if number not in found]
    return found
