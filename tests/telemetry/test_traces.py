"""Traces: one from the caller through Trunkline to its server, as a collector receives it."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway, plain_server
from trunkline.config.records import TracesSection
from trunkline.gateway.serve import Gateway
from trunkline.model import Call
from trunkline.telemetry.record import CallRecord
from trunkline.telemetry.traces import Tracer
from trunkline.trace import TraceContext, read_context

TRACE, PARENT, ELSEWHERE = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "0af7651916cd43dd8448eb211c80319c"
SECRET = "canary-3fa9c1"


@dataclass
class Collector:
    """What an OTLP collector was sent."""

    spans: list[Span] = field(default_factory=list[Span])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    came: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 200

    async def take(self, request: web.Request) -> web.Response:
        message = ExportTraceServiceRequest.FromString(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        for resource in message.resource_spans:
            assert {"service.name": "trunkline"}.items() <= attributes(resource.resource).items()
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.came.set()
        return web.Response(status=self.status)


def attributes(holder: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in holder.attributes}


@asynccontextmanager
async def traced(
    home: Path, servers: dict[str, Any], sections: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[Gateway, Collector]]:
    """A gateway that traces, and its collector, which has everything when the gateway is closed."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    async with TestServer(app, host="127.0.0.1") as server:
        said = {"enabled": True, "endpoint": str(server.make_url("/v1/traces")), **options}
        async with gateway(home, servers, sections={"traces": said, **(sections or {})}) as opened:
            yield opened, collector


def one_era(era: str) -> dict[str, Any]:
    return plain_server("-m", "tests.fidelity.one_era_server", "--era", era)


