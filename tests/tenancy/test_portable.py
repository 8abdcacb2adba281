"""A store as a document, out of one and into another."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import run
from trunkline.config.tenancy import StoreConfig
from trunkline.errors import ConfigError
from trunkline.identity import Overrides
from trunkline.storage.people import Rights
from trunkline.storage.store import Place
from trunkline.tenancy.credentials import CredentialName
from trunkline.tenancy.portable import Import, export, read
from trunkline.tenancy.tenancy import Tenancy, open_tenancy
from trunkline.tenancy.threads import Thread

Json = dict[str, Any]
GIT = {"name": "git", "url": "https://git.example/mcp", "headers": {"authorization": "Bearer canary-1"}}
KEY = "ab" * 32


async def filled(tenancy: Tenancy) -> str:
    """Put something of each kind into a store; a key."""
    await tenancy.people.add_user("ana", "admin", {"calls_per_hour": 9})
    await tenancy.people.add_user("bob")
    await tenancy.servers.put(GIT)
    await tenancy.servers.put({**GIT, "description": "mine", "tags": ["a"]}, user="bob")
    await tenancy.threads.put(Thread("t/1", "bob", ("git",), disabled=("x",), overrides=Overrides(timeout=3.0)))
    _, key = await tenancy.people.make_key("bob", name="laptop", rights=Rights(read_only=True))
    return key


async def test_a_document_brought_into_an_empty_store_comes_out_as_it_went_in(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await filled(tenancy)
        document = await export(tenancy)
    assert b"canary" not in document
    assert b"laptop" not in document

    async with open_tenancy(StoreConfig("", KEY), tmp_path / "other") as other:
        coming = Import(other, read(document))
        assert (await coming.preview()).added == [
            "user ana",
            "user bob",
            "server git",
            "server bob/git",
            "thread bob/t/1",
        ]
        await coming.take()

        assert await export(other) == document
        again = await Import(other, read(document)).preview()
        assert (again.added, again.changed, again.same) == ([], [], 5)


async def test_with_a_passphrase_keys_and_secrets_come_along_and_nobody_else_reads_them(tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig("", KEY), tmp_path / "one") as tenancy:
        key = await filled(tenancy)
        signed_in = CredentialName("bob", "linear", "https://as.example", "tokens")
        await tenancy.vault.put(signed_in, b"\0canary-2")
        document = await export(tenancy, "open sesame")
        assert not json.loads(await export(tenancy))["sealed"]
    assert b"canary" not in document

    async with open_tenancy(StoreConfig("", KEY), tmp_path / "other") as other:
        with pytest.raises(ConfigError, match="passphrase"):
            Import(other, read(document), "wrong")
        await Import(other, read(document), "open sesame").take()

        found = await other.people.admit(key.encode())
        assert found is not None
        assert (found.scope.user, found.scope.rules[0].read_only) == ("bob", True)
        assert (await other.servers.get("bob", "git")).spec.headers == GIT["headers"]
        assert await other.vault.get(signed_in) == b"\0canary-2"
        assert (await Import(other, read(document), "open sesame").preview()).same == 5


async def test_a_document_without_secrets_takes_none_away(tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig("", KEY), tmp_path) as tenancy:
        await filled(tenancy)
        await Import(tenancy, read(await export(tenancy))).take()

        assert (await tenancy.servers.get("bob", "git")).spec.headers == GIT["headers"]


def changed(**members: Any) -> Callable[[Json], Json]:
    return lambda document: {**document, **members}


BOB: Json = {"name": "bob", "role": "member", "limits": {}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed(version=3), "version 3"),
        (changed(format="other"), "no document of a store"),
        (changed(more=1), "no document of a store"),
        (changed(users=[{**BOB, "role": "king"}]), "no document of a store"),
        (changed(users=[{**BOB, "name": "../bob"}]), "cannot be a user's name"),
        (changed(users=[{**BOB, "limits": {"x": 1}}]), "no limit 'x'"),
        (changed(users=[]), "who is not in it"),
        (changed(servers=[{"name": "a/b", "content": {"url": "https://x"}}]), "cannot be a server's name"),
        (changed(servers=[{"name": "a", "content": {"url": "file:///etc/passwd"}}]), "not an http address"),
        (changed(servers=[{"name": "a", "content": {"command": "sh"}}]), "--allow-commands"),
        (changed(servers=[{"name": "a", "content": {"uri": "x"}}]), "no option 'uri'"),
        (changed(threads=[{"name": "t", "user": "bob", "content": {"servers": 3}}]), "Thread 't'"),
        (changed(threads=[{"name": "t", "user": "bob", "content": {"rules": 3}}]), "has no rules"),
        (changed(threads=[{"name": "t\0", "user": "bob", "content": {}}]), "printable"),
    ],
)
async def test_a_document_that_is_odd_anywhere_changes_nothing(
    tmp_path: Path, change: Callable[[Json], Json], words: str
) -> None:
    async with open_tenancy(StoreConfig("", KEY), tmp_path / "one") as tenancy:
        await filled(tenancy)
        document = json.loads(await export(tenancy))
    async with open_tenancy(StoreConfig("", KEY), tmp_path / "other") as other:
        before = await export(other)

        with pytest.raises(ConfigError, match=words):
            await Import(other, read(json.dumps(change(document)).encode())).take()

        assert await export(other) == before


async def test_a_store_made_with_another_key_is_refused(tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig("", KEY), tmp_path) as tenancy:
        await filled(tenancy)

    with pytest.raises(ConfigError, match="made with another key"):
        async with open_tenancy(StoreConfig("", "cd" * 32), tmp_path):
            pass


def test_the_command_looks_after_a_store_of_either_engine(place: Place, tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path)}
    env |= {"TRUNKLINE_STORE_URL": place.url} if place.url else {}

    def said(*words: str) -> Json:
        done = run(*words, "--format", "json", env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert said("store", "status")["exists"] is False
    assert said("store", "migrate")["from"] == 0
    assert said("user", "add", "ana")["name"] == "ana"
    assert {name: said("store", "status")[name] for name in ("users", "keys", "threads")} == {
        "users": 1,
        "keys": 0,
        "threads": 0,
    }
    copied = run("store", "backup", "copy", env=env)
    assert (copied.returncode, "pg_dump" in copied.stderr) == ((0, False) if place.file else (1, True))
