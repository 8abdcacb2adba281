"""`trunkline import`: take over the servers that other clients are configured with."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.cli.connect import Ours, check_clients, ours
from trunkline.cli.console import agrees, ask, can_ask, chosen, counted, print_json, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.sign_in import offer_sign_ins
from trunkline.cli.tokens import Cost, Weight, weigh
from trunkline.clients.client import CLIENTS, here
from trunkline.clients.secret import (
    MovedSecret,
    holds_secret,
    is_private,
    may_need_sign_in,
    move,
    secrets_of,
    shown_command,
)
from trunkline.clients.server import (
    Candidate,
    Findings,
    LeftOut,
    Server,
    candidates,
    find,
    is_trunkline,
    read_any,
    title,
)
from trunkline.config.file import read_file, servers_of, write_file
from trunkline.config.reading import load, parse
from trunkline.config.secrets import Secrets
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError
from trunkline.tools.tokens import HINT
from trunkline.untrusted import printable

EXAMPLES = """examples:
  trunkline import                       every client, for this user and this folder
  trunkline import cursor claude-code    these two
  trunkline import --from mcp.json       this file
  trunkline import --dry-run --no-start  only look
  trunkline import --yes                 ask nothing: start them, count, take all over
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    takes = commands.add(
        "import",
        commands.formatted,
        description="Find the servers that other clients are configured with, show what they cost a model in every "
        "request, and write those you choose into trunkline.toml. The clients' own files are not changed.",
        examples=EXAMPLES + "\nExit codes: 0 done, 1 nothing found or declined, 2 wrong use.",
    )
    takes.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of: {', '.join(CLIENTS)} (default: all)")
    takes.add_argument("--from", dest="file", metavar="FILE", help="read this file instead")
    takes.add_argument("--no-start", action="store_true", help="start no server, and so count no tools")
    takes.add_argument(
        "--secrets",
        choices=("vault", "env", "keep"),
        default="vault",
        help="`vault` keeps secrets as `trunkline secret` does, and writes ${secret:NAME} (default); `env` writes "
        "${env:NAME}, for variables that you set; `keep` writes them into trunkline.toml, readable by you alone",
    )
    takes.add_argument("--yes", "-y", action="store_true", help="do not ask: start the servers, take all over")
    takes.add_argument("--dry-run", action="store_true", help="write nothing")
    takes.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="to start, once downloaded (default: 30)"
    )
    takes.set_defaults(run=_import)


@dataclass(frozen=True)
class Written:
    """What was done."""

    names: tuple[str, ...] = ()
    moved: tuple[MovedSecret, ...] = ()
    """Secrets that are in variables, or among our own, by name."""
    kept: tuple[tuple[str, str], ...] = ()
    """Secrets that are in our file now: server and key."""


def _import(options: argparse.Namespace) -> int:
    own = ours(options)
    if own.path.suffix != ".toml":
        raise ConfigError(f"{own.path} is a client's file.", hint="Servers are taken over into a trunkline.toml.")
    findings = _find(options)
    found, specs, left = _candidates(findings, own)
    report = Report(found, left, findings.files, specs)
    quiet = options.format == "json"
    # Standard output is JSON's alone, but whoever is asked must see what the question is about.
    with contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext():
        print_found(report)
    if not found:
        if quiet:
            print_json(report.described(Weight(), (), own.path))
        say("No servers were found." if not left else "Nothing of it can be taken over.")
        return 1
    weight = _weigh(options, own, specs)
    if weight is not None and not quiet:
        print_weight(report, weight)
    written = _write(options, own, report)
    if quiet:
        names = written.names if written else ()
        print_json(report.described(weight or Weight(), names, own.path))
    if written is not None:
        _offer(options, own, report, weight, written)
    return 0 if written is not None else 1


def _offer(options: argparse.Namespace, own: Ours, report: Report, weight: Weight | None, written: Written) -> None:
    """Sign in to what was taken over and wants it: as was seen, or as is likely where nothing was started."""
    likely = [one.name for one in report.found if may_need_sign_in(one.spec) and report.specs[one.name].enabled]
    wanted = [name for name in (likely if weight is None else weight.sign_in) if name in written.names]
    offer_sign_ins(lambda: load(own.path, env=os.environ), wanted, asks=not options.yes and options.format != "json")


def _find(options: argparse.Namespace) -> Findings:
    clients = check_clients(options.clients)
    if not options.file:
        return find(clients, here())
    if len(options.clients) > 1:
        raise ConfigError("A file is of one client.", hint="Name one, or none.")
    return read_any(Path(options.file).expanduser(), here(), client=options.clients[0] if options.clients else "")


