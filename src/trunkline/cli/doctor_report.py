"""What the doctor prints: findings with what to do for people, JSON for programs, and a line of progress meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from trunkline.cli.output import print_json, say
from trunkline.clients.secret import printable
from trunkline.doctor.diagnosis import Diagnosis
from trunkline.doctor.finding import Finding, Severity

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}


class ProgressLine:
    """One line on the terminal that says what is still examined; elsewhere nothing."""

    def __init__(self) -> None:
        self._shown = False
        self._total = 0

    def __call__(self, waiting: Sequence[str]) -> None:
        """Show those that are left."""
        if not sys.stderr.isatty():
            return
        self._total = max(self._total, len(waiting))
        names = ", ".join(printable(name) for name in waiting)
        text = f"Examining {len(waiting)} of {self._total} servers: {names}"
        print(f"\r\033[K{text[:78]}" if waiting else "\r\033[K", end="", file=sys.stderr, flush=True)
        self._shown = bool(waiting)

    def clear(self) -> None:
        """Leave no trace."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def print_diagnosis(diagnosis: Diagnosis, fixed: Sequence[str], form: str) -> None:
    """Print everything in one of the formats."""
    if form == "json":
        print_json(_described(diagnosis, fixed))
        return
    if form == "compact":
        for one in diagnosis.findings:
            print(f"{one.code} {one.severity.value} {printable(one.server or one.file)}".rstrip())
        return
    for name, words in diagnosis.servers.items():
        print(f"{'✓' if words.startswith('works') else '–'} {printable(name)} {words}")
    for one in diagnosis.findings:
        _print_finding(one)
    _sum_up(diagnosis)


def _described(diagnosis: Diagnosis, fixed: Sequence[str]) -> dict[str, Any]:
    return {
        "well": diagnosis.well,
        "servers": dict(diagnosis.servers),
        "findings": [one.described() for one in diagnosis.findings],
        "fixed": list(fixed),
    }


def _print_finding(one: Finding) -> None:
    about = f"server {one.server}" if one.server else one.file
    print(f"\n{MARKS[one.severity]} {one.code} {one.title}" + (f" ({printable(about)})" if about else ""))
    print(f"    Seen: {printable(one.seen)}")
    print(f"    Do:   {printable(one.advice)}")
    if one.command:
        print(f"          $ {printable(one.command)}")
    print(f"    More: {one.documentation}")


def _sum_up(diagnosis: Diagnosis) -> None:
    count = sum(one.severity is not Severity.NOTE for one in diagnosis.findings)
    if not count:
        say("All is well.")
        return
    fixable = sum(one.remedy is not None for one in diagnosis.findings if one.severity is not Severity.NOTE)
    hint = f" {fixable} of them can be set right by `trunkline doctor --fix`." if fixable else ""
    say(f"\n{count} {'thing is' if count == 1 else 'things are'} wrong.{hint}")
