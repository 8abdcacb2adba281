"""Past calls, to be looked at: the last ones in memory, and many more in the store where one is open."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter

import msgspec

from trunkline.storage.store import Store
from trunkline.telemetry.record import CallRecord

IN_MEMORY = 1000
ROWS = 100
"""Calls that are stored by one statement."""
AT_ONCE = 500
"""Calls that are stored in one turn: of a flood most would be forgotten again before anybody looks."""


@dataclass(frozen=True)
class CallFilter:
    """Which calls somebody wants to see."""

    person: str | None = None
    """Those of one person alone; `None` for everybody's."""
    user: str = ""
    server: str = ""
    tool: str = ""
    outcome: str = ""
    program: str = ""
    since: float = 0.0
    longer: float = 0.0
    """Those that took at least so many seconds."""
    before: str = ""
    """Those that began before this one."""

    def has(self, record: CallRecord) -> bool:
        """Whether it is one of them."""
        return (
            (self.person is None or record.person == self.person)
            and self.user in ("", record.user)
            and self.server in ("", record.server)
            and self.tool in ("", record.tool, record.name)
            and self.outcome in ("", record.outcome)
            and self.program in ("", record.program)
            and record.time >= self.since
            and record.seconds >= self.longer
            and (not self.before or record.id < self.before)
        )


class PastCalls:
    """Keeps records; what is to be stored waits for somebody who calls `store`."""

    def __init__(self, keep: int) -> None:
        self.configure(keep)
        self._since_trim = 0
        self._keeps = False

    def configure(self, keep: int) -> None:
        """Keep more, or fewer."""
        self._keep = keep
        self.recent: deque[CallRecord] = deque(getattr(self, "recent", ()), maxlen=min(keep, IN_MEMORY))
        # Whatever falls out of these would be forgotten in the store as well.
        self._waiting: deque[CallRecord] = deque(getattr(self, "_waiting", ()), maxlen=keep)

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Keep calls that ended."""
        self.recent.extend(ended)
        if self._keeps:
            self._waiting.extend(ended)

    def keep_all(self) -> None:
        """There is a store from now on: what is in memory goes there, too."""
        if not self._keeps:
            self._keeps = True
            self._waiting.extend(self.recent)

    async def list(self, wanted: CallFilter, limit: int, store: Store | None) -> list[CallRecord]:
        """Those that are wanted, the latest first."""
        if store is None:
            found = sorted((one for one in self.recent if wanted.has(one)), key=lambda one: one.id, reverse=True)
            return found[:limit]
        self.keep_all()
        await self.store(store)
        # A tool goes by two names, of which callers use either: two searches by index are faster than one for both.
        columns = ("tool", "name") if wanted.tool else ("tool",)
        texts: dict[str, str] = {}
        for column in columns:
            sql, values = query_for(wanted, column)
            texts |= {row[0]: row[1] for row in await store.fetch(sql, *values, limit)}
        return [_DECODER.decode(texts[id]) for id in sorted(texts, reverse=True)[:limit]]

    async def find(self, id: str, store: Store | None) -> CallRecord | None:
        """The call of an id."""
        for record in self.recent:
            if record.id == id:
                return record
        rows = await store.fetch("SELECT record FROM calls WHERE id = ?", id) if store is not None else []
        return _DECODER.decode(rows[0][0]) if rows else None

    async def store(self, store: Store, most: int | None = None) -> None:
        """Store what waits for it, or a part; a `StoreError` leaves the rest waiting."""
        for _ in range(0, min(most or len(self._waiting), len(self._waiting)), ROWS):
            part = list(islice(self._waiting, ROWS))
            values = chain.from_iterable(map(_row, part))
            marks = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(part))
            await store.fetch(f"INSERT INTO calls VALUES {marks} ON CONFLICT (id) DO NOTHING", *values)  # noqa: S608
            for one in part:
                if self._waiting and self._waiting[0] is one:
                    self._waiting.popleft()
            self._since_trim += len(part)

    async def trim(self, store: Store, days: float) -> None:
        """Forget what is too old or too much; done now and then."""
        if not self._since_trim:
            return
        self._since_trim = 0
        oldest = await store.fetch("SELECT id FROM calls ORDER BY id DESC LIMIT 1 OFFSET ?", self._keep)
        until = max([_first_id(time.time() - days * 86400), *(row[0] for row in oldest)])
        await store.fetch("DELETE FROM calls WHERE id <= ?", until)


def _first_id(when: float) -> str:
    """What the ids of calls begin with, and so sorts before them."""
    return f"{max(0, int(when * 1000)):011x}"


_columns = attrgetter("id", "user", "person", "server", "tool", "outcome")
_further_columns = attrgetter("name", "seconds", "program")


def _row(record: CallRecord) -> tuple[str | float, ...]:
    record.alike = 0  # another process counts anew
    return (*_columns(record), msgspec.json.encode(record).decode(), *_further_columns(record))


def query_for(wanted: CallFilter, column: str = "tool") -> tuple[str, list[str | float]]:
    """What finds those that are wanted, of which `column` is the tool's name; and its values, less the limit."""
    parts: dict[str, str | float | None] = {
        "person = ?": wanted.person,
        "owner = ?": wanted.user or None,
        "server = ?": wanted.server or None,
        f"{column} = ?": wanted.tool or None,
        "outcome = ?": wanted.outcome or None,
        "program <> '' AND program = ?": wanted.program or None,  # the first half, for the index that has no others
        "seconds >= ?": wanted.longer or None,
        "id >= ?": _first_id(wanted.since) if wanted.since else None,
        "id < ?": wanted.before or None,
    }
    given = {part: value for part, value in parts.items() if value is not None}
    where = " AND ".join(given) or "1 = 1"
    return f"SELECT id, record FROM calls WHERE {where} ORDER BY id DESC LIMIT ?", list(given.values())  # noqa: S608


_DECODER = msgspec.json.Decoder(CallRecord)
