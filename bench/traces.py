"""What traces add to a call, in CPU microseconds: off, one in a hundred, and every one, spans and encoding included.

Rounds of each kind take turns, so that a busy machine is unfair to none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from scale import sized

from trunkline.call.stage import Handler, join
from trunkline.call.stages.record import RecordStage
from trunkline.config.records import TracesSection
from trunkline.model import Call, Reply
from trunkline.telemetry.record import CallRecord, Records
from trunkline.telemetry.spans import spans_of
from trunkline.telemetry.traces import Tracer

CALLS, ROUNDS = sized(2000, smallest=10), sized(7, smallest=1)
RESULT = b'{"content":[{"type":"text","text":"x"}],"resultType":"complete"}'
PLAIN = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
NOT_TRACED = PLAIN[:-1] + b',"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}'


async def answer(call: Call, call_next: Handler) -> Reply:
    call.note("send", "echo")
    if call.trace is not None:
        leg = call.trace.leg("echo", "stdio", "2026-07-28")
        call.trace.told(leg)
        leg.end = time.time_ns()
    return Reply(result=RESULT)


def encode_traced(ended: Sequence[CallRecord]) -> None:
    """What the thread does, but here, so that it is counted; without the sending itself."""
    spans = [span for record in ended for span in spans_of(record)]
    if spans:
        encode_spans(spans).SerializePartialToString()


def handler(ratio: float | None) -> Handler:
    records = Records()
    records.readers = (encode_traced,) if ratio is not None else (lambda _: None,)
    records.tracer = Tracer(TracesSection(sample_ratio=ratio)) if ratio is not None else None
    return join([RecordStage(records), answer])


async def spent(handle: Handler, meta: bytes) -> float:
    calls = [Call("tools/call", "echo", {"name": b'"echo"', "arguments": b"{}", "_meta": meta}) for _ in range(CALLS)]
    started = time.process_time()
    for call in calls:
        await handle(call)
    return (time.process_time() - started) / CALLS * 1e6


async def main() -> None:
    kinds = {
        "off": (handler(None), PLAIN),
        "1 % of calls": (handler(0.01), PLAIN),
        "caller does not trace": (handler(1.0), NOT_TRACED),
        "every call": (handler(1.0), PLAIN),
    }
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, (handle, meta) in kinds.items():
            found[name].append(await spent(handle, meta))
    off = min(found["off"])
    for name, times in found.items():
        print(f"{name:24} {min(times):7.2f} µs   {min(times) - off:+.2f}")


if __name__ == "__main__":
    asyncio.run(main())
