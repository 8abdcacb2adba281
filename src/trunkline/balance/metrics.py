"""What became of a server's calls, counted for people."""

from __future__ import annotations

from dataclasses import dataclass

NEWS = 0.1
"""How much of the error rate the last call is."""


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


class Tally:
    """Counts one server's requests; completed ones are never more than all."""

    __slots__ = ("active", "by_hand", "checked", "completed", "error_rate", "seconds", "total")

    def __init__(self) -> None:
        self.active = 0
        self.by_hand = 0
        """Those of the active ones that somebody started by hand, and not with a lease."""
        self.total = 0
        self.completed = 0
        self.seconds = 0.0
        self.error_rate = 0.0
        self.checked = 0.0

    def start(self) -> None:
        """A request begins."""
        self.active += 1
        self.total += 1

    def unmake(self) -> None:
        """A request that began is not made after all."""
        self.active -= 1
        self.total -= 1

    def complete(self, seconds: float, ok: bool) -> None:
        """A request ended."""
        self.active -= 1
        self.completed += 1
        self.seconds += max(0.0, seconds)
        self.error_rate += NEWS * ((0.0 if ok else 1.0) - self.error_rate)

    def metrics(self, *, healthy: bool) -> ServerMetrics:
        """A copy of the figures."""
        return ServerMetrics(
            active_requests=self.active,
            total_requests=self.total,
            completed_requests=self.completed,
            average_response_time=self.seconds / self.completed if self.completed else 0.0,
            error_rate=self.error_rate,
            last_health_check=self.checked,
            is_healthy=healthy,
        )
