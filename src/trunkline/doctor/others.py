"""Other clients on this machine that call another server by a name of ours."""

from __future__ import annotations

from trunkline.clients.client import CLIENTS, Around
from trunkline.clients.secret import printable
from trunkline.clients.server import Server, find, is_trunkline, title
from trunkline.config.options import Config, ServerSpec
from trunkline.doctor.codes import Severity
from trunkline.doctor.finding import Finding


def examine_clients(config: Config, around: Around) -> list[Finding]:
    """Servers of other clients that have the name of one of ours, and are another."""
    read = config.source.resolve() if config.source else None
    found: list[Finding] = []
    for theirs in find(CLIENTS, around).servers:
        ours = config.servers.get(theirs.name)
        if ours is None or theirs.path.resolve() == read or _same(ours, theirs) or is_trunkline(theirs.spec, ()):
            continue
        seen = f"{title(theirs.client)} calls another server {printable(theirs.name)!r}."
        advice = "Nothing, if it is meant so. Else give one of them another name: agents mix them up."
        found.append(Finding("TL406", seen, advice, Severity.NOTE, theirs.name, str(theirs.path)))
    return found


def _same(ours: ServerSpec, theirs: Server) -> bool:
    """Whether both start or reach the same; what is in their environments may differ."""
    spec = theirs.spec
    return (ours.command, ours.url.partition("?")[0], list(ours.args)) == (
        spec.get("command", ""),
        str(spec.get("url", "")).partition("?")[0],
        list(spec.get("args", ())),
    )
