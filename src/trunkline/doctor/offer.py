"""What is wrong with what servers offer: lists that break, names that hide each other, schemas nobody can use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trunkline.clients.client import CLIENTS, Around
from trunkline.clients.server import Server, find, is_trunkline, title
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.control.item import name_of
from trunkline.control.merging import join_servers
from trunkline.doctor.finding import Finding, Severity
from trunkline.doctor.words import shorten, without_secrets
from trunkline.model import Kind, Listing, ServerView
from trunkline.tools.check.checker import schema_problem
from trunkline.untrusted import printable
from trunkline.wire.members import decode_object, is_object, read_members

SHOWN_NAMES = 5


def examine_lists(spec: ServerSpec, lists: Mapping[Kind, Listing]) -> list[Finding]:
    """Lists that could not be read, or not to their end, and tools in them that nobody can call."""
    server = spec.name
    found: list[Finding] = []
    for kind, listing in lists.items():
        if "do not end" in listing.problem:
            seen = f"after {len(listing.items)} {kind.value} its list still goes on."
            advice = (
                "The server's paging is broken: the last page must have no `nextCursor`. What was read is shown; "
                f"where the list really is that long, raise `max_pages` under [servers.{server}]."
            )
            found.append(Finding("TL403", seen, advice, Severity.WARNING, server))
        elif listing.problem:
            seen = f"its {kind.value} cannot be listed: {shorten(without_secrets(listing.problem, spec))}"
            advice = "The rest of it works. Update the server, or read its log; Trunkline tries again now and then."
            found.append(Finding("TL402", seen, advice, Severity.WARNING, server))
        if listing.dropped:
            advice = "The server must correct them; until then nobody sees them."
            found.append(Finding("TL405", printable(listing.dropped), advice, Severity.WARNING, server))
    return found + _unusable(server, lists.get(Kind.TOOL, Listing()))


def _unusable(server: str, tools: Listing) -> list[Finding]:
    reasons: dict[str, list[str]] = {}
    for item in tools.items:
        reason = _schema_reason(item)
        if reason:
            reasons.setdefault(reason, []).append(name_of(item, Kind.TOOL) or "a tool without a name")
    advice = "The server must correct it. Until then models may call it wrongly; `hidden` in a profile hides it."
    return [
        Finding("TL405", f"{_several(names)}: {reason}", advice, Severity.WARNING, server)
        for reason, names in reasons.items()
    ]


def _schema_reason(item: bytes) -> str:
    try:
        raw = read_members(item).get("inputSchema", b"")
    except ValueError:
        return "its definition cannot be read."
    if not is_object(raw):
        return "it has no `inputSchema`, or one that is no object."
    schema = decode_object(raw)
    kind = schema.get("type", "object")
    if kind != "object":
        return "its `inputSchema` is not of the type object, as MCP wants it."
    return shorten(printable(schema_problem(schema)))


def examine_names(views: Mapping[str, ServerView], config: Config) -> list[Finding]:
    """Names that cannot be shown because another has them, and definitions that cannot be shown at all."""
    found: list[Finding] = []
    clashes: list[str] = []
    for problem in join_servers(views, config, 1).problems:
        broken = re.match(r"(?P<name>.+) of server '(?P<server>[^']+)' is not shown: ", problem)
        if broken:
            advice = "The server must correct it; until then nobody sees the tool."
            found.append(Finding("TL405", printable(problem), advice, Severity.WARNING, broken["server"]))
        elif not re.match(r"'\w[\w+.-]*:", problem):  # addresses of resources may be shared without harm
            clashes.append(problem)
    if clashes:
        advice = (
            'Let names have their server before them: namespace = "always" (or conflicts = "namespace") under '
            "[gateway]. Or say with `prefer` which server wins."
        )
        seen = f"{' '.join(printable(clash) for clash in clashes[:SHOWN_NAMES])}"
        if len(clashes) > SHOWN_NAMES:
            seen += f" And {len(clashes) - SHOWN_NAMES} more."
        found.append(Finding("TL404", seen, advice, Severity.WARNING, file=str(config.source or "")))
    return found


def _several(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:SHOWN_NAMES])
    return shown if len(names) <= SHOWN_NAMES else f"{shown} and {len(names) - SHOWN_NAMES} more"


def examine_clients(config: Config, around: Around) -> list[Finding]:
    """Servers of other clients that have the name of one of ours, and are another."""
    read = config.source.resolve() if config.source else None
    found: list[Finding] = []
    for theirs in find(CLIENTS, around).servers:
        ours = config.servers.get(theirs.name)
        if ours is None or theirs.path.resolve() == read or _same(ours, theirs) or is_trunkline(theirs.spec, ()):
            continue
        seen = f"{title(theirs.client)} calls another server {printable(theirs.name)!r}."
        advice = "Unless it is meant so, give one of them another name: agents mix them up."
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
