"""When a server that failed may be tried again: soon at first, then less and less often."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
PATIENCE = 1.0
"""Seconds that a call waits for the next try rather than fail at once."""
SHORT_LIFE = 10.0
"""A connection that lived less than this counts as failed, so that a crash loop slows down."""


@dataclass(slots=True)
class Backoff:
    """Counts failures in a row; open while there is none."""

    failures: int = 0
    closed_until: float = 0.0
    reason: str = ""

    def wait(self, now: float) -> float:
        """Seconds until the next try; 0 when it may be now."""
        return max(0.0, self.closed_until - now)

    def failed(self, now: float, reason: str, chance: float) -> None:
        """Close for a while; `chance`, between 0 and 1, spreads the tries of many."""
        self.failures += 1
        # The first failure is forgiven: one crash must not cost the next caller anything.
        wait = 0.0 if self.failures == 1 else min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self.failures - 2, 10))
        self.closed_until = now + wait * (0.5 + chance / 2)
        self.reason = reason

    def connected(self) -> None:
        """Open, but not forgotten: a server that starts and dies at once must not be started without end."""
        self.closed_until = 0.0

    def lasted(self) -> None:
        """A connection lived long enough; what was before no longer counts."""
        self.failures = 0
        self.closed_until = 0.0
        self.reason = ""
