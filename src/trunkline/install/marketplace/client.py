"""Finds servers: those we know, those you added, and those of registries, as far as these can be reached."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from trunkline.balance.groups import ServerInfo
from trunkline.config.options import default_home
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError
from trunkline.events import Emitter, Event
from trunkline.install.marketplace import install
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import (
    EnvCheck,
    MCPRegistryClientConfig,
    RegistryConfig,
    RegistrySearchOptions,
    RegistrySearchResult,
    RegistryStatistics,
)
from trunkline.install.marketplace.ranking import select
from trunkline.install.marketplace.server_json import get_all_well_known_servers, get_well_known_server
from trunkline.install.marketplace.source import RegistryContent, Source
from trunkline.tool import Tool
from trunkline.version import __version__


@dataclass(frozen=True, slots=True)
class EntryAdded(Event):
    """An entry of one's own was added."""

    event: ClassVar[str] = "entry_added"
    entry: RegistryEntry


@dataclass(frozen=True, slots=True)
class EntryRemoved(Event):
    """An entry of one's own was removed."""

    event: ClassVar[str] = "entry_removed"
    id: str


@dataclass(frozen=True, slots=True)
class RegistryAdded(Event):
    """A registry will be asked as well."""

    event: ClassVar[str] = "registry_added"
    config: RegistryConfig
    """Without its token."""


@dataclass(frozen=True, slots=True)
class RegistryUnreached(Event):
    """A registry did not answer; what was kept of it is used instead."""

    event: ClassVar[str] = "registry_unreached"
    registry: str
    reason: str


@dataclass(frozen=True, slots=True)
class CacheCleared(Event):
    """What was kept of registries is forgotten."""

    event: ClassVar[str] = "cache_cleared"


OFFLINE = "TRUNKLINE_OFFLINE"
"""Set to anything but 0, it keeps every client from asking registries."""


