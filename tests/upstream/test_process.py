"""A start that nobody waits for any longer ends without a complaint, on every loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from trunkline.upstream.process import open_warden


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("turns", range(6))
def test_a_start_can_be_interrupted_at_any_moment(
    turns: int, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def interrupted() -> None:
        async with open_warden() as warden:
            start = asyncio.ensure_future(
                warden.spawn("one", ["cat"], env={"PATH": os.defpath}, cwd="", output=asyncio.Protocol)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            start.cancel()
            with pytest.raises(asyncio.CancelledError):
                await start
            assert warden.running == 0

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(interrupted())
