"""What a registry client can be told and asked, and what it answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import urlsplit

from trunkline.config.options import Config
from trunkline.errors import ConfigError
from trunkline.install.marketplace.entry import RegistryEntry, Transport

OFFICIAL = "https://registry.modelcontextprotocol.io"
"""The registry of the MCP project."""

RegistrySourceType = Literal["official", "custom"]
SortBy = Literal["", "relevance", "downloads", "stars", "name", "last_updated"]


@dataclass(frozen=True)
class RegistryConfig:
    """A registry: the official one, or any that speaks its API (v0.1)."""

    type: RegistrySourceType = "custom"
    url: str = ""
    """Where it is, without `/v0.1`; the official one needs none."""
    auth_token: str = field(default="", repr=False)
    """Bearer token that it wants."""
    timeout: float | None = None
    """Seconds for one request; `None` takes the client's."""
    enable_cache: bool = True
    """Keep its answers on disk, if the client does."""
    cache_ttl: float | None = None
    """Seconds for which they are taken without asking again; `None` takes the client's."""
    whole: bool | None = None
    """Read all of it, rather than ask it for words; default is yes, but for the official one, which is large."""
    name: str = ""
    """What it is called; default is its host."""

    def __post_init__(self) -> None:
        if self.type not in get_args(RegistrySourceType):
            raise ConfigError(
                f"There is no type of registry {self.type!r}.",
                hint="`official` is that of the MCP project, `custom` any other with the same API.",
            )
        url = (self.url or (OFFICIAL if self.type == "official" else "")).rstrip("/")
        object.__setattr__(self, "url", re.sub(r"/v0(\.1)?(/servers)?$", "", url))
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ConfigError("The `url` of a registry is not an address.") from None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError("The `url` of a registry must be a plain http address.", hint=f"Such as {OFFICIAL}.")
        if not re.fullmatch(r"[\x21-\x7e]*", self.auth_token):
            raise ConfigError("The `auth_token` of a registry holds characters that no token has.")
        if self.auth_token and parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
            raise ConfigError(f"A token would go to {host} for all to read.", hint="Use https.")
        object.__setattr__(self, "name", self.name or host)
        _check_times(self, "timeout", "cache_ttl")


@dataclass(frozen=True)
class MCPRegistryClientConfig:
    """How a registry client behaves. Times are in seconds."""

    registries: Sequence[RegistryConfig] = field(default_factory=lambda: (RegistryConfig("official"),))
    """Whom it asks, beyond what it knows itself."""
    enable_cache: bool = True
    """Keep answers of registries on disk."""
    default_cache_ttl: float = 3600.0
    """How long an answer is taken without asking again; an older one still helps when the registry is away."""
    timeout: float = 10.0
    """For one request to a registry."""
    patience: float = 2.0
    """How long a search waits for registries before it answers with what is known."""
    user_agent: str = ""
    """Default is `trunkline/VERSION`."""
    offline: bool = False
    """Ask nobody; what is built in and what is kept still answers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "registries", tuple(self.registries))
        _check_times(self, "default_cache_ttl", "timeout", "patience")
        if not re.fullmatch(r"[\x20-\x7e]{0,200}", self.user_agent):
            raise ConfigError("`user_agent` must be a short plain text.")


@dataclass(frozen=True)
class RegistrySearchOptions:
    """What is looked for. Several categories or tags mean any of them."""

    query: str = ""
    """Words of the id, name, description, tags, categories or tools."""
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()
    transport: Literal[""] | Transport = ""
    verified_only: bool = False
    sort_by: SortBy = ""
    """Default is `relevance` where there is a query, else `downloads`; where equal, the catalogue's order."""
    sort_direction: Literal["asc", "desc"] = "desc"
    limit: int = 25
    """At least 1."""
    offset: int = 0

    def __post_init__(self) -> None:
        for name in ("categories", "tags"):
            if isinstance(getattr(self, name), str):
                raise ConfigError(f"`{name}` must be a list of texts.")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.sort_by not in get_args(SortBy):
            raise ConfigError(f"Entries cannot be sorted by {self.sort_by!r}.", hint=f"By: {_words(SortBy)}.")
        if self.sort_direction not in ("asc", "desc"):
            raise ConfigError("`sort_direction` must be `asc` or `desc`.")
        if self.transport not in ("", *get_args(Transport)):
            raise ConfigError(f"There is no transport {self.transport!r}.", hint=f"There are: {_words(Transport)}.")
        object.__setattr__(self, "limit", max(1, self.limit))
        object.__setattr__(self, "offset", max(0, self.offset))


@dataclass(frozen=True)
class RegistrySearchResult:
    """One page of what was found."""

    entries: tuple[RegistryEntry, ...]
    total_count: int
    page: int
    page_size: int
    has_more: bool
    unreached: tuple[str, ...] = ()
    """A line for each registry that did not answer."""
    dropped: int = 0
    """Entries of registries that were left out because they were broken or hostile."""


class EnvCheck(NamedTuple):
    """Whether the variables that an entry requires are set."""

    ready: bool
    missing: tuple[str, ...]


@dataclass(frozen=True)
class RegistryStatistics:
    """How much is known."""

    total_entries: int
    verified_entries: int
    categories: int
    tags: int
    custom_entries: int


def _check_times(options: object, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ConfigError(f"`{name}` must be a number of seconds, 0 or more.")
        if value == 0 and name == "timeout":
            raise ConfigError("`timeout` must be more than 0.")


def _words(choice: object) -> str:
    return ", ".join(word for word in cast("tuple[str, ...]", get_args(choice)) if word)


def configured_registries(config: Config) -> tuple[tuple[RegistryConfig, ...], list[str]]:
    """The registries that a configuration has asked, the official one unless it is replaced; and what is wrong."""
    specs = dict(config.registries)
    official = specs.pop("official", None)
    found = [] if official is not None else [RegistryConfig("official")]
    problems: list[str] = []
    for spec in ([official] if official is not None else []) + list(specs.values()):
        if spec.problem:
            problems.append(f"registry {spec.name!r} is not asked: {spec.problem}")
        elif spec.enabled:
            kind = "official" if spec is official else "custom"
            found.append(RegistryConfig(kind, spec.url, spec.token, whole=spec.whole, name=spec.name))
    return tuple(found), problems
