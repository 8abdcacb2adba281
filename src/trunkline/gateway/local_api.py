"""What commands of this machine ask a running gateway: what it knows, as it has it itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from trunkline.call.stages.entry import resolve
from trunkline.config.options import SearchStrategy
from trunkline.errors import RefusedError
from trunkline.gateway.request import Request
from trunkline.identity import Scope
from trunkline.model import Call, Entry, Snapshot
from trunkline.tool import Safety

if TYPE_CHECKING:
    from trunkline.relay import Relay

PATH = "/api/v1/local"
PATIENCE = b"trunkline-timeout"
"""The header in which a command says how long its call may take."""
SLICE = 200
"""Things that are written before others have their turn."""


class Asked(msgspec.Struct, frozen=True):
    """What a command wants to know."""

    about: Literal["servers", "tools", "shown", "names", "tool", "changes", "found"]
    server: str = ""
    name: str = ""
    query: str | list[str] = ""
    limit: int = 10
    min_score: float | None = None
    servers: list[str] = []
    safety: Safety | None = None
    strategy: SearchStrategy | None = None


async def answer(relay: Relay, request: Request) -> None:
    """Answer one request at `PATH`: things of one kind, in slices, each as msgspec packs it."""
    if request.method != "POST":
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    try:
        asked = msgspec.json.decode(request.body, type=Asked)
    except msgspec.DecodeError as error:
        raise RefusedError(f"This is asked in another way: {error}.") from error
    slices: list[bytes] = []
    async for thing in _things(relay, asked):
        slices.append(msgspec.msgpack.encode(thing, enc_hook=dict))  # mappings that nobody can change are not packed
        await asyncio.sleep(0)
    kind = (b"content-type", b"application/msgpack")
    request.answer(200, msgspec.msgpack.encode(slices), [kind, (b"cache-control", b"no-store")])


async def _things(relay: Relay, asked: Asked) -> AsyncGenerator[Any]:
    match asked.about:
        case "servers":
            for view in relay.servers():
                yield [{"view": view, "words": relay.last_words(view.name)}]
            return
        case "changes":
            found: Iterable[Any] = await relay.history.changes()
        case "found":
            found = await _found(relay, asked)
        case "tool":
            entry = find_tool(relay.snapshot, asked.server, asked.name)
            found = [entry] if entry is not None else []
        case "names":
            found = list(relay.snapshot.tools)
        case "tools":
            await relay.settle()
            found = relay.snapshot.tools.values()
        case "shown":
            found = relay.view().tools
    every = list(found)
    for start in range(0, len(every), SLICE):
        yield every[start : start + SLICE]


async def _found(relay: Relay, asked: Asked) -> list[Any]:
    await relay.settle()
    return await relay.find(
        asked.query,
        relay.view().snapshot,
        Scope(),
        limit=asked.limit,
        min_score=asked.min_score,
        servers=asked.servers,
        safety=asked.safety,
        strategy=asked.strategy,
    )


def find_tool(snapshot: Snapshot, server: str, name: str) -> Entry | None:
    """The tool that a person names: as it is shown, or as its server calls it where the server is named as well."""
    if not server:
        return resolve(Call("tools/call", name, {}), snapshot)
    for entry in snapshot.tools.values():
        if server in (entry.server, *entry.members) and name in (entry.name, entry.shown):
            return entry
    return None
