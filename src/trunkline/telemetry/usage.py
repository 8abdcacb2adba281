"""What calls used: tokens of arguments, answers, lists and searches, and what tools cost; by whom and by what."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from trunkline.errors import StoreError
from trunkline.storage.store import Store
from trunkline.telemetry.record import CallRecord

By = Literal["user", "thread", "server", "tool"]
DAY = 86400
SLICE = 2000
"""Sums that are looked at before others have their turn."""
ROWS = 100
"""Sums that are kept by one statement."""

Place = tuple[int, str, str, str, str]
"""Day, person, thread, server, tool."""


@dataclass(slots=True)
class Used:
    """What some calls used."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    tokens_in: int = 0
    """Tokens of arguments, which models write."""
    tokens_out: int = 0
    """Tokens of answers, which models read."""
    list_tokens: int = 0
    """Tokens of lists of tools."""
    search_tokens: int = 0
    """Tokens of what `search_tools` answered."""
    cost: float = 0.0
    """What the tools are said to cost, together."""

    def add(self, other: Used) -> None:
        """Count another's as well."""
        for name in FIELDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


FIELDS = tuple(one.name for one in dataclasses.fields(Used))


class Usage:
    """Sums since the start; where a store is open, those of the last days."""

    MOST = 20_000
    """Sums that are told apart; what further ones use is counted together."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.since = clock()
        self._sums: dict[Place, Used] = {}
        self._unkept: dict[Place, Used] = {}
        self._keeps = False

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Count calls that ended."""
        day = int(self._clock() // DAY)
        for record in ended:
            if record.outcome == "asked":
                continue
            search = not record.server and record.name == "search_tools"
            tool = record.tool if record.listed else record.name if search else ""
            for used in self._at((day, record.person, record.thread, record.server, tool)):
                used.calls += 1
                used.seconds += record.seconds
                used.tokens_in += record.tokens_in
                used.cost += record.cost
                if search:
                    used.search_tokens += record.tokens_out
                else:
                    used.tokens_out += record.tokens_out
                if record.outcome != "answered":
                    used.errors += 1

    def listed(self, person: str, thread: str, tokens: int) -> None:
        """A list of tools was shown."""
        for used in self._at((int(self._clock() // DAY), person, thread, "", "tools/list")):
            used.list_tokens += tokens

    def keep_all(self) -> None:
        """There is a store from now on: what was counted in memory goes there, too."""
        if not self._keeps:
            self._keeps = True
            self._unkept = {place: dataclasses.replace(used) for place, used in self._sums.items()}

    async def told(self, by: By, person: str | None, store: Store | None) -> list[dict[str, Any]]:
        """What was used, by whom or by what, the most tokens first; with a person theirs alone."""
        if store is not None:
            self.keep_all()
            await self.keep(store)
            rows: Iterable[tuple[Place, Used]] = await _summed(store, by, person)
        else:
            rows = list(self._sums.items())
        found: dict[tuple[str, str], Used] = {}
        for number, (place, used) in enumerate(rows):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if person is None or place[1] == person:
                found.setdefault(_key(place, by), Used()).add(used)
        each = [{**_named(by, key), **_rounded(used)} for key, used in found.items()]
        return sorted(each, key=lambda one: -sum(one[name] for name in _TOKENS))

    async def keep(self, store: Store) -> None:
        """Add what was used since the last time to what is kept."""
        unkept, self._unkept = self._unkept, {}
        rows = list(unkept.items())
        for at in range(0, len(rows), ROWS):
            part = rows[at : at + ROWS]
            values = [value for place, used in part for value in (*place, *(getattr(used, name) for name in FIELDS))]
            marks = ", ".join(["(" + ", ".join("?" * (len(FIELDS) + 5)) + ")"] * len(part))
            try:
                await store.fetch(_ADD.format(marks=marks), *values)
            except StoreError:
                for place, used in rows[at:]:  # they wait for the next time
                    self._unkept.setdefault(place, Used()).add(used)
                raise

    async def forget(self, store: Store, days: float) -> None:
        """What is too old goes."""
        await store.fetch("DELETE FROM used WHERE day < ?", int((self._clock() - days * DAY) // DAY))

    def forget_user(self, user: str) -> None:
        """Somebody is gone; what they used stays in the sums of everybody."""
        for place in [place for place in self._sums if _user(place[1]) == user]:
            gone = self._sums.pop(place)
            self._sums.setdefault((place[0], "", "", place[3], place[4]), Used()).add(gone)

    def _at(self, place: Place) -> list[Used]:
        sums = (self._sums, self._unkept) if self._keeps else (self._sums,)
        found: list[Used] = []
        for known in sums:
            used = known.get(place)
            if used is None:
                where = place if len(known) < self.MOST else (place[0], "", "", place[3], "")
                used = known.setdefault(where, Used())
            found.append(used)
        return found


_TOKENS = tuple(name for name in FIELDS if "tokens" in name)


def _key(place: Place, by: By) -> tuple[str, str]:
    _, person, thread, server, tool = place
    user = _user(person)
    return {"user": (user, ""), "thread": (user, thread), "server": (server, ""), "tool": (server, tool)}[by]


def _user(person: str) -> str:
    """The name of a person, which may hold a `/` itself."""
    name, _, joined = person.rpartition("/")
    return name if name and joined.isdigit() else person


def _used(numbers: Sequence[Any]) -> Used:
    """Sums of the store; PostgreSQL gives them as decimals."""
    floats = ("seconds", "cost")
    each = {name: float(one) if name in floats else int(one) for name, one in zip(FIELDS, numbers, strict=True)}
    return Used(**cast("dict[str, Any]", each))


def _named(by: By, key: tuple[str, str]) -> dict[str, str]:
    match by:
        case "thread":
            return {"user": key[0], "thread": key[1]}
        case "tool":
            return {"server": key[0], "tool": key[1]}
        case _:
            return {by: key[0]}


def _rounded(used: Used) -> dict[str, Any]:
    told = {name: getattr(used, name) for name in FIELDS}
    return told | {"seconds": round(used.seconds, 3), "cost": round(used.cost, 6)}


async def _summed(store: Store, by: By, person: str | None) -> list[tuple[Place, Used]]:
    """What is kept, summed up by the database as far as it can."""
    columns = _COLUMNS[by]
    sums = ", ".join(f"SUM({name})" for name in FIELDS)
    where, whose = ("WHERE owner = ?", (person,)) if person is not None else ("", ())
    sql = f"SELECT {', '.join(columns)}, {sums} FROM used {where} GROUP BY {', '.join(columns)}"  # noqa: S608 - our own
    rows: list[tuple[Place, Used]] = []
    for row in await store.fetch(sql, *whose):
        named = dict(zip(columns, row, strict=False))
        place = (0, named.get("owner", person or ""), *(named.get(one, "") for one in ("thread", "server", "tool")))
        rows.append((cast("Place", place), _used(row[len(columns) :])))
    return rows


_COLUMNS: dict[By, tuple[str, ...]] = {
    "user": ("owner",),
    "thread": ("owner", "thread"),
    "server": ("server",),
    "tool": ("server", "tool"),
}
_ADD = (
    f"INSERT INTO used (day, owner, thread, server, tool, {', '.join(FIELDS)}) VALUES {{marks}} "  # noqa: S608
    "ON CONFLICT (day, owner, thread, server, tool) DO UPDATE SET "
    + ", ".join(f"{name} = used.{name} + excluded.{name}" for name in FIELDS)
)
