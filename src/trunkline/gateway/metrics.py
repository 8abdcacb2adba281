"""`/metrics`: what the gateway counts, in the Prometheus format, for whoever collects it."""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator

from trunkline.errors import RefusedError
from trunkline.gateway.request import Request
from trunkline.identity import owner_of
from trunkline.model import Kind, ServerView, State
from trunkline.relay import Relay
from trunkline.telemetry.metrics import Family, Sample, single, written
from trunkline.version import __version__

PATH = "/metrics"
TEXT = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), (b"cache-control", b"no-store")]
MOST_SERVERS = 1000
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Metrics:
    """Writes the numbers of one gateway."""

    def __init__(self, relay: Relay, numbers: dict[str, Callable[[], int]]) -> None:
        self._relay = relay
        self._numbers = numbers | {
            "server_connections": lambda: len(relay.pool),
            "processes": lambda: relay.pool.warden.running,
            "process_starts_total": lambda: relay.recording.processes,
            "token_refreshes_total": lambda: relay.tenancy.sign_ins.renewed,
        }
        self._started = time.time()

    def knows(self, request: Request) -> bool:
        """Whether a request brings the token of those who collect metrics."""
        token = self._relay.config.metrics.token
        given = request.headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        return bool(token) and hmac.compare_digest(given, token.encode())

    async def answer(self, request: Request) -> None:
        """Write them, and let others have their turn meanwhile."""
        if not self._relay.config.metrics.enabled:
            raise RefusedError("There is nothing here.", status=404, hint="See [metrics].")
        if request.method not in ("GET", "HEAD"):
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)
        self._relay.recording.records.drain()
        pieces: list[bytes] = []
        for piece in written(self._families()):
            pieces.append(piece)
            await asyncio.sleep(0)
        request.answer(200, b"".join(pieces), TEXT)

    def _families(self) -> Iterator[Family]:
        relay = self._relay
        yield Family("trunkline_info", "gauge", "The version that runs.", [Sample({"version": __version__}, 1)])
        yield single("trunkline_start_time_seconds", "gauge", "When it was started.", self._started)
        if relay.recording.counts is not None:
            yield from relay.recording.counts.families()
        running = len(relay.recording.records.live)
        yield single("trunkline_calls_running", "gauge", "Calls that run.", running)
        yield from self._servers([view for view in relay.servers() if not owner_of(view.name)][:MOST_SERVERS])
        yield from _cache(relay)
        for name, read in self._numbers.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            yield single(f"trunkline_{name}", kind, _HELP[name], read())
        saved = relay.savings.total()
        told = "Tokens that searching, programs and previews saved, less what they took."
        yield single("trunkline_tokens_saved", "gauge", told, saved.tokens)
        yield single("trunkline_searches_total", "counter", "Answers of search_tools.", saved.searches)
        yield single("trunkline_programs_total", "counter", "Programs that came to their end.", saved.programs)
        yield single("trunkline_previews_total", "counter", "Results that were shown as a preview.", saved.previews)
        yield from _audit(relay)
        yield from _process()

    def _servers(self, views: list[ServerView]) -> Iterator[Family]:
        states = Counter(view.state for view in views)
        counted = [Sample({"state": state.value}, states.get(state, 0)) for state in State]
        yield Family("trunkline_servers", "gauge", "Servers, by how they fare.", counted)
        up = ((view.name, int(view.state in (State.READY, State.DEGRADED))) for view in views)
        yield _each("trunkline_server_up", "Whether a server can take calls.", up)
        tools = ((view.name, len(view.lists[Kind.TOOL].items) if Kind.TOOL in view.lists else 0) for view in views)
        yield _each("trunkline_server_tools", "Tools that a server offers.", tools)
        lanes = [(view.name, self._relay.lane(view.name)) for view in views]
        inside = ((name, lane.inside) for name, lane in lanes)
        yield _each("trunkline_server_calls_running", "Calls that a server works on.", inside)
        waiting = ((name, lane.waiting) for name, lane in lanes)
        yield _each("trunkline_server_calls_waiting", "Calls that wait in a server's queue.", waiting)


_HELP = {
    "http_connections": "Connections of callers that are open.",
    "sessions": "Sessions of legacy callers.",
    "parked_calls": "Calls that wait for an answer to a question.",
    "server_connections": "Connections to servers that are open.",
    "processes": "Processes of servers that run.",
    "process_starts_total": "Processes of servers that were started.",
    "token_refreshes_total": "Tokens of servers that were renewed.",
    "watchers": "Streams of events that are open.",
}


def _each(name: str, help: str, values: Iterator[tuple[str, int]]) -> Family:
    return Family(name, "gauge", help, (Sample({"server": server}, value) for server, value in values))


def _cache(relay: Relay) -> Iterator[Family]:
    stats = relay.cache_stats
    if stats is None:
        return
    for key, kind in _CACHE.items():
        name = f"trunkline_cache_{key}" + ("_total" if kind == "counter" else "")
        yield single(name, kind, f"The cache of answers: {key}.", stats.get(key, 0))


_CACHE = {"hits": "counter", "misses": "counter", "evictions": "counter", "size": "gauge"}


def _audit(relay: Relay) -> Iterator[Family]:
    audit = relay.recording.audit
    if audit is None:
        return
    yield single("trunkline_audit_lines_total", "counter", "Lines of the audit that were written.", audit.lines)
    yield single("trunkline_audit_failures_total", "counter", "Times that the audit was not written.", audit.failures)
    yield single("trunkline_audit_up", "gauge", "Whether the audit can be written.", int(not audit.trouble))


def _process() -> Iterator[Family]:
    yield single("trunkline_process_cpu_seconds_total", "counter", "CPU time of the gateway.", time.process_time())
    try:
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * _PAGE
        files = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    yield single("trunkline_process_resident_memory_bytes", "gauge", "Memory of the gateway.", resident)
    yield single("trunkline_process_open_fds", "gauge", "Files and sockets that are open.", files)
