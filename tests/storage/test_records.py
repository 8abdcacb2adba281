"""Past calls and what was used, in either engine: found by whatever is asked for, summed up, and forgotten in time."""

from __future__ import annotations

import dataclasses
import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from trunkline.errors import StoreError
from trunkline.storage.store import Place, Store, open_store
from trunkline.telemetry.past import CallFilter, PastCalls, query_for
from trunkline.telemetry.record import CallRecord, Outcome
from trunkline.telemetry.usage import Usage, query_for_most

NOW = time.time()
DAY = 86400.0


def call(number: int, when: float = NOW, **said: Any) -> CallRecord:
    """A call; each has something in common with others, and no two have everything."""
    user, server, tool = ("ana", "bob")[number % 2], f"s{number % 3}", f"t{number % 5}"
    outcome: Outcome = ("answered", "failed", "tool-error", "refused")[number % 4]
    made = CallRecord(
        f"{int((when + number) * 1000):011x}abcd{number:06x}", when + number, user, f"{user}/{number % 4 // 2}", "",
        "t", "", "", "test", "tools/call", f"{server}__{tool}", server, tool, True, outcome=outcome, seconds=0.5,
        tokens_in=3, tokens_out=40, cost=0.25, path=[("entry", server, 0.125)],
    )  # fmt: skip
    for name, value in said.items():
        setattr(made, name, value)
    return made


async def kept(store: Store, calls: list[CallRecord], keep: int = 1000) -> PastCalls:
    past = PastCalls(keep)
    past.keep_all()
    past.read(calls)
    await past.store(store)
    return past


FILTERS: dict[str, list[Any]] = {
    "person": [None, "ana/0", "nobody"],
    "user": ["", "bob"],
    "server": ["", "s1"],
    "tool": ["", "t2", "s1__t2"],
    "outcome": ["", "failed"],
    "since": [0.0, NOW + 20],
    "before": ["", call(40).id],
}


async def test_whatever_is_asked_for_the_store_finds_what_memory_would(place: Place) -> None:
    calls = [call(number) for number in range(60)]
    async with open_store(place) as store:
        past = await kept(store, calls)
        for values in itertools.product(*FILTERS.values()):
            wanted = CallFilter(**dict(zip(FILTERS, values, strict=True)))
            found = await past.list(wanted, 7, store)

            expected = [one for one in reversed(calls) if wanted.has(one)][:7]
            assert [one.id for one in found] == [one.id for one in expected], wanted
        assert await past.find(calls[0].id, store) == calls[0]
        assert await PastCalls(10).find(calls[0].id, store) == calls[0]


async def test_no_question_about_past_calls_looks_at_all_of_them(place: Place) -> None:
    async with open_store(place) as store:
        await kept(store, [call(number) for number in range(60)])
        for name, values in FILTERS.items():
            sql, given = query_for(CallFilter(**{name: values[-1]}))
            if name == "tool":
                sql, given = query_for(CallFilter(tool="x"), "name")
            async with store.transaction() as session:
                if place.file is None:  # so few rows it would rather look at all of
                    await session.fetch("SET LOCAL enable_seqscan = off")
                    plan = await session.fetch(f"EXPLAIN {sql}", *given, 100)
                else:
                    plan = await session.fetch(f"EXPLAIN QUERY PLAN {sql}", *given, 100)
            text = " ".join(str(row[-1]) for row in plan)

            assert "scan calls" not in text.lower(), (name, text)
            assert "seq scan" not in text.lower(), (name, text)


async def test_calls_that_are_too_old_or_too_many_are_forgotten(place: Place) -> None:
    async with open_store(place) as store:
        past = await kept(store, [call(1, NOW - 40 * DAY), *(call(number) for number in range(2, 12))], keep=10)
        await past.trim(store, 30)
        by_age = len(await past.list(CallFilter(), 100, store))
        past.configure(4)
        past.read([call(12)])
        await past.store(store)
        await past.trim(store, 30)

        assert by_age == 10
        assert [one.id for one in await past.list(CallFilter(), 100, store)] == [call(n).id for n in (12, 11, 10, 9)]


