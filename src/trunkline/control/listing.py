"""Reads lists, of a server or of any MCP client, page by page, without trusting them to end."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast, get_args, get_type_hints

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.control.item import name_of
from trunkline.errors import ProtocolError, TrunklineError
from trunkline.model import LIST_METHODS, Kind, Listing
from trunkline.tasks import in_slices, pause_after
from trunkline.untrusted import as_text
from trunkline.upstream.connection import CLIENT_INFO, Connection
from trunkline.upstream.exchange import Exchange
from trunkline.wire import meta
from trunkline.wire.envelope import read_string
from trunkline.wire.era import MODERN_VERSIONS, error_code
from trunkline.wire.members import Members, decode, encode, is_object, read_members, write_members
from trunkline.wire.tasks import declaring, runs_modern

log = logging.getLogger("trunkline")

CAPABILITY = {Kind.TOOL: "tools", Kind.PROMPT: "prompts", Kind.RESOURCE: "resources", Kind.TEMPLATE: "resources"}
MAX_ITEMS = 20_000
MAX_BYTES = 2**24
"""Of one list of a server, over all its pages."""
MAX_CLIENT_PAGES = 1_000
LIST_TIMEOUT = 30.0

Item = TypeVar("Item")
Cursor = TypeVar("Cursor", bound=Hashable)


async def discover(
    connection: Connection, spec: ServerSpec, kinds: tuple[Kind, ...] = tuple(Kind)
) -> dict[Kind, Listing]:
    """Every list that the server says it has; a list that fails carries its problem, and spoils no other."""
    found: dict[Kind, Listing] = {}
    for kind in kinds:
        if CAPABILITY[kind] in connection.introduction.capabilities:
            found[kind] = await _read_list(connection, spec, kind)
    return found


async def read_client_tools(client: Any) -> tuple[tuple[Any, ...], str]:
    """Every tool of a client that has `list_tools`, and a complaint; ProtocolError when it answers something else.

    The tools are definitions as mappings, or as the objects of an SDK: see `as_definition`.
    """
    list_tools = _paged(client.list_tools)

    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        return _client_page(await list_tools(cursor))

    return await read_pages(fetch, most_pages=MAX_CLIENT_PAGES, what=Kind.TOOL.value)


def as_definition(tool: Any) -> Mapping[str, Any]:
    """A listed tool as an MCP definition; ProtocolError when it is none."""
    if isinstance(tool, Mapping):
        return cast("Mapping[str, Any]", tool)
    if not hasattr(tool, "model_dump"):
        raise ProtocolError(f"A tool is listed as {type(tool).__name__!r}, which is no definition.")
    return tool.model_dump(by_alias=True, exclude_none=True, mode="json")


def version_of(client: Any) -> str:
    """The version of the server behind a client, if it knows it."""
    return as_text(getattr(getattr(client, "server_info", None), "version", ""))


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


async def read_pages(
    fetch: Callable[[Cursor | None], Awaitable[tuple[Iterable[Item], Cursor | None]]], *, most_pages: int, what: str
) -> tuple[tuple[Item, ...], str]:
    """Every item of a list, page by page, and a complaint if it does not end: no server is trusted to stop.

    `fetch` gives the items after a cursor, and the next cursor.
    """
    items: list[Item] = []
    cursor: Cursor | None = None
    seen: set[Cursor] = set()
    for _ in range(most_pages):
        page, cursor = await fetch(cursor)
        items += page
        if cursor is None:
            return tuple(items), ""
        if cursor in seen or len(items) > MAX_ITEMS:
            break
        seen.add(cursor)
    return tuple(items[:MAX_ITEMS]), f"Its {what} do not end; only the first pages are known."


async def _read_list(connection: Connection, spec: ServerSpec, kind: Kind) -> Listing:
    listing = Listing()

    sifted = _Sifted(kind)
    left = MAX_BYTES

    async def fetch(cursor: bytes | None) -> tuple[tuple[bytes, ...], bytes | None]:
        nonlocal listing, left
        try:
            page = await _read_page(connection, spec, kind, cursor or b"")
            await pause_after(page.get(kind.value, b""))
            raw = _raw_items(page, spec, kind)
        except TrunklineError as error:
            listing = dataclasses.replace(listing, problem=str(error))
            return (), None
        extras = listing.extras or {
            name: value for name, value in page.items() if name not in (kind.value, "nextCursor", *_CACHE)
        }
        listing = Listing((), extras, _ttl(page), page.get("cacheScope") == b'"public"')
        left -= sum(map(len, page.values()))
        if left < 0:
            most = f"more than {MAX_BYTES // 2**20} MB"
            listing = dataclasses.replace(listing, problem=f"Its {kind.value} take {most}; only the first are known.")
            return (), None
        before = len(sifted.items)
        await in_slices(sifted.take(raw))
        after = page.get("nextCursor", b"")
        return sifted.items[before:], after if after[:1] == b'"' else None

    items, complaint = await read_pages(fetch, most_pages=spec.max_pages, what=kind.value)
    problem = listing.problem or complaint
    return dataclasses.replace(listing, items=items, problem=problem, dropped=sifted.dropped(spec.name))


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
    await pause_after(reply.result)
    if reply.error:
        if kind is Kind.TEMPLATE and error_code(reply.error) == -32601:
            return {kind.value: b"[]"}  # a server with resources need not have templates
        raise TrunklineError(f"Server {spec.name!r} refused {LIST_METHODS[kind]}: {_message(reply.error)}")
    try:
        return read_members(reply.result)
    except ValueError as error:
        raise ProtocolError(f"Server {spec.name!r} sent {kind.value} that cannot be read: {error}.") from error


def _raw_items(page: Members, spec: ServerSpec, kind: Kind) -> list[bytes | msgspec.Raw]:
    """What a page lists, each as it was written; ProtocolError when it is no list."""
    raw = page.get(kind.value, b"")
    try:
        return list(msgspec.json.decode(raw, type=list[msgspec.Raw]))
    except msgspec.DecodeError:
        # Lone surrogates somewhere in a description: read it the slow way rather than lose the list.
        try:
            found: Any = decode(raw)
        except ValueError:
            found = None
    if not isinstance(found, list):
        what = "nothing" if not raw else "null" if raw == b"null" else "no list"
        raise ProtocolError(f"Server {spec.name!r} answered {LIST_METHODS[kind]} with {what} for `{kind.value}`.")
    return [json.dumps(item, separators=(",", ":")).encode() for item in cast("list[Any]", found)]


class _Sifted:
    """What can be used of a list: objects with a name, each name once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._names: set[str] = set()
        self.items: tuple[bytes, ...] = ()
        self._dropped: Counter[str] = Counter()

    def take(self, raw: Iterable[bytes | msgspec.Raw]) -> Iterator[None]:
        """Sift one page, an item at each step."""
        kept: list[bytes] = []
        for one in raw:
            item = bytes(one)
            name = name_of(item, self._kind) if is_object(item) else ""
            if name and name not in self._names:
                self._names.add(name)
                kept.append(item)
            else:
                why = "a name that another has" if name else "no name" if is_object(item) else "no definition"
                self._dropped[why] += 1
            yield
        self.items += tuple(kept)

    def dropped(self, server: str) -> str:
        """What was left out and why, which is logged as well; empty when nothing was."""
        if not self._dropped:
            return ""
        why = ", ".join(f"{count} with {reason}" for reason, count in self._dropped.items())
        words = f"Of its {self._kind.value} {self._dropped.total()} are left out: {why}."
        log.warning("Server %s: %s", server, words, extra={"server": server})
        return words


