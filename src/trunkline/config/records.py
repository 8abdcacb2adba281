"""Options of what is kept and told of calls: past calls, metrics, the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trunkline.errors import ConfigError


@dataclass(frozen=True)
class CallsSection:
    """`[calls]`: past calls that can be looked at: who called what, how it ended and how long it took."""

    keep: int = 10_000
    """Past calls that are kept: in the store, where there is one, else the last 1000 in memory. 0 keeps none."""
    days: float = 30.0
    """Days after which those in the store are forgotten, with what was used in them."""

    def __post_init__(self) -> None:
        if self.keep < 0 or self.days < 0:
            raise ConfigError("[calls]: `keep` and `days` are 0 or more.")


@dataclass(frozen=True)
class MetricsSection:
    """`[metrics]`: numbers at `/metrics` for Prometheus and whoever reads its format."""

    enabled: bool = True
    """Serve them."""
    token: str = field(default="", repr=False)
    """Bearer token that lets whoever collects metrics read these, and nothing else. Write `${env:NAME}`."""
    tools: int = 500
    """Tools that are told apart; the calls of further ones are counted together for each server."""

    def __post_init__(self) -> None:
        if self.tools < 0:
            raise ConfigError("metrics.tools is less than 0.")
        if self.token and len(self.token) < 16:
            raise ConfigError("metrics.token is too short to be safe.", hint="Use 16 characters or more.")


@dataclass(frozen=True)
class AuditSection:
    """`[audit]`: a record of calls, questions, sign-ins, changes, refusals and processes that nobody changes unseen."""

    enabled: bool = False
    """Write it."""
    folder: str = ""
    """The folder of its files, on a disk of this machine; default is `audit` in the home folder."""
    on_failure: Literal["warn", "refuse"] = "warn"
    """What happens when it cannot be written: an error in the log, or no call is let through until it can be."""
    file_bytes: int = 16 * 2**20
    """Bytes after which a new file is begun."""
    max_bytes: int = 2**30
    """Bytes that all files may have together; the oldest go first."""
    days: float = 365.0
    """Days after which files go."""

    def __post_init__(self) -> None:
        if self.file_bytes < 4096 or self.max_bytes < 2 * self.file_bytes or self.days <= 0:
            hint = "`file_bytes` is 4096 or more, `max_bytes` at least twice that, and `days` more than 0."
            raise ConfigError("The sizes in [audit] cannot be.", hint=hint)


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
