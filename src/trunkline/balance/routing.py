"""What a router is told and what it says: options, whose call it is, decisions, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, get_args

from trunkline.balance.balancer import DEFAULT_HEALTH, Subset
from trunkline.balance.groups import ServerWeight
from trunkline.balance.health import HealthOptions
from trunkline.balance.strategies import STRATEGIES, Strategy
from trunkline.config.options import Choice, RoutingOptions
from trunkline.errors import ConfigError, NoServerError
from trunkline.events import Event

RoutingStrategy = Strategy


def check_options(who: str, rules: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse the first option whose rule is broken, by its name."""
    for option, fine, rule in rules:
        if not fine:
            raise ConfigError(f"The {who}'s option {option!r} is not usable.", hint=f"Note that {rule}.")


@dataclass(frozen=True)
class RouterConfig(RoutingOptions):
    """The options of a router."""

    server_weights: Sequence[ServerWeight] = ()
    """Weights, and what servers can do; an unlisted server has a weight of 50, but is no primary."""
    health_check_interval: float = 30.0
    """Seconds between two rounds of `open_health_checks`."""
    health_check_timeout: float = 5.0
    """Seconds that a health check waits for one server."""
    max_affinities: int = 10_000
    """Affinities that are kept; beyond it the one unused longest goes."""
    health: HealthOptions = DEFAULT_HEALTH
    """When failing servers are left out, and how they come back."""

    def __post_init__(self) -> None:
        listed = [weight.server_id for weight in self.server_weights]
        positive = ("health_check_interval", "health_check_timeout", "affinity_ttl", "max_affinities")
        choices = get_args(Choice)
        check_options(
            "router",
            [
                ("strategy", self.strategy in STRATEGIES, f"it is one of {', '.join(STRATEGIES)}"),
                ("fallback_strategy", self.fallback_strategy in choices, f"it is one of {', '.join(choices)}"),
                ("max_retries", self.max_retries >= 0, "it is 0 or more"),
                *((name, getattr(self, name) > 0, "it is above 0") for name in positive),
                ("retry_ratio", 0 <= self.retry_ratio <= 1, "it is from 0 to 1"),
                ("server_weights", len(set(listed)) == len(listed), "it lists a server once"),
            ],
        )
        categories = {category: tuple(servers) for category, servers in self.category_mapping.items()}
        object.__setattr__(self, "category_mapping", MappingProxyType(categories))
        object.__setattr__(self, "server_weights", tuple(self.server_weights))


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

    @property
    def plain_key(self) -> str:
        """The session or user itself, as a program may name it; empty where it could be taken for another's key."""
        plain = "" if self.tenant else self.session_id or self.user_id
        return "" if plain.startswith(("session:", "user:")) else plain


NO_CONTEXT = RouteContext()


@dataclass(slots=True)  # not frozen: one is made for every call, and that would double its cost
class RoutingDecision:
    """Where a call goes, and why."""

    server_id: str
    strategy: Strategy
    confidence: float
    reason: str
    subset: Subset = field(repr=False, compare=False)

    @property
    def alternates(self) -> tuple[str, ...]:
        """Who else could take it, in order; found when asked for."""
        return self.subset.ranked(exclude=(self.server_id,))


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
