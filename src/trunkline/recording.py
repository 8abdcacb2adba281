"""What is known of calls that run, and of those that ended: one place for everyone who wants to know."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from trunkline.config.options import Config
from trunkline.telemetry.record import CallRecord, Reader, Records


class Recording:
    """Has records made only where somebody reads them."""

    def __init__(self, config: Config, *, watched: bool) -> None:
        self.records = Records()
        """Calls that run, and readers of those that ended."""
        self._watched = watched
        self.past: deque[CallRecord] = deque(maxlen=0)
        """Calls that ended, the latest last."""
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take on other options; what is kept stays as far as it fits."""
        keep = config.calls.keep if self._watched else 0
        if keep != self.past.maxlen:
            self.past = deque(self.past, maxlen=keep)
        readers: list[Reader] = []
        if keep:
            readers.append(self._remember)
        self.records.readers = tuple(readers)

    def _remember(self, ended: Sequence[CallRecord]) -> None:
        self.past.extend(ended)
