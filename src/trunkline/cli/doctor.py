"""`trunkline doctor`: the command, and the questions before anything is changed."""

from __future__ import annotations

import argparse
import time
from typing import Any

from trunkline.cli.ask import agrees, can_ask
from trunkline.cli.clients import here
from trunkline.cli.doctor_report import ProgressLine, print_diagnosis
from trunkline.cli.open import config_file, run
from trunkline.cli.output import say
from trunkline.doctor.diagnosis import Case, Diagnosis, diagnose
from trunkline.doctor.finding import apply
from trunkline.errors import ConfigError

EXAMPLES = """examples:
  trunkline doctor                   everything: the configuration, every server, the gateway, our own files
  trunkline doctor github docs       only these servers
  trunkline doctor --config ~/.cursor/mcp.json
  trunkline doctor --fix             set right what is safe to set right, asking before each
  trunkline doctor --fix --yes       without asking
  trunkline doctor --format json     for programs

Every code is explained in docs/doctor.md. Exit codes: 0 all is well, 1 something is wrong, 2 wrong use.
"""


def add_commands(commands: Any, common: argparse.ArgumentParser, formatted: argparse.ArgumentParser) -> None:
    """Add the command."""
    doctor = commands.add_parser(
        "doctor",
        parents=[common, formatted],
        help="find out why something does not work, and what to do",
        description="Start every server, look at the configuration, the gateway and our own files, and say what is "
        "wrong, what was seen and what to do. Nothing is changed unless you say --fix.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("servers", nargs="*", metavar="SERVER", help="only these (default: everything)")
    doctor.add_argument("--fix", action="store_true", help="set right what is safe and can be undone; asks before each")
    doctor.add_argument("--yes", "-y", action="store_true", help="with --fix: do not ask")
    doctor.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="for each server to start (default: 30)"
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
    return 0 if diagnosis.well else 1


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
