"""What calls used: tokens of arguments, answers, lists and searches, and what tools cost; by whom and by what."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, cast

from trunkline.errors import StoreError
from trunkline.storage.store import Store
from trunkline.telemetry.record import MOST_COMMON, CallRecord

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
_values = attrgetter(*FIELDS)


@dataclass(frozen=True)
class UsageTold:
    """What was used by whom or by what."""

    first: list[dict[str, Any]]
    """Those who used the most tokens, so many as were asked for."""
    count: int
    """Of how many."""
    total: dict[str, Any]
    """What all of them used together."""


class Usage:
    """Sums since the start; where a store is open, those of the last days."""

    MOST = 20_000
    """Sums that are told apart; what further ones use is counted together."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.since = clock()
        self._sums: dict[Place, Used] = {}
        self._known: dict[int, Used] = {}
        """Those of today, by what their calls have in common."""
        self._day = 0
        """Since the start; where there is a store, since they were last added to what is kept there."""

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Count calls that ended."""
        day = int(self._clock() // DAY)
        if day != self._day or len(self._known) >= MOST_COMMON:
            self._day = day
            self._known.clear()
        for record in ended:
            if record.outcome == "asked":
                continue
            used = self._known.get(record.alike)
            if used is None:
                search = not record.server and record.name == "search_tools"
                tool = record.tool if record.listed else record.name if search else ""
                used = self._at((day, record.person, record.thread, record.server, tool))
                if record.alike and not search:
                    self._known[record.alike] = used
                if search:
                    used.search_tokens += record.tokens_out
                    used.tokens_out -= record.tokens_out
            used.calls += 1
            used.seconds += record.seconds
            used.tokens_in += record.tokens_in
            used.tokens_out += record.tokens_out
            used.cost += record.cost
            if record.outcome != "answered":
                used.errors += 1

    def listed(self, person: str, thread: str, tokens: int) -> None:
        """A list of tools was shown."""
        self._at((int(self._clock() // DAY), person, thread, "", "tools/list")).list_tokens += tokens

    async def told(self, by: By, person: str | None, store: Store | None, limit: int) -> UsageTold:
        """What was used, by whom or by what, the most tokens first; with a person theirs alone."""
        if store is None:
            return await _told(list(self._sums.items()), by, person, limit)
        await self.keep(store)
        if by == "tool":  # of which there may be very many: all their sums are never made
            told = await _told(await _of_most(store, person, limit), by, person, limit)
            return await _of_all(store, person, told) if len(told.first) == limit else told
        # Of a person there may be several in the store, who are one by name: those are put together here.
        return await _told(await _summed(store, by, person), by, person, limit)

    async def keep(self, store: Store) -> None:
        """Add what was used since the last time to what is kept."""
        rows, self._sums = list(self._sums.items()), {}
        self._known.clear()
        for at in range(0, len(rows), ROWS):
            part = rows[at : at + ROWS]
            values = chain.from_iterable(place + _values(used) for place, used in part)
            marks = ", ".join(["(" + ", ".join("?" * (len(FIELDS) + 5)) + ")"] * len(part))
            try:
                await store.fetch(_ADD.format(marks=marks), *values)
            except StoreError:
                for place, used in rows[at:]:  # they wait for the next time
                    self._sums.setdefault(place, Used()).add(used)
                raise

    async def forget(self, store: Store, days: float) -> None:
        """What is too old goes."""
        await store.fetch("DELETE FROM used WHERE day < ?", int((self._clock() - days * DAY) // DAY))

    def forget_user(self, user: str) -> None:
        """Somebody is gone; what they used stays in the sums of everybody."""
        self._known.clear()
        for place in [place for place in self._sums if _user(place[1]) == user]:
            gone = self._sums.pop(place)
            self._sums.setdefault((place[0], "", "", place[3], place[4]), Used()).add(gone)

    def _at(self, place: Place) -> Used:
        used = self._sums.get(place)
        if used is None:
            where = place if len(self._sums) < self.MOST else (place[0], "", "", place[3], "")
            used = self._sums.setdefault(where, Used())
        return used


_TOKENS = tuple(name for name in FIELDS if "tokens" in name)


async def _told(rows: Iterable[tuple[Place, Used]], by: By, person: str | None, limit: int) -> UsageTold:
    """Sums of sums."""
    found, total = dict[tuple[str, str], Used](), Used()
    for number, (place, used) in enumerate(rows):
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if person is None or place[1] == person:
            found.setdefault(_key(place, by), Used()).add(used)
            total.add(used)
    most = nlargest(limit, found.items(), key=lambda one: sum(getattr(one[1], name) for name in _TOKENS))
    return UsageTold([{**_named(by, key), **_rounded(used)} for key, used in most], len(found), _rounded(total))


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


async def _summed(
    store: Store, by: By, person: str | None, tools: Sequence[Sequence[str]] = ()
) -> list[tuple[Place, Used]]:
    """What is kept, summed up by the database as far as it can; of some tools, or of all."""
    columns = _COLUMNS[by]
    conditions, values = _whose(person)
    if tools:
        conditions.append(f"(server, tool) IN (VALUES {', '.join(['(?, ?)'] * len(tools))})")
        values += [name for tool in tools for name in tool]
    sql = f"SELECT {', '.join(columns)}, {_SUMS} FROM used {_where(conditions)} GROUP BY {', '.join(columns)}"  # noqa: S608
    rows: list[tuple[Place, Used]] = []
    for row in await store.fetch(sql, *values):
        named = dict(zip(columns, row, strict=False))
        place = (0, named.get("owner", person or ""), *(named.get(one, "") for one in ("thread", "server", "tool")))
        rows.append((cast("Place", place), _used(row[len(columns) :])))
    return rows


async def _of_most(store: Store, person: str | None, limit: int) -> list[tuple[Place, Used]]:
    """The sums of the tools that used the most tokens."""
    sql, values = query_for_most(person)
    most = await store.fetch(sql, *values, limit)
    return await _summed(store, "tool", person, most) if most else []


def query_for_most(person: str | None) -> tuple[str, list[str]]:
    """What finds the tools that used the most tokens, by those alone; and its values, less the limit."""
    conditions, values = _whose(person)
    sql = (
        f"SELECT server, tool FROM used {_where(conditions)} GROUP BY server, tool "  # noqa: S608
        f"ORDER BY SUM({' + '.join(_TOKENS)}) DESC LIMIT ?"
    )
    return sql, values


async def _of_all(store: Store, person: str | None, told: UsageTold) -> UsageTold:
    """The same, with how many tools there are besides, and what all used."""
    conditions, values = _whose(person)
    all = f"FROM used {_where(conditions)}"
    count = (await store.fetch(f"SELECT COUNT(*) FROM (SELECT DISTINCT server, tool {all}) AS each", *values))[0][0]  # noqa: S608
    numbers = (await store.fetch(f"SELECT {_SUMS} {all}", *values))[0]
    return dataclasses.replace(told, count=int(count), total=_rounded(_used(numbers)))


def _whose(person: str | None) -> tuple[list[str], list[str]]:
    """What says whose sums are meant, and its values."""
    return ([], []) if person is None else (["owner = ?"], [person])


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


_SUMS = ", ".join(f"SUM({name})" for name in FIELDS)
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
