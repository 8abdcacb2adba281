"""Calls that run and calls that ended, over the admin API: which, over time, what they used, and the audit of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args

import msgspec

from trunkline.errors import NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Given, Route, page
from trunkline.gateway.api.status import name_for
from trunkline.identity import Scope
from trunkline.telemetry.audit import audit_folder
from trunkline.telemetry.audit_chain import latest
from trunkline.telemetry.logs import utc_time
from trunkline.telemetry.past import CallFilter
from trunkline.telemetry.record import CallRecord, Outcome
from trunkline.telemetry.series import RANGES
from trunkline.telemetry.usage import By
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from trunkline.relay import Relay

MOST_LOOKED_AT = 50_000
"""Lines of the audit that are looked at for one page."""


class ShownStep(TypedDict):
    """What a stage did."""

    what: str
    how: str
    seconds: float


_INSIDE = ("person", "listed", "digest", "span", "path", "alike")
"""What of a record is nobody's, or shown in another form."""
_FIELDS = {one.name: one.type for one in msgspec.structs.fields(CallRecord) if one.name not in _INSIDE}

ShownCall = msgspec.defstruct(
    "ShownCall",
    [*_FIELDS.items(), ("path", list[ShownStep])],
    namespace={"__doc__": "A call that runs, or ended."},
)


ShownSeries = TypedDict(
    "ShownSeries",
    {
        "step": int,
        "from": int,
        "calls": list[int],
        "errors": list[int],
        "p50": list[float],
        "p95": list[float],
        "saved": list[int],
    },
)
"""Calls over time; each list has one number for each point."""


class ShownUsage(TypedDict):
    """What calls used."""

    by: By
    since: float
    usage: list[dict[str, Any]]
    """Those who used the most tokens, at most `limit`."""
    count: int
    """Of how many."""
    total: dict[str, Any]
    """What all of them used."""
    limits: dict[str, dict[str, float]]


def shown(record: CallRecord, *, brief: bool = False) -> dict[str, Any]:
    """A call, for programs to read."""
    told = {name: getattr(record, name) for name in _FIELDS}
    told["seconds"], told["time"] = round(record.seconds, 6), round(record.time, 3)
    if not brief:
        told["path"] = [{"what": what, "how": how, "seconds": round(when, 6)} for what, how, when in record.path]
    return told


def routes(relay: Relay) -> list[Route]:
    """What can be seen of calls."""
    recording = relay.recording

    async def calls(ask: Ask) -> Given:
        found = await recording.calls(_wanted(ask), ask.limit + 1)
        told = [_for(ask.scope, record) for record in found]
        return Given(page(told, ask.limit, lambda call: call["id"], "calls"))

    async def call(ask: Ask) -> Given:
        found = await recording.call(ask.names["id"])
        if found is None or (ask.scope.role != "admin" and found.person != ask.scope.person):
            raise NotFoundError("There is no such call, or no longer.")
        return Given(_for(ask.scope, found))

    return [
        Route(
            "GET",
            "calls",
            "Calls that run and past calls, the latest first",
            calls,
            gives=ShownCall,
            pages="calls",
            query=("user", "server", "tool", "outcome", "program", "since", "longer", "limit", "cursor"),
        ),
        Route("GET", "calls/{id}", "One call, with its way through the stages", call, gives=ShownCall),
        *_sums(relay),
    ]


def _sums(relay: Relay) -> list[Route]:
    recording = relay.recording

    async def series(ask: Ask) -> Given:
        wanted = ask.query.get("range", "1h")
        if wanted not in RANGES:
            raise RefusedError("There is no such `range`.", hint=f"There are {', '.join(RANGES)}.")
        recording.records.drain()
        return Given(recording.series.told(wanted, "" if ask.scope.role == "admin" else ask.scope.user))

    async def usage(ask: Ask) -> Given:
        by = ask.query.get("by", "user")
        if by not in get_args(By):
            raise RefusedError("There is nothing to sum up by that.", hint=f"There are {', '.join(get_args(By))}.")
        person = None if ask.scope.role == "admin" else ask.scope.person
        found = await recording.used(cast("By", by), person, ask.limit)
        told = {"by": by, "since": _since(relay), "usage": found.first, "count": found.count, "total": found.total}
        return Given(told | {"limits": relay.limiter.used(ask.scope)})

    async def audit(ask: Ask) -> Given:
        ask.require()
        config = relay.config
        if not config.audit.enabled:
            raise NotFoundError("There is no audit.", hint="Switch it on with [audit] `enabled = true`.")
        recording.records.drain()
        if recording.audit is not None:
            recording.audit.flush()
        folder, before = audit_folder(config.audit, config.home), _number(ask.cursor)
        found = await in_thread(lambda: list(islice(_fitting(latest(folder, before), ask), ask.limit + 1)))
        return Given(page(found, ask.limit, lambda line: str(line["n"]), "lines"))

    return [
        Route("GET", "series", "Calls over time, for charts", series, gives=ShownSeries, query=("range",)),
        Route("GET", "usage", "What calls used: tokens and cost", usage, gives=ShownUsage, query=("by", "limit")),
        Route(
            "GET",
            "audit",
            "The audit, the latest lines first",
            audit,
            gives=dict[str, Any],
            pages="lines",
            query=("kind", "user", "since", "limit", "cursor"),
        ),
    ]


def _for(scope: Scope, record: CallRecord) -> dict[str, Any]:
    return shown(record) | {"server": name_for(scope, record.server)}


def _since(relay: Relay) -> float:
    days = relay.config.calls.days
    return round(time.time() - days * 86400 if relay.tenancy.is_open else relay.recording.usage.since, 3)


def _wanted(ask: Ask) -> CallFilter:
    given, scope = ask.query, ask.scope
    outcome = given.get("outcome", "")
    if "outcome" in given and outcome not in get_args(Outcome):
        raise RefusedError("There is no such `outcome`.", hint=f"There are {', '.join(get_args(Outcome))}.")
    if scope.role != "admin" and given.get("user", scope.user) not in ("", scope.user):
        raise RefusedError("Calls of others are for admins.", status=403)
    server = given.get("server", "")
    return CallFilter(
        None if scope.role == "admin" else scope.person,
        given.get("user", ""),
        server,
        given.get("tool", ""),
        outcome,
        given.get("program", ""),
        _seconds(given.get("since", "0")),
        _seconds(given.get("longer", "0"), "`longer` is how many seconds a call took at least."),
        ask.cursor,
    )


def _seconds(text: str, problem: str = "`since` is a time in seconds since 1970.") -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e12:
        raise RefusedError(problem)
    return found


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise RefusedError("`cursor` is none that was given out.")
    return int(text) if text else 0


def _fitting(lines: Iterable[dict[str, Any]], ask: Ask) -> Iterable[dict[str, Any]]:
    kind, user, since = ask.query.get("kind", ""), ask.query.get("user", ""), _seconds(ask.query.get("since", "0"))
    first = utc_time(since) if since else ""
    for line in islice(lines, MOST_LOOKED_AT):
        if str(line.get("time", "")) < first:
            return
        if kind in ("", line.get("kind")) and user in ("", line.get("who", {}).get("user", "")):
            yield line
