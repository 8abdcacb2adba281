"""The roster: which servers take part, which of them share calls, and which tool prefers whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from trunkline.balance.member import ServerWeight
from trunkline.balance.strategies import Value
from trunkline.errors import ConfigError
from trunkline.tool import Tool

LoadBalancingStrategy = Literal["round-robin", "least-loaded", "random", "weighted", "failover-only"]
CONNECTED = "connected"
UNLISTED_WEIGHT = 1.0
LAST = 1e9
"""The rank of servers without a priority: after all others, in the order they came."""


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


class Groups:
    """Servers by id, groups by id, and preferred servers by tool; all in the order they came."""

    def __init__(self) -> None:
        self.servers: dict[str, ServerInfo] = {}
        self.groups: dict[str, ServerGroup] = {}
        self.preferences: dict[str, str] = {}

    def known(self, server_id: str) -> ServerInfo:
        """A server that takes part; raises `ConfigError` for any other."""
        server = self.servers.get(server_id)
        if server is None:
            raise ConfigError(f"There is no server {server_id!r}.", hint="Add it with `add_server`.")
        return server

    def groups_of(self, server_id: str) -> list[ServerGroup]:
        """The groups that a server is in."""
        return [group for group in self.groups.values() if server_id in group.members]

    def conflict(self, servers: Collection[str]) -> bool:
        """Whether these are several servers that do not share a group."""
        return len(servers) > 1 and not any(group.members.issuperset(servers) for group in self.groups.values())

    def weights(self, group: ServerGroup | None) -> Value:
        """What servers weigh within a group; without one all weigh the same."""
        listed = {weight.server_id: weight.weight for weight in (group.weights if group else ())}
        return lambda member: listed.get(member.name, UNLISTED_WEIGHT)

    def priorities(self, group: ServerGroup | None) -> Value:
        """How early servers are asked: as their group says, else as any group says, else as they came."""
        ranks = self.ranks(group)
        return lambda member: ranks.get(member.name, LAST)

    def ranks(self, group: ServerGroup | None = None) -> dict[str, float]:
        """The same as numbers by server."""
        ranks = {server_id: LAST + index for index, server_id in enumerate(self.servers)}
        for other in (*self.groups.values(), *((group,) if group else ())):
            ranks |= {weight.server_id: weight.priority for weight in other.weights}
        return ranks