def _candidates(findings: Findings, own: Ours) -> tuple[list[Candidate], dict[str, ServerSpec], list[LeftOut]]:
    """What can be taken over, as specifications that work, and what cannot."""
    foreign = [server for server in findings.servers if not is_trunkline(server.spec, own.urls)]
    left = list(findings.left_out)
    left += [
        LeftOut(server.client, server.path, server.name, "it is Trunkline itself")
        for server in findings.servers
        if server not in foreign
    ]
    found: list[Candidate] = []
    specs: dict[str, ServerSpec] = {}
    for candidate in candidates(foreign, own.servers, own.config.groups):
        try:
            made = parse({"servers": {candidate.name: dict(candidate.spec)}}, env=os.environ)
        except ConfigError as error:
            first = candidate.servers[0]
            left.append(LeftOut(first.client, first.path, first.name, error.message.rstrip(".")))
            continue
        found.append(candidate)
        specs[candidate.name] = made.servers[candidate.name]
    return found, specs, left


def _weigh(options: argparse.Namespace, own: Ours, specs: Mapping[str, ServerSpec]) -> Weight | None:
    """Start the servers and count, if that is agreed to: whoever wrote these files decides what runs."""
    active = [name for name, spec in specs.items() if spec.enabled]
    if options.no_start or not active:
        return None
    if not options.yes:
        if not can_ask():
            say("No server was started: nobody is there to agree to these commands. --yes agrees, --no-start goes on.")
            return None
        if not agrees(f"Start {counted(len(active), 'server')} with these very commands, to count tools?"):
            return None
    say(f"Starting {counted(len(active), 'server')} …")
    return weigh(own.config, specs, options.timeout, lambda line: say(printable(line)))


def _write(options: argparse.Namespace, own: Ours, report: Report) -> Written | None:
    """Write what is chosen; `None` when nothing was to be."""
    new = [candidate for candidate in report.found if not candidate.known]
    if not new:
        say(f"All of them are in {own.path} already.")
        return Written()
    if options.dry_run:
        say(f"{counted(len(new), 'server')} would be written into {own.path}. Nothing was written.")
        return Written()
    picked = _picked(options, report, new)
    if not picked:
        return None
    specs: dict[str, Mapping[str, Any]] = {candidate.name: candidate.spec for candidate in picked}
    secrets = [(name, key) for name, spec in specs.items() for _, key in secrets_of(spec)]
    moved: list[MovedSecret] = []
    if options.secrets != "keep":
        vault, in_variables = Secrets(own.config.home), options.secrets == "env"
        made, moved = move(specs, into_variables=in_variables, taken=vault.names())
        specs = {**made}
        for one in moved if not in_variables else ():
            vault.set(one.name, one.value)
    _save(own.path, specs, private=any(map(is_private, specs.values())))
    written = Written(tuple(specs), tuple(moved), () if moved else tuple(secrets))
    _tell(own.path, written, in_variables=options.secrets == "env")
    for name, spec in specs.items():
        if holds_secret(spec.get("args", ())):
            say(printable(f"An argument of {name} looks like a secret. It is in the file, which only you can read."))
    return written


def _picked(options: argparse.Namespace, report: Report, new: list[Candidate]) -> list[Candidate]:
    if options.yes:
        return new
    if not can_ask():
        say("Nothing was written: nobody is there to choose. --yes takes all over, --dry-run only shows.")
        return []
    while True:
        said = ask("Take over which? all, numbers such as 1,3-5, or none [all] ")
        numbers = [] if said is None else chosen(said, len(report.found))
        if numbers is not None:
            break
        say("That is none of these.")
    picked = [report.found[number - 1] for number in numbers if not report.found[number - 1].known]
    if not picked:
        say("Nothing was written.")
    return picked


def _save(path: Path, specs: Mapping[str, Mapping[str, Any]], *, private: bool) -> None:
    document = read_file(path)
    servers = servers_of(document, path)
    for name, spec in specs.items():
        servers[name] = dict(spec)
    if private and path.exists():
        try:
            os.chmod(path, 0o600)  # before the secrets come in, not after
        except OSError as error:
            raise ConfigError(f"{path} cannot be made private: {error.strerror}.") from error
    write_file(path, document)


def _tell(path: Path, written: Written, *, in_variables: bool) -> None:
    say(f"Written into {path}: {', '.join(printable(name) for name in written.names)}.")
    if written.kept:
        what = ", ".join(printable(f"{key} of {server}") for server, key in written.kept)
        say(f"Secrets in it now: {what}. Only you can read the file.")
    if written.moved and in_variables:
        say("Set these variables where Trunkline runs; their values are still in the clients' files:")
    elif written.moved:
        say("Secrets are kept apart, as `trunkline secret list` shows; their values are still in the clients' files:")
    for one in written.moved:
        say(printable(f"  {one.name}  ({one.key} of {one.server})"))
    say("Try them: trunkline test. Then let a client use them: trunkline connect CLIENT --replace")


