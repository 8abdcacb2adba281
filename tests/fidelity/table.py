"""Writes docs/fidelity.md: `python -m tests.fidelity.table` runs every cell, and puts down what came out."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path

from tests.fidelity.case import COLUMNS, Column
from tests.fidelity.features import FEATURES, IMPOSSIBLE, Feature

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "fidelity.md"

INTRODUCTION = """\
# What passes through

Trunkline stands between callers and servers, and each of them speaks one of two eras of the protocol: *modern* is
2026-07-28, *legacy* is 2025-11-25 with its handshake and sessions. This table says, feature by feature, whether a
caller sees through Trunkline what it sees when it is connected directly to a server of its own era. Within one era the
answers must be equal; between two, equal but for the words that only one era has (`resultType`, `ttlMs`, `cacheScope`
and what in `_meta` begins with `io.modelcontextprotocol/`), which must be there or not as the caller's era wants.

Callers come over HTTP, and there is one server behind Trunkline. Every ✓ is a test in `tests/fidelity/` that passes;
`python -m tests.fidelity.table` runs them all and writes this file. Where a feature cannot exist, the cell says why in
two words, and the end of the page in a sentence.
"""

Passed = Callable[[Feature, Column], bool]


def written(passed: Passed) -> str:
    """The document, with what is known of each cell."""
    parts = [INTRODUCTION]
    heads = [f"{column.caller} → {column.server}, {column.transport}" for column in COLUMNS]
    notes: list[str] = []
    for group, rows in groupby(FEATURES, key=lambda feature: feature.group):
        lines = [f"| {group} | {' | '.join(heads)} |", f"|---|{':-:|' * len(heads)}"]
        for feature in rows:
            if feature.note:
                notes.append(f"{len(notes) + 1}. {group}, {feature.name}: {feature.note}")
            mark = f" ({len(notes)})" if feature.note else ""
            cells = [cell(feature, column, passed) for column in COLUMNS]
            lines.append(f"| {feature.name}{mark} | {' | '.join(cells)} |")
        parts.append("\n".join(lines) + "\n")
    parts.append("## What is not compared literally\n\n" + "\n".join(notes) + "\n")
    reasons = [f"- *{short}*: {sentence}" for short, sentence in IMPOSSIBLE.items()]
    parts.append("## Why some features cannot exist\n\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def cell(feature: Feature, column: Column, passed: Passed) -> str:
    """A check mark for a test that passed, a reason where there can be none."""
    if column.pair in feature.cannot:
        return feature.cannot[column.pair]
    return "✓" if passed(feature, column) else "✗"


@cache
def rows() -> dict[str, list[str]]:
    """The document's cells, by the group and the name of a feature."""
    found: dict[str, list[str]] = {}
    group = ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, *cells = line.strip("| ").split(" | ") if line.startswith("| ") else [""]
        if name and "→" in line:
            group = name
        elif name:
            found[f"{group}: " + re.sub(r" \(\d+\)$", "", name)] = cells
    return found


def shown(feature: Feature, column: Column) -> str:
    """What the document says of a cell."""
    return rows()[f"{feature.group}: {feature.name}"][COLUMNS.index(column)]


def run() -> set[str]:
    """Run the tests of all cells; the names of those that passed."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        only = ["tests/fidelity/test_fidelity.py", "-n", "auto", "--dist", "worksteal", f"--junitxml={report}"]
        subprocess.run([sys.executable, "-m", "pytest", *only], cwd=ROOT, check=False)
        cases = ElementTree.parse(report).getroot().iter("testcase")
        return {case.get("name", "") for case in cases if not len([part for part in case if part.tag != "properties"])}


def main() -> None:
    names = run()
    FILE.write_text(
        written(lambda feature, column: any(f"[{feature.id}-{column}]" in name for name in names)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
