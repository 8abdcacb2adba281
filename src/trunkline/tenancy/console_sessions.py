"""Browsers that are signed in to the console: a random cookie stands for a key, and ends with it."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from trunkline.errors import StoreError, TokenRefusedError
from trunkline.identity import Scope
from trunkline.storage import console_sessions as stored
from trunkline.storage.console_sessions import NOUN, SessionRow
from trunkline.storage.store import Change, Store
from trunkline.tenancy.keys import KeyMaker
from trunkline.tenancy.people import Admission, Issued, People

REMEMBERED = 10_000
"""Sessions that are known without asking the store; those of tokens in the configuration are known in no other way."""
NOTE = 60.0
"""Seconds after which the store is told again that a session is used."""


@dataclass(slots=True)
class _Open:
    id: str
    admission: Admission
    until: float
    seen: float
    noted: float
    kept: bool
    """Whether the store has it."""


class ConsoleSessions:
    """Each is somebody let in until they sign out, their key ends, or nobody used it for a while."""

    def __init__(
        self, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool], people: People, keys: KeyMaker
    ) -> None:
        self._store, self._is_open, self._people, self._keys = store, is_open, people, keys
        self._open: OrderedDict[bytes, _Open] = OrderedDict()
        self.idle, self.longest = 3600.0, 43200.0
        self.issuers: Callable[[], Collection[str]] = tuple
        """Those by whom people sign in now."""
        self.now = time.time
        people.on_change(self._changed)

    async def begin(self, admission: Admission, issued: Issued | None = None) -> tuple[str, float]:
        """Sign in a browser; what its cookie is to say, and the seconds that it has at most."""
        made, at, scope = self._keys.make(), self.now(), admission.scope
        kept = bool(scope.key) and self._is_open()
        if kept:
            row = SessionRow(
                made.id,
                scope.user,
                "" if issued is not None else scope.key,
                msgspec.json.encode(issued).decode() if issued is not None else "",
                round(at * 1000),
                round(at * 1000),
                made.digest,
            )
            oldest, idle = round((at - self.longest) * 1000), round((at - self.idle) * 1000)
            await stored.add(await self._store(), row, oldest=oldest, idle=idle)
        until = self._until(at, admission)
        self._remember(made.text.encode(), _Open(made.id, admission, until, at, at, kept))
        return made.text, until - at

    async def admit(self, value: bytes) -> Admission | None:
        """Whom a cookie lets in; `None` when nobody, or no longer."""
        at, digest = self.now(), hashlib.sha256(value).digest()
        found = self._open.get(digest) or await self._look_up(value)
        if found is None:
            return None
        if at >= found.until or at - found.seen >= self.idle:
            await self._drop(digest, found)
            return None
        found.seen = at
        self._open.move_to_end(digest)
        if found.kept and at - found.noted >= NOTE:
            found.noted = at
            await self._note(found.id)
        return found.admission

    async def end(self, value: bytes) -> None:
        """Sign out."""
        digest = hashlib.sha256(value).digest()
        found = self._open.get(digest) or await self._look_up(value)
        if found is not None:
            await self._drop(digest, found)

    async def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something; `None` when it is not known what."""
        gone = None if changes is None else {change.name for change in changes if change.noun == NOUN}
        for digest, one in list(self._open.items()):
            if one.kept and (gone is None or one.id in gone):
                del self._open[digest]

    async def _look_up(self, value: bytes) -> _Open | None:
        id = self._keys.id_of(value) if self._is_open() else ""
        row = await stored.find(await self._store(), id) if id else None
        if row is None or not hmac.compare_digest(row.digest, self._keys.digest(value)):
            return None
        admission = await self._admission(row)
        if admission is None:
            await stored.remove(await self._store(), row.id, row.owner)
            return None
        seen = row.seen / 1000
        made = _Open(id, admission, self._until(row.created / 1000, admission), seen, seen, kept=True)
        self._remember(value, made)
        return made

    async def _admission(self, row: SessionRow) -> Admission | None:
        """Whom the key, or the issuer, of a session lets in now."""
        if row.key:
            return await self._people.admission_of(row.owner, row.key)
        issued = msgspec.json.decode(row.issued, type=Issued)
        if issued.issuer not in self.issuers():
            return None
        try:
            return await self._people.take_in(issued)
        except TokenRefusedError:
            return None

    def _until(self, begun: float, admission: Admission) -> float:
        until = begun + self.longest
        return min(until, admission.expires) if admission.expires else until

    async def _note(self, id: str) -> None:
        try:
            await stored.touch(await self._store(), id)
        except StoreError:
            pass  # while the store is away, what is remembered counts

    async def _drop(self, digest: bytes, found: _Open) -> None:
        self._open.pop(digest, None)
        if found.kept:
            await stored.remove(await self._store(), found.id, found.admission.scope.user)

    def _remember(self, value: bytes, one: _Open) -> None:
        self._open[hashlib.sha256(value).digest()] = one
        if len(self._open) > REMEMBERED:
            self._open.popitem(last=False)

    def _changed(self, user: str, key: str, at_present: Scope | None) -> None:
        """What a key gives is another, or nothing: the store is asked anew."""
        for digest, one in list(self._open.items()):
            scope = one.admission.scope
            if one.kept and (scope.key == key or (scope.user == user and not key)):
                del self._open[digest]
