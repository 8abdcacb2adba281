"""Examines one server: before it is started, while it starts, and what it offers then."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from trunkline.config.options import ServerSpec
from trunkline.control.listing import discover
from trunkline.doctor.answer import explain_answer
from trunkline.doctor.finding import Finding, Severity
from trunkline.doctor.offer import examine_lists
from trunkline.doctor.program import DOWNLOADERS, examine_program
from trunkline.doctor.start import explain_start, prints
from trunkline.doctor.unreachable import explain_connection
from trunkline.doctor.watch import WatchingWarden
from trunkline.doctor.words import scrubbed
from trunkline.errors import ConfigError, TrunklineError
from trunkline.model import Answer, Kind, ServerView, State
from trunkline.tasks import open_tasks
from trunkline.upstream.pool import ConnectionKey, Pool, PoolEvents
from trunkline.wire.envelope import error_object


@dataclass(frozen=True)
class Examined:
    """How one server fares."""

    name: str
    findings: tuple[Finding, ...] = ()
    view: ServerView | None = None
    """What it offers; `None` when it was not reached."""

    @property
    def words(self) -> str:
        """How it fares, in a few words."""
        if self.view is None:
            return "does not work"
        tools = self.view.lists.get(Kind.TOOL)
        count = len(tools.items) if tools else 0
        return f"works, {count} {'tool' if count == 1 else 'tools'}"


@dataclass(frozen=True)
class Room:
    """Where servers are examined."""

    pool: Pool
    warden: WatchingWarden
    env: Mapping[str, str]
    folder: Path
    file: Path | None
    timeout: float
    now: float

    async def examine(self, spec: ServerSpec) -> Examined:
        """Find out whether a server works, and if not, why not; it is ended in any case."""
        examined = await self._examine(spec)
        return dataclasses.replace(examined, findings=tuple(_scrubbed(one, spec) for one in examined.findings))

    async def _examine(self, spec: ServerSpec) -> Examined:
        quick = dataclasses.replace(
            spec,
            start_timeout=min(spec.start_timeout, self.timeout),
            timeout=min(spec.timeout, self.timeout),
            lifecycle="singleton",
        )
        if quick.kind == "stdio":
            found = await asyncio.to_thread(examine_program, quick, self.env, self.folder)
            if found is not None:
                return Examined(spec.name, (found,))
        try:
            # A start, a look around after it failed, and a list that takes its time: each has its own deadline.
            async with asyncio.timeout(3 * self.timeout + 10):
                return await self._reach(quick)
        except TimeoutError:
            seen = f"it takes more than {3 * self.timeout + 10:g} s to start and list what it offers."
            return Examined(spec.name, (Finding("TL402", seen, "Read its log: what does it do?", server=spec.name),))
        finally:
            await self.pool.remove(spec.name)

    async def _reach(self, spec: ServerSpec) -> Examined:
        witness = self.warden.witness(spec.name)
        async with open_tasks() as tasks:
            if Path(spec.command).name in DOWNLOADERS:
                tasks.start(witness.look(), name=f"watch {spec.name}")
            try:
                connection = await self.pool.open(spec)
            except TrunklineError as error:
                return Examined(spec.name, (await self._explain(spec, error),))
        lists = await discover(connection, spec)
        findings = examine_lists(spec, lists)
        if witness.stray:
            findings.insert(0, prints(spec, witness, Severity.WARNING))
        view = ServerView(spec.name, State.READY, introduction=connection.introduction, lists=lists)
        return Examined(spec.name, tuple(findings), view)

    async def _explain(self, spec: ServerSpec, error: TrunklineError) -> Finding:
        if isinstance(error, ConfigError):
            return Finding("TL105", error.message, error.hint or "Write another.", server=spec.name)
        if spec.kind == "stdio":
            return explain_start(spec, error, self.warden.witness(spec.name))
        found = await explain_connection(spec, error, self.now)
        return found or await explain_answer(spec, error, self.pool, self.file, min(self.timeout, 10.0))


@asynccontextmanager
async def open_room(
    env: Mapping[str, str], folder: Path, file: Path | None, timeout: float, now: float
) -> AsyncGenerator[Room]:
    """A room for the body; with it end all servers that were started in it."""
    warden = WatchingWarden()
    try:
        async with open_tasks() as tasks:
            pool = Pool(tasks, warden, PoolEvents(_unheard, lambda _: None, _nobody))
            try:
                yield Room(pool, warden, env, folder, file, timeout, now)
            finally:
                await pool.close()
    finally:
        warden.close()
        await warden.closed()
        for _ in range(3):  # connections that were cut are closed in the loop's next turns
            await asyncio.sleep(0)


def _scrubbed(finding: Finding, spec: ServerSpec) -> Finding:
    words = {name: scrubbed(getattr(finding, name), spec) for name in ("seen", "advice", "command")}
    return dataclasses.replace(finding, **words)


def _unheard(key: ConnectionKey, method: str, params: bytes) -> None:
    """What servers say unasked is of no use here."""


def _nobody(owner: str, method: str, params: bytes) -> asyncio.Future[Answer]:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(Answer(error=error_object(-32601, f"Nobody can be asked {method!r}.")))
    return future
