"""Options of what is kept of calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallsSection:
    """`[calls]`: past calls that can be looked at: who called what, how it ended and how long it took."""

    keep: int = 1000
    """Past calls that are kept; 0 keeps none, and shows none that run."""
