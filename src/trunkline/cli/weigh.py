"""What servers cost a model in every request, told by starting them once."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.cli.open import run
from trunkline.cli.tokens import Cost, bill_of
from trunkline.config.options import Config, ServerSpec
from trunkline.hub import Hub, open_hub
from trunkline.model import State
from trunkline.tasks import open_tasks
from trunkline.tools.tokens import can_count, counted, estimated


@dataclass(frozen=True)
class Weight:
    """What each server costs by itself, and what all cost through Trunkline."""

    servers: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    away: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers that could not be asked, and why."""
    through: Cost = field(default_factory=lambda: Cost(0, 0))
    exact: bool = True


def weigh(config: Config, specs: Mapping[str, ServerSpec], seconds: float, tell: Callable[[str], None]) -> Weight:
    """Start these servers side by side, count what they list, and stop them; nothing of it is kept."""
    with tempfile.TemporaryDirectory(prefix="trunkline-") as folder:
        quick = {
            name: dataclasses.replace(spec, start_timeout=min(spec.start_timeout, seconds), health_interval=0.0)
            for name, spec in specs.items()
            if spec.enabled
        }
        alone = dataclasses.replace(config, servers=quick, groups={}, profiles={}, home=Path(folder), source=None)
        return run(lambda: _weigh(alone, seconds, tell))


async def _weigh(config: Config, seconds: float, tell: Callable[[str], None]) -> Weight:
    count = counted if can_count() else estimated
    async with open_hub(config) as hub:
        news = _News(hub, tell)
        async with open_tasks() as tasks:
            tasks.start(news.follow(), name="progress")
            await hub.ready(seconds)
        news.tell_new()
        bill = bill_of(await hub.tools(), count)
        away = {
            view.name: view.reason or f"not ready after {seconds:g} s"
            for view in hub.servers()
            if view.state not in (State.READY, State.DEGRADED)
        }
        well = {view.name: Cost(0, 0) for view in hub.servers() if view.name not in away}
        return Weight({**well, **bill.servers}, away, bill_of(hub.view().tools, count).total, can_count())


class _News:
    """One line whenever another server answered or failed."""

    def __init__(self, hub: Hub, tell: Callable[[str], None]) -> None:
        self._hub = hub
        self._tell = tell
        self._told: set[str] = set()

    async def follow(self) -> None:
        while True:
            self.tell_new()
            await asyncio.sleep(0.05)

    def tell_new(self) -> None:
        views = self._hub.servers()
        for view in views:
            if view.state is not State.STARTING and view.name not in self._told:
                self._told.add(view.name)
                how = "ready" if view.state in (State.READY, State.DEGRADED) else view.reason or view.state.value
                self._tell(f"  [{len(self._told)}/{len(views)}] {view.name}: {how}")
