"""What a registry client tells those who listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trunkline.events import Event
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import RegistryConfig


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
