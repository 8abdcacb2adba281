"""What happens to a server of one's own, its tools, resources and prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trunkline.events import Event
from trunkline.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolRegistered(Event):
    """A tool was added."""

    tool_name: str
    tool: Tool


@dataclass(frozen=True, slots=True)
class ToolRemoved(Event):
    """A tool was taken away."""

    tool_name: str


@dataclass(frozen=True, slots=True)
class ToolExecuted(Event):
    """A call ended, well or not."""

    tool_name: str
    duration: float
    """Seconds, questions included."""
    success: bool


@dataclass(frozen=True, slots=True)
class ToolFailed(Event):
    """A call failed: the tool raised, took too long, said so itself, or got arguments that do not fit."""

    event: ClassVar[str] = "tool_error"
    tool_name: str
    error: str
    """What the caller is told."""


@dataclass(frozen=True, slots=True)
class ServerReady(Event):
    """The server was initialised."""

    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerStopped(Event):
    """The server was stopped."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRegistered(Event):
    """A resource was added."""

    uri: str
    name: str


@dataclass(frozen=True, slots=True)
class ResourceTemplateRegistered(Event):
    """A template of resources was added."""

    pattern: str


@dataclass(frozen=True, slots=True)
class ResourceUnregistered(Event):
    """A resource or a template was taken away."""

    uri: str


@dataclass(frozen=True, slots=True)
class ResourceRead(Event):
    """A resource was read, or could not be."""

    uri: str
    duration: float
    success: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class ResourceSubscribed(Event):
    """Somebody wants to hear of a resource's changes."""

    uri: str


@dataclass(frozen=True, slots=True)
class ResourceUnsubscribed(Event):
    """Somebody no longer wants to hear of a resource's changes."""

    uri: str


@dataclass(frozen=True, slots=True)
class ResourceChanged(Event):
    """A resource changed."""

    uri: str
    subscriber_count: int
    """Those in this process; callers hear of it besides."""


@dataclass(frozen=True, slots=True)
class PromptRegistered(Event):
    """A prompt was added."""

    name: str


@dataclass(frozen=True, slots=True)
class PromptUnregistered(Event):
    """A prompt was taken away."""

    name: str


@dataclass(frozen=True, slots=True)
class PromptGenerated(Event):
    """A prompt was made, or could not be."""

    name: str
    duration: float
    success: bool
    message_count: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Cleared(Event):
    """All resources and prompts were taken away."""


TOOL_EVENTS = (ToolRegistered, ToolRemoved, ToolExecuted, ToolFailed, ServerReady, ServerStopped)
CAPABILITY_EVENTS = (
    ResourceRegistered,
    ResourceTemplateRegistered,
    ResourceUnregistered,
    ResourceRead,
    ResourceSubscribed,
    ResourceUnsubscribed,
    ResourceChanged,
    PromptRegistered,
    PromptUnregistered,
    PromptGenerated,
    Cleared,
)
