"""Options of what is kept of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CallsSection:
    """`[calls]`: past calls that can be looked at: who called what, how it ended and how long it took."""

    keep: int = 1000
    """Past calls that are kept; 0 keeps none, and shows none that run."""


@dataclass(frozen=True)
class TracesSection:
    """`[traces]`: spans of calls, sent to a collector over OTLP; needs `trunkline[otel]`."""

    enabled: bool = False
    """Trace calls at all."""
    endpoint: str = "http://localhost:4318/v1/traces"
    """Where the collector takes traces over HTTP."""
    sample_ratio: float = 1.0
    """Share of calls that are traced, from 0 to 1, where the caller does not say whether it traces its own."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Headers that the collector wants, such as a key. Write `${secret:NAME}` to keep it out of the file."""
    include_arguments: bool = False
    """Put the arguments of calls into spans; they may hold secrets."""