@dataclass(frozen=True)
class Report:
    """What was found."""

    found: Sequence[Candidate]
    left: Sequence[LeftOut]
    files: Sequence[Path]
    specs: Mapping[str, ServerSpec]

    def described(self, weight: Weight, written: Iterable[str], path: Path) -> dict[str, Any]:
        """For programs to read."""
        total = _total(self.found, weight)
        return {
            "servers": [self._described(candidate, weight) for candidate in self.found],
            "left_out": [
                {"client": left.client, "file": str(left.path), "name": left.name, "reason": left.reason}
                for left in self.left
            ],
            "tools": total.tools,
            "tokens": total.tokens,
            "through_trunkline": {"tools": weight.through.tools, "tokens": weight.through.tokens},
            "counted": weight.exact,
            "written": list(written),
            "file": str(path),
        }

    def _described(self, candidate: Candidate, weight: Weight) -> dict[str, Any]:
        cost = weight.servers.get(candidate.name)
        problem = weight.away.get(candidate.name) or self.specs[candidate.name].problem
        return {
            "name": candidate.name,
            "clients": [
                {"client": server.client, "name": server.name, "file": str(server.path)} for server in candidate.servers
            ],
            "command": shown_command(candidate.spec),
            "enabled": self.specs[candidate.name].enabled,
            "known": candidate.known,
            "notes": list(candidate.notes),
            "secrets": [key for _, key in secrets_of(candidate.spec)],
            **({"tools": cost.tools, "tokens": cost.tokens} if cost else {}),
            **({"problem": problem} if problem else {}),
            **({"sign_in": True} if candidate.name in weight.sign_in else {}),
        }


def print_found(report: Report) -> None:
    """Every client's servers, with the exact command of each."""
    numbers = {id(server): at for at, one in enumerate(report.found, 1) for server in one.servers}
    owners = {id(server): one for one in report.found for server in one.servers}
    servers = [server for one in report.found for server in one.servers]
    for path in report.files:
        here = [server for server in servers if server.path == path]
        left = [one for one in report.left if one.path == path]
        if not here and not left:
            continue
        print(f"{title((here[0] if here else left[0]).client)} ({printable(str(path))})")
        for server in here:
            _print_server(server, owners[id(server)], numbers[id(server)], report.specs)
        for one in left:
            print(printable(f"   –  {one.name + ': ' if one.name else ''}left out, {one.reason}."))


def _print_server(server: Server, one: Candidate, number: int, specs: Mapping[str, ServerSpec]) -> None:
    if server is not one.servers[0]:
        print(printable(f"   =  {server.name}: the same as {number}, {one.name}"))
        return
    called = one.name if one.name == server.name else f"{server.name}, here {one.name}"
    print(f"  {number:>2}  {printable(called)}: {shown_command(server.spec)}")
    remarks = [*one.notes]
    if one.known:
        remarks.append(f"It is in trunkline.toml already, as {one.known}.")
    if not specs[one.name].enabled:
        remarks.append("It is switched off, and stays so.")
    if may_need_sign_in(server.spec):
        remarks.append(SIGN_IN)
    if specs[one.name].problem:
        remarks.append(f"Not ready: {specs[one.name].problem}")
    for remark in remarks:
        print(printable(f"      {remark}"))


SIGN_IN = "If it wants a sign-in, its client has done that for itself: here it is `trunkline login NAME`."


def print_weight(report: Report, weight: Weight) -> None:
    """What each client's servers cost, and what they would cost through Trunkline."""
    clients = dict.fromkeys(client for one in report.found for client in one.clients)
    rows: list[list[str]] = []
    for client in clients:
        mine = [one for one in report.found if client in one.clients]
        cost = _total(mine, weight)
        rows.append([title(client), str(len(mine)), f"{cost.tools:,}", f"{cost.tokens:,}"])
    print()
    print_table(("client", "servers", "tools", "tokens in every request"), rows)
    total, about = _total(report.found, weight), "" if weight.exact else "about "
    well = sum(one.name in weight.servers for one in report.found)
    say(
        f"{counted(well, 'server')}, {counted(total.tools, 'tool')}: {about}{total.tokens:,} tokens in every request. "
        f"Through Trunkline: {counted(weight.through.tools, 'tool')}, {about}{weight.through.tokens:,} tokens."
    )
    for name, reason in weight.away.items():
        say(printable(f"Not counted: {name}. {reason}"))
    for name in weight.sign_in:
        say(printable(f"{name} wants a sign-in, which its client keeps to itself: trunkline login {name}"))
    if not weight.exact:
        say(f"The numbers are estimated. To count, there is a tokenizer. {HINT}")


def _total(found: Iterable[Candidate], weight: Weight) -> Cost:
    costs = [weight.servers[one.name] for one in found if one.name in weight.servers]
    return Cost(sum(cost.tools for cost in costs), sum(cost.tokens for cost in costs))
