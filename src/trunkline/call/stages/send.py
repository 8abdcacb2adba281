"""The last stage: gives the call to its server, in the server's era, and repeats it only where that is safe."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import cast

from trunkline.call.stage import REPEATABLE, Handler
from trunkline.config.server import ServerSpec
from trunkline.errors import (
    AuthorizationNeededError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from trunkline.identity import Scope
from trunkline.model import Call, Reply
from trunkline.tasks import LARGE
from trunkline.telemetry.tally import Tallies
from trunkline.trace import Trace
from trunkline.upstream.connection import Connection
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.pool import Pool
from trunkline.wire import meta
from trunkline.wire.headers import NAMED_BY, param_headers
from trunkline.wire.members import encode, is_object, read_members, write_members
from trunkline.wire.tasks import declaring

Taught = Callable[[Call, bool], None]
"""Told of each answered call whether it went well."""

Report = Callable[[str, UpstreamError | None], None]
"""Told how each call to a server went."""

Needed = Callable[[Scope, ServerSpec, AuthorizationNeededError], Awaitable[AuthorizationNeededError]]
"""Says where a caller's person signs in."""


class SendStage:
    """Knows how every server is reached, and counts how it answers."""

    def __init__(
        self,
        pool: Pool,
        specs: Mapping[str, ServerSpec],
        report: Report,
        tallies: Tallies,
        taught: Taught,
        needed: Needed,
    ) -> None:
        self._pool, self._specs, self._report, self._tallies, self._taught = pool, specs, report, tallies, taught
        self._needed = needed

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        spec = self._specs.get(call.server)
        if spec is None:
            raise UnreachableError(f"Server {call.server!r} was removed.")
        since = self._tallies.now()
        repeatable = call.method in REPEATABLE or (call.entry is not None and call.entry.safe_to_repeat)
        try:
            try:
                reply = await self._once(call, spec, repeatable)
            except UpstreamError as error:
                if not _may_repeat(error, call, repeatable):
                    raise
                call.note("send", "again")
                reply = await self._once(call, spec, repeatable)
        except UpstreamError as error:
            self._report(spec.name, error)
            self._tallies.count(spec.name, _tool(call), since, failed=True, tool_error=False, user=call.scope.user)
            if isinstance(error, AuthorizationNeededError):
                raise await self._needed(call.scope, spec, error) from error.__cause__
            raise
        self._report(spec.name, None)
        reply.server = spec.name
        call.note("answer", spec.name)
        if not reply.questions:
            if len(reply.result) > LARGE:
                await asyncio.sleep(0)  # reading it took as long as a slice: others have their turn
            failed = reply.failed = bool(reply.error) or _says_error(reply.result)
            self._tallies.count(spec.name, _tool(call), since, failed=False, tool_error=failed, user=call.scope.user)
            self._taught(call, not failed)
        return reply

    async def _once(self, call: Call, spec: ServerSpec, repeatable: bool) -> Reply:
        """Send the call, or give the parked one its answers."""
        parked = call.parked
        if parked is None:
            connection = self._pool.at_hand(spec, call.scope, call.caller, tasks=call.with_tasks)
            if connection is None:
                connection = await self._pool.take(spec, call.scope, call.caller, tasks=call.with_tasks)
        else:
            parked = cast("Exchange", parked)
            connection = cast("Connection", parked.connection)
            parked.listener = call.listener
        reply: Reply | None = None
        try:
            if parked is not None:
                call.note("send", "answers")
                reply = await connection.resume(parked, call.answers)
            else:
                call.note("send", spec.name)
                if call.caller.log_level and not connection.introduction.modern:
                    await _want_log(connection, call)
                reply = await connection.request(_exchange(call, spec, connection, repeatable))
            return reply
        finally:
            if call.trace is not None:
                _end_leg(call.trace, reply)
            if reply is None or not reply.questions:
                self._pool.give_back(connection, clean=reply is not None)


