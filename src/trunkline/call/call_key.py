"""When two calls are the same: one user, one server, one thing asked, one set of arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trunkline.call.result_cache import result_key
from trunkline.call.single_flight import SingleFlight
from trunkline.model import Call, Reply
from trunkline.upstream.connection_key import can_be_asked
from trunkline.wire.members import is_object, read_members
from trunkline.wire.meta import PREFIX

_HARMLESS = frozenset(("progressToken", "traceparent", "tracestate", "baggage"))
"""Members of `_meta` that change how a call is watched, and not what it means."""
_CONTINUES = frozenset(("requestState", "inputResponses", "task"))
"""Params of a call that goes on with something, and so is like no other."""


def sameness(call: Call, server: str) -> str:
    """Equal for equal calls to a server; empty when that cannot be told."""
    params = call.params
    told = params.get("_meta", b"")
    if (told and not _harmless(told)) or not _CONTINUES.isdisjoint(params):
        return ""
    name = call.entry.name if call.entry is not None else call.name
    # A session that has a connection of its own may be told what others are not.
    session = call.scope.session if can_be_asked(call.caller) else ""
    tenant = f"{call.scope.app} {call.scope.person} {session}"
    return result_key(f"{call.method} {name}", params.get("arguments", b"{}"), server=server, tenant=tenant)


async def share(
    flights: SingleFlight[Reply], same: str, call: Call, run: Callable[[], Awaitable[Reply]]
) -> tuple[Reply, bool]:
    """The reply of one call for all that are the same, and whether that was this call's own."""
    led = False

    async def lead() -> Reply:
        nonlocal led
        led = True
        return await run()

    # One who has less time than the others must not end their wait.
    return await flights.join(f"{same} {call.timeout:g}", lead), led


def _harmless(meta: bytes) -> bool:
    if not is_object(meta):
        return False
    return all(name in _HARMLESS or name.startswith(PREFIX) for name in read_members(meta))
