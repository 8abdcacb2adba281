"""How calls are gathered into batches: the options."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trunkline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How calls are gathered into batches."""

    max_batch_size: int = 10
    """Requests in a batch; when as many wait for one server, they go."""
    max_wait: float = 0.1
    """Seconds that a request waits for company at most, while its server is at work."""
    enable_parallel: bool = True
    """Run batches side by side; otherwise one at a time in all."""
    max_concurrent_batches: int = 5
    """Batches in flight at once, over all servers."""
    group_by_server: bool = True
    """A batch holds requests to one server; otherwise to any."""
    max_batches_per_server: int = 0
    """Batches in flight to one server; 0 means half of all, so that a stuck server leaves room for others."""
    max_queue: int = 1000
    """Requests that may wait for one server; further ones are refused."""
    batch_timeout: float = 60.0
    """Seconds that a batch may take."""

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_concurrent_batches", "max_queue"):
            if getattr(self, name) < 1:
                raise ConfigError(f"`{name}` is {getattr(self, name)}.", hint="Give 1 or more.")
        if self.max_batches_per_server < 0:
            raise ConfigError(f"`max_batches_per_server` is {self.max_batches_per_server}.", hint="Give 0 or more.")
        if not (self.max_wait >= 0 and math.isfinite(self.max_wait)):
            raise ConfigError(f"`max_wait` is {self.max_wait:g}.", hint="Give the seconds, 0 or more.")
        if not (self.batch_timeout > 0 and math.isfinite(self.batch_timeout)):
            raise ConfigError(f"`batch_timeout` is {self.batch_timeout:g}.", hint="Give the seconds, more than 0.")


DEFAULT_BATCH_CONFIG = BatchConfig()
