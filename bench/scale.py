"""How much is measured: enough for a figure, or, with BENCH=smallest, so little that one sees it run to its end."""

from __future__ import annotations

import os

SMALLEST = os.environ.get("BENCH") == "smallest"


def sized(usual: int, *, smallest: int) -> int:
    """How often, or how many."""
    return smallest if SMALLEST else usual
