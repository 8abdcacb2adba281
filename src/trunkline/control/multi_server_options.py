"""What the manager of groups is told and what it says: options, figures, events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from trunkline.balance.balancer import DEFAULT_HEALTH
from trunkline.balance.groups import LoadBalancingStrategy, ServerGroup, ServerInfo
from trunkline.balance.health import HealthOptions
from trunkline.balance.routing import check_options
from trunkline.control.unified_tools import ConflictResolution
from trunkline.events import Event


@dataclass(frozen=True)
class MultiServerConfig:
    """The options of a manager."""

    default_strategy: LoadBalancingStrategy = "round-robin"
    """Who is chosen where no group says otherwise."""
    health_aware_routing: bool = True
    """Leave out servers that are not well."""
    health_check_interval: float = 30.0
    """Seconds between two rounds of `open_health_checks`."""
    health_check_timeout: float = 5.0
    """Seconds that a health check waits for one server."""
    max_failover_retries: int = 3
    """Further servers that `execute_tool` tries."""
    namespace_separator: str = "."
    """What stands between server and tool in a full name."""
    auto_namespace: bool = False
    """Show every tool under its full name."""
    conflict_resolution: ConflictResolution = "first-wins"
    """Whose tool is shown when servers that share no group offer the same name."""
    retry_ratio: float = 0.2
    """Share of the calls that `execute_tool` may repeat, besides a few for quiet times."""
    health: HealthOptions = DEFAULT_HEALTH
    """When failing servers are left out, and how they come back."""

    def __post_init__(self) -> None:
        strategies, policies = get_args(LoadBalancingStrategy), get_args(ConflictResolution)
        waits = self.health_check_interval > 0 and self.health_check_timeout > 0
        check_options(
            "manager",
            [
                ("default_strategy", self.default_strategy in strategies, f"it is one of {', '.join(strategies)}"),
                ("conflict_resolution", self.conflict_resolution in policies, f"it is one of {', '.join(policies)}"),
                ("health_check_interval", waits, "it and `health_check_timeout` are above 0"),
                ("max_failover_retries", self.max_failover_retries >= 0, "it is 0 or more"),
                ("namespace_separator", bool(self.namespace_separator), "it has at least one character"),
                ("retry_ratio", 0 <= self.retry_ratio <= 1, "it is from 0 to 1"),
            ],
        )


DEFAULT_MULTI_SERVER_CONFIG = MultiServerConfig()


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """A server's figures at one moment."""

    active_requests: int = 0
    total_requests: int = 0
    completed_requests: int = 0
    average_response_time: float = 0.0
    """Seconds, over all completed requests."""
    error_rate: float = 0.0
    """From 0 to 1; the last calls count most."""
    last_health_check: float = 0.0
    """When it was last asked, on the manager's clock; 0 means never."""
    is_healthy: bool = True


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """A manager at one moment."""

    total_servers: int
    healthy_servers: int
    total_groups: int
    degraded_groups: int
    total_tools: int
    conflicting_tools: int
    total_requests: int
    active_requests: int


@dataclass(frozen=True, slots=True)
class ServerAdded(Event):
    """A server takes part."""

    event: ClassVar[str] = "server_added"
    server_id: str
    server: ServerInfo


@dataclass(frozen=True, slots=True)
class ServerRemoved(Event):
    """A server takes part no longer."""

    event: ClassVar[str] = "server_removed"
    server_id: str


@dataclass(frozen=True, slots=True)
class ServerUpdated(Event):
    """What is known about a server changed."""

    event: ClassVar[str] = "server_updated"
    server_id: str
    server: ServerInfo


@dataclass(frozen=True, slots=True)
class GroupCreated(Event):
    """There is a new group, or one was replaced."""

    event: ClassVar[str] = "group_created"
    group: ServerGroup


@dataclass(frozen=True, slots=True)
class GroupRemoved(Event):
    """A group is gone, or lost its last server."""

    event: ClassVar[str] = "group_removed"
    group_id: str


@dataclass(frozen=True, slots=True)
class ServerAddedToGroup(Event):
    """A server joined a group."""

    event: ClassVar[str] = "server_added_to_group"
    server_id: str
    group_id: str


@dataclass(frozen=True, slots=True)
class ServerRemovedFromGroup(Event):
    """A server left a group."""

    event: ClassVar[str] = "server_removed_from_group"
    server_id: str
    group_id: str


@dataclass(frozen=True, slots=True)
class GroupDegraded(Event):
    """A group has fewer healthy servers than it should have."""

    event: ClassVar[str] = "group_degraded"
    group_id: str
    healthy_servers: int
    min_healthy_servers: int


@dataclass(frozen=True, slots=True)
class MetricsUpdated(Event):
    """A server's figures changed."""

    event: ClassVar[str] = "metrics_updated"
    server_id: str
    metrics: ServerMetrics


@dataclass(frozen=True, slots=True)
class ToolPreferenceSet(Event):
    """A tool has a server that it goes to first."""

    event: ClassVar[str] = "tool_preference_set"
    tool_name: str
    server_id: str
