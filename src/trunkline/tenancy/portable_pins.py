"""What was agreed to of servers' definitions, in the document of a store: it counts where nothing is known yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from trunkline.errors import ConfigError
from trunkline.identity import server_id
from trunkline.model import Kind
from trunkline.storage import pins as rows
from trunkline.storage.engine import Session
from trunkline.storage.pins import Key, PinRow, ServerOf
from trunkline.storage.store import Store, note
from trunkline.tools.trust.agreement import MOST, SERVER, VARIANTS, Identity, Waiting, WaitingItem
from trunkline.tools.trust.definition import PIN_SIZE, Definition, Pin, Sign, pin_of, raw_digest, unread_pin
from trunkline.tools.trust.lookalikes import Names
from trunkline.tools.trust.poisoning import LONGEST, poisoning

PinnedKind = Literal["tools", "prompts", "resourceTemplates"]


class PortableIdentity(msgspec.Struct, forbid_unknown_fields=True):
    """Who a server was when it was agreed to."""

    name: str = ""
    origin: str = ""
    launch: str = ""


class PortableAgreed(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A definition that was agreed to; of one name the newest is the last."""

    kind: PinnedKind
    name: str
    definition: str = ""
    pin: bytes = b""
    """Where the definition itself is not kept."""


class PortableRejected(msgspec.Struct, forbid_unknown_fields=True):
    """A definition that somebody rejected."""

    kind: PinnedKind
    name: str
    definition: str
    since: float


class PortablePins(msgspec.Struct, forbid_unknown_fields=True):
    """What was decided of one server. What merely waits is not in it: whoever serves the server sees it anew."""

    server: str
    user: str = ""
    identity: PortableIdentity | None = None
    begun: list[Literal["plain", "askable"]] = []
    agreed: list[PortableAgreed] = []
    rejected: list[PortableRejected] = []


async def exported(store: Store, owners: Collection[str]) -> list[PortablePins]:
    """What was decided of the servers of these owners."""
    found = sorted(one for one in await rows.servers(store) if one[0] in owners)
    return [await _exported(store, one) for one in found]


async def _exported(store: Store | Session, server: ServerOf) -> PortablePins:
    identity, begun = await rows.head(store, server) or ("", "")
    who = msgspec.json.decode(identity, type=PortableIdentity) if identity else None
    agreed = [
        _agreed(key, pin, definition)
        for key, pin, definition in await rows.definitions(store, server)
        if _is_writable(key[1])
    ]
    waits = [
        (key, msgspec.json.decode(content, type=WaitingItem)) for key, content in await rows.waiting(store, server)
    ]
    rejected = [
        PortableRejected(_kind(kind), name, bytes(one.definition).decode(), one.since)
        for (kind, name), one in waits
        if one.state == "rejected" and kind != SERVER and _is_writable(name)
    ]
    seen = msgspec.convert(begun.split(), list[Literal["plain", "askable"]])
    return PortablePins(server[1], server[0], who, seen, agreed, rejected)


