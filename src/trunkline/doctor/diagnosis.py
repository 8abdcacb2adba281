"""Examines everything at once: the configuration first, then servers, home and gateway side by side."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trunkline
from trunkline.clients.client import Around
from trunkline.config.options import Config, default_home
from trunkline.config.server import ServerSpec
from trunkline.control.listing import discover
from trunkline.doctor.answer import explain_answer
from trunkline.doctor.configuration import examine_configuration
from trunkline.doctor.finding import Finding, Severity, is_wrong
from trunkline.doctor.gateway import examine_gateway, examine_held, examine_home, examine_programs
from trunkline.doctor.offer import examine_clients, examine_lists, examine_names
from trunkline.doctor.program import examine_program
from trunkline.doctor.start import explain_start, prints
from trunkline.doctor.unreachable import explain_connection
from trunkline.doctor.watch import WatchingWarden
from trunkline.doctor.words import scrubbed
from trunkline.errors import AuthorizationNeededError, ConfigError, TrunklineError
from trunkline.model import Kind, ServerView, State
from trunkline.tasks import open_tasks
from trunkline.upstream.authorization import nobodys
from trunkline.upstream.download import runner_of
from trunkline.upstream.pool import Pool, PoolEvents

AT_ONCE = 8
"""Servers that are started side by side."""
LONGEST_START = 30.0
CLOCK_SLACK = 2 * 24 * 3600.0

Progress = Callable[[Sequence[str]], None]
"""Told what is still being examined, whenever that changes."""


@dataclass(frozen=True)
class Case:
    """What is examined, and where."""

    path: Path | None
    around: Around
    now: float
    timeout: float | None = None
    """Seconds for each server to be downloaded and start; else what it is configured with, but not beyond reason."""
    only: tuple[str, ...] = ()
    """Servers; empty means everything."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found."""

    findings: tuple[Finding, ...] = ()
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    """How each server fares, in a few words."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not is_wrong(self.findings)


async def diagnose(case: Case, progress: Progress) -> Diagnosis:
    """Find out what is wrong. A name that is no server's is a ConfigError: wrong use, not a finding."""
    env = case.around.env
    configured = await asyncio.to_thread(examine_configuration, case.path, env)
    for name in case.only:
        if configured.config is not None and name not in configured.names:
            known = ", ".join(configured.names) or "none"
            raise ConfigError(f"There is no server {name!r}.", hint=f"There are: {known}.")
    findings = [one for one in configured.findings if not case.only or one.server in (*case.only, "")]
    servers = {name: "cannot be used as it is written" for name in configured.broken if _wanted(name, case)}
    config = configured.config
    examined: list[Examined] = []
    if config is not None:
        specs = [spec for name, spec in config.servers.items() if _wanted(name, case)]
        servers |= {spec.name: "is switched off" for spec in specs if not spec.enabled}
        servers |= {spec.name: "is not ready" for spec in specs if spec.problem and spec.enabled}
        chosen = [spec for spec in specs if spec.enabled and not spec.problem]
        async with open_room(env, case.around.folder, case.path, case.timeout, case.now) as room:
            examined = await _all(room, chosen, progress)
        servers |= {one.name: one.words for one in examined}
        findings = _milder(findings, examined)
    findings += [found for one in examined for found in one.findings]
    if not case.only:
        findings += await _rest(case, config, examined)
    order = list(Severity)
    return Diagnosis(tuple(sorted(dict.fromkeys(findings), key=lambda one: order.index(one.severity))), servers)


def _wanted(name: str, case: Case) -> bool:
    return not case.only or name in case.only


async def _all(room: Room, specs: Iterable[ServerSpec], progress: Progress) -> list[Examined]:
    turns = asyncio.Semaphore(AT_ONCE)
    waiting = {spec.name: spec for spec in specs}

    async def one(spec: ServerSpec) -> Examined:
        async with turns:
            examined = await room.examine(spec)
        del waiting[spec.name]
        progress(list(waiting))
        return examined

    progress(list(waiting))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(spec)) for spec in list(waiting.values())]
    return [task.result() for task in running]


