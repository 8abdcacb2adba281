"""What is written down about servers and groups of them: tools, weights, strategies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from trunkline.errors import ConfigError
from trunkline.tool import Tool

LoadBalancingStrategy = Literal["round-robin", "least-loaded", "random", "weighted", "failover-only"]
CONNECTED = "connected"


@dataclass(frozen=True, slots=True)
class ServerWeight:
    """What is written down about one server: its weight (0 to 100), its priority, what it can do."""

    server_id: str
    weight: float = 50.0
    priority: float = 0.0
    """Rank under `failover-only`; the lowest goes first."""
    capabilities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 100:
            raise ConfigError(
                f"Server {self.server_id!r} has a weight of {self.weight}.", hint="Give a `weight` from 0 to 100."
            )
        if math.isnan(self.priority):
            raise ConfigError("A priority must be a number.", hint="The lowest `priority` goes first.")
        object.__setattr__(self, "capabilities", tuple(self.capabilities))


@dataclass(frozen=True)
class ServerInfo:
    """A server and its tools."""

    id: str
    name: str = ""
    description: str = ""
    transport: str = "stdio"
    status: str = CONNECTED
    """Only a server that is `connected` counts as healthy."""
    tools: Sequence[Tool] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise ConfigError("A server has no id.", hint="Give it an `id`.")
        object.__setattr__(self, "tools", tuple(self.tools))


@dataclass(frozen=True)
class ServerGroup:
    """Servers that share calls."""

    id: str
    servers: Sequence[str]
    name: str = ""
    description: str = ""
    strategy: LoadBalancingStrategy | None = None
    """`None` takes the manager's."""
    weights: Sequence[ServerWeight] = ()
    """Unlisted servers have a weight of 1, and come last under `failover-only`."""
    health_aware: bool | None = None
    """`None` takes the manager's."""
    min_healthy_servers: int = 0
    """With fewer healthy ones `group_degraded` is emitted; the group works on."""
    members: frozenset[str] = field(init=False, repr=False, compare=False)
    """The servers, for looking up."""

    def __post_init__(self) -> None:
        if self.strategy not in (None, *get_args(LoadBalancingStrategy)):
            raise ConfigError(
                f"Group {self.id!r} has an unknown strategy.",
                hint=f"Choose one of {', '.join(get_args(LoadBalancingStrategy))}.",
            )
        if self.min_healthy_servers < 0:
            raise ConfigError(
                f"Group {self.id!r} cannot have that few servers.", hint="Give a `min_healthy_servers` of 0 or more."
            )
        object.__setattr__(self, "servers", tuple(dict.fromkeys(self.servers)))
        object.__setattr__(self, "members", frozenset(self.servers))
        object.__setattr__(self, "weights", tuple(self.weights))
