"""Servers that were registered while Trunkline runs: everybody's, or one user's own, with their secrets sealed."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from trunkline.config.reading import server_of
from trunkline.config.server import ServerSpec, TrustMode
from trunkline.errors import ConfigError, CredentialError, NotFoundError, RefusedError, VersionConflictError
from trunkline.identity import server_id
from trunkline.storage import credentials, documents, pins
from trunkline.storage.credentials import CredentialName, Sealed
from trunkline.storage.documents import Document
from trunkline.storage.engine import Session
from trunkline.storage.store import Store
from trunkline.tenancy.credentials import Vault
from trunkline.tool import NO_OPTIONS
from trunkline.wire.seal import Seal, context_of

log = logging.getLogger("trunkline")

SECRET = ("env", "headers", "oauth", "url")
"""Options whose values may be secret; of an address what is behind the question mark, or before the host."""

ServerScope = Literal["app", "user"]
TrustLevel = Literal["", "verified", "community", "unverified"]


@dataclass(frozen=True)
class About:
    """What is said of a server besides how it is reached."""

    display_name: str = ""
    description: str = ""
    trust_level: TrustLevel = ""
    tags: tuple[str, ...] = ()


TRUST: Mapping[TrustLevel, TrustMode] = {"verified": "flag", "unverified": "hold"}
"""What becomes of changed definitions by the level of trust, where `trust` does not say; else as for all servers."""
ABOUT = tuple(one.name for one in dataclasses.fields(About))


@dataclass(frozen=True)
class Registration:
    """A server that was registered."""

    spec: ServerSpec
    about: About = About()
    user: str = ""
    """Whose it is; empty for everybody's."""
    version: int = 0
    created: int = 0
    updated: int = 0

    @property
    def scope(self) -> ServerScope:
        """Whose it is, as the seed calls it."""
        return "user" if self.user else "app"


@dataclass(frozen=True)
class CheckedServer:
    """A server as it may be kept: what everyone may read of it, and what goes into the vault."""

    document: Document
    secrets: Mapping[str, Any]


