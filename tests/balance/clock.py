"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """Time that passes only when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Let time go on."""
        self.now += seconds
