"""The stage that keeps servers from being crowded: so many calls at once, a fair queue, and then a clear refusal."""

from __future__ import annotations

from functools import partial

from trunkline.call.call_key import sameness, share
from trunkline.call.lanes import Lanes, Pace
from trunkline.call.single_flight import SingleFlight
from trunkline.call.stage import Handler
from trunkline.model import Call, Reply
from trunkline.tool import Annotations
from trunkline.tools.annotations import only_reads
from trunkline.upstream.connection_key import can_be_asked


class BatchStage:
    """Lets calls into the lane of their server; a parked call is beyond it already."""

    def __init__(self, lanes: Lanes, *, coalesce: bool) -> None:
        self.lanes, self._coalesce = lanes, coalesce
        self._flights: SingleFlight[Reply] = SingleFlight()
        self._pace = Pace()

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        if call.parked is not None:
            return await call_next(call)
        if call.entry is not None and call.entry.annotations.rate_limit_hint:
            self._pace.check(call.server, call.entry.name, call.entry.annotations.rate_limit_hint)
        if (
            self._coalesce
            and call.entry is not None
            and _shareable(call.entry.annotations)
            and not can_be_asked(call.caller)
        ):
            same = sameness(call, call.server) if call.cached else ""
            if same:
                return await self._together(same, call, call_next)
        # As `_in_lane`, but here: the usual call is spared a frame.
        lane, owner = self.lanes.of(call.server), call.scope.holder
        if not lane.try_enter(owner):
            call.note("batch", "waiting")
            await lane.enter(owner)
            call.note("batch", "entered")
        try:
            return await call_next(call)
        finally:
            lane.leave(owner)

    async def _together(self, key: str, call: Call, call_next: Handler) -> Reply:
        """Equal calls that read share one; who was not the one to ask gets a copy of the answer, and no question."""
        reply, own = await share(self._flights, key, call, partial(self._in_lane, call, call_next))
        if own:
            return reply
        call.note("batch", "shared")
        if reply.questions or reply.error or b"input_required" in reply.result:
            return await self._in_lane(call, call_next)
        return Reply(result=reply.result, modern=reply.modern)

    async def _in_lane(self, call: Call, call_next: Handler) -> Reply:
        lane, owner = self.lanes.of(call.server), call.scope.holder
        if not lane.try_enter(owner):
            call.note("batch", "waiting")
            await lane.enter(owner)
            call.note("batch", "entered")
        try:
            return await call_next(call)
        finally:
            lane.leave(owner)


def _shareable(known: Annotations) -> bool:
    """Whether two calls at the same time have one answer: what draws lots gives each its own."""
    return only_reads(known) and known.volatile_hint is not True
