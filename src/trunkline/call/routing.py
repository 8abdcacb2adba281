"""What a router is told and what it says: options, whose call it is, decisions, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from trunkline.balance.balancer import DEFAULT_HEALTH
from trunkline.balance.health import HealthOptions
from trunkline.balance.member import ServerWeight
from trunkline.balance.strategies import STRATEGIES, Strategy
from trunkline.balance.subset import Subset
from trunkline.errors import ConfigError, NoServerError
from trunkline.events import Event

RoutingStrategy = Strategy


def _no_categories() -> Mapping[str, Sequence[str]]:
    return {}


@dataclass(frozen=True)
class RouterConfig:
    """The options of a router."""

    strategy: Strategy = "least-loaded"
    """Who is chosen among the candidates. `affinity` switches affinity on and chooses by `fallback_strategy`."""
    enable_affinity: bool = False
    """Keep a session, or else a user, on one server."""
    category_mapping: Mapping[str, Sequence[str]] = field(default_factory=_no_categories)
    """Servers of each category, besides those that registered it as a capability."""
    server_weights: Sequence[ServerWeight] = ()
    """Weights, and what servers can do; an unlisted server has a weight of 50, but is no primary."""
    fallback_strategy: Strategy = "round-robin"
    """Who is chosen after a server failed a call."""
    max_retries: int = 3
    """Further servers that `run` tries."""
    health_check_interval: float = 30.0
    """Seconds between two rounds of `open_health_checks`."""
    health_check_timeout: float = 5.0
    """Seconds that a health check waits for one server."""
    affinity_ttl: float = 1800.0
    """Seconds that an unused affinity is kept."""
    max_affinities: int = 10_000
    """Affinities that are kept; beyond it the one unused longest goes."""
    destructive_fallback: bool = False
    """Let a destructive call go to a server that is not primary when no primary is well."""
    retry_ratio: float = 0.2
    """Share of the calls that `run` may repeat, besides a few for quiet times."""
    health: HealthOptions = DEFAULT_HEALTH
    """When failing servers are left out, and how they come back."""

    def __post_init__(self) -> None:
        for name in ("strategy", "fallback_strategy"):
            if getattr(self, name) not in STRATEGIES:
                raise _unusable(name, f"it is one of {', '.join(STRATEGIES)}")
        if self.fallback_strategy == "affinity":
            raise _unusable("fallback_strategy", "it chooses where affinity cannot, so it is another one")
        if self.max_retries < 0:
            raise _unusable("max_retries", "it is 0 or more")
        for name in ("health_check_interval", "health_check_timeout", "affinity_ttl", "max_affinities"):
            if not getattr(self, name) > 0:
                raise _unusable(name, "it is above 0")
        if not 0 <= self.retry_ratio <= 1:
            raise _unusable("retry_ratio", "it is from 0 to 1")
        listed = [weight.server_id for weight in self.server_weights]
        if len(set(listed)) < len(listed):
            raise _unusable("server_weights", "it lists a server once")
        categories = {category: tuple(servers) for category, servers in self.category_mapping.items()}
        object.__setattr__(self, "category_mapping", MappingProxyType(categories))
        object.__setattr__(self, "server_weights", tuple(self.server_weights))


def _unusable(option: str, rule: str) -> ConfigError:
    return ConfigError(f"The router's option {option!r} is not usable.", hint=f"Note that {rule}.")


DEFAULT_ROUTER_CONFIG = RouterConfig()


@dataclass(frozen=True, slots=True)
class RouteContext:
    """Whose call it is, and what its server must be able to do."""

    session_id: str = ""
    user_id: str = ""
    tenant: str = ""
    capabilities: tuple[str, ...] = ()

    @property
    def affinity_key(self) -> str:
        """The session, or else the user, within the tenant; empty when neither is known."""
        if not self.session_id and not self.user_id:
            return ""
        # Without the escape, tenant "a:b" with session "c" would be tenant "a" with session "b:c".
        tenant = self.tenant.replace("%", "%25").replace(":", "%3A") if self.tenant else ""
        return f"session:{tenant}:{self.session_id}" if self.session_id else f"user:{tenant}:{self.user_id}"


NO_CONTEXT = RouteContext()


@dataclass(slots=True)  # not frozen: one is made for every call, and that would double its cost
class RoutingDecision:
    """Where a call goes, and why."""

    server_id: str
    strategy: Strategy
    confidence: float
    reason: str
    slate: Subset = field(repr=False, compare=False)

    @property
    def alternates(self) -> tuple[str, ...]:
        """Who else could take it, in order; found when asked for."""
        return self.slate.names(exclude=(self.server_id,))


@dataclass(frozen=True, slots=True)
class RouterStats:
    """A router at one moment."""

    available_servers: int
    healthy_servers: int
    active_affinities: int
    server_loads: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RouteDecided(Event):
    """A server was chosen for a call."""

    event: ClassVar[str] = "route_decision"
    tool_name: str
    decision: RoutingDecision


@dataclass(frozen=True, slots=True)
class RouteFailed(Event):
    """No server was left for a call."""

    event: ClassVar[str] = "route_failed"
    tool_name: str
    error: NoServerError
    attempted_servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AffinitySet(Event):
    """A session or user is now served by this server too."""

    event: ClassVar[str] = "affinity_set"
    key: str
    server_id: str


@dataclass(frozen=True, slots=True)
class AffinityExpired(Event):
    """An affinity was not used for too long."""

    event: ClassVar[str] = "affinity_expired"
    key: str


@dataclass(frozen=True, slots=True)
class HealthUpdated(Event):
    """A server fell ill or came back, because somebody said so or because of its calls."""

    event: ClassVar[str] = "health_update"
    server_id: str
    healthy: bool
