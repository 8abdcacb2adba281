"""The vault: what is put is given back to the same name alone, and nothing of it can be read on disk."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from trunkline.config.tenancy import StoreConfig
from trunkline.errors import CredentialError
from trunkline.storage import documents
from trunkline.storage.documents import Document
from trunkline.storage.store import Place
from trunkline.tenancy.credentials import CredentialName, CredentialRefused
from trunkline.tenancy.tenancy import Tenancy, open_tenancy
from trunkline.wire.seal import Seal, context_of

KEY = "ab" * 32
TOKENS = CredentialName("ana", "git", "https://as.example", "tokens")
THIS = "owner = ? AND server = ? AND issuer = ? AND field = ?"


async def record_of(tenancy: Tenancy, name: CredentialName) -> bytes:
    [row] = await (await tenancy.store()).fetch(f"SELECT record FROM credentials WHERE {THIS}", *astuple(name))
    return bytes(row[0])


async def test_what_was_put_is_there_when_the_store_is_opened_again(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        assert await tenancy.vault.get(TOKENS) is None
        await tenancy.vault.put(TOKENS, b"first")
        await tenancy.vault.put(TOKENS, b"\0second")
        assert await tenancy.vault.get(TOKENS) == b"\0second"

    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await tenancy.store()
        assert await tenancy.vault.get(TOKENS) == b"\0second"


async def test_a_record_says_its_version_its_key_and_its_cipher_and_never_twice_the_same(
    place: Place, tmp_path: Path
) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await tenancy.vault.put(TOKENS, b"same")
        one = await record_of(tenancy, TOKENS)
        await tenancy.vault.put(TOKENS, b"same")
        other = await record_of(tenancy, TOKENS)
        [row] = await (await tenancy.store()).fetch("SELECT kid FROM data_keys")

    assert one[:11] == other[:11] == b"v1" + bytes.fromhex(row[0]) + b"\x01"
    assert one[11:23] != other[11:23]
    assert len(one) == 11 + 12 + len(b"same") + 16


@pytest.mark.parametrize("column", ["user", "server", "issuer", "field"])
async def test_a_record_in_anothers_place_is_refused_by_name_and_stays_so(
    column: str, place: Place, tmp_path: Path
) -> None:
    other = replace(TOKENS, **{column: "bob"})
    refused: list[CredentialRefused] = []
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        vault, store = tenancy.vault, await tenancy.store()
        vault.on(CredentialRefused, refused.append)
        await vault.put(TOKENS, b"canary-ana")
        await vault.put(other, b"canary-bob")
        mine, theirs = await record_of(tenancy, TOKENS), await record_of(tenancy, other)
        for name, record in ((TOKENS, theirs), (other, mine)):
            await store.fetch(f"UPDATE credentials SET record = ? WHERE {THIS}", record, *astuple(name))

        for _ in range(2):
            with pytest.raises(CredentialError, match="tokens of ana for server git") as caught:
                await vault.get(TOKENS)
            assert "canary" not in f"{caught.value!r} {caught.value.__context__!r}"
        await store.fetch(f"UPDATE credentials SET record = ? WHERE {THIS}", mine, *astuple(TOKENS))
        with pytest.raises(CredentialError):
            await vault.get(TOKENS)

        assert refused == [CredentialRefused(TOKENS)]
        await vault.put(TOKENS, b"again")
        assert await vault.get(TOKENS) == b"again"


@pytest.mark.parametrize("record", [b"", b"v1", b"v2" + bytes(60), b"plain text that somebody put here, long enough"])
async def test_what_is_no_record_is_refused_and_others_are_given(record: bytes, place: Place, tmp_path: Path) -> None:
    other = replace(TOKENS, user="bob")
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        for name in (TOKENS, other):
            await tenancy.vault.put(name, b"x")
        await (await tenancy.store()).fetch("UPDATE credentials SET record = ? WHERE owner = 'ana'", record)

        with pytest.raises(CredentialError, match="tokens of ana"):
            await tenancy.vault.get(TOKENS)
        assert await tenancy.vault.get(other) == b"x"


async def test_names_are_told_and_removed_by_what_is_given_of_them(place: Place, tmp_path: Path) -> None:
    shared = CredentialName("", "git", "", "headers")
    client = replace(TOKENS, field="client")
    linear = replace(TOKENS, server="linear")
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        vault = tenancy.vault
        assert (await vault.names(), await vault.remove(user="ana")) == ([], 0)
        for name in (TOKENS, client, linear, shared):
            await vault.put(name, b"x")

        assert await vault.names() == sorted([TOKENS, client, linear, shared])
        assert await vault.names(user="") == [shared]
        assert await vault.names(server="git", user="ana") == [client, TOKENS]
        assert await vault.remove(user="ana", server="git", field="client") == 1
        assert await vault.remove(server="git") == 2
        assert await vault.names() == [linear]
        with pytest.raises(ValueError, match="whose"):
            await vault.remove()


async def test_a_credential_is_part_of_a_larger_change_or_of_none(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        store = await tenancy.store()
        await tenancy.vault.put(TOKENS, b"before")

        async def change() -> None:
            async with store.changing("server", "ana", "git") as session:
                await tenancy.vault.put(TOKENS, b"half", session=session)
                raise KeyError

        with pytest.raises(KeyError):
            await change()

        assert await tenancy.vault.get(TOKENS) == b"before"


async def test_with_a_user_go_their_credentials(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        for user in ("ana", "bob"):
            await tenancy.people.add_user(user)
            await tenancy.vault.put(replace(TOKENS, user=user), b"x")

        await tenancy.people.remove_user("ana")

        assert [name.user for name in await tenancy.vault.names()] == ["bob"]


# What else lives in it.

GIT = {"name": "git", "url": "https://git.example/mcp", "headers": {"authorization": "Bearer canary-git"}}


async def test_the_headers_of_a_registered_server_are_in_the_vault_and_go_with_it(place: Place, tmp_path: Path) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        await tenancy.people.add_user("ana")
        await tenancy.servers.put({**GIT, "env": {}}, user="ana")
        await tenancy.servers.put(GIT)
        signed_in = CredentialName("ana", "git", "https://as", "tokens")
        own, shared = (
            CredentialName(user, server, "", "headers") for user, server in (("ana", "ana/git"), ("", "git"))
        )
        await tenancy.vault.put(signed_in, b"t")

        assert await tenancy.vault.names() == sorted([shared, own, signed_in])
        assert [one.spec.headers for one in await tenancy.servers.of("ana")] == [GIT["headers"]]
        await tenancy.servers.remove("", "git")
        assert await tenancy.vault.names() == [own]
        await tenancy.servers.put({**GIT, "headers": {}}, user="ana")
        assert await tenancy.vault.names() == []
        assert (await tenancy.servers.get("ana", "git")).spec.headers == {}


async def test_a_server_whose_headers_were_swapped_has_a_problem_and_the_others_have_none(
    place: Place, tmp_path: Path
) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        for name in ("a", "b", "c"):
            await tenancy.servers.put({**GIT, "name": name})
        record = await record_of(tenancy, CredentialName("", "b", "", "headers"))
        await (await tenancy.store()).fetch("UPDATE credentials SET record = ? WHERE server = 'a'", record)

        found = {one.spec.name: one.spec for one in await tenancy.servers.of("")}

        assert "headers for server a was changed" in found["a"].problem
        assert (found["a"].headers, found["b"].headers, found["b"].problem) == ({}, GIT["headers"], "")
        with pytest.raises(CredentialError, match="server a"):
            await tenancy.servers.wanted("", "a")
        await tenancy.servers.put({**GIT, "name": "a"})
        assert (await tenancy.servers.get("", "a")).spec.problem == ""


async def test_what_an_earlier_version_sealed_in_a_document_is_read_and_moves_when_it_is_changed(
    place: Place, tmp_path: Path
) -> None:
    async with open_tenancy(StoreConfig(place.url, KEY), tmp_path) as tenancy:
        store = await tenancy.store()
        await documents.put(store, sealed_as_before("ana", "git"))

        assert (await tenancy.servers.get("ana", "git")).spec.headers == GIT["headers"]
        said, _ = await tenancy.servers.wanted("ana", "git")
        await tenancy.servers.put({**said, "name": "git"}, user="ana")

        kept = await documents.find(store, "server", "ana", "git")
        assert kept is not None
        assert (kept.sealed, [name.field for name in await tenancy.vault.names()]) == (b"", ["headers"])
        assert (await tenancy.servers.get("ana", "git")).spec.headers == GIT["headers"]


def sealed_as_before(owner: str, name: str) -> Document:
    secret = json.dumps({"headers": GIT["headers"]}).encode()
    bound = context_of(b"server", owner.encode(), name.encode())
    sealed = Seal(lambda: bytes.fromhex(KEY)).close(secret, bound).encode()
    return Document("server", owner, name, {"url": GIT["url"]}, sealed)
