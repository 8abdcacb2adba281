"""New keys while the vault is used: nothing fails meanwhile, and whatever was cut short goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tenancy.test_credentials import GIT, KEY, record_of, sealed_as_before
from trunkline.cli.keys import rotate_keys
from trunkline.config.options import Config
from trunkline.config.tenancy import StoreConfig
from trunkline.errors import ConfigError
from trunkline.storage import credentials as stored
from trunkline.storage import documents
from trunkline.storage.store import Place
from trunkline.tenancy import rotation
from trunkline.tenancy.credentials import CredentialName
from trunkline.tenancy.portable import export
from trunkline.tenancy.rotation import RUNNING
from trunkline.tenancy.tenancy import Tenancy, open_tenancy

NAMES = [CredentialName("ana", f"server-{number:03}", "", "tokens") for number in range(12)]


def config(place: Place, home: Path, key: str = "") -> Config:
    return Config(store=StoreConfig(place.url, key), home=home)


async def fill(tenancy: Tenancy, names: list[CredentialName]) -> None:
    async with (await tenancy.store()).transaction() as session:
        for name in names:
            await tenancy.vault.put(name, f"canary of {name}".encode(), session=session)


async def is_whole(tenancy: Tenancy, names: list[CredentialName]) -> None:
    for name in names:
        assert await tenancy.vault.get(name) == f"canary of {name}".encode()


async def kids(tenancy: Tenancy) -> set[str]:
    return {one.kid for one in await stored.data_keys(await tenancy.store()) if one.created}


@pytest.mark.slow
def test_a_rotation_that_is_killed_twenty_times_disturbs_nobody_and_is_finished(place: Place, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tenancy.rotation_race", place.url or f"sqlite:///{place.file}", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


async def test_every_record_is_sealed_anew_and_the_old_key_is_gone(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "SLICE", 5)
    told: list[tuple[int, int]] = []
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await fill(tenancy, NAMES)
        before = await kids(tenancy)
        records = [await record_of(tenancy, name) for name in NAMES]

        done = await tenancy.rotation.run(lambda done, of: told.append((done, of)))

        assert (done.records, done.lost, done.resumed) == (12, (), False)
        assert told == [(0, 12), (5, 12), (10, 12), (12, 12)]
        assert len(await kids(tenancy)) == 1
        assert before & await kids(tenancy) == set()
        assert not {*records} & {*[await record_of(tenancy, name) for name in NAMES]}
        await is_whole(tenancy, NAMES)
        assert await stored.setting(await tenancy.store(), RUNNING) == b""


async def test_what_does_not_open_is_named_and_left_and_the_rest_is_done(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await fill(tenancy, NAMES[:4])
        wrong = await record_of(tenancy, NAMES[0])
        await (await tenancy.store()).fetch("UPDATE credentials SET record = ? WHERE server = 'server-001'", wrong)

        done = await tenancy.rotation.run()

        assert (done.records, done.lost) == (3, (NAMES[1],))
        assert await record_of(tenancy, NAMES[1]) == wrong
        await is_whole(tenancy, [NAMES[0], *NAMES[2:4]])
        assert (await tenancy.rotation.run()).lost == ()


async def test_secrets_that_an_earlier_version_sealed_move_in(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        store = await tenancy.store()
        for user in ("ana", "bob"):
            await documents.put(store, sealed_as_before(user, "git"))
        broken = sealed_as_before("cid", "git")
        await documents.put(store, documents.Document("server", "cid", "other", broken.content, broken.sealed))

        await tenancy.rotation.run()

        async with store.transaction() as session:
            assert [one.owner for one in await documents.with_sealed(session, limit=9)] == ["cid"]
        assert (await tenancy.servers.get("bob", "git")).spec.headers == GIT["headers"]
        assert "Register it again" in (await tenancy.servers.get("cid", "other")).spec.problem


async def test_whoever_opens_the_store_to_stay_goes_on_with_what_was_cut_short(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await fill(tenancy, NAMES[:3])
        async with (await tenancy.store()).transaction() as session:
            key = await tenancy.vault.add_key(session, after=2**50)
            await stored.set_setting(session, RUNNING, key.kid.encode())
        assert len(await kids(tenancy)) == 2

    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path, watch=True) as tenancy:
        store = await tenancy.store()
        async with asyncio.timeout(60):
            while await stored.setting(store, RUNNING):
                pass

        assert await kids(tenancy) == {key.kid}
        await is_whole(tenancy, NAMES[:3])


# The master key.


async def test_a_new_master_key_leaves_callers_keys_and_credentials_as_they_were(place: Place, tmp_path: Path) -> None:
    options = config(place, tmp_path)
    async with open_tenancy(options.store, tmp_path) as tenancy:
        await tenancy.people.add_user("ana")
        _, key = await tenancy.people.make_key("ana")
        await fill(tenancy, NAMES[:3])
        before = (tmp_path / "seal.key").read_bytes()
        for _ in range(2):
            await rotate_keys(tenancy, options, master=True)
        await is_whole(tenancy, NAMES[:3])

    assert (tmp_path / "seal.key").read_bytes() != before
    assert not (tmp_path / "seal.key.next").exists()
    async with open_tenancy(options.store, tmp_path) as tenancy:
        await is_whole(tenancy, NAMES[:3])
        assert await tenancy.people.admit(key.encode()) is not None
        _, another = await tenancy.people.make_key("ana")
        assert await tenancy.people.admit(another.encode()) is not None
    (tmp_path / "seal.key").write_bytes(before)
    with pytest.raises(ConfigError, match="was made with another key"):
        async with open_tenancy(options.store, tmp_path) as tenancy:
            await tenancy.store()


async def test_a_change_of_master_that_was_cut_short_opens_with_either_and_is_finished(
    place: Place, tmp_path: Path
) -> None:
    options = config(place, tmp_path)
    async with open_tenancy(options.store, tmp_path) as tenancy:
        await fill(tenancy, NAMES[:3])
        await tenancy.rotation.change_master(tenancy.master_key.succeed())

    async with open_tenancy(options.store, tmp_path) as tenancy:
        await tenancy.store()
        await is_whole(tenancy, NAMES[:3])
        await rotate_keys(tenancy, options, master=True)
        await is_whole(tenancy, NAMES[:3])
        assert len(await stored.data_keys(await tenancy.store())) == 2  # the data key, and what callers' keys need

    assert [name for name in os.listdir(tmp_path) if name.startswith("seal.key")] == ["seal.key"]


async def test_a_master_key_of_the_operators_is_changed_while_both_open_everything(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = config(place, tmp_path, KEY), config(place, tmp_path, "cd" * 32)
    async with open_tenancy(old.store, tmp_path) as tenancy:
        await fill(tenancy, NAMES[:3])
        with pytest.raises(ConfigError, match="is yours to make"):
            await rotate_keys(tenancy, old, master=True)
        monkeypatch.setenv("TRUNKLINE_NEW_MASTER_KEY", "cd" * 32)
        for _ in range(2):
            assert (await rotate_keys(tenancy, old, master=True))["give"] == ["[store] `key`"]
        with pytest.raises(ConfigError, match="newer master key"):
            await rotate_keys(tenancy, old, master=False)

    for options in (old, new):
        async with open_tenancy(options.store, tmp_path) as tenancy:
            await tenancy.store()
            await is_whole(tenancy, NAMES[:3])
            await tenancy.vault.put(NAMES[0], f"canary of {NAMES[0]}".encode())
    async with open_tenancy(new.store, tmp_path) as tenancy:
        await tenancy.store()
        await rotate_keys(tenancy, new, master=False)
        await is_whole(tenancy, NAMES[:3])
    with pytest.raises(ConfigError, match="was made with another key"):
        async with open_tenancy(old.store, tmp_path) as tenancy:
            await tenancy.store()


async def test_a_store_whose_master_key_is_missing_is_not_opened_and_none_is_made(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url), tmp_path) as tenancy:
        await fill(tenancy, NAMES[:1])
    (tmp_path / "seal.key").unlink()

    with pytest.raises(ConfigError, match=r"seal\.key is missing"):
        async with open_tenancy(StoreConfig(place.url), tmp_path) as tenancy:
            await tenancy.store()
    assert not (tmp_path / "seal.key").exists()


async def test_nothing_of_what_is_kept_can_be_read_on_the_disk(tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(), tmp_path) as tenancy:
        await fill(tenancy, NAMES)
        await tenancy.servers.put(GIT)
        await tenancy.rotation.run()
        await tenancy.vault.remove(user="ana", server="server-001")
        await (await tenancy.store()).backup(tmp_path / "copy.db")
        for passphrase in ("", "open sesame"):
            (tmp_path / f"export{len(passphrase)}").write_bytes(await export(tenancy, passphrase))
        found = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}  # while it is open, for its WAL

    assert {"trunkline.db", "trunkline.db-wal", "copy.db", "export0", "export11"} <= set(found)
    assert [name for name, content in found.items() if b"canary" in content] == []
