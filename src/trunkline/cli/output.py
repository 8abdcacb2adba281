"""What commands print: tables for people, JSON for programs, one line each for the hurried."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from trunkline.model import State

MARKS = {State.READY: "●", State.DEGRADED: "◐", State.STARTING: "○", State.STOPPED: "·"}


def print_json(value: Any) -> None:
    """One JSON document on standard output, and nothing else."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as needed; on a terminal the last one is cut at the edge."""
    if not rows:
        return
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    for row in [[head.upper() for head in heads], *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(line if len(line) <= room else line[: room - 1] + "…")


def first_line(text: str) -> str:
    """The beginning of a description."""
    return " ".join(text.strip().partition("\n")[0].split())


def say(text: str = "") -> None:
    """A word to the person, beside the output that a program may read."""
    print(text, file=sys.stderr)
