"""What a registry tells of, under the names of ART's events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.events import Event
from trunkline.tenancy.servers import ServerScope

if TYPE_CHECKING:
    from trunkline.manager.proxy_tool import McpProxyTool


@dataclass(frozen=True)
class ServerRegistered(Event):
    """A server was registered."""

    server_id: str
    scope: ServerScope
    user_id: str


@dataclass(frozen=True)
class ServerUpdated(ServerRegistered):
    """A registered server was changed."""


@dataclass(frozen=True)
class ServerUnregistered(ServerRegistered):
    """A server was taken out."""


@dataclass(frozen=True)
class ServerConnected(Event):
    """A server can be reached."""

    server_id: str
    user_id: str
    """Whose server it is; empty for everybody's."""


@dataclass(frozen=True)
class ServerDisconnected(ServerConnected):
    """A server that could be reached is stopped, or gone."""


@dataclass(frozen=True)
class ServerError(ServerConnected):
    """A server cannot be reached, or not without authorization; it is tried again."""

    reason: str


@dataclass(frozen=True)
class ToolLoaded(Event):
    """A tool is ready to be given to a model."""

    tool_key: str
    """The name that it is called by."""
    server_id: str
    tool_name: str
    """The server's own name for it."""
    user_id: str
    tool: McpProxyTool


@dataclass(frozen=True)
class ToolUnloaded(Event):
    """A tool was unloaded, or its server no longer has it."""

    tool_key: str
    user_id: str


@dataclass(frozen=True)
class ToolCalled(Event):
    """A loaded tool was called."""

    tool_key: str
    user_id: str
    duration: float
    """Seconds."""


EVENTS = (
    ServerRegistered,
    ServerUpdated,
    ServerUnregistered,
    ServerConnected,
    ServerDisconnected,
    ServerError,
    ToolLoaded,
    ToolUnloaded,
    ToolCalled,
)
