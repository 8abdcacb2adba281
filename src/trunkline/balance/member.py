"""One server as a choice: its weight, its load, and whether it may take a call."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trunkline.balance.health import WELL, HealthState, Phase, Record
from trunkline.balance.strategies import Loads, Order
from trunkline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """How much of the load a server should have, and how early it is asked."""

    weight: float = 1.0
    """Share of the calls under `weighted`, rank under `priority`; 0 takes calls only when nobody else can."""
    priority: float = 0.0
    """Rank under `failover-only`; the lowest goes first."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ConfigError(f"A weight of {self.weight} is not usable.", hint="Give a `weight` of 0 or more.")
        if math.isnan(self.priority):
            raise ConfigError("A priority must be a number.", hint="The lowest `priority` goes first.")


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
        object.__setattr__(self, "capabilities", tuple(self.capabilities))


@dataclass(frozen=True, slots=True)
class MemberState:
    """How a server fares at one moment, for showing."""

    server: str
    load: int
    healthy: bool
    """The flag that somebody set; passive health does not touch it."""
    phase: Phase
    """Where passive health has it."""
    available: bool
    """Whether it may take a call now."""
    weight: float
    priority: float
    failures: int
    """Failures in a row."""
    calls: int
    """Calls that ended within the window."""
    errors: int
    ejections: int
    """Ejections in close succession; each doubles the next."""
    until: float
    """When the phase ends by itself, on the circle's clock; 0 where it does not."""


class Member:
    """A server's state, shared by all slates that it is on."""

    __slots__ = ("available", "healthy", "load", "name", "options", "orders", "record", "standing", "watchers")

    def __init__(self, name: str, options: MemberOptions, record: Record) -> None:
        self.name = name
        self.options = options
        self.load = 0
        self.healthy = True
        self.available = True
        self.standing: HealthState = WELL
        self.record = record
        self.orders: list[Order] = []
        """Who must hear when the member comes or goes."""
        self.watchers: list[Loads] = []
        """Who must hear when its load changes."""

    def shift(self, delta: int) -> None:
        """Change the load; it never falls below 0."""
        load = self.load + delta
        self.load = load if load > 0 else 0
        for watcher in self.watchers:
            watcher.moved(self)

    def state(self) -> MemberState:
        """A picture of it."""
        standing = self.standing
        return MemberState(
            server=self.name,
            load=self.load,
            healthy=self.healthy,
            phase=standing.phase,
            available=self.available,
            weight=self.options.weight,
            priority=self.options.priority,
            failures=self.record.in_a_row,
            calls=self.record.calls,
            errors=self.record.errors,
            ejections=standing.ejections,
            until=standing.until,
        )