class Servers:
    """Keeps registrations in the store, and what of them is secret in the vault. Whoever runs servers asks it."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        is_open: Callable[[], bool],
        vault: Vault,
        master: Callable[[], bytes],
        env: Mapping[str, str],
    ) -> None:
        self._store, self._is_open, self._vault, self._env = store, is_open, vault, env
        self._seal = Seal(master)

    async def of(self, user: str) -> Sequence[Registration]:
        """A user's own servers, or with an empty name everybody's, by name; one whose secrets are lost says so."""
        if not self._is_open():
            return []
        store = await self._store()
        found = await documents.of_owner(store, "server", user)
        sealed: dict[str, list[Sealed]] = {}
        for one in await credentials.of_owner(store, user, fields=SECRET) if found else ():
            sealed.setdefault(one.name.server, []).append(one)
        return [await self._registration(store, one, sealed.get(_id(one), [])) for one in found]

    async def names(self) -> AsyncIterator[list[str]]:
        """The servers that users registered, by their names among all, page by page."""
        page = await documents.owned(await self._store(), "server", ("", "")) if self._is_open() else []
        while page:
            yield [server_id(owner, name) for owner, name in page]
            page = await documents.owned(await self._store(), "server", page[-1])

    async def switches(self) -> dict[str, bool]:
        """Servers of the configuration that were switched on or off since, whatever the file says."""
        if not self._is_open():
            return {}
        found = await documents.of_owner(await self._store(), "switch", "")
        return {one.name: bool(one.content.get("on")) for one in found}

    async def switch(self, name: str, *, on: bool) -> None:
        """Keep whether a server of the configuration runs."""
        store = await self._store()
        found = await documents.find(store, "switch", "", name)
        kept = Document("switch", "", name, {"on": on}, version=found.version if found is not None else 0)
        if await documents.put(store, kept) is None:
            raise _changed(name)

    async def get(self, user: str, name: str) -> Registration:
        """One of them."""
        store, found = await self._find(user, name)
        return await self._registration(store, found, await self._sealed(store, found))

    async def wanted(self, user: str, name: str) -> tuple[dict[str, Any], int]:
        """What was said of a server when it was registered, secrets included, and its version: to change some of it."""
        _, found = await self._find(user, name)
        return {**found.content, **await self.secrets_of(found)}, found.version

    async def put(
        self,
        wanted: Mapping[str, Any],
        *,
        user: str = "",
        version: int = 0,
        most: int = 0,
        replace: bool = True,
        of_user: bool = False,
    ) -> Registration:
        """Keep a server, or its next version, after all of it was checked; a new one, where none is replaced."""
        checked = self.checked(wanted, user)
        store, name = await self._store(), checked.document.name
        before = await documents.find(store, "server", user, name) if replace else None
        if before is None and most and await documents.count(store, "server", user) >= most:
            raise ConfigError(f"There are {most} servers already.", hint="Remove one first.")
        known = version or (before.version if before is not None else 0)
        async with store.changing("server", user, name) as session:
            if of_user:
                await documents.check_owner(session, user)
            document = dataclasses.replace(checked.document, version=known)
            made = await self.put_in(session, dataclasses.replace(checked, document=document))
        if made is None and not replace:
            raise ConfigError(f"There already is a server {name!r}.", hint="Use `update_server` to change it.")
        if made is None:
            raise _changed(name)
        return self._read(made, checked.secrets)

    async def put_in(self, session: Session, checked: CheckedServer) -> Document | None:
        """The same as part of a larger change; `None` when somebody else was faster."""
        made = await documents.put_in(session, checked.document)
        if made is not None:
            for field in SECRET:
                name = CredentialName(made.owner, _id(made), "", field)
                if field in checked.secrets:
                    await self._vault.put(name, json.dumps(checked.secrets[field]).encode(), session=session)
                else:
                    await self._vault.remove(user=name.user, server=name.server, field=field, session=session)
        return made

    async def remove(self, user: str, name: str, *, version: int = 0) -> None:
        """Forget a server, and everything that anybody kept for it; with a version, only if nobody changed it since."""
        store, _ = await self._find(user, name)
        async with store.changing("server", user, name) as session:
            if not await documents.remove_in(session, "server", user, name, version=version):
                raise _changed(name)
            await self._vault.remove(server=server_id(user, name), session=session)
            await pins.forget(session, user, name)

    def checked(self, wanted: Mapping[str, Any], user: str) -> CheckedServer:
        """A server as it may be kept; what cannot be read back is not."""
        content = {key: value for key, value in wanted.items() if key != "name"}
        if isinstance(content.get("tools"), list | tuple):
            content["minimal_tools"], content["tools"] = split_tools(content["tools"])
        name = str(wanted.get("name", ""))
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
            raise ConfigError(
                f"{name!r} cannot be a server's name.", hint="Use 1 to 64 letters, digits, dots or dashes."
            )
        secrets = {key: content.pop(key) for key in SECRET if content.get(key) and key != "url"}
        url = str(content.get("url", ""))
        if plain_url(url) != url:
            secrets["url"], content["url"] = url, plain_url(url)
        made = CheckedServer(Document("server", user, name, content), secrets)
        self._read(made.document, secrets)
        return made

    async def secrets_of(self, document: Document) -> dict[str, Any]:
        """What of a kept server is secret; CredentialError when it does not open."""
        store = await self._store()
        return await self._opened(store, document, await self._sealed(store, document))

    async def move_in(self, session: Session, document: Document) -> bool:
        """Put what an earlier Trunkline sealed in the document itself into the vault; false when it does not open."""
        try:
            secrets = self._old_secrets(document)
        except CredentialError as error:
            log.error("%s", error)
            return False
        await self.put_in(session, CheckedServer(dataclasses.replace(document, sealed=b""), secrets))
        return True

    async def _find(self, user: str, name: str) -> tuple[Store, Document]:
        if self._is_open():
            store = await self._store()
            found = await documents.find(store, "server", user, name)
            if found is not None:
                return store, found
        raise NotFoundError(f"There is no server {name!r}.")

    async def _sealed(self, store: Store, document: Document) -> list[Sealed]:
        names = [CredentialName(document.owner, _id(document), "", field) for field in SECRET]
        return [one for name in names if (one := await credentials.find(store, name)) is not None]

    async def _opened(self, store: Store, document: Document, sealed: Sequence[Sealed]) -> dict[str, Any]:
        if document.sealed:
            return self._old_secrets(document)
        return {one.name.field: json.loads(await self._vault.content(store, one)) for one in sealed}

    def _old_secrets(self, document: Document) -> dict[str, Any]:
        bound = context_of(b"server", document.owner.encode(), document.name.encode())
        try:
            return json.loads(self._seal.open(document.sealed.decode(), bound))
        except ValueError:
            raise CredentialError(
                f"The secrets of server {document.name!r} were changed by somebody else, or their key was.",
                hint="Register it again.",
            ) from None

    async def _registration(self, store: Store, document: Document, sealed: Sequence[Sealed]) -> Registration:
        try:
            return self._read(document, await self._opened(store, document, sealed))
        except CredentialError as error:
            made = self._read(document, {})
            return dataclasses.replace(made, spec=dataclasses.replace(made.spec, problem=str(error)))

    def _read(self, document: Document, secrets: Mapping[str, Any]) -> Registration:
        content = {**document.content, **secrets}
        about = {name: content.pop(name) for name in ABOUT if name in content}
        spec = server_of(document.name, content, self._env)
        try:
            said = msgspec.convert(about, About)
            trust = spec.trust or TRUST.get(said.trust_level, "")
            return Registration(
                dataclasses.replace(spec, name=server_id(document.owner, document.name), trust=trust),
                said,
                document.owner,
                document.version,
                document.created,
                document.updated,
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"Server {document.name!r}: {error}.") from error


def plain_url(url: str) -> str:
    """An address without what may be a credential in it."""
    scheme, found, rest = url.partition("#")[0].partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}"


def _changed(name: str) -> VersionConflictError:
    return VersionConflictError(f"Server {name!r} was changed by somebody else.", hint="Look, and try again.")


def split_tools(tools: Iterable[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Tools as the seed gives them in advance: their definitions, and what is said of them, which stays."""
    definitions: list[Any] = []
    said: dict[str, Any] = {}
    for tool in tools:
        if not isinstance(tool, Mapping):
            raise ConfigError("A tool that is given in advance must be an object.")
        members = cast("Mapping[str, Any]", tool)
        definitions.append({key: value for key, value in members.items() if key not in _SAID})
        options = {_SAID[key]: value for key, value in members.items() if key in _SAID and value is not None}
        if options:
            said[str(members.get("name", ""))] = options
    return definitions, said