@pytest.mark.parametrize("server_era", ["modern", "legacy"])
@pytest.mark.parametrize("caller_era", ["modern", "legacy"])
async def test_one_trace_goes_from_the_caller_to_the_server(
    tmp_path: Path, http: aiohttp.ClientSession, caller_era: str, server_era: str
) -> None:
    about = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1", "baggage": "a=b"}
    request = f"00-{ELSEWHERE}-{PARENT}-00"
    async with traced(tmp_path, {"one": one_era(server_era)}) as (opened, collector):
        if caller_era == "modern":
            modern = ModernCaller(opened.url, http)
            heard = await modern.call("meta", meta=about, headers={"traceparent": request})
        else:
            legacy = await LegacyCaller(opened.url, http).open()
            legacy.headers["traceparent"] = request
            heard = await legacy.request("tools/call", {"name": "meta", "arguments": {}, "_meta": about})
    told = json.loads(heard.text)

    ours, theirs = sorted(collector.spans, key=lambda span: span.kind)  # a server's span, and a client's
    assert (ours.kind, theirs.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert {ours.trace_id.hex(), theirs.trace_id.hex()} == {TRACE}
    assert ours.parent_span_id.hex() == PARENT
    assert theirs.parent_span_id == ours.span_id
    assert told["traceparent"] == f"00-{TRACE}-{theirs.span_id.hex()}-01"
    assert (told["tracestate"], told["baggage"]) == ("vendor=1", "a=b")
    assert [link.trace_id.hex() for link in ours.links] == [ELSEWHERE]
    assert ours.start_time_unix_nano <= theirs.start_time_unix_nano <= theirs.end_time_unix_nano


async def test_spans_have_the_names_of_the_conventions_and_what_stages_did(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with traced(tmp_path, {"one": faulty()}, headers={"x-key": "k"}) as (opened, collector):
        caller = ModernCaller(opened.url, http)
        await caller.call("echo", {"text": SECRET})
        await caller.call("fails", {"text": SECRET})
        await caller.call("no_such_tool", {"text": SECRET})

    calls = {span.name: span for span in collector.spans if span.kind == Span.SPAN_KIND_SERVER}
    sent = [span for span in collector.spans if span.kind == Span.SPAN_KIND_CLIENT]
    echo = attributes(calls["tools/call echo"])
    assert {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "echo",
        "gen_ai.operation.name": "execute_tool",
    }.items() <= echo.items()
    assert (echo["trunkline.outcome"], echo["trunkline.server"]) == ("answered", "one")
    assert "trunkline.stage.send" in [event.name for event in calls["tools/call echo"].events]
    assert {attributes(span)["network.transport"] for span in sent} == {"pipe"}
    assert calls["tools/call no_such_tool"].status.code == Status.STATUS_CODE_ERROR
    assert attributes(calls["tools/call no_such_tool"])["error.type"] == "-32602"
    assert SECRET not in str(collector.spans)
    assert collector.headers[0]["x-key"] == "k"


async def test_arguments_are_in_spans_only_if_they_are_asked_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with traced(tmp_path, {"one": faulty()}, include_arguments=True) as (opened, collector):
        await ModernCaller(opened.url, http).call("echo", {"text": SECRET})

    told = [attributes(span).get("gen_ai.tool.call.arguments", "") for span in collector.spans]
    assert [json.loads(text) for text in told if text] == [{"text": SECRET}]


async def test_what_its_caller_does_not_trace_is_not_traced_and_passes_as_it_is(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    parent = f"00-{TRACE}-{PARENT}-00"
    async with traced(tmp_path, {"one": one_era("modern")}) as (opened, collector):
        heard = await ModernCaller(opened.url, http).call("meta", meta={"traceparent": parent})

    assert json.loads(heard.text)["traceparent"] == parent
    assert collector.spans == []


async def test_calls_that_are_not_traced_leave_no_record_where_only_traces_are_on(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    nothing_else = {"calls": {"keep": 0}, "metrics": {"enabled": False}}
    async with traced(tmp_path, {"one": faulty()}, nothing_else, sample_ratio=0.0) as (opened, collector):
        recording, heard = opened.hub.relay.recording, list[CallRecord]()
        caller, parent = ModernCaller(opened.url, http), {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        recording.records.eager, send = True, recording.records.readers
        recording.records.readers = (*send, heard.extend)  # beside what sends them, and unknown to whoever decides
        await caller.call("echo", {"text": "a"})
        await caller.call("echo", {"text": "b"}, meta=parent)
        traced_alone = [one.trace for one in heard]
        stop = recording.listen(heard.extend)
        await caller.call("echo", {"text": "c"})
        stop()
        await caller.call("echo", {"text": "d"})

    assert traced_alone == [TRACE]
    assert [one.trace for one in heard] == [TRACE, ""]  # who listens hears of all
    assert len(collector.spans) == 2


def test_about_one_in_a_hundred_is_traced_where_that_is_wanted() -> None:
    tracer = Tracer(TracesSection(enabled=True, sample_ratio=0.01))

    made = [tracer.begin(Call("tools/call", "t", {})) for _ in range(20_000)]

    found = [one for one in made if one is not None]
    assert 100 < len(found) < 320
    assert len({one.id for one in found}) == len(found)
    for one in reversed(found):
        tracer.end(one)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"00-{TRACE}-{PARENT}-01", TraceContext(TRACE, PARENT, sampled=True)),
        (f"00-{TRACE}-{PARENT}-00", TraceContext(TRACE, PARENT, sampled=False)),
        (f"00-{TRACE}-{PARENT}-03", TraceContext(TRACE, PARENT, sampled=True)),
        (f"01-{TRACE}-{PARENT}-01-more", TraceContext(TRACE, PARENT, sampled=True)),
        (f"00-{TRACE}-{PARENT}-01-more", None),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(text: str, found: TraceContext | None) -> None:
    assert read_context(text.encode()) == found


async def test_a_collector_that_is_not_there_is_said_once_and_holds_up_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    said = {"enabled": True, "endpoint": "http://127.0.0.1:1/v1/traces?token=" + SECRET}
    async with asyncio.timeout(30):
        async with gateway(tmp_path, {"one": faulty()}, sections={"traces": said}) as opened:
            caller = ModernCaller(opened.url, http)
            for _ in range(3):
                assert (await caller.call("echo", {"text": "x"})).text

    assert SECRET not in caplog.text
    assert len([line for line in caplog.messages if "cannot be sent" in line]) <= 1


async def test_a_collector_that_refuses_is_said_once_and_so_is_that_it_no_longer_does(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline")
    async with traced(tmp_path, {"one": faulty()}) as (opened, collector):
        caller = ModernCaller(opened.url, http)
        for collector.status in (400, 400, 200):
            collector.came.clear()
            await caller.call("echo", {"text": "x"})
            async with asyncio.timeout(20):
                await collector.came.wait()

    said = [line for line in caplog.messages if line.startswith("Traces ")]
    assert ["cannot be sent" in line for line in said] == [True, False]


async def test_a_modern_server_over_http_has_it_as_a_header_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "requests"
    with faulty_http("--era", "modern", "--log", str(log)) as url:
        async with traced(tmp_path, {"one": {"url": url}}) as (opened, collector):
            await ModernCaller(opened.url, http).call("echo", {"text": "x"})

    (sent,) = [span for span in collector.spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert f"00-{sent.trace_id.hex()}-{sent.span_id.hex()}-01" in log.read_text()
    assert attributes(sent)["network.transport"] == "tcp"


async def test_a_line_of_the_log_has_the_trace_of_its_call(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    from trunkline.telemetry.logs import current_trace

    seen: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(current_trace.get())

    ear, logger = Ear(), logging.getLogger("trunkline.tools")
    logger.addHandler(ear)
    logger.setLevel(logging.INFO)
    try:
        async with traced(tmp_path, {"one": faulty()}, {"middleware": {"logging": True}}) as (opened, _):
            caller = ModernCaller(opened.url, http)
            await caller.call("echo", {"text": "x"}, meta={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            await caller.call("echo", {"text": "x"}, meta={"traceparent": f"00-{ELSEWHERE}-{PARENT}-00"})
    finally:
        logger.removeHandler(ear)

    assert seen == [TRACE, ""]


def test_nothing_of_it_is_loaded_where_nothing_is_traced(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from trunkline import open_hub, Config\n"
        "import trunkline.gateway.serve\n"
        "async def main():\n"
        "    async with open_hub(Config()): pass\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'requests', 'google.protobuf'))])\n"
    )
    env = {"HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)

    assert done.stdout == "[]\n"