_CACHE = ("ttlMs", "cacheScope", "resultType")


def _ttl(page: Members) -> float:
    value = page.get("ttlMs", b"0")
    return int(value) / 1000 if value.isdigit() and len(value) < 15 else 0.0


def _message(error: bytes) -> str:
    return read_string(read_members(error).get("message", b"")) or "no reason given"


def _client_page(answer: Any) -> tuple[list[Any], str | None]:
    if isinstance(answer, list):  # some clients follow the pages themselves
        return cast("list[Any]", answer), None
    if isinstance(answer, Mapping):
        members = cast("Mapping[str, Any]", answer)
        tools, cursor = members.get("tools"), members.get("nextCursor")
    else:
        tools = getattr(answer, "tools", None)
        cursor = getattr(answer, "next_cursor", None) or getattr(answer, "nextCursor", None)
    if not isinstance(tools, list | tuple):
        raise ProtocolError("No tools returned from server.")
    return list(cast("list[Any]", tools)), cursor if isinstance(cursor, str) else None


def _paged(method: Callable[..., Awaitable[Any]]) -> Callable[[str | None], Awaitable[Any]]:
    """The client's method as a function of the cursor, however the client spells that."""
    try:
        names = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return method
    # A client that keeps lists must ask its server: what is old is known already.
    fresh = {"cache_mode": "refresh"} if "cache_mode" in names else {}
    if "cursor" in names:
        return lambda cursor: method(cursor=cursor, **fresh)
    if "params" in names:
        made = _params_type(method)
        return lambda cursor: method(params=made(cursor=cursor) if cursor else None)
    return lambda cursor: method(cursor) if names else method()


def _params_type(method: Callable[..., Any]) -> Callable[..., Any]:
    """The SDK's own class of params, as the method's types name it; without any, a mapping."""
    try:
        hint = get_type_hints(getattr(method, "__func__", method)).get("params")
    except (NameError, TypeError):
        return dict
    return next((kind for kind in get_args(hint) if kind is not type(None)), None) or dict
