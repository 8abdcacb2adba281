"""What a discovery says: results, statistics, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from trunkline.control.discovery.tool_info import EnhancedToolInfo
from trunkline.events import Event
from trunkline.tool import Annotations, Safety


@dataclass(frozen=True, slots=True)
class ToolDiscoveryResult:
    """How reading a server's tools went; a failure is a result too."""

    success: bool
    server_id: str
    tools: tuple[EnhancedToolInfo, ...] = ()
    duration: float = 0.0
    """Seconds."""
    error: str = ""
    warnings: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @property
    def tool_count(self) -> int:
        """How many tools were found."""
        return len(self.tools)


@dataclass(frozen=True, slots=True)
class DiscoveryStatistics:
    """The catalogue in numbers."""

    total_tools: int
    available_tools: int
    tools_by_server: Mapping[str, int]
    tools_by_category: Mapping[str, int]
    tools_by_safety_level: Mapping[Safety, int]
    """Every tool is in one of them."""
    tools_with_annotations: int
    deprecated_tools: int
    total_calls: int
    successful_calls: int
    failed_calls: int
    average_execution_time: float
    """Seconds for a call."""


@dataclass(frozen=True, slots=True)
class ToolDiscovered(Event):
    """A tool was found on a server."""

    event: ClassVar[str] = "tool_discovered"
    server_id: str
    tool_name: str
    annotations: Annotations
    timestamp: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class AnnotationsUpdated(Event):
    """Somebody said how a tool behaves."""

    event: ClassVar[str] = "annotations_updated"
    server_id: str
    tool_name: str
    annotations: Annotations
    timestamp: float
