"""`trunkline doctor`: the command, the questions before anything is changed, and what is printed of the findings."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from trunkline.cli.console import agrees, can_ask, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file, run
from trunkline.clients.client import here
from trunkline.doctor.diagnosis import Case, Diagnosis, diagnose
from trunkline.doctor.finding import Finding, Severity, apply
from trunkline.errors import ConfigError
from trunkline.untrusted import printable

EXAMPLES = """examples:
  trunkline doctor                   everything: the configuration, every server, the gateway, our own files
  trunkline doctor github docs       only these servers
  trunkline doctor --config ~/.cursor/mcp.json
  trunkline doctor --fix             set right what is safe to set right, asking before each
  trunkline doctor --fix --yes       without asking
  trunkline doctor --format json     for programs

Every code is explained in docs/doctor.md. Exit codes: 0 all is well, 1 something is wrong, 2 wrong use.
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add(
        "doctor",
        commands.formatted,
        description="Start every server, look at the configuration, the gateway and our own files, and say what is "
        "wrong, what was seen and what to do. Nothing is changed unless you say --fix.",
        examples=EXAMPLES,
    )
    doctor.add_argument("servers", nargs="*", metavar="SERVER", help="only these (default: everything)")
    doctor.add_argument("--fix", action="store_true", help="set right what is safe and can be undone; asks before each")
    doctor.add_argument("--yes", "-y", action="store_true", help="with --fix: do not ask")
    doctor.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="for each server to be downloaded and start (default: its `start_timeout`, at most 30 once it is there)",
    )
    doctor.set_defaults(run=_doctor)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError("it must be more than 0, and at most 3600")
    return value


def _doctor(options: argparse.Namespace) -> int:
    if options.fix and not options.yes and not can_ask():
        raise ConfigError("Nobody can be asked here.", hint="Say --yes if you are sure.")
    diagnosis = _examine(options)
    fixed: list[str] = []
    if options.fix:
        fixed = _fix(diagnosis, ask=not options.yes)
        if fixed:
            diagnosis = _examine(options)
    print_diagnosis(diagnosis, fixed, options.format)
    return 0 if diagnosis.is_well else 1


def _examine(options: argparse.Namespace) -> Diagnosis:
    progress = ProgressLine()
    only = tuple(dict.fromkeys(options.servers))
    case = Case(config_file(options), here(), time.time(), options.timeout, only)
    try:
        return run(lambda: diagnose(case, progress))
    finally:
        progress.clear()


def _fix(diagnosis: Diagnosis, *, ask: bool) -> list[str]:
    """Do what was agreed to; what does not work is said, and the rest goes on."""
    done: list[str] = []
    for finding in diagnosis.findings:
        remedy = finding.remedy
        if remedy is None:
            continue
        if ask and not agrees(f"{finding.code} {finding.title}. Shall I {remedy.words}?"):
            continue
        try:
            done.append(apply(remedy))
        except ConfigError as error:
            say(f"{finding.code}: {error}")
        else:
            say(f"{finding.code}: {done[-1]}.")
    return done


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
        "well": diagnosis.is_well,
        "servers": dict(diagnosis.servers),
        "findings": [one.described() for one in diagnosis.findings],
        "fixed": list(fixed),
    }


def _print_finding(one: Finding) -> None:
    about = f"server {one.server}" if one.server else one.file
    print(f"\n{MARKS[one.severity]} {one.code} {one.title}" + (f" ({printable(about)})" if about else ""))
    print(f"    Seen: {printable(one.seen)}")
    if one.advice:
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
