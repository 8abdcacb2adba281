"""The first stage: finds out what the caller means, and which server that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trunkline.call.links import Links
from trunkline.call.stage import Handler
from trunkline.errors import HeldError, UnknownNameError
from trunkline.identity import Scope, unit_name
from trunkline.model import Call, Caller, Entry, Kind, Reply, Snapshot, View
from trunkline.tool import DIRECT, ToolOptions
from trunkline.tools.names import did_you_mean, held_back, is_prefixed, meaning, namesakes, prefixed
from trunkline.tools.uri_templates import matches
from trunkline.wire.envelope import read_string
from trunkline.wire.headers import check_param_headers
from trunkline.wire.members import encode, read_members, write_members

_MOST_NAMESAKES = 5
"""Of so many servers that have one name, the whole names are said."""


class EntryStage:
    """Reads what the caller has at this moment; the call keeps it to its end."""

    def __init__(
        self,
        view: Callable[[Scope, Caller], View],
        settle: Callable[[Call], Awaitable[None]],
        options: Callable[[str, str], ToolOptions],
        links: Links,
    ) -> None:
        self._view, self._settle, self._options, self._links = view, settle, options, links

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        call.snapshot = snapshot = self._view(call.scope, call.caller).snapshot
        if call.parked is not None or call.server:
            return self._looked_up(call, call_next, snapshot)
        entry = resolve(call, snapshot)
        if entry is None:
            return self._looked_up(call, call_next, snapshot)
        if entry.headers and call.sent_headers is not None and not call.by_search:
            check_param_headers(call.sent_headers, dict(entry.headers), call.params.get("arguments", b""))
        call.note("entry", entry.server)
        call.entry, call.server = entry, entry.server
        if entry.name != call.name:
            _rename(call, entry.name)
        return call_next(call) if snapshot.bare else self._noted(call, call_next)

    async def _looked_up(self, call: Call, call_next: Handler, snapshot: Snapshot) -> Reply:
        """A call that is parked, or names what nobody is known to have."""
        if call.parked is not None:
            call.server = call.parked.server
            call.entry = call.entry or resolve(call, snapshot)
        if call.server:
            return await self._noted(call, call_next)  # a parked call: its server is known
        if call.method.startswith("tasks/"):
            return await call_next(call)  # a task says itself which server it is at
        entry: Entry | None = None
        # Before its first list, nobody knows that a server which stands alone is meant by the part before the tool.
        if not snapshot.bare or is_prefixed(call.name, snapshot):
            await self._settle(call)
            call.snapshot = snapshot = self._view(call.scope, call.caller).snapshot
            entry = resolve(call, snapshot)
            if entry is None and call.method == "resources/read":
                entry = self._links.find(call.scope, call.name, snapshot)
        if entry is None and (held := find_held(call, snapshot)) is not None:
            raise HeldError(held.name, unit_name(held.server), held.held)
        if entry is not None:
            call.entry = entry
            call.server = entry.server
            call.note("entry", entry.server)
            if entry.name != call.name:
                _rename(call, entry.name)
        elif snapshot.bare:
            call.server = snapshot.bare  # a server that stands alone answers for itself, even what it does not have
            if call.method == "tools/call":
                said = self._options(call.server, call.name)
                if said.allowed_callers is not None and (call.scope.program or DIRECT) not in said.allowed_callers:
                    raise unknown(call, snapshot)
                call.entry = Entry(call.name, call.server, call.name, b"", annotations=said, options=said)
        else:
            raise unknown(call, snapshot)
        return await self._noted(call, call_next)

    async def _noted(self, call: Call, call_next: Handler) -> Reply:
        """The reply, whose links can be read from now on."""
        reply = await call_next(call)
        if reply.result and call.entry is not None and call.snapshot is not None and not call.snapshot.bare:
            unit = call.entry.server
            self._links.remember(call.scope, unit, reply.server or unit, reply.result)
        return reply


def resolve(call: Call, snapshot: Snapshot) -> Entry | None:
    """What the call names, if the snapshot has it."""
    match call.method:
        case "tools/call":
            return meaning(call.name, Kind.TOOL, snapshot)
        case "prompts/get":
            return meaning(call.name, Kind.PROMPT, snapshot)
        case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
            return find_resource(call.name, snapshot)
        case "completion/complete":
            return _resolve_reference(call, snapshot)
        case _:
            return None


def find_resource(uri: str, snapshot: Snapshot) -> Entry | None:
    """The resource at an address, or the template that makes such addresses."""
    found = snapshot.resources.get(uri)
    if found is not None:
        return found
    for template in snapshot.templates:
        if matches(template.shown, uri):
            return Entry(uri, template.server, uri, b"", members=template.members)
    return snapshot.unlisted.get(uri)


def find_held(call: Call, snapshot: Snapshot) -> Entry | None:
    """What the call names, where it is held back."""
    kinds = {"tools/call": Kind.TOOL, "prompts/get": Kind.PROMPT, "completion/complete": Kind.PROMPT}
    if call.method in kinds:
        found = held_back(call.name, kinds[call.method], snapshot)
        if found is not None or call.method != "completion/complete":
            return found
    held = [entry for offer in snapshot.offers.values() for entry in offer.held.get(Kind.TEMPLATE, {}).values()]
    return next((entry for entry in held if entry.name == call.name or matches(entry.name, call.name)), None)


def unknown(call: Call, snapshot: Snapshot) -> UnknownNameError:
    """The error for a name that nobody has; it says who might have had it."""
    what = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}.get(call.method, "name")
    kind = Kind.PROMPT if call.method == "prompts/get" else Kind.TOOL
    several = [prefixed(unit_name(entry.server), entry.name) for entry in namesakes(call.name, kind, snapshot)]
    if several:
        hint = f"Several servers have it; say whose you mean: {', '.join(several[:_MOST_NAMESAKES])}."
        return UnknownNameError(f"Unknown {what}: {call.name}", hint=hint)
    known = {"tools/call": snapshot.tools, "prompts/get": snapshot.prompts}.get(call.method, snapshot.resources)
    hints = did_you_mean(call.name, known), snapshot.missing
    return UnknownNameError(f"Unknown {what}: {call.name}", hint=" ".join(filter(None, hints)))


def _resolve_reference(call: Call, snapshot: Snapshot) -> Entry | None:
    reference = read_members(call.params.get("ref", b"{}"))
    if read_string(reference.get("type", b"")) == "ref/prompt":
        call.name = read_string(reference.get("name", b""))
        return meaning(call.name, Kind.PROMPT, snapshot)
    call.name = read_string(reference.get("uri", b""))
    for template in snapshot.templates:
        if template.shown == call.name:
            return template
    return find_resource(call.name, snapshot)


def _rename(call: Call, name: str) -> None:
    if call.method == "completion/complete":
        reference = {**read_members(call.params["ref"]), "name": encode(name)}
        call.params = {**call.params, "ref": write_members(reference)}
    else:
        call.params = {**call.params, "name": encode(name)}
    call.raw_params = b""
