"""Trust in what servers say: what was agreed to is pinned, and what differs from it is marked, held or followed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from trunkline.config.server import ServerSpec, TrustMode
from trunkline.control.pin_keeper import PinKeeper
from trunkline.control.pin_store import PinStore
from trunkline.errors import StoreError
from trunkline.events import Emitter, Event
from trunkline.identity import owner_of
from trunkline.model import Introduction, Kind, Listing
from trunkline.tasks import Tasks
from trunkline.tools.trust.agreement import MOST, SERVER, VARIANTS, WORDS, Identity, ServerPins, Waiting, WaitingState
from trunkline.tools.trust.definition import Definition, Pin, Sign, pin_of, raw_digest, signs_of_risk, unread_pin
from trunkline.tools.trust.lookalikes import Names
from trunkline.tools.trust.poisoning import LONGEST, poisoning
from trunkline.untrusted import as_text
from trunkline.wire.members import decode_object

log = logging.getLogger("trunkline")

WATCHED = 4 * 2**20
"""Bytes of a definition that is served at all: a digest of more would take the time of others."""


@dataclass(frozen=True)
class ToolHeld(Event):
    """A tool, prompt or template is held back until somebody agrees to it."""

    server: str
    kind: str
    name: str
    why: str


@dataclass(frozen=True)
class ToolApproved(Event):
    """Somebody agreed to what a server says of a tool, prompt or template."""

    server: str
    kind: str
    name: str
    by: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one definition."""

    held: str = ""
    """Why it is held back; empty when it is served."""
    changed: tuple[str, ...] = ()
    """With what mark it is served: the parts that differ from what was agreed to, or signs that were seen."""


AGREED = Verdict()


