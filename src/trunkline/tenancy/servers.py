"""Servers that were registered while Trunkline runs: everybody's, or one user's own, with their secrets sealed."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from trunkline.config.options import ServerSpec
from trunkline.config.reading import server_of
from trunkline.errors import ConfigError, NotFoundError, RefusedError, VersionConflictError
from trunkline.identity import server_id
from trunkline.storage import documents
from trunkline.storage.documents import Document
from trunkline.storage.store import Store
from trunkline.tool import NO_OPTIONS
from trunkline.wire.seal import Seal, context_of

SECRET = ("env", "headers", "oauth")
"""Options whose values may be secret."""

ServerScope = Literal["app", "user"]


@dataclass(frozen=True)
class About:
    """What is said of a server besides how it is reached."""

    display_name: str = ""
    description: str = ""
    trust_level: Literal["", "verified", "community", "unverified"] = ""
    tags: tuple[str, ...] = ()


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


class Servers:
    """Keeps registrations in the store. Whoever runs servers asks it what there is."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        is_open: Callable[[], bool],
        master: Callable[[], bytes],
        env: Mapping[str, str],
    ) -> None:
        self._store, self._is_open, self._env = store, is_open, env
        self._seal = Seal(master)

    async def of(self, user: str) -> Sequence[Registration]:
        """A user's own servers, or with an empty name everybody's, by name."""
        if not self._is_open():
            return []
        return [self._read(one) for one in await documents.of_owner(await self._store(), "server", user)]

    async def get(self, user: str, name: str) -> Registration:
        """One of them."""
        found = await documents.find(await self._store(), "server", user, name) if self._is_open() else None
        if found is None:
            raise NotFoundError(f"There is no server {name!r}.")
        return self._read(found)

    async def wanted(self, user: str, name: str) -> dict[str, Any]:
        """What was said of a server when it was registered, secrets included: to be changed in part."""
        found = await documents.find(await self._store(), "server", user, name) if self._is_open() else None
        if found is None:
            raise NotFoundError(f"There is no server {name!r}.")
        return {**found.content, **self.secrets_of(found)}

    async def put(self, wanted: Mapping[str, Any], *, user: str = "", version: int = 0, most: int = 0) -> Registration:
        """Keep a server, or its next version, after all of it was checked."""
        document = self.checked(wanted, user)
        store = await self._store()
        before = await documents.find(store, "server", user, document.name)
        if before is None and most and await documents.count(store, "server", user) >= most:
            raise ConfigError(f"There are {most} servers already.", hint="Remove one first.")
        known = version or (before.version if before is not None else 0)
        made = await documents.put(store, dataclasses.replace(document, version=known))
        if made is None:
            what = f"Server {document.name!r} was changed by somebody else."
            raise VersionConflictError(what, hint="Look, and try again.")
        return self._read(made)

    async def remove(self, user: str, name: str) -> None:
        """Forget a server."""
        if not self._is_open() or not await documents.remove(await self._store(), "server", user, name):
            raise NotFoundError(f"There is no server {name!r}.")

    def checked(self, wanted: Mapping[str, Any], user: str) -> Document:
        """A server as it may be kept; what cannot be read back is not."""
        document = self._written(wanted, user)
        self._read(document)
        return document

    def secrets_of(self, document: Document) -> dict[str, Any]:
        """What of a kept server is secret."""
        if not document.sealed:
            return {}
        try:
            return json.loads(self._seal.open(document.sealed.decode(), _bound(document.owner, document.name)))
        except ValueError as error:
            raise ConfigError(
                f"The secrets of server {document.name!r} were changed by somebody else, or their key was.",
                hint="Register it again.",
            ) from error

    def _written(self, wanted: Mapping[str, Any], user: str) -> Document:
        content = {key: value for key, value in wanted.items() if key != "name"}
        name = str(wanted.get("name", ""))
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
            raise ConfigError(
                f"{name!r} cannot be a server's name.", hint="Use 1 to 64 letters, digits, dots or dashes."
            )
        secret = {key: content.pop(key) for key in SECRET if content.get(key)}
        sealed = self._seal.close(json.dumps(secret).encode(), _bound(user, name)).encode() if secret else b""
        return Document("server", user, name, content, sealed)

    def _read(self, document: Document) -> Registration:
        content = {**document.content, **self.secrets_of(document)}
        about = {name: content.pop(name) for name in ABOUT if name in content}
        spec = server_of(document.name, content, self._env)
        try:
            return Registration(
                dataclasses.replace(spec, name=server_id(document.owner, document.name)),
                msgspec.convert(about, About),
                document.owner,
                document.version,
                document.created,
                document.updated,
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"Server {document.name!r}: {error}.") from error


def written(spec: ServerSpec) -> dict[str, Any]:
    """A server as a file would say it."""
    if spec.local is not None:
        raise ConfigError(f"Server {spec.name!r} is in this process.", hint="Mount it.")
    said: dict[str, Any] = msgspec.to_builtins(_said(spec, ServerSpec()))
    return {**said, "tools": {name: _said(one, NO_OPTIONS) for name, one in spec.tools.items()}}


def _said(value: Any, plain: Any) -> dict[str, Any]:
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
    if "${" in json.dumps(wanted):
        raise RefusedError("A server of one's own cannot use the gateway's variables and secrets.", status=403)


def _bound(user: str, name: str) -> bytes:
    return context_of(b"server", user.encode(), name.encode())
