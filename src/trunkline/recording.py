"""What is known of calls that run, and of those that ended: one place for everyone who wants to know."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from trunkline.config.options import Config
from trunkline.telemetry.record import CallRecord, Reader, Records
from trunkline.telemetry.traces import Traces, open_traces


class Recording:
    """Has records made only where somebody reads them."""

    def __init__(self, config: Config, *, watched: bool) -> None:
        self.records = Records()
        """Calls that run, and readers of those that ended."""
        self._watched = watched
        self.past: deque[CallRecord] = deque(maxlen=0)
        """Calls that ended, the latest last."""
        self._traces: Traces | None = None
        self._left: list[Traces] = []
        """Those of former options, which may have something to send."""
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take on other options; what is kept stays as far as it fits."""
        keep = config.calls.keep if self._watched else 0
        if keep != self.past.maxlen:
            self.past = deque(self.past, maxlen=keep)
        readers: list[Reader] = []
        if keep:
            readers.append(self._remember)
        self._configure_traces(config)
        if self._traces is not None:
            readers.append(self._traces.take)
        self.records.readers = tuple(readers)

    async def close(self) -> None:
        """Let readers have what they have not read yet."""
        self.records.drain()
        for traces in (*self._left, *([self._traces] if self._traces is not None else ())):
            await traces.close()

    def _configure_traces(self, config: Config) -> None:
        if (self._traces.section if self._traces is not None else None) != config.traces:
            if self._traces is not None:
                self._left.append(self._traces)
            self._traces = open_traces(config.traces)
        self.records.tracer = self._traces.tracer if self._traces is not None else None

    def _remember(self, ended: Sequence[CallRecord]) -> None:
        self.past.extend(ended)