class Trust:
    """Judges every definition once, and again when it changes; who joins servers asks it what is shown."""

    def __init__(self, store: PinStore, tasks: Tasks | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.pins, self._clock = PinKeeper(store, tasks, self._know_again), clock
        """What was agreed to."""
        self.note, self.saved, self.close = self.pins.note, self.pins.saved, self.pins.close
        self.follow, self.forget, self.forget_owner = self.pins.follow, self.pins.forget, self.pins.forget_owner
        self._kept = self.pins.known
        self._events = Emitter(ToolHeld, ToolApproved)
        self.on, self.off, self.emit = self._events.on, self._events.off, self._events.emit
        self.default: TrustMode = "flag"
        self.changed: Callable[..., None] = _nobody
        """Told whose definitions are to be judged again, and of which kinds; without any, of all."""
        self.felt: Callable[[], Awaitable[None]] = _at_once
        """Waits until callers have what that came to."""
        self._specs: dict[str, ServerSpec] = {}
        self._names: dict[str, Names] = {"": Names()}
        """By owner."""
        self._introduced: dict[str, Introduction] = {}
        """Who servers say they are, of whom it is not known who they were."""

    # Servers come and go.

    def add(self, spec: ServerSpec) -> None:
        """Watch a server, or take on how it is to be trusted now."""
        before = self._specs.get(spec.name)
        self._specs[spec.name] = spec
        if before is not None and before.trust != spec.trust:
            self.changed(spec.name)

    def configure(self, default: TrustMode) -> None:
        """Trust servers that say nothing of it as the configuration does."""
        if default != self.default:
            self.default = default
            for name in self._specs:
                self.changed(name)

    def remove(self, server: str) -> None:
        """Watch a server no more; what was agreed to stays on the disk."""
        self._specs.pop(server, None)
        self._introduced.pop(server, None)
        self._names_of(server).remove(server)
        self.pins.let_go(server)

    async def load(self, server: str) -> None:
        """Have what was agreed to before: to be awaited before a server's lists are judged."""
        if server in self._kept:
            return
        try:
            await self.pins.load(server)
        except StoreError as error:
            self._away(server, error)
        except ValueError as error:
            self._lost(server, str(error))

    def _lost(self, server: str, why: str) -> None:
        """What was agreed to cannot be read, so that nobody knows what may be served."""
        kept = self._kept[server] = ServerPins(lost=True)
        self._hold_all(server, "what was agreed to of it cannot be read", why)
        if server in self._specs and self._mode(server) == ("follow", True):
            self.begin_anew(server, kept)

    def _away(self, server: str, error: StoreError) -> None:
        """The same for now: as soon as the store is back, it is known again."""
        self._kept[server] = ServerPins(lost=True, away=True)
        if server not in self._specs or self._mode(server) != ("follow", True):
            self._hold_all(server, "the store is away, and with it what was agreed to of it", str(error))
        self.pins.ask_again()

    def _know_again(self, server: str) -> None:
        """Others decided something, or the store is back."""
        introduction = self._introduced.pop(server, None)
        if introduction is not None:
            self.introduce(server, introduction)
        self.changed(server)

    def _hold_all(self, server: str, words: str, why: str) -> None:
        digest = hashlib.sha256(why.encode()).hexdigest()[:32]
        sign = Sign("unreadable", words, why)
        self._wait(server, SERVER, server, Waiting("held", b"", digest, self._clock(), (), (sign,)))

    def begin_anew(self, server: str, kept: ServerPins) -> None:
        """Whatever was agreed to of a server counts no more; what it says next is agreed to as at first sight."""
        self.pins.begin_anew(server, ServerPins(kept.identity))
        self.note(server).decided.add((SERVER, server))

    # Judging, on the way into a snapshot.

    def introduce(self, server: str, introduction: Introduction) -> None:
        """A server says who it is; one that is another than was agreed to is held as a whole."""
        spec, kept = self._specs.get(server), self._kept.get(server)
        if spec is None or kept is None:
            return
        if kept.away:
            self._introduced[server] = introduction
            return
        if kept.lost:
            kept.identity = _identity(spec, introduction)
            return
        now, known = _identity(spec, introduction), kept.identity
        key = SERVER, server
        if known is not None and _replaced(known, now):
            kept, known = ServerPins(), None
            self.pins.begin_anew(server, kept)
        what = () if known is None else _differing(known, now)
        if not what or self._mode(server) == ("follow", True):
            if known != now:
                kept.identity = now if known is None else replace(now, name=now.name or known.name)
                self.note(server)
            if kept.waiting.pop(key, None) is not None:
                self.note(server).waiting.add(key)
                self.changed(server)
            return
        text = json.dumps(dataclasses.asdict(now), sort_keys=True).encode()
        digest = hashlib.sha256(text).hexdigest()[:32]
        if key not in kept.waiting or kept.waiting[key].digest != digest:
            words = "it presents another identity than was agreed to"
            shown = "; ".join(f"{one}: {getattr(known, one)!r} → {getattr(now, one)!r}" for one in what)
            sign = Sign("identity", words, shown)
            self._wait(server, SERVER, server, Waiting("held", text, digest, self._clock(), what, (sign,)))
            self.changed(server)

    def know(self, server: str, names: Iterable[str]) -> Iterator[None]:
        """Say what tools a server has, before they are judged, one at each step: others' are held against them."""
        if server in self._specs:
            yield from self._names_of(server).put(server, names)

    def judge(self, server: str, kind: Kind, name: str, item: bytes, *, own: bool = False) -> Verdict:
        """What becomes of a definition; `own` is one that a caller was shown on a connection of its own."""
        kept = self._kept.get(server)
        if kept is None or kind is Kind.RESOURCE or server not in self._specs:
            return AGREED
        stranger = kept.waiting.get((SERVER, server))
        if stranger is not None:
            return Verdict(held=f"its server waits for approval: {stranger.why}")
        if len(item) > WATCHED and self._mode(server) != ("follow", True):
            return Verdict(held="it is too long to be watched")
        packed, raw = kept.pins.get(kind.value, {}).get(name, b""), raw_digest(item)
        key = kind.value, name
        if packed.startswith(raw) or any(pin.raw == raw for pin in Pin.each(packed)):
            return self._taken_back(server, kept, key, own)
        waiting = kept.waiting.get(key)
        if waiting is not None and raw_digest(waiting.definition) == raw and waiting.state == "rejected":
            return _verdict(waiting)
        if len(item) > LONGEST:  # not read, which would hold up everybody: known by its bytes alone
            return self._weigh_long(server, kept, key, item, Pin.each(packed))
        definition = Definition(item)
        pin = pin_of(definition)
        if any(known.canonical == pin.canonical for known in Pin.each(packed)):
            # The same in another order: known by its bytes from now on.
            others = b"".join(one.packed for one in Pin.each(packed) if one.canonical != pin.canonical)
            kept.pins[kind.value][name] = pin.packed + others
            return self._taken_back(server, kept, key, own)
        return self._weigh(server, kept, key, definition, pin, Pin.each(packed))

    def seen(self, server: str, lists: Collection[Listing]) -> None:
        """A server's lists were judged: what comes after those that were whole was not there in the beginning."""
        kept = self._kept.get(server)
        if kept is None or not lists or any(one.problem for one in lists):
            return
        now = {"plain"} | ({"askable"} if any(one.for_askable for one in lists) else set[str]())
        if not now <= kept.begun:
            kept.begun |= now
            self.note(server)

    def _weigh(
        self,
        server: str,
        kept: ServerPins,
        key: tuple[str, str],
        definition: Definition,
        pin: Pin,
        known: Sequence[Pin],
    ) -> Verdict:
        kind = key[0]
        mode, explicit = self._mode(server)
        if mode == "follow" and explicit:
            return self.agree(server, kept, key, definition.item, pin)
        signs = poisoning(definition, server, self._names_of(server), tool=kind == Kind.TOOL.value)
        what: tuple[str, ...] = ()
        if known:
            what = known[0].changed(pin)
            risks = signs_of_risk(known[0].risk, pin.risk) if kind == Kind.TOOL.value else []
            signs = [*risks, *(replace(sign, holds=True) for sign in signs)]
        elif len(kept.pins.get(kind, ())) >= MOST:
            # Were others forgotten for it, a server could have its pins forgotten by naming enough.
            signs.append(Sign("too-many", f"its server named {MOST:,} of them already"))
        elif mode == "hold" and "plain" in kept.begun:
            what = ("added",)
        held = any(sign.holds for sign in signs) or (mode == "hold" and bool(what))
        if not held and not signs and (not what or mode == "follow"):
            return self.agree(server, kept, key, definition.item, pin)
        state: WaitingState = "held" if held else "changed"
        digest = pin.canonical.hex()
        return self._put_off(server, key, Waiting(state, definition.item, digest, self._clock(), what, tuple(signs)))

    def _weigh_long(
        self, server: str, kept: ServerPins, key: tuple[str, str], item: bytes, known: Sequence[Pin]
    ) -> Verdict:
        """What is too long to be read is agreed to at first sight, and held whenever it is another."""
        pin, (mode, explicit) = unread_pin(item), self._mode(server)
        late = mode == "hold" and "plain" in kept.begun
        if (mode == "follow" and explicit) or not (known or late or len(kept.pins.get(key[0], ())) >= MOST):
            return self.agree(server, kept, key, b"{}", pin)
        sign = Sign("too-long", "it is too long to be looked at, and not what was agreed to")
        what = ("other",) if known else ("added",)
        return self._put_off(server, key, Waiting("held", item, pin.canonical.hex(), self._clock(), what, (sign,)))

    def _put_off(self, server: str, key: tuple[str, str], made: Waiting) -> Verdict:
        """Have something wait until somebody looks at it; what was decided of the same before counts."""
        before = self._kept[server].waiting.get(key)
        if before is not None and before.digest == made.digest:
            made = replace(made, since=before.since, state="rejected" if before.state == "rejected" else made.state)
        if made != before:
            self._wait(server, *key, made)
        return _verdict(made)

    def _wait(self, server: str, kind: str, name: str, made: Waiting) -> None:
        before = self._kept[server].waiting.get((kind, name))
        self._kept[server].waiting[kind, name] = made
        self.note(server).waiting.add((kind, name))
        known = before is not None and (before.digest, before.state) == (made.digest, made.state)
        if made.state == "held" and not known:
            words, about = (server, WORDS[kind], name, made.why), {"server": server}
            log.warning("Server %s: the %s %r is held back: %s.", *words, extra=about)
            self.emit(ToolHeld(server, WORDS[kind], name, made.why))

    def _taken_back(self, server: str, kept: ServerPins, key: tuple[str, str], own: bool) -> Verdict:
        """What was agreed to is there again; what another caller is shown may go on to differ."""
        if not own and key in kept.waiting:
            del kept.waiting[key]
            self.note(server).waiting.add(key)
        return AGREED

    def agree(self, server: str, kept: ServerPins, key: tuple[str, str], item: bytes, pin: Pin) -> Verdict:
        """Pin a definition."""
        kind, name = key
        pins = kept.pins.setdefault(kind, {})
        before = Pin.each(pins.pop(name, b""))
        pins[name] = b"".join(one.packed for one in [pin, *before][:VARIANTS])
        while len(pins) > MOST:
            del pins[next(iter(pins))]
        unsaved = self.note(server)
        if kept.waiting.pop(key, None) is not None:
            unsaved.waiting.add(key)
        if not before:
            unsaved.first.add(key)
        unsaved.agreed.setdefault(key, {})[pin.packed] = item
        return AGREED

    def _mode(self, server: str) -> tuple[TrustMode, bool]:
        """How a server is trusted, and whether that was said of it alone; what is in this process is our own."""
        spec = self._specs[server]
        if spec.trust:
            return spec.trust, True
        return ("follow", True) if spec.local is not None else (self.default, False)

    def _names_of(self, server: str) -> Names:
        owner = owner_of(server)
        if owner not in self._names:
            self._names[owner] = Names(self._names[""])
        return self._names[owner]

    # What waits.

    def kept(self, server: str) -> ServerPins:
        """What is known of a server, to be looked at and changed by who reviews it."""
        return self._kept.get(server) or ServerPins()

    def servers(self) -> list[str]:
        """Of whom anything is known."""
        return sorted(self._kept)

    async def load_all(self) -> None:
        """Know all that is kept, of whichever server: for who looks without running any."""
        for server in await self.pins.store.servers():
            await self.load(server)

    def decided(self, server: str, key: tuple[str, str]) -> None:
        """Somebody agreed to what waited, or rejected it: everybody else is told, and first sight counts no more."""
        unsaved = self.note(server)
        unsaved.first.discard(key)
        unsaved.waiting.add(key)
        unsaved.decided.add(key)


async def _at_once() -> None:
    """Where nobody is served there is nothing to wait for."""


def _nobody(server: str, kinds: Iterable[str] = ()) -> None:
    pass


def _identity(spec: ServerSpec, introduction: Introduction) -> Identity:
    where = urlsplit(spec.url)
    origin = f"{where.scheme}://{where.netloc.rpartition('@')[2]}".lower() if spec.url else ""
    launch = hashlib.sha256(json.dumps([spec.command, *spec.args]).encode()).hexdigest()[:32] if spec.command else ""
    return Identity(as_text(decode_object(introduction.info).get("name")), origin, launch)


def _differing(known: Identity, now: Identity) -> tuple[Literal["name", "origin"], ...]:
    """What makes a server another one."""
    moved = bool(known.origin and known.origin != now.origin)
    return (("name",) if _renamed(known, now) else ()) + (("origin",) if moved else ())


def _replaced(known: Identity, now: Identity) -> bool:
    """Whether somebody configured another program under the name: that is no change of a server, but another one."""
    return _renamed(known, now) and bool(now.launch) and known.launch != now.launch


def _renamed(known: Identity, now: Identity) -> bool:
    return bool(known.name and now.name and known.name != now.name)


def _verdict(waiting: Waiting) -> Verdict:
    if waiting.is_held:
        return Verdict(held=waiting.why)
    return Verdict(changed=(*waiting.what, *dict.fromkeys(sign.code for sign in waiting.signs)))