def _milder(findings: Sequence[Finding], examined: Sequence[Examined]) -> list[Finding]:
    """A placeholder in a server that works may be none: then it is only worth a warning."""
    work = {one.name for one in examined if one.view is not None}
    return [
        replace(one, severity=Severity.WARNING) if one.code == "TL107" and one.server in work else one
        for one in findings
    ]


async def _rest(case: Case, config: Config | None, examined: Sequence[Examined]) -> list[Finding]:
    """What is no server's own."""
    env = case.around.env
    specs = list(config.servers.values()) if config else []
    home = config.home if config else default_home(env)
    found = await asyncio.to_thread(examine_home, home, specs)
    found += _clock(case.now)
    found += await asyncio.to_thread(examine_programs, config, home) if config else []
    if config is not None:
        found += await examine_held(config)
        found += await examine_gateway(config)
        views = {one.name: one.view for one in examined if one.view is not None}
        found += examine_names(views, config)
        found += await asyncio.to_thread(examine_clients, config, case.around)
    return found


def _clock(now: float) -> list[Finding]:
    """Nothing on this machine can be from the future: our own files tell when it is at least."""
    newest = Path(trunkline.__file__).stat().st_mtime
    if now >= newest - CLOCK_SLACK:
        return []
    advice = "Set the clock of this machine: with a wrong one, certificates are not believed."
    seen = "the clock is before the day on which Trunkline was installed."
    return [Finding("TL316", seen, advice, Severity.WARNING, command="sudo timedatectl set-ntp true")]


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
    given: float | None
    now: float

    @property
    def timeout(self) -> float:
        """Seconds for a start, and for each further step."""
        return self.given or LONGEST_START

    async def examine(self, spec: ServerSpec) -> Examined:
        """Find out whether a server works, and if not, why not; it is ended in any case."""
        examined = await self._examine(spec)
        return dataclasses.replace(examined, findings=tuple(_scrubbed(one, spec) for one in examined.findings))

    async def _examine(self, spec: ServerSpec) -> Examined:
        quick = dataclasses.replace(
            spec,
            start_timeout=self.given or min(spec.start_timeout, LONGEST_START),
            download_timeout=self.given or spec.download_timeout,
            timeout=min(spec.timeout, self.timeout),
            lifecycle="singleton",
        )
        if quick.kind == "stdio":
            found = await asyncio.to_thread(examine_program, quick, self.env, self.folder)
            if found is not None:
                return Examined(spec.name, (found,))
        try:
            return await self._reach(quick)
        except TimeoutError:
            seen = f"it started, and then took more than {self.timeout:g} s to list what it offers."
            return Examined(spec.name, (Finding("TL402", seen, "Read its log: what does it do?", server=spec.name),))
        finally:
            await self.pool.remove(spec.name)

    async def _reach(self, spec: ServerSpec) -> Examined:
        witness = self.warden.witness(spec.name)
        async with open_tasks() as tasks:
            if runner_of(spec)[0]:
                tasks.start(witness.look(), name=f"watch {spec.name}")
            try:
                connection = await self.pool.open(spec)
            except TrunklineError as error:
                return Examined(spec.name, (await self._explain(spec, error),))
        async with asyncio.timeout(self.timeout):
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
        if spec.public_only:
            # Who may not reach everything is not told by a closer look what is there.
            code = "TL311" if isinstance(error, AuthorizationNeededError) else "TL303"
            return Finding(code, error.message, error.hint or "Look whether the address is right.", server=spec.name)
        found = await explain_connection(spec, error, self.now)
        return found or await explain_answer(spec, error, self.pool, self.file, min(self.timeout, 10.0))


@asynccontextmanager
async def open_room(
    env: Mapping[str, str], folder: Path, file: Path | None, timeout: float | None, now: float
) -> AsyncGenerator[Room]:
    """A room for the body; with it end all servers that were started in it."""
    warden = WatchingWarden()
    try:
        async with open_tasks() as tasks:
            pool = Pool(tasks, warden, PoolEvents(), nobodys)
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
