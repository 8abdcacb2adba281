"""Traces: decides which calls are traced before anything is made for it, and has what is known of them sent away."""

from __future__ import annotations

import logging
import queue
import random
import re
import secrets
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trunkline.config.records import TracesSection
from trunkline.config.server import shown_url
from trunkline.foreign import Raised, attempt_now
from trunkline.model import Call
from trunkline.telemetry.logs import current_trace
from trunkline.telemetry.record import CallRecord
from trunkline.telemetry.spans import spans_of
from trunkline.trace import Trace, read_context
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("trunkline")

MOST = 2048
"""Calls that wait to be sent; when a collector does not keep up, further ones are dropped."""
BATCH = 256
PAUSE = 1.0
"""Seconds in which calls are gathered before they are sent together."""
FLUSH = 3.0
"""Seconds that there are at the end to send what is left."""
TIMEOUT = 10.0
"""Seconds that a collector has to take what it is sent."""
LONGEST_ARGUMENTS = 8192

_TOLD = re.compile(rb'"traceparent"\s*:\s*"([^"\\]{55,128})"')


class Tracer:
    """Says of each call whether it is traced; most are not, and cost next to nothing."""

    def __init__(self, section: TracesSection) -> None:
        self._ratio, self._arguments = section.sample_ratio, section.include_arguments

    def begin(self, call: Call) -> Trace | None:
        """The trace of a call that comes in. What its caller says counts; where it says nothing, the ratio does."""
        parent = link = None
        about = call.params.get("_meta", b"")
        # `partition` takes half the time of `in`.
        if about.partition(b"traceparent")[1] and (told := _TOLD.search(about)) is not None:
            parent = read_context(told[1])
        if call.traceparent:
            link = read_context(call.traceparent)
            if parent is None:
                parent, link = link, None
        if parent is not None:
            if not parent.sampled:
                return None
            made = Trace(parent.trace, parent.span, link)
        elif random.random() < self._ratio:  # noqa: S311 - nobody gains by guessing it
            made = Trace(secrets.token_hex(16))
        else:
            return None
        if self._arguments:
            made.arguments = call.params.get("arguments", b"")[:LONGEST_ARGUMENTS]
        made.token = current_trace.set(made.id)
        return made

    def end(self, trace: Trace) -> None:
        """The call ended: what is logged from now on is not of its trace."""
        if trace.token is not None:
            current_trace.reset(trace.token)
            trace.token = None


class Traces:
    """Sends what is known of traced calls to a collector, from a thread of its own and within bounds."""

    def __init__(self, section: TracesSection) -> None:
        self.section, self.tracer = section, Tracer(section)
        self._waiting: queue.Queue[CallRecord | None] = queue.Queue(MOST)
        self._lost = 0
        self._fails = False
        self._exporter: SpanExporter | None = None
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def take(self, ended: Sequence[CallRecord]) -> None:
        """Calls ended; those that are traced wait for the next sending, and those beyond the bound are dropped."""
        for record in ended:
            if record.span is None:
                continue
            try:
                self._waiting.put_nowait(record)
            except queue.Full:
                self._lost += 1

    async def close(self) -> None:
        """Send what is left, if the collector takes it within a few seconds."""
        await in_thread(self._close)

    def _close(self) -> None:
        try:
            self._waiting.put(None, timeout=FLUSH / 2)
        except queue.Full:
            return  # the thread waits for a collector that is not there, and ends with the program
        self._thread.join(FLUSH)
        if self._exporter is not None:
            attempt_now(self._exporter.shutdown)

    # In the thread.

    def _run(self) -> None:
        exporter = self._exporter = _exporter(self.section)
        while True:
            batch, more = self._batch()
            if batch:
                spans = [span for record in batch for span in spans_of(record)]
                self._note(attempt_now(exporter.export, spans))
            if not more:
                return

    def _batch(self) -> tuple[list[CallRecord], bool]:
        """The calls of the next sending, and whether there may be further ones."""
        found: list[CallRecord] = []
        one = self._waiting.get()
        until = time.monotonic() + PAUSE
        while one is not None:
            found.append(one)
            if len(found) >= BATCH:
                return found, True
            try:
                one = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return found, True
        return found, False

    def _note(self, result: Any) -> None:
        """Say once that the collector takes nothing, and once that it does again."""
        fails = isinstance(result, Raised) or result.value != 0
        where = shown_url(self.section.endpoint)
        if fails and not self._fails:
            log.warning("Traces cannot be sent to %s for now; calls go on without.", where)
        elif self._fails and not fails:
            log.info("Traces are sent to %s again; those of %d calls were dropped.", where, self._lost)
            self._lost = 0
        self._fails = fails


def open_traces(section: TracesSection) -> Traces | None:
    """Traces as the configuration wants them; `None` where it wants none, or what is needed is not installed."""
    if not section.enabled:
        return None
    try:
        there = find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        log.warning("Calls are not traced: trunkline[otel] is not installed.")
    return Traces(section) if there else None


def _exporter(section: TracesSection) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # It logs each attempt that fails; we say once that it does.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return OTLPSpanExporter(endpoint=section.endpoint, headers=dict(section.headers), timeout=TIMEOUT)