_SAID = {
    **{name: name for name in ("defer_loading", "allowed_callers", "input_examples", "tags", "when_to_use")},
    "whenToUse": "when_to_use",
    "estimatedCost": "cost_hint",
    "cost_hint": "cost_hint",
}
"""What the seed says of a tool beside its definition, and our option for it."""


def written(spec: ServerSpec) -> dict[str, Any]:
    """A server as a file would say it."""
    if spec.local is not None:
        raise ConfigError(f"Server {spec.name!r} is in this process.", hint="Mount it.")
    said: dict[str, Any] = msgspec.to_builtins(_changed_from(spec, ServerSpec()))
    return {**said, "tools": written_tools(spec)}


def written_tools(spec: ServerSpec) -> dict[str, Any]:
    """What is said of a server's tools, as a file would say it."""
    return {name: msgspec.to_builtins(_changed_from(one, NO_OPTIONS)) for name, one in spec.tools.items()}


def _changed_from(value: Any, plain: Any) -> dict[str, Any]:
    """What is otherwise than by default."""
    named = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return {
        name: own for name, own in named.items() if own != getattr(plain, name) and name not in ("problem", "local")
    }


def check_member_server(wanted: Mapping[str, Any]) -> None:
    """Refuse what a member may not register: anything that would run here, or read what is the operator's."""
    for option in ("command", "args", "cwd", "env"):
        if wanted.get(option):
            hint = "Register the address of a remote one, or ask an admin."
            raise RefusedError("Servers that are started here are an admin's to add.", status=403, hint=hint)
    if wanted.get("oauth", {}).get("grant") == "exchange":
        raise RefusedError("Where callers' tokens are exchanged is an admin's to say.", status=403)
    if "${" in json.dumps(wanted):
        raise RefusedError("A server of one's own cannot use the gateway's variables and secrets.", status=403)


def _id(document: Document) -> str:
    return server_id(document.owner, document.name)
