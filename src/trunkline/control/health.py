"""How a server fares, judged by what its calls and checks came to."""

from __future__ import annotations

from dataclasses import dataclass

SICK_AFTER = 3


@dataclass(frozen=True, slots=True)
class Health:
    """Failures in a row, and what the last one was."""

    failures: int = 0
    reason: str = ""

    @property
    def sick(self) -> bool:
        """Whether people should be told."""
        return self.failures >= SICK_AFTER


WELL = Health()


def next_health(health: Health, failure: str) -> Health:
    """Three failures in a row make a server sick; one answer makes it well."""
    if not failure:
        return WELL
    return Health(health.failures + 1, failure)
