"""Past calls: stored a few at a time, however many come, and all there when somebody looks."""

from __future__ import annotations

from pathlib import Path

from trunkline.storage.store import open_store, place_of
from trunkline.telemetry.past import AT_ONCE, CallFilter, PastCalls
from trunkline.telemetry.record import CallRecord


def records(first: int, last: int) -> list[CallRecord]:
    """Calls that ended, with these numbers."""
    words = ("ana", "ana/1", "", "", "", "", "", "tools/call", "echo", "demo", "echo")
    return [CallRecord(f"{number:021x}", 0.0, *words, listed=True) for number in range(first, last)]


async def test_of_a_flood_a_part_is_stored_at_a_time_and_all_of_it_when_somebody_looks(tmp_path: Path) -> None:
    async with open_store(place_of("", tmp_path)) as store:
        past = PastCalls(keep=3 * AT_ONCE)
        past.keep_all()
        past.read(records(0, 2 * AT_ONCE))

        await past.store(store, AT_ONCE)
        stored = await store.fetch("SELECT COUNT(*) FROM calls")
        found = await past.list(CallFilter(), 10 * AT_ONCE, store)

    assert stored[0][0] == AT_ONCE
    assert len(found) == 2 * AT_ONCE


async def test_what_waits_is_never_more_than_what_is_kept(tmp_path: Path) -> None:
    async with open_store(place_of("", tmp_path)) as store:
        past = PastCalls(keep=150)
        past.keep_all()
        past.read(records(0, 1000))

        found = await past.list(CallFilter(), 1000, store)

    assert [int(one.id, 16) for one in found] == list(range(999, 849, -1))
