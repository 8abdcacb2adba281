"""A store as one document: to be kept elsewhere, looked at, and brought into another store, all of it or nothing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from trunkline.errors import ConfigError, CredentialError, StoreError
from trunkline.identity import server_id
from trunkline.storage import documents, people
from trunkline.storage.credentials import CredentialName
from trunkline.storage.documents import Document
from trunkline.storage.engine import Session
from trunkline.storage.people import Key, User
from trunkline.storage.store import Store, note
from trunkline.tenancy import portable_pins
from trunkline.tenancy.portable_pins import PinImport, PortablePins
from trunkline.tenancy.servers import SECRET, CheckedServer
from trunkline.tenancy.tenancy import Tenancy
from trunkline.wire.seal import Seal

FORMAT = "trunkline-store"
VERSION = 2
"""Since 1, `pins`."""
LARGEST = 256 * 2**20
"""Bytes that a document may have."""
PAGE = 500


class PortableUser(msgspec.Struct, forbid_unknown_fields=True):
    """A user in a document."""

    name: str
    role: people.Role = "member"
    limits: dict[str, float] = {}


class PortableThing(msgspec.Struct, forbid_unknown_fields=True):
    """A server or a thread in a document."""

    name: str
    content: dict[str, Any]
    user: str = ""


class Portable(msgspec.Struct, forbid_unknown_fields=True):
    """A document. What is secret is left out, or sealed with a passphrase."""

    format: Literal["trunkline-store"]
    version: int
    users: list[PortableUser] = []
    servers: list[PortableThing] = []
    threads: list[PortableThing] = []
    pins: list[PortablePins] = []
    sealed: dict[str, str] = {}


class _Version(msgspec.Struct):
    format: Literal["trunkline-store"]
    version: int


class _Secrets(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    servers: list[tuple[str, str, dict[str, Any]]]
    keys: list[tuple[Key, str]]
    credentials: list[tuple[CredentialName, bytes]] = []


@dataclass
class Preview:
    """What bringing in a document would do."""

    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    same: int = 0
    left: list[str] = field(default_factory=list[str])
    """What the store knows better: it agreed to something else itself."""


async def export(tenancy: Tenancy, passphrase: str = "") -> bytes:
    """Everything that is kept, in an order of its own, so that equal stores give equal documents."""
    store = await tenancy.store()
    users = await _users(store)
    owners = ["", *(user.name for user in users)]
    servers = [one for owner in owners for one in await _all(store, "server", owner)]
    threads = [one for owner in owners for one in await _all(store, "thread", owner)]
    sealed: dict[str, str] = {}
    if passphrase:
        secret = [(one.owner, one.name, await tenancy.servers.secrets_of(one)) for one in servers]
        keys = [(key, digest.hex()) for key, digest in await people.all_keys(store)]
        kept = [(name, await tenancy.vault.get(name)) for name in await tenancy.vault.names()]
        others = [(name, value) for name, value in kept if value is not None and name.field not in SECRET]
        sealed = _seal(passphrase, msgspec.json.encode(_Secrets([one for one in secret if one[2]], keys, others)))
    document = Portable(
        FORMAT,
        VERSION,
        [PortableUser(user.name, user.role, dict(user.limits)) for user in users],
        [PortableThing(one.name, one.content, one.owner) for one in servers],
        [PortableThing(one.name, one.content, one.owner) for one in threads],
        await portable_pins.exported(store, owners),
        sealed,
    )
    text = json.dumps(msgspec.to_builtins(document), indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n"
    if len(text) > LARGEST:
        raise StoreError(
            f"The document would have more than {LARGEST // 2**20} MiB, which no import takes.",
            hint="Use `trunkline store backup`, or pg_dump.",
        )
    return text


def read(content: bytes) -> Portable:
    """A document from anywhere; whatever is odd about it is an error."""
    if len(content) > LARGEST:
        raise ConfigError(f"The document has more than {LARGEST // 2**20} MiB.")
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if not 1 <= version <= VERSION:
            raise ConfigError(
                f"The document has version {version}, and this Trunkline reads 1 to {VERSION}.",
                hint="Update Trunkline.",
            )
        return msgspec.json.decode(content, type=Portable)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"This is no document of a store: {error}.") from None


class Import:
    """A document on its way into a store: checked first, then looked at, then taken or left."""

    def __init__(
        self,
        tenancy: Tenancy,
        document: Portable,
        passphrase: str = "",
        *,
        commands: bool = False,
        held: bool = False,
    ) -> None:
        self._tenancy = tenancy
        self._pins = PinImport(document.pins, held=held)
        secrets = _Secrets([], [])
        if passphrase:
            secrets = msgspec.json.decode(_unseal(passphrase, document.sealed), type=_Secrets)
        owned = {(user, name): values for user, name, values in secrets.servers}
        self.users = [tenancy.people.checked(User(one.name, one.role, one.limits)) for one in document.users]
        names = {user.name for user in self.users}
        self.keys = [(key, bytes.fromhex(digest)) for key, digest in secrets.keys]
        self.credentials = dict(secrets.credentials)
        self.servers: list[CheckedServer] = []
        for one in document.servers:
            if not commands and (one.content.get("command") or owned.get((one.user, one.name), {}).get("command")):
                raise ConfigError(
                    f"Server {one.name!r} would start a command here.", hint="If you want that, say --allow-commands."
                )
            wanted = {**one.content, **owned.get((one.user, one.name), {}), "name": one.name}
            self.servers.append(tenancy.servers.checked(wanted, one.user))
        self.threads = [tenancy.threads.checked(one.user, one.name, one.content) for one in document.threads]
        owners = {one.document.owner for one in self.servers} | {one.owner for one in self.threads}
        owners |= self._pins.owners
        for owner in (owners | {key.user for key, _ in self.keys}) - {""}:
            if owner not in names:
                raise ConfigError(f"The document has things of {owner!r}, who is not in it.")

    async def preview(self) -> Preview:
        """What would be added, and what changed."""
        store, found = await self._tenancy.store(), Preview()
        for user in self.users:
            before = await people.find_user(store, user.name)
            same = before is not None and (before.role, dict(before.limits)) == (user.role, dict(user.limits))
            _note(found, f"user {user.name}", exists=before is not None, same=same)
        for server in self.servers:
            one = server.document
            kept = await documents.find(store, one.noun, one.owner, one.name)
            same = kept is not None and kept.content == one.content and await self._same_secrets(kept, server)
            _note(found, _shown(one), exists=kept is not None, same=same)
        for one in self.threads:
            kept = await documents.find(store, one.noun, one.owner, one.name)
            _note(found, _shown(one), exists=kept is not None, same=kept is not None and kept.content == one.content)
        pins = await self._pins.look(store)
        found.added += [_shown_pins(*one.of) for one in pins.taken]
        found.left += [_shown_pins(*one) for one in pins.left]
        found.same += pins.same
        return found

    async def take(self) -> None:
        """Bring in all of it, or nothing."""
        store = await self._tenancy.store()
        async with store.changing("everything", "", "") as session:
            for user in self.users:
                await people.put_user(session, user)
                await note(session, "user", user.name, "")
            for key, digest in self.keys:
                await people.put_key(session, key, digest)
                await note(session, "key", key.user, key.id)
            for server in self.servers:
                await self._take_server(session, server)
            for one in self.threads:
                kept = await documents.find(session, one.noun, one.owner, one.name)
                await documents.put_in(session, dataclasses.replace(one, version=kept.version if kept else 0))
                await note(session, one.noun, one.owner, one.name)
            for name, value in self.credentials.items():
                await self._tenancy.vault.put(name, value, session=session)
                await note(session, "credential", name.user, name.server)
            await self._pins.take(session)

    async def _take_server(self, session: Session, server: CheckedServer) -> None:
        one = server.document
        kept = await documents.find(session, "server", one.owner, one.name)
        document = dataclasses.replace(one, version=kept.version if kept else 0)
        if kept is not None and not server.secrets:  # a document without secrets takes none away
            await documents.put_in(session, dataclasses.replace(document, sealed=kept.sealed))
        else:
            await self._tenancy.servers.put_in(session, CheckedServer(document, server.secrets))
        await note(session, "server", one.owner, one.name)

    async def _same_secrets(self, kept: Document, wanted: CheckedServer) -> bool:
        try:
            return not wanted.secrets or await self._tenancy.servers.secrets_of(kept) == wanted.secrets
        except CredentialError:
            return False


def _shown(one: Document) -> str:
    return f"{one.noun} {server_id(one.owner, one.name)}"


def _shown_pins(owner: str, server: str) -> str:
    return f"pins {server_id(owner, server)}"


def _note(found: Preview, what: str, *, exists: bool, same: bool) -> None:
    if same:
        found.same += 1
    else:
        (found.changed if exists else found.added).append(what)


async def _users(store: Store) -> list[User]:
    found: list[User] = []
    while more := await people.list_users(store, after=found[-1].name if found else "", limit=PAGE):
        found += more
    return found


async def _all(store: Store, noun: documents.Noun, owner: str) -> list[Document]:
    found: list[Document] = []
    while more := await documents.of_owner(store, noun, owner, after=found[-1].name if found else "", limit=PAGE):
        found += more
    return found


def _seal(passphrase: str, content: bytes) -> dict[str, str]:
    salt = os.urandom(16)
    return {
        "salt": base64.b64encode(salt).decode(),
        "data": Seal(lambda: _key(passphrase, salt)).close(content, b"store"),
    }


def _unseal(passphrase: str, sealed: Mapping[str, str]) -> bytes:
    if not sealed:
        raise ConfigError("The document holds no secrets that a passphrase could open.")
    try:
        salt = base64.b64decode(sealed.get("salt", ""), validate=True)
        return Seal(lambda: _key(passphrase, salt)).open(sealed.get("data", ""), b"store")
    except ValueError:
        raise ConfigError("The passphrase does not open the document's secrets.") from None


def _key(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, n=2**15, r=8, p=1, maxmem=2**26, dklen=32)