def _is_writable(name: str) -> bool:
    """Whether JSON has a place for a name: one with half a surrogate pair is agreed to anew."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _agreed(key: Key, pin: bytes, definition: bytes) -> PortableAgreed:
    kind, name = _kind(key[0]), key[1]
    if raw_digest(definition) != Pin(pin).raw:
        return PortableAgreed(kind, name, pin=pin)
    return PortableAgreed(kind, name, definition.decode())


def _kind(kind: str) -> PinnedKind:
    return msgspec.convert(kind, PinnedKind)


@dataclass(frozen=True)
class _Server:
    """What a document says of one server, as it may be kept."""

    said: PortablePins
    agreed: dict[Key, list[tuple[Pin, bytes]]] = field(default_factory=dict[Key, list[tuple[Pin, bytes]]])
    """The newest is the last."""

    @property
    def of(self) -> ServerOf:
        return self.said.user, self.said.server

    @property
    def tools(self) -> Iterator[str]:
        return (name for kind, name in self.agreed if kind == Kind.TOOL.value)


@dataclass
class ComingPins:
    """What a document brings to one store, and what stays as it is there."""

    taken: list[_Server] = field(default_factory=list[_Server])
    left: list[ServerOf] = field(default_factory=list[ServerOf])
    """Servers of which the store knows something else itself."""
    same: int = 0
    names: dict[str, Names] = field(default_factory=lambda: {"": Names()})
    """What tools there are, by owner."""


class PinImport:
    """What was agreed to elsewhere, on its way into a store.

    It is as good as what a server says at first sight: it counts for servers that the store knows nothing of, so that
    nothing is approved that waits there, and what would be held back at first sight is refused, unless `held`.
    """

    def __init__(self, said: Sequence[PortablePins], *, held: bool = False) -> None:
        self._held = held
        self._servers = [_checked(one) for one in said]
        self.owners = {one.user for one in said}
        if len({one.of for one in self._servers}) < len(said):
            raise ConfigError("The document says twice what was agreed to of one server.")

    async def look(self, store: Store | Session) -> ComingPins:
        """What it brings; `ConfigError` for what would be held back."""
        found = ComingPins()
        for one in self._servers:
            known = await _exported(store, one.of)
            if known == one.said:
                found.same += 1
            elif await rows.knows(store, one.of):
                found.left.append(one.of)
            else:
                found.taken.append(one)
        if found.taken:
            await self._know_names(store, found)
            self._refuse_held(found)
        return found

    async def _know_names(self, store: Store | Session, found: ComingPins) -> None:
        for owner in ["", *(self.owners - {""})]:
            names = found.names.setdefault(owner, Names(found.names[""]))
            tools: dict[str, list[str]] = {}
            for server, name in await rows.names(store, owner, Kind.TOOL.value):
                tools.setdefault(server, []).append(name)
            tools |= {one.said.server: list(one.tools) for one in found.taken if one.said.user == owner}
            for server, some in tools.items():
                for _ in names.put(server_id(owner, server), some):
                    pass

    def _refuse_held(self, found: ComingPins) -> None:
        if self._held:
            return
        held = [
            f"{name!r} of server {one.said.server!r}: {why}"
            for one in found.taken
            for (kind, name), definitions in one.agreed.items()
            for pin, definition in definitions
            if (why := _why_held(pin, definition, _signs(one, kind, definition, found)))
        ]
        if held:
            more = f" There are {len(held) - 1} more of the kind." if held[1:] else ""
            raise ConfigError(
                f"The document agrees to what would be held back here, {held[0]}.{more}",
                hint="If you agree to it as well, say --allow-held.",
            )

    async def take(self, session: Session) -> None:
        """Have it count; others hear of it."""
        found = await self.look(session)
        for one in found.taken:
            who = one.said.identity
            identity = msgspec.json.encode(Identity(who.name, who.origin, who.launch)).decode() if who else ""
            await rows.put_pins(session, one.of, _pin_rows(one))
            await rows.put_waiting(session, one.of, [_rejected_row(one, said, found) for said in one.said.rejected])
            await rows.put_head(session, one.of, identity, " ".join(sorted(one.said.begun)))
            await note(session, "pin", *one.of)


def _checked(said: PortablePins) -> _Server:
    """What a document says of a server. A pin is made of its definition anew: a document may say anything."""
    if not said.server.isprintable() or "/" in said.server or not said.server:
        raise ConfigError(f"{said.server!r} cannot be a server's name.")
    made = _Server(said)
    for one in said.agreed:
        item = one.definition.encode()
        if bool(item) == bool(one.pin) or (one.pin and len(one.pin) != PIN_SIZE):
            raise ConfigError(f"What was agreed to of {one.name!r} of server {said.server!r} has no pin.")
        pin = Pin(one.pin) if one.pin else pin_of(_read(said, one.name, item))
        made.agreed.setdefault((one.kind, one.name), []).append((pin, item or b"{}"))
    for one in said.rejected:
        if len(one.definition) <= LONGEST:  # of a longer one nothing but its bytes counts
            _read(said, one.name, one.definition.encode())
    if any(len(some) > VARIANTS for some in made.agreed.values()) or len(made.agreed) > len(Kind) * MOST:
        raise ConfigError(f"The document agrees to more of server {said.server!r} than is remembered.")
    return made


def _read(said: PortablePins, name: str, item: bytes) -> Definition:
    made = Definition(item if len(item) <= LONGEST else b"")
    if not made.members:
        raise ConfigError(f"What the document has of {name!r} of server {said.server!r} is no definition.")
    return made


def _signs(one: _Server, kind: str, definition: bytes, found: ComingPins) -> list[Sign]:
    server, names = server_id(*one.of), found.names[one.said.user]
    return poisoning(Definition(definition), server, names, tool=kind == Kind.TOOL.value)


def _why_held(pin: Pin, definition: bytes, signs: Sequence[Sign]) -> str:
    if raw_digest(definition) != pin.raw:
        return "it is not in the document, and cannot be looked at"
    return next((sign.words for sign in signs if sign.holds), "")


def _pin_rows(one: _Server) -> Iterator[PinRow]:
    for key, definitions in one.agreed.items():
        for place, (pin, definition) in enumerate(definitions):
            yield PinRow(key, pin.packed, definition, place)


def _rejected_row(one: _Server, said: PortableRejected, found: ComingPins) -> PinRow:
    item, key = said.definition.encode(), (said.kind, said.name)
    pin = unread_pin(item) if len(item) > LONGEST else pin_of(Definition(item))
    known = one.agreed.get(key)
    what = known[-1][0].changed(pin) if known else ("added",)
    signs = () if len(item) > LONGEST else tuple(_signs(one, said.kind, item, found))
    made = Waiting("rejected", item, pin.canonical.hex(), said.since, what, signs)
    return PinRow(key, b"", msgspec.json.encode(WaitingItem.of(made)))
