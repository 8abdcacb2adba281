"""How `trunkline import` shows what it found: by client, what each costs, and as JSON; never a secret's value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.cli.output import print_table, say
from trunkline.cli.tokens import Cost
from trunkline.cli.weigh import Weight
from trunkline.clients.secret import printable, secrets_of, shown_command
from trunkline.clients.server import Candidate, LeftOut, Server, title
from trunkline.config.options import ServerSpec
from trunkline.tools.tokens import HINT


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
    if specs[one.name].problem:
        remarks.append(f"Not ready: {specs[one.name].problem}")
    for remark in remarks:
        print(printable(f"      {remark}"))


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
        f"{well} servers, {total.tools:,} tools: {about}{total.tokens:,} tokens in every request. "
        f"Through Trunkline: {weight.through.tools:,} tools, {about}{weight.through.tokens:,} tokens."
    )
    for name, reason in weight.away.items():
        say(printable(f"Not counted: {name}. {reason}"))
    if not weight.exact:
        say(f"The numbers are estimated. To count, there is a tokenizer. {HINT}")


def _total(found: Iterable[Candidate], weight: Weight) -> Cost:
    costs = [weight.servers[one.name] for one in found if one.name in weight.servers]
    return Cost(sum(cost.tools for cost in costs), sum(cost.tokens for cost in costs))