class MCPRegistryClient(Emitter):
    """Finds servers, and says how they are installed.

    What is asked of registries by a search is kept on disk. Everything else answers from what is known: the built-in
    catalogue, entries of your own, registries that are read whole, and what is kept of the others.
    """

    def __init__(
        self,
        config: MCPRegistryClientConfig | None = None,
        *,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        super().__init__(EntryAdded, EntryRemoved, RegistryAdded, RegistryUnreached, CacheCleared)
        self._env = os.environ if env is None else env
        self._home = home
        self._clock = clock
        config = dataclasses.replace(config or MCPRegistryClientConfig(), **options)
        self.config = dataclasses.replace(config, user_agent=config.user_agent or _user_agent())
        self._custom: dict[str, RegistryEntry] = {}
        self._sources = [self._source(registry) for registry in self.config.registries]

    @property
    def offline(self) -> bool:
        """Whether registries are left alone."""
        return self.config.offline or self._env.get(OFFLINE, "0") not in ("", "0")

    async def search(self, options: RegistrySearchOptions | None = None, **more: Any) -> RegistrySearchResult:
        """Find servers; a registry that does not answer in time costs its results, and no more."""
        options = dataclasses.replace(options or RegistrySearchOptions(), **more)
        found = await self._ask(lambda source: source.search(options.query))
        entries = select(self._merged(found), options)
        shown = entries[options.offset : options.offset + options.limit]
        return RegistrySearchResult(
            tuple(shown),
            len(entries),
            options.offset // options.limit + 1,
            options.limit,
            options.offset + len(shown) < len(entries),
            tuple(one.unreached for one in found if one.unreached),
            sum(one.dropped for one in found),
        )

    async def get_entry(self, id: str, *, version: str = "latest") -> RegistryEntry | None:
        """One entry: your own before a built-in one, before those of registries, which are asked for it.

        Another version than the latest is known to registries alone.
        """
        if version == "latest":
            known = self._custom.get(id) or get_well_known_server(id)
            if known is not None:
                return known
        found = await self._ask(lambda source: source.entry(id, version))
        return next((one.entries[0] for one in found if one.entries), None)

    async def get_versions(self, id: str) -> tuple[RegistryEntry, ...]:
        """Every version that a registry has of a server, the newest first."""
        found = await self._ask(lambda source: source.versions(id))
        return next((one.entries for one in found if one.entries), ())

    async def get_all_entries(self) -> tuple[RegistryEntry, ...]:
        """Everything that is known. Registries that are not read whole count with what is kept of them."""
        found = await self._ask(lambda source: source.known())
        return tuple(entry for entry in self._merged(found) if entry.status != "deleted")

    async def refresh(self) -> RegistryStatistics:
        """Read all registries whole, or what has changed in them; with the official one this takes minutes once."""
        await self._ask(lambda source: source.refresh())
        return await self.get_statistics()

    async def get_by_category(self, category: str) -> tuple[RegistryEntry, ...]:
        """The known entries of a category."""
        return tuple(entry for entry in await self.get_all_entries() if category in entry.categories)

    async def get_by_tag(self, tag: str) -> tuple[RegistryEntry, ...]:
        """The known entries with a tag."""
        return tuple(entry for entry in await self.get_all_entries() if tag in entry.tags)

    async def get_categories(self) -> tuple[str, ...]:
        """The categories of known entries, in order."""
        return tuple(sorted({word for entry in await self.get_all_entries() for word in entry.categories}))

    async def get_tags(self) -> tuple[str, ...]:
        """The tags of known entries, in order."""
        return tuple(sorted({word for entry in await self.get_all_entries() for word in entry.tags}))

    async def get_popular_servers(self, limit: int = 10) -> tuple[RegistryEntry, ...]:
        """Those with most downloads, then the built-in ones in the catalogue's order."""
        options = RegistrySearchOptions(sort_by="downloads", limit=limit)
        return tuple(select(await self.get_all_entries(), options)[: options.limit])

    async def get_verified_servers(self) -> tuple[RegistryEntry, ...]:
        """All that are verified."""
        return tuple(entry for entry in await self.get_all_entries() if entry.verified)

    async def get_statistics(self) -> RegistryStatistics:
        """How much is known."""
        entries = await self.get_all_entries()
        return RegistryStatistics(
            len(entries),
            sum(entry.verified for entry in entries),
            len({word for entry in entries for word in entry.categories}),
            len({word for entry in entries for word in entry.tags}),
            len(self._custom),
        )

    def add_custom_entry(self, entry: RegistryEntry) -> None:
        """Add an entry of your own; it goes before any other of its id."""
        self._custom[entry.id] = dataclasses.replace(entry, source="custom")
        self.emit(EntryAdded(self._custom[entry.id]))

    def remove_custom_entry(self, id: str) -> bool:
        """Remove an entry of your own; false when there is none."""
        if self._custom.pop(id, None) is None:
            return False
        self.emit(EntryRemoved(id))
        return True

    def add_registry(self, config: RegistryConfig) -> None:
        """Ask one more registry; those that were there before go first."""
        if any(source.config.name == config.name for source in self._sources):
            raise ConfigError(f"There is a registry {config.name!r} already.", hint="Give this one another `name`.")
        self.config = dataclasses.replace(self.config, registries=(*self.config.registries, config))
        self._sources.append(self._source(config))
        self.emit(RegistryAdded(dataclasses.replace(config, auth_token="")))

    def clear_cache(self) -> None:
        """Forget what is kept of registries."""
        for source in self._sources:
            source.clear()
        self.emit(CacheCleared())

    def get_install_command(self, entry: RegistryEntry) -> str:
        """What a person would type to run it, with `<NAME>` for what must be given; empty for a remote server."""
        return install.command_line(entry)

    def check_required_env_vars(self, entry: RegistryEntry) -> EnvCheck:
        """Whether the variables that it requires are set; an empty one is not."""
        missing = tuple(name for name in entry.required_env_vars if not self._env.get(name))
        return EnvCheck(not missing, missing)

    def to_server_spec(
        self, entry: RegistryEntry, answers: install.Answers | None = None, *, name: str = ""
    ) -> ServerSpec:
        """The server, ready for a hub; ManifestError names the answers that are missing."""
        return install.server_spec(entry, answers or {}, name=name)

    def to_server_info(self, entry: RegistryEntry) -> ServerInfo:
        """The server for a `MultiServerManager`; it is `stopped`."""
        tools = tuple(Tool(name, f"Tool: {name}") for name in entry.tools)
        transport = entry.transports[0] if entry.transports else "stdio"
        return ServerInfo(entry.id, entry.name, entry.description, transport, "stopped", tools)

    def _source(self, config: RegistryConfig) -> Source:
        keeps = self.config.enable_cache and config.enable_cache
        return Source(config, self.config, self._home_folder() if keeps else None, clock=self._clock)

    def _home_folder(self) -> Path:
        return self._home or default_home(self._env)

    async def _ask(self, question: Callable[[Source], Awaitable[RegistryContent]]) -> list[RegistryContent]:
        """Ask all registries at once; what they answer comes in their order."""
        for source in self._sources:
            source.offline = self.offline
        found = await asyncio.gather(*(question(source) for source in self._sources))
        for source, one in zip(self._sources, found, strict=True):
            if one.unreached:
                self.emit(RegistryUnreached(source.config.name, one.unreached))
        return list(found)

    def _merged(self, found: Iterable[RegistryContent]) -> list[RegistryEntry]:
        """Each id once: your own, then built-in ones, then those of registries in their order."""
        merged = {entry.id: entry for entry in get_all_well_known_servers()} | self._custom
        for one in found:
            for entry in one.entries:
                merged.setdefault(entry.id, entry)
        return list(merged.values())


def _user_agent() -> str:
    return f"trunkline/{__version__}"


global_mcp_registry_client = MCPRegistryClient()
"""One for the whole process; it asks nobody before it is used."""
