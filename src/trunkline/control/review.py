"""What waits for somebody to agree to it, how it differs from what was agreed to, and who decides."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import msgspec

from trunkline.control.trust import ToolApproved, Trust
from trunkline.errors import NotFoundError, StoreError, VersionConflictError
from trunkline.identity import unit_name
from trunkline.tools.names import prefixed
from trunkline.tools.trust.agreement import SERVER, WORDS, Identity, ServerPins, Waiting, WaitingState
from trunkline.tools.trust.definition import Definition, diff, pin_of, unread_pin
from trunkline.tools.trust.poisoning import LONGEST

Key = tuple[str, str]
"""A kind and a name."""


@dataclass(frozen=True)
class Review:
    """Something that waits, with how it differs from what was agreed to."""

    server: str
    kind: str
    """`tool`, `prompt`, `template`, or `server` where the server itself presents another identity."""
    name: str
    state: WaitingState
    since: float
    """Seconds since the epoch."""
    what: tuple[str, ...]
    """The parts that differ; `added` for what was not there when the server was agreed to."""
    why: tuple[str, ...]
    evidence: tuple[str, ...]
    """What was seen, in the server's own words: for people, and never for a model."""
    digest: str
    diff: tuple[str, ...] = ()


async def reviews(trust: Trust, servers: Iterable[str] | None = None) -> list[Review]:
    """What waits, of these servers or of all that are known."""
    await trust.saved()
    found: list[Review] = []
    for server in trust.servers() if servers is None else servers:
        kept = trust.kept(server)
        for (kind, name), one in list(kept.waiting.items()):
            found.append(_review(server, kind, name, one, await _agreed(trust, server, kind, name, one)))
    return found


async def approve(
    trust: Trust, server: str, names: Collection[str] = (), *, digests: Collection[str] = (), by: str = ""
) -> list[str]:
    """Agree to what waits of a server, or to some of it; with digests, only if it is what those are of."""
    kept, chosen = _chosen(trust, server, names, digests)
    for key in chosen:
        one = kept.waiting[key]
        if kept.lost:
            trust.begin_anew(server, kept)
        elif key[0] == SERVER:
            kept.identity = msgspec.json.decode(one.definition, type=Identity)
            del kept.waiting[key]
            trust.note(server).waiting.add(key)
        else:
            long = len(one.definition) > LONGEST
            pin = unread_pin(one.definition) if long else pin_of(Definition(one.definition))
            trust.agree(server, kept, key, b"{}" if long else one.definition, pin)
        trust.decided(server, key)
    await _decided(trust, server, chosen)
    for kind, name in chosen:
        trust.emit(ToolApproved(server, WORDS[kind], name, by))
    return [name for _, name in chosen]


async def reject(trust: Trust, server: str, names: Collection[str] = (), *, digests: Collection[str] = ()) -> list[str]:
    """Hold what waits of a server until it is approved after all, or the server takes it back."""
    kept, chosen = _chosen(trust, server, names, digests)
    for key in chosen:
        kept.waiting[key] = replace(kept.waiting[key], state="rejected")
        trust.decided(server, key)
    await _decided(trust, server, chosen)
    return [name for _, name in chosen]


def _chosen(
    trust: Trust, server: str, names: Collection[str], digests: Collection[str]
) -> tuple[ServerPins, list[Key]]:
    kept, unit = trust.kept(server), unit_name(server)
    wanted = {name: [key for key in kept.waiting if name in (key[1], prefixed(unit, key[1]))] for name in names}
    wanted = wanted or {"": list(kept.waiting)}
    for name in (name for name, keys in wanted.items() if not keys):
        what = f"Nothing called {name!r}" if name else "Nothing"
        hint = "`trunkline review` shows what does."
        raise NotFoundError(f"{what} of server {unit!r} waits for approval.", hint=hint)
    if kept.away:
        hint = "It is asked for what was agreed to as soon as it is back."
        raise StoreError("Nothing can be decided while the store is away.", hint=hint)
    chosen = list(dict.fromkeys(key for keys in wanted.values() for key in keys))
    if digests and any(kept.waiting[key].digest not in digests for key in chosen):
        raise VersionConflictError(f"Server {unit!r} changed it again meanwhile.", hint="Look at it once more.")
    return kept, chosen


async def _decided(trust: Trust, server: str, chosen: Collection[Key]) -> None:
    kinds = {kind for kind, _ in chosen}
    trust.changed(server, () if SERVER in kinds else kinds)
    await trust.saved()
    await trust.felt()


async def _agreed(trust: Trust, server: str, kind: str, name: str, one: Waiting) -> bytes:
    """What it differs from; empty where nothing was agreed to."""
    if trust.kept(server).lost:
        return b""
    if kind == SERVER:
        return json.dumps(dataclasses.asdict(trust.kept(server).identity or Identity()), sort_keys=True).encode()
    if not one.what or "added" in one.what:
        return b""
    return await trust.pins.store.agreed(server, (kind, name))


def _review(server: str, kind: str, name: str, one: Waiting, before: bytes) -> Review:
    return Review(
        server,
        WORDS[kind],
        name,
        one.state,
        one.since,
        one.what,
        tuple(sign.words for sign in one.signs),
        tuple(sign.evidence for sign in one.signs if sign.evidence),
        one.digest,
        () if len(one.definition) > LONGEST else tuple(diff(before, one.definition)),
    )
