"""Reads a server's lists, page by page, without trusting it to stop."""

from __future__ import annotations

import dataclasses
from typing import Any

from trunkline.config.options import ServerSpec
from trunkline.errors import ProtocolError, TrunklineError
from trunkline.model import LIST_METHODS, Kind, Listing
from trunkline.upstream.connection import CLIENT_INFO, Connection
from trunkline.upstream.exchange import Exchange
from trunkline.wire import meta
from trunkline.wire.envelope import read_string
from trunkline.wire.era import MODERN_VERSIONS, error_code
from trunkline.wire.members import Members, decode, encode, is_object, read_members, write_members
from trunkline.wire.tasks import declaring, runs_modern

CAPABILITY = {Kind.TOOL: "tools", Kind.PROMPT: "prompts", Kind.RESOURCE: "resources", Kind.TEMPLATE: "resources"}
MAX_ITEMS = 20_000
LIST_TIMEOUT = 30.0


async def discover(
    connection: Connection, spec: ServerSpec, kinds: tuple[Kind, ...] = tuple(Kind)
) -> dict[Kind, Listing]:
    """Every list that the server says it has; a list that fails carries its problem, and spoils no other."""
    found: dict[Kind, Listing] = {}
    for kind in kinds:
        if CAPABILITY[kind] in connection.introduction.capabilities:
            found[kind] = await _read_list(connection, spec, kind)
    return found


async def _read_list(connection: Connection, spec: ServerSpec, kind: Kind) -> Listing:
    listing = Listing()
    cursor = b""
    seen: set[bytes] = set()
    for _ in range(spec.max_pages):
        try:
            page = await _read_page(connection, spec, kind, cursor)
        except TrunklineError as error:
            return dataclasses.replace(listing, problem=str(error))
        items = _items(page, kind)
        extras = listing.extras or {
            name: value for name, value in page.items() if name not in (kind.value, "nextCursor", *_CACHE)
        }
        listing = Listing(listing.items + items, extras, _ttl(page), page.get("cacheScope") == b'"public"')
        cursor = page.get("nextCursor", b"")
        if cursor[:1] != b'"':
            return listing
        if cursor in seen or len(listing.items) > MAX_ITEMS:
            break
        seen.add(cursor)
    return dataclasses.replace(listing, problem=f"Its {kind.value} do not end; only the first pages are shown.")


async def _read_page(connection: Connection, spec: ServerSpec, kind: Kind, cursor: bytes) -> Members:
    params: Members = {"cursor": cursor} if cursor else {}
    if connection.introduction.modern:
        params = meta.stamp(params, meta.Meta(MODERN_VERSIONS[0], b"{}", CLIENT_INFO))
    timeout = min(spec.timeout, LIST_TIMEOUT)
    exchange = Exchange(
        spec.name,
        LIST_METHODS[kind],
        write_members(params),
        timeout=timeout,
        max_timeout=timeout,
        safe_to_repeat=True,
        background=True,
    )
    reply = await connection.request(exchange)
    if reply.error:
        if kind is Kind.TEMPLATE and error_code(reply.error) == -32601:
            return {}  # a server with resources need not have templates
        raise TrunklineError(f"Server {spec.name!r} refused {LIST_METHODS[kind]}: {_message(reply.error)}")
    try:
        return read_members(reply.result)
    except ValueError as error:
        raise ProtocolError(f"Server {spec.name!r} sent {kind.value} that cannot be read: {error}.") from error


def _items(page: Members, kind: Kind) -> tuple[bytes, ...]:
    import msgspec

    raw = page.get(kind.value, b"[]")
    try:
        found = msgspec.json.decode(raw, type=list[msgspec.Raw])
        return tuple(bytes(item) for item in found if is_object(bytes(item)))
    except msgspec.DecodeError:
        # Lone surrogates somewhere in a description: read it the slow way rather than lose the list.
        try:
            return tuple(encode_lenient(item) for item in decode(raw) if isinstance(item, dict))
        except (ValueError, TypeError):
            return ()


def encode_lenient(value: Any) -> bytes:
    """JSON of a value that may hold lone surrogates."""
    import json

    return json.dumps(value, separators=(",", ":")).encode()


_CACHE = ("ttlMs", "cacheScope", "resultType")


def _ttl(page: Members) -> float:
    value = page.get("ttlMs", b"0")
    return int(value) / 1000 if value.isdigit() and len(value) < 15 else 0.0


def _message(error: bytes) -> str:
    return read_string(read_members(error).get("message", b"")) or "no reason given"


def subscribe_filter(capabilities: dict[str, Any], uris: list[str], tasks: list[str]) -> dict[str, Any]:
    """What to listen for on a modern server, as far as it offers it."""
    wanted: dict[str, Any] = {}
    for kind in ("tools", "prompts", "resources"):
        offered = capabilities.get(kind)
        if isinstance(offered, dict) and offered.get("listChanged"):  # type: ignore[reportUnknownMemberType]
            wanted[f"{kind}ListChanged"] = True
    resources = capabilities.get("resources")
    if uris and isinstance(resources, dict) and resources.get("subscribe"):  # type: ignore[reportUnknownMemberType]
        wanted["resourceSubscriptions"] = uris
    if tasks and runs_modern(capabilities):
        wanted["taskIds"] = tasks
    return wanted


def listen_params(wanted: dict[str, Any]) -> bytes:
    """The params of `subscriptions/listen`."""
    params = {"notifications": encode(wanted)}
    capabilities = declaring(b"{}") if "taskIds" in wanted else b"{}"
    return write_members(meta.stamp(params, meta.Meta(MODERN_VERSIONS[0], capabilities, CLIENT_INFO)))
