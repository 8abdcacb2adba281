"""The stage around all others: whatever becomes of a call, there is a record of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from trunkline.call.stage import Handler
from trunkline.model import Call, Reply
from trunkline.telemetry.record import Records


class RecordStage:
    """Notes that a call began, and how it ended; records are made of that behind the call."""

    def __init__(self, records: Records, admit: Callable[[], None] | None = None) -> None:
        self._begin, self._end, self._admit = records.begin, records.end, admit

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        reply: Reply | None = None
        running = self._begin(call)
        try:
            if self._admit is not None:
                self._admit()
            reply = await call_next(call)
            return reply
        finally:
            self._end(running, reply, sys.exception() if reply is None else None)
