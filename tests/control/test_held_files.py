"""Whether anything is held back is told without loading what judges definitions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from trunkline.control.held_files import may_hold
from trunkline.storage import pins
from trunkline.storage.pins import PinRow
from trunkline.storage.store import open_store, place_of


async def test_what_waits_in_the_embedded_store_is_seen(tmp_path: Path) -> None:
    async with open_store(place_of("", tmp_path)) as store:
        before = may_hold(tmp_path, ["notes"])
        async with store.transaction() as session:
            await pins.put_waiting(session, ("", "notes"), [PinRow(("tools", "read_note"), b"", b"{}")])
        after = may_hold(tmp_path, ["notes"])

    assert (before, after) == (False, True)


def test_a_store_that_says_nothing_of_it_is_looked_into(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "trunkline.db") as older:
        older.execute("CREATE TABLE users (name TEXT)")
    older.close()

    assert may_hold(tmp_path, ["notes"])


def test_a_store_that_is_damaged_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "trunkline.db").write_bytes(b"no database at all" * 100)

    assert may_hold(tmp_path, ["notes"])


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    assert not may_hold(tmp_path, ["notes"])
    assert not list(tmp_path.iterdir())
