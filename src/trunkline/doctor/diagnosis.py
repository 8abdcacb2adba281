"""Examines everything at once: the configuration first, then servers, home and gateway side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import trunkline
from trunkline.clients.client import Around
from trunkline.config.options import Config, ServerSpec, default_home
from trunkline.doctor.configuration import examine_configuration
from trunkline.doctor.finding import Finding, Severity, is_wrong
from trunkline.doctor.gateway import examine_gateway, examine_home
from trunkline.doctor.offer import examine_clients, examine_names
from trunkline.doctor.server import Examined, Room, open_room
from trunkline.errors import ConfigError

AT_ONCE = 8
"""Servers that are started side by side."""
CLOCK_SLACK = 2 * 24 * 3600.0

Progress = Callable[[Sequence[str]], None]
"""Told what is still being examined, whenever that changes."""


@dataclass(frozen=True)
class Case:
    """What is examined, and where."""

    path: Path | None
    around: Around
    now: float
    timeout: float = 30.0
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
    if config is not None:
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
