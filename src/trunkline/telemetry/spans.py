"""The spans of a call: one for the call, with what stages did as events, and one for each request to a server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from trunkline.telemetry import conventions as names
from trunkline.telemetry.record import CallRecord
from trunkline.trace import Leg, Trace, TraceContext
from trunkline.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

SECOND = 1_000_000_000


def spans_of(record: CallRecord) -> Iterator[ReadableSpan]:
    """Everything there is to send of a call that was traced."""
    trace = record.span
    if trace is not None:
        yield _call(record, trace)
        for leg in trace.legs:
            yield _request(record, trace, leg)


def _call(record: CallRecord, trace: Trace) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event
    from opentelemetry.trace import Link, SpanKind

    begin = int(record.time * SECOND)
    attributes: dict[str, Any] = _about(record) | {
        names.OUTCOME: record.outcome,
        names.SERVER: record.server,
        names.PROFILE: record.profile,
        names.PROGRAM: record.program,
        names.RECORD: record.id,
        names.ERROR: _error(record),
        names.CODE: str(record.code) if record.code else "",
        names.ARGUMENTS: trace.arguments.decode(errors="replace"),
    }
    events = [
        Event(names.STAGE + what, {names.NOTE: how}, begin + int(after * SECOND)) for what, how, after in record.path
    ]
    return _span(
        _title(record, record.name),
        trace.id,
        trace.span,
        trace.parent,
        kind=SpanKind.SERVER,
        attributes=attributes,
        times=(begin, begin + int(record.seconds * SECOND)),
        events=events,
        links=[Link(_context(trace.link))] if trace.link is not None else [],
        error=record.error or record.outcome if attributes[names.ERROR] else "",
    )


def _request(record: CallRecord, trace: Trace, leg: Leg) -> ReadableSpan:
    from opentelemetry.trace import SpanKind

    failed = leg.failed or (names.TOOL_ERROR if record.outcome == "tool-error" else "")
    attributes = _about(record) | {
        names.SERVER: leg.server,
        names.PROTOCOL_VERSION: leg.version,
        names.NETWORK: names.TRANSPORTS.get(leg.transport, ""),
        names.ERROR: failed,
    }
    if record.method == "tools/call":
        attributes[names.TOOL] = record.tool
    end = leg.end or int((record.time + record.seconds) * SECOND)
    return _span(
        _title(record, record.tool or record.name),
        trace.id,
        leg.span,
        trace.span,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        times=(leg.begin, max(end, leg.begin)),
        error=failed,
    )


def _about(record: CallRecord) -> dict[str, str]:
    """What both kinds of span say."""
    found = {names.METHOD: record.method}
    if record.method in names.TARGETS:
        found[names.TARGETS[record.method]] = record.name
    if record.method == "tools/call":
        found[names.OPERATION] = names.EXECUTE_TOOL
    return found


def _title(record: CallRecord, target: str) -> str:
    return f"{record.method} {target}" if record.method in ("tools/call", "prompts/get") and target else record.method


def _error(record: CallRecord) -> str:
    if record.outcome == "tool-error":
        return names.TOOL_ERROR
    if record.outcome in ("failed", "refused", "cancelled"):
        return str(record.code) if record.code else record.outcome
    return ""


def _span(
    title: str,
    trace: str,
    span: str,
    parent: str,
    *,
    kind: Any,
    attributes: dict[str, Any],
    times: tuple[int, int],
    error: str,
    events: Any = (),
    links: Any = (),
) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status, StatusCode

    resource, scope = _origin()
    return ReadableSpan(
        title,
        context=_context(TraceContext(trace, span, sampled=True)),
        parent=_context(TraceContext(trace, parent, sampled=True), remote=kind.name == "SERVER") if parent else None,
        resource=resource,
        attributes={name: value for name, value in attributes.items() if value != ""},
        events=events,
        links=links,
        kind=kind,
        status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
        start_time=times[0],
        end_time=times[1],
        instrumentation_scope=scope,
    )


def _context(place: TraceContext, *, remote: bool = True) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED if place.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(place.trace, 16), int(place.span, 16), is_remote=remote, trace_flags=flags)


@cache
def _origin() -> tuple[Any, Any]:
    """Who made the spans."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    resource = Resource.create({"service.name": "trunkline", "service.version": __version__})
    return resource, InstrumentationScope("trunkline", __version__)
