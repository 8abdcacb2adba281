"""One server that can be installed: what it is, how it is started or reached, and what it wants to know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from trunkline.errors import ConfigError

Status = Literal["active", "archived", "deprecated", "deleted"]
"""Archived is what works, and nobody maintains."""
Transport = Literal["stdio", "http", "sse"]

LONGEST_TEXT = 4_000
"""Characters that a text of an entry may have."""
MOST_WORDS = 500
"""Categories, tags, tools or arguments that an entry may have, of each."""


@dataclass(frozen=True)
class RegistryEntry:
    """A server as a registry describes it. Nothing of it can be changed, so that whoever has one shares it safely."""

    id: str
    name: str = ""
    """For people; default is the id."""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    homepage: str = ""
    repository: str = ""
    npm_package: str = ""
    pypi_package: str = ""
    install_command: str = ""
    """What people type to run it, if it is not told by the rest."""
    command: str = ""
    """Program to start."""
    args: Sequence[str] = ()
    """Its arguments; `${NAME}` stands for what must be given."""
    url: str = ""
    """Address of a server that runs elsewhere."""
    required_env_vars: Sequence[str] = ()
    """Variables without which it does not work."""
    env_args: Sequence[str] = ()
    """Arguments that may hold a secret: they are taken from variables of that name, and never written down."""
    transports: Sequence[Transport] = ()
    """Default is what the command or the address tells."""
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()
    tools: Sequence[str] = ()
    """Names of its tools, as far as they are known."""
    downloads: int = 0
    stars: int = 0
    last_updated: str = ""
    """RFC 3339."""
    verified: bool = False
    """Whether somebody you trust has tried this version: for built-in entries we have, for your own you say so."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: Status = "active"
    notes: Sequence[str] = ()
    """What to know before it is installed."""
    source: str = "custom"
    """`built-in`, `custom`, or the registry that it comes from."""
    definition: str = field(default="", repr=False)
    """Its `server.json`, if it has one."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", _text(self.id, "id")):
            raise ConfigError(
                f"{self.id!r} cannot be the id of an entry.", hint="Use letters, digits, dots and dashes."
            )
        put = object.__setattr__
        put(self, "name", self.name or self.id)
        for name in _TEXTS:
            _checked(getattr(self, name), f"{self.id}: `{name}`")
        for name in _LISTS:
            put(self, name, _words(getattr(self, name), f"{self.id}: `{name}`"))
        for name in ("homepage", "repository", "url"):
            address = getattr(self, name)
            if address and not re.match(r"https?://[^/\s]+", address, re.IGNORECASE):
                raise ConfigError(f"{self.id}: `{name}` is not an address of the web.")
        for name in ("downloads", "stars"):
            count = getattr(self, name)
            if type(count) is not int or count < 0:
                raise ConfigError(f"{self.id}: `{name}` must be a whole number, 0 or more.")
        if type(self.verified) is not bool:
            raise ConfigError(f"{self.id}: `verified` must be true or false.")
        if self.status not in get_args(Status):
            raise ConfigError(f"{self.id}: `status` must be one of: {', '.join(get_args(Status))}.")
        put(self, "transports", self._transports())
        put(self, "metadata", _frozen(self.metadata, f"{self.id}: `metadata`"))

    def described(self) -> dict[str, Any]:
        """The entry for programs to read: what is known of it, and nothing that is empty."""
        found: dict[str, Any] = {}
        for name in (*_TEXTS, "downloads", "stars", *_LISTS, "transports"):
            value = getattr(self, name)
            if value:
                found[name] = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        found |= {"verified": self.verified}
        if self.metadata:
            found["metadata"] = _thawed(self.metadata)
        if self.definition:
            found["server"] = json.loads(self.definition)
        return found

    def _transports(self) -> tuple[Transport, ...]:
        said = tuple({"streamable-http": "http"}.get(word, word) for word in self.transports)
        unknown = [word for word in said if word not in get_args(Transport)]
        if unknown:
            raise ConfigError(f"{self.id}: there is no transport {unknown[0]!r}.", hint="Use stdio, http or sse.")
        told: tuple[Transport, ...] = ("stdio",) if self.command else ("http",) if self.url else ()
        return cast("tuple[Transport, ...]", said) or told


_TEXTS = (
    *("id", "name", "description", "version", "author", "license", "homepage", "repository", "npm_package"),
    *("pypi_package", "install_command", "command", "url", "last_updated", "status", "source"),
)
_LISTS = ("args", "required_env_vars", "env_args", "categories", "tags", "tools", "notes", "transports")

# Line breaks and escapes would let an entry write over a terminal; the rest turns what is read around.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]")


def is_harmful(text: str) -> bool:
    """Whether a text could do something to the terminal that shows it, or show something else than it is."""
    return _HARMFUL.search(text) is not None


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"`{where}` of an entry must be a text.")
    return value


def _checked(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a text.")
    if len(value) > LONGEST_TEXT:
        raise ConfigError(f"{where} has more than {LONGEST_TEXT} characters.")
    if is_harmful(value):
        raise ConfigError(f"{where} holds a control character.")
    return value


def _words(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{where} must be a list of texts.")
    words = cast("Sequence[object]", value)
    if len(words) > MOST_WORDS:
        raise ConfigError(f"{where} has more than {MOST_WORDS} members.")
    return tuple(_checked(word, where) for word in words)


def _frozen(value: Any, where: str) -> Any:
    """The same JSON, but nothing of it can be changed, by whoever gave it either."""
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return MappingProxyType({str(key): _frozen(member, where) for key, member in members.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, where) for item in cast("Sequence[Any]", value))
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigError(f"{where} holds something that is not JSON.")


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(member) for key, member in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [_thawed(item) for item in cast("tuple[Any, ...]", value)]
    return value
