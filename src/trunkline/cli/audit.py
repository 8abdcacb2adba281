"""`trunkline audit`: the audit's lines as they are and as they come, whether nobody changed them, and all of them."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from trunkline.cli.console import print_json
from trunkline.cli.main import FAILED, OK, Commands
from trunkline.cli.open import config_file
from trunkline.config.reading import load
from trunkline.errors import NotFoundError
from trunkline.telemetry.audit import audit_folder
from trunkline.telemetry.audit_chain import entries, files_in, latest, verify
from trunkline.untrusted import printable

INTERVAL = 0.3

EXAMPLES = """examples:
  trunkline audit                          the last 20 lines
  trunkline audit --kind refusal -n 100    the last 100 about refusals
  trunkline audit --follow                 and those that come
  trunkline audit verify                   whether any line was changed, removed or moved: exit code 0 or 1
  trunkline audit verify --expect HASH     and whether it still has a hash that was seen before
  trunkline audit export > audit.jsonl     all lines, the oldest first
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    audit = commands.add(
        "audit",
        commands.formatted,
        description="Read the audit of this configuration ([audit] in the file), whether the gateway runs or not.",
        examples=EXAMPLES,
    )
    audit.add_argument(
        "do", nargs="?", choices=("show", "verify", "export"), default="show", help="what to do (default: show)"
    )
    audit.add_argument("-n", "--lines", type=int, default=20, metavar="N", help="how many lines (default: 20)")
    audit.add_argument("--kind", default="", help="only lines about this: call, question, change, refusal, ...")
    audit.add_argument("--user", default="", help="only lines about what this user did")
    audit.add_argument("--follow", action="store_true", help="go on with the lines that come, until Ctrl-C")
    audit.add_argument("--expect", default="", metavar="HASH", help="verify: a hash that the audit must still have")
    audit.add_argument("--folder", default="", metavar="FOLDER", help="its files (default: those of the configuration)")
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    config = load(config_file(options), env=os.environ)
    folder = Path(options.folder) if options.folder else audit_folder(config.audit, config.home)
    if not files_in(folder):
        raise NotFoundError(f"There is no audit in {folder}.", hint="Switch it on with [audit] `enabled = true`.")
    if options.do == "verify":
        return _verify(folder, options)
    if options.do == "export":
        _write(_fitting(entries(folder), options), "json")
        return OK
    last = next(latest(folder), {"n": 0})["n"]  # what comes while these are printed is followed, and not lost
    shown = list(islice(_fitting(latest(folder, last + 1), options), max(0, options.lines)))
    _write(reversed(shown), options.format)
    if options.follow:
        _write(_fitting(_coming(folder, last), options), options.format)
    return OK


def _verify(folder: Path, options: argparse.Namespace) -> int:
    found = verify(folder, expected=options.expect)
    if options.format == "json":
        told = {"ok": not found.problem, "lines": found.lines, "last": found.number, "hash": found.hash}
        print_json(told | ({"problem": found.problem} if found.problem else {}))
    elif found.problem:
        print(f"Not as it was written: {found.problem}.")
    else:
        print(f"{found.lines} lines, up to number {found.number}: each as it was written. The last hash: {found.hash}")
    return FAILED if found.problem else OK


def _fitting(lines: Iterable[dict[str, Any]], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for line in lines:
        fits = options.user in ("", line.get("who", {}).get("user", ""))
        if fits and options.kind in ("", line.get("kind")):
            yield line


def _coming(folder: Path, seen: int) -> Iterator[dict[str, Any]]:
    """Lines that are written from now on."""
    looked_at = None
    while True:  # whoever reads them ends it
        now = _extent(folder)
        if now == looked_at:
            time.sleep(INTERVAL)
            continue
        looked_at = now
        new: list[dict[str, Any]] = []
        for line in latest(folder):
            if int(line.get("n", 0)) <= seen:
                break
            new.append(line)
        if new:
            seen = int(new[0]["n"])
            yield from reversed(new)


def _extent(folder: Path) -> tuple[Path, int] | None:
    """Where the lines end: a file is only read again when it has more."""
    files = files_in(folder)
    return (files[-1], files[-1].stat().st_size) if files else None


def _write(lines: Iterable[dict[str, Any]], format: str) -> None:
    """Lines for people, or for programs as they stand in the files, one on each line."""
    for line in lines:
        text = _in_words(line) if format == "table" else msgspec.json.encode(line).decode()
        print(text, flush=True)


def _in_words(line: dict[str, Any]) -> str:
    who = line.get("who", {})
    whose = who.get("user") or who.get("role") or "-"
    rest = {key: value for key, value in line.items() if key not in _APART and value != ""}
    told = " ".join(f"{key}={value}" for key, value in rest.items())
    return printable(f"{line.get('n')} {line.get('time')} {line.get('kind')} {whose} {told}")


_APART = ("n", "time", "kind", "who", "hash", "call")
