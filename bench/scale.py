"""How much is measured: enough for a figure, or, with BENCH=smallest, just enough to see that a bench runs to its end."""

from __future__ import annotations

import os

SMALLEST = os.environ.get("BENCH") == "smallest"


def sized(usual: int, *, smallest: int) -> int:
    """How often, or how many."""
    return smallest if SMALLEST else usual