def _end_leg(trace: Trace, reply: Reply | None) -> None:
    """Note when a request to a server ended, and by what."""
    if trace.legs and not trace.legs[-1].end:
        trace.legs[-1].end = time.time_ns()
        trace.legs[-1].failed = "" if reply is not None else type(sys.exception()).__name__


def _may_repeat(error: UpstreamError, call: Call, repeatable: bool) -> bool:
    """Whether a failed call is sent once more: it provably did not run, or running twice does no harm."""
    if call.parked is not None:
        return False
    if isinstance(error, SessionLostError):
        return True  # the server refused it unread
    return repeatable and not call.elsewhere and not isinstance(error, (UnreachableError, UpstreamTimeoutError))


def _says_error(result: bytes) -> bool:
    return result.partition(b'"isError"')[1] != b"" and read_members(result).get("isError") == b"true"


def _tool(call: Call) -> str:
    return call.entry.name if call.entry is not None and call.method == "tools/call" else ""


def _exchange(call: Call, spec: ServerSpec, connection: Connection, repeatable: bool) -> Exchange:
    params, raw = call.params, call.raw_params
    headers = call.headers
    if connection.introduction.modern:
        if not call.caller.modern:
            capabilities = call.caller.capabilities
            if "task" in params:  # how a legacy caller asks for a task; a modern server need only know that it may
                params = {name: value for name, value in params.items() if name != "task"}
                capabilities = declaring(capabilities)
            own = meta.Meta(
                connection.introduction.version, capabilities, call.caller.client_info, call.caller.log_level
            )
            params, raw = meta.stamp(params, own), b""
        elif _names_extensions(call.caller.capabilities) and not (call.snapshot and call.snapshot.bare):
            params, raw = meta.with_capabilities(params, routable(call.caller.capabilities)), b""
        if call.entry is not None and call.entry.headers and not headers:
            headers = param_headers(dict(call.entry.headers), params.get("arguments", b""))
    elif call.caller.modern:
        params, raw = meta.unstamp(params), b""
    if call.trace is not None:
        told = call.trace.told(call.trace.leg(spec.name, spec.kind, connection.introduction.version))
        params, raw = meta.with_trace(params, told), b""
        headers = {**headers, b"traceparent": told.encode()}
    own_name = call.entry.name if call.entry is not None else call.name
    return Exchange(
        spec.name,
        call.method,
        raw or write_members(params),
        name=own_name if call.method in NAMED_BY or call.method == "tasks/result" else "",
        headers=headers,
        listener=call.listener,
        timeout=call.timeout or spec.timeout,
        max_timeout=spec.max_timeout,
        safe_to_repeat=repeatable,
        token=meta.progress_token(params),
    )


ROUTED = frozenset(("io.modelcontextprotocol/ui", "io.modelcontextprotocol/tasks"))
"""Extensions whose consequences (tasks, pages) find their way back through us, whichever server they come from."""


@lru_cache(maxsize=256)
def _names_extensions(capabilities: bytes) -> bool:
    return b'"extensions"' in capabilities


@lru_cache(maxsize=256)
def routable(capabilities: bytes) -> bytes:
    """A caller's capabilities without extensions that we could not route among several servers."""
    members = read_members(capabilities)
    extensions = read_members(members["extensions"]) if is_object(members.get("extensions", b"")) else {}
    kept = {name: value for name, value in extensions.items() if name in ROUTED}
    rest = {name: value for name, value in members.items() if name != "extensions"}
    return write_members({**rest, "extensions": write_members(kept)} if kept else rest)


async def _want_log(connection: Connection, call: Call) -> None:
    """Ask a legacy server for log messages, once for each level: there the level is the session's, not the call's."""
    level = call.caller.log_level
    if connection.log_level == level or "logging" not in connection.introduction.capabilities:
        return
    connection.log_level = level
    params = encode({"level": level})
    await connection.request(Exchange(call.server, "logging/setLevel", params, timeout=5.0, max_timeout=5.0))