async def test_what_was_used_is_summed_by_the_store_over_all_processes_and_days(place: Place) -> None:
    async with open_store(place) as store:
        for days in (0, 1, 40):  # three processes, of which one ended long ago
            usage = Usage(clock=lambda days=days: NOW - days * DAY)
            usage.read([call(number) for number in range(4)])
            usage.listed("ana/0", "t", 100)
            await usage.keep(store)
        now = Usage()
        await now.forget(store, 30)
        by_user = {one["user"]: one for one in (await now.told("user", None, store, 10)).first}
        by_thread = {
            (one["user"], one["thread"]): one["calls"] for one in (await now.told("thread", None, store, 10)).first
        }
        by_server = {one["server"]: one["calls"] for one in (await now.told("server", "ana/0", store, 10)).first}
        by_tool = {(one["server"], one["tool"]): one["cost"] for one in (await now.told("tool", None, store, 10)).first}

    assert (by_user["ana"]["calls"], by_user["ana"]["tokens_in"], by_user["ana"]["tokens_out"]) == (4, 12, 160)
    assert (by_user["ana"]["list_tokens"], by_user["bob"]["list_tokens"]) == (200, 0)
    assert (by_user["bob"]["errors"], by_user["bob"]["seconds"], by_user["bob"]["cost"]) == (4, 2.0, 1.0)
    assert by_thread == {("ana", "t"): 4, ("bob", "t"): 4}
    assert by_server == {"": 0, "s0": 2}
    assert by_tool == {
        ("", "tools/list"): 0.0,
        ("s0", "t0"): 0.5,
        ("s1", "t1"): 0.5,
        ("s2", "t2"): 0.5,
        ("s0", "t3"): 0.5,
    }


async def test_of_very_many_the_first_are_told_and_all_are_counted(place: Place) -> None:
    usage, in_memory = Usage(), Usage()
    for one in (usage, in_memory):
        one.read([call(number, tool=f"t{number}", tokens_out=number) for number in range(300)])
    async with open_store(place) as store:
        for by, person in itertools.product(("user", "thread", "server", "tool"), (None, "ana/0")):
            kept, held = await usage.told(by, person, store, 5), await in_memory.told(by, person, None, 5)

            assert kept == held
            assert held.total["calls"] == (300 if person is None else 75)
            assert held.count == {"user": 2, "thread": 2, "server": 3, "tool": 300}[by] if person is None else True
        own = await usage.told("tool", "ana/0", store, 5)

    assert [one["tool"] for one in own.first] == ["t296", "t292", "t288", "t284", "t280"]


async def test_which_tools_used_the_most_the_embedded_store_reads_from_an_index_alone(tmp_path: Path) -> None:
    sql, values = query_for_most(None)
    async with open_store(Place("", tmp_path / "store.db")) as store:
        plan = [str(row[-1]) for row in await store.fetch(f"EXPLAIN QUERY PLAN {sql}", *values, 100)]

    assert plan == ["SCAN used USING COVERING INDEX used_tool", "USE TEMP B-TREE FOR ORDER BY"]


async def test_what_could_not_be_kept_waits_until_it_can(place: Place) -> None:
    usage, past = Usage(), PastCalls(100)
    past.keep_all()
    async with open_store(place) as store:
        for table in ("used", "calls"):
            await store.fetch(f"ALTER TABLE {table} RENAME TO {table}_away")
        for number in range(3):
            usage.read([call(number)])
            past.read([call(number)])
            for keep in (usage.keep, past.store):
                with pytest.raises(StoreError):
                    await keep(store)
        for table in ("used", "calls"):
            await store.fetch(f"ALTER TABLE {table}_away RENAME TO {table}")
        told = await usage.told("user", None, store, 10)
        found = await past.list(dataclasses.replace(CallFilter(), outcome="answered"), 10, store)

    assert sum(one["calls"] for one in told.first) == 3
    assert [one.id for one in found] == [call(0).id]
