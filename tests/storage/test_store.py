"""One suite for both engines: what is kept, who is told, and who comes first."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.race import JOBS
from trunkline.errors import ConfigError, StoreError
from trunkline.storage import documents, people
from trunkline.storage.documents import Document
from trunkline.storage.people import Key, Rights, User
from trunkline.storage.schema import NEWEST, STEPS, migrate
from trunkline.storage.store import KEPT_CHANGES, Place, open_store, place_of, reach

ANA = User("ana", "admin", {"calls_per_hour": 5.0})


async def test_what_was_kept_is_there_when_the_store_is_opened_again(place: Place) -> None:
    async with open_store(place) as store:
        await people.add_user(store, ANA)
        await people.add_key(
            store, Key("k1", "ana", "laptop", Rights(tools=("a*",), read_only=True), expires=7), b"\0d"
        )
        await documents.put(store, Document("thread", "ana", "t", {"servers": ["ä"]}, b"\0s"))

    async with open_store(place) as store:
        user = await people.find_user(store, "ana")
        assert user is not None
        assert (user.role, user.limits, user.version) == ("admin", {"calls_per_hour": 5.0}, 1)
        found = await people.find_key(store, "k1")
        assert found is not None
        key, digest = found
        assert (key.name, key.rights, key.expires) == ("laptop", Rights(tools=("a*",), read_only=True), 7)
        assert digest == b"\0d"
        [thread] = await documents.of_owner(store, "thread", "ana")
        assert (thread.content, thread.sealed, thread.version) == ({"servers": ["ä"]}, b"\0s", 1)


async def test_a_second_user_of_the_same_name_is_refused_and_changes_nothing(place: Place) -> None:
    async with open_store(place) as store:
        assert await people.add_user(store, ANA) is not None
        assert await people.add_user(store, User("ana", "reader")) is None

        assert [user.role for user in await people.list_users(store)] == ["admin"]


async def test_of_two_who_change_one_version_the_second_is_told(place: Place) -> None:
    async with open_store(place) as store:
        first = await documents.put(store, Document("server", "", "git", {"url": "1"}))
        assert first is not None

        changes = [dataclasses.replace(first, content={"url": url}) for url in ("2", "3")]
        outcomes = await asyncio.gather(*(documents.put(store, change) for change in changes))

        assert sorted(outcome is None for outcome in outcomes) == [False, True]
        kept = await documents.find(store, "server", "", "git")
        assert kept is not None
        assert (kept.version, kept.content["url"]) == (2, next(one.content["url"] for one in outcomes if one))


async def test_one_name_may_be_kept_by_every_owner(place: Place) -> None:
    async with open_store(place) as store:
        for owner in ("", "ana", "bob"):
            assert await documents.put(store, Document("server", owner, "git", {"of": owner})) is not None

        assert await documents.remove(store, "server", "ana", "git")
        assert await documents.find(store, "server", "ana", "git") is None
        assert await documents.find(store, "server", "bob", "git") is not None


async def test_with_a_user_goes_all_that_was_theirs(place: Place) -> None:
    async with open_store(place) as store:
        await people.add_user(store, ANA)
        await people.add_user(store, User("bob"))
        for name in ("ana", "bob"):
            await people.add_key(store, Key(f"k-{name}", name), b"d")
            await documents.put(store, Document("thread", name, "t", {}))

        assert await people.remove_user(store, "ana")

        assert [key.user for key in await people.list_keys(store)] == ["bob"]
        assert await documents.find(store, "thread", "ana", "t") is None
        assert await documents.find(store, "thread", "bob", "t") is not None


async def test_nobody_revokes_the_key_of_another(place: Place) -> None:
    async with open_store(place) as store:
        await people.add_user(store, ANA)
        await people.add_key(store, Key("k1", "ana"), b"d")

        assert await people.remove_key(store, "k1", "bob") is None
        assert await people.remove_key(store, "k1", "ana") is not None
        assert await people.find_key(store, "k1") is None


async def test_a_change_that_fails_leaves_nothing_behind(place: Place) -> None:
    async with open_store(place) as store:

        async def change() -> None:
            async with store.changing("user", "ana", "") as session:
                await session.fetch("INSERT INTO settings (name, value) VALUES (?, ?)", "half", b"")
                await session.fetch("SELECT nothing FROM nowhere")

        with pytest.raises(StoreError):
            await change()

        assert await store.setting("half", b"whole") == b"whole"
        assert await store.revision() == 0


async def test_everyone_who_has_the_store_open_hears_of_a_change(place: Place) -> None:
    async with open_store(place) as one, open_store(place) as other:
        await people.add_user(one, ANA)
        before = await other.revision()
        await documents.put(one, Document("thread", "ana", "t", {}))

        news = await other.changes(before)

    assert news is not None
    assert [(change.noun, change.owner, change.name) for change in news] == [("thread", "ana", "t")]


async def test_whoever_missed_too_much_news_is_told_so(place: Place) -> None:
    async with open_store(place) as store:
        await people.add_user(store, ANA)
        seen = await store.revision()
        await store.fetch("DELETE FROM changes")

        assert await store.changes(seen) is None
        assert await store.changes(0) == []


async def test_old_news_are_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.storage.store.KEPT_CHANGES", 10)
    async with open_store(place) as store:
        await store.fetch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99) "
            "INSERT INTO changes (noun, owner, name) SELECT 'user', 'ana', '' FROM n"
        )
        async with store.changing("user", "ana", ""):
            pass

        assert KEPT_CHANGES > 10
        [row] = await store.fetch("SELECT COUNT(*) FROM changes")
        assert row[0] == 10


async def test_a_newer_schema_is_refused_with_a_sentence(place: Place) -> None:
    engine = await reach(place)
    await migrate(engine, (*STEPS, "CREATE TABLE later (name TEXT)"))
    await engine.close()

    with pytest.raises(StoreError, match=f"newer Trunkline: its schema is {NEWEST + 1}"):
        async with open_store(place):
            pass


async def test_a_cancelled_change_is_not_made_and_the_next_one_is(place: Place) -> None:
    async with open_store(place) as store:
        inside = asyncio.Event()

        async def change() -> None:
            async with store.changing("user", "ana", "") as session:
                await session.fetch("INSERT INTO settings (name, value) VALUES (?, ?)", "half", b"")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(change())
        await inside.wait()
        task.cancel()
        await asyncio.wait((task,))

        assert await store.setting("half", b"whole") == b"whole"


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_processes_that_come_together_or_die_do_no_harm(job: str, place: Place) -> None:
    url = place.url or f"sqlite:///{place.file}"

    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.race", job, url], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


async def test_an_embedded_store_is_its_owners_alone_and_is_backed_up_while_open(tmp_path: Path) -> None:
    place = place_of("", tmp_path / "home")
    assert not place.exists
    async with open_store(place) as store:
        await people.add_user(store, ANA)
        await store.backup(tmp_path / "copy.db")
        with pytest.raises(FileExistsError):
            await store.backup(tmp_path / "copy.db")

    assert place.exists
    assert place.file is not None
    assert [oct(os.stat(path).st_mode)[-3:] for path in (place.file, tmp_path / "copy.db")] == ["600", "600"]
    async with open_store(place_of(f"sqlite:///{tmp_path}/copy.db", tmp_path)) as copy:
        assert await people.find_user(copy, "ana") is not None


async def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "trunkline.db").write_bytes(b"not a database, and longer than a header of one would be" * 100)

    with pytest.raises(StoreError, match=r"trunkline\.db cannot be used"):
        async with open_store(place_of("", tmp_path)):
            pass


async def test_a_postgres_that_is_away_is_an_error_without_its_password(tmp_path: Path) -> None:
    place = place_of(f"postgresql://ana:hunter2@/none?host={tmp_path}", tmp_path)

    with pytest.raises(StoreError) as caught:
        async with open_store(place):
            pass
    assert "hunter2" not in str(caught.value)


def test_an_address_of_another_kind_is_refused_with_the_right_form() -> None:
    with pytest.raises(ConfigError, match="sqlite:///"):
        place_of("mysql://u:secret@h/d", Path())
