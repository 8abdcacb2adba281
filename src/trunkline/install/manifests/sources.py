"""The sources of servers: plugin folders with a manifest, and remote addresses. Nothing runs that nobody agreed to."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from trunkline.balance.health import WELL, Health, doubled, next_health
from trunkline.config.secrets import name_for
from trunkline.config.server import ServerSpec
from trunkline.control.change import Chronicle
from trunkline.errors import (
    ConfigError,
    ManifestError,
    RefusedError,
    TrunklineError,
    UnknownNameError,
    UnreachableError,
)
from trunkline.install.manifests.environment import Given, resolve
from trunkline.install.manifests.files import open_manifest
from trunkline.install.manifests.inventory import ReadTools, Refresh, compare, read_tools
from trunkline.install.manifests.launch import build, choose, exposed, questions
from trunkline.install.manifests.manifest import Argument, Manifest, Package, Remote, Variable
from trunkline.install.manifests.runtimes import RUNTIMES

Lifecycle = Literal["transient", "singleton"]
HealthWord = Literal["unknown", "healthy", "degraded", "unhealthy"]


@dataclass(frozen=True)
class Source:
    """A registered source; of what it was configured with, only the names show."""

    id: str
    folder: str = ""
    url: str = ""
    package: str = ""
    """Which of the manifest's packages or remotes is wanted; empty takes the first that works."""
    command: tuple[str, ...] = ()
    """The program and its first words, in the place of what the manifest starts."""
    args: tuple[str, ...] | None = None
    """Arguments in the place of the manifest's; `None` leaves those."""
    runtime: str = ""
    """What starts it, whatever the manifest says: `uvx`, `npx`, `python`, `node`, `docker`."""
    transport: str = ""
    """Only what is reached so: `stdio`, `http` or `sse`."""
    lifecycle: Lifecycle = "transient"
    variables: tuple[str, ...] = ()
    allow_system: bool = False
    """Whether variables that it asks for may come from the system's environment."""
    enabled: bool = True
    agreed: str = ""
    """The fingerprint of the command that somebody agreed to."""
    version: int = 1
    """Grows with every change."""


@dataclass(frozen=True)
class Shown:
    """What would be run or reached: show it, and hand its fingerprint to `agree`."""

    argv: tuple[str, ...]
    url: str
    variables: tuple[str, ...]
    """Names of the variables or headers that it gets."""
    missing: tuple[str, ...]
    fingerprint: str
    agreed: bool


def show_spec(spec: ServerSpec, manifest: Manifest | None, *, agreed: str, missing: tuple[str, ...] = ()) -> Shown:
    """What a server would run or reach; its fingerprint changes with the manifest, the command and the names."""
    argv = (spec.command, *spec.args) if spec.command else ()
    names = tuple(sorted(spec.env if argv else spec.headers))
    parts = [argv, spec.cwd, spec.url, names, manifest.fingerprint if manifest else ""]
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return Shown(argv, spec.url, names, missing, fingerprint, not argv or agreed == fingerprint)


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass
class _Record:
    source: Source
    chronicle: Chronicle
    given: Given = field(repr=False)
    health: Health | None = None
    again: float = 0.0
    """When it is tried again after a failure."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sources:
    """Registered sources, each with its health and the tools that it had; they last as long as the object."""

    def __init__(
        self,
        *,
        secrets: Callable[[str], str | None] | None = None,
        system: Mapping[str, str] | None = None,
        read: ReadTools = read_tools,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`secrets` looks up `SOURCE.VARIABLE`, as `Secrets(home).get` does; `system` is the environment."""
        self._secrets, self._system, self._read = secrets, system or {}, read
        self._clock, self._now = clock, now
        self._kept: dict[str, _Record] = {}

    # Registering.

    def register(
        self,
        id: str,
        *,
        folder: Path | str = "",
        url: str = "",
        package: str = "",
        command: str | Sequence[str] = (),
        args: Sequence[str] | None = None,
        runtime: str = "",
        transport: str = "",
        lifecycle: Lifecycle = "transient",
        environment: Given | None = None,
        allow_system: bool = False,
        version: int | None = None,
    ) -> Source:
        """Add a source, or change the one of that id; nothing is run. For a remote, `environment` are its headers.

        `command` (one text is split as a shell would), `args`, `runtime` and `transport` count before the manifest.
        With a `version`, it must be the one that the source has now, and 0 for a new one: else RefusedError (409).
        """
        known = self._kept.get(id)
        self._check_version(id, version)
        place = str(Path(folder).expanduser().resolve()) if folder else ""
        self._check(id, place, url, lifecycle)
        given = dict(environment or {})
        made = Source(
            id,
            place,
            url,
            package,
            tuple(shlex.split(command) if isinstance(command, str) else command),
            None if args is None else tuple(args),
            runtime,
            _TRANSPORTS.get(transport, transport),
            lifecycle,
            tuple(sorted(given)),
            allow_system,
            version=known.source.version + 1 if known else 1,
        )
        _check_overrides(made)
        if known is not None:
            made = replace(made, enabled=known.source.enabled, agreed=known.source.agreed)
        if place:
            choose(_overridden(open_manifest(Path(place)), made), package)
        if known is None:
            self._kept[id] = _Record(made, Chronicle(id), given)
        else:
            known.source, known.given, known.again = made, given, 0.0
        return made

    def show(self, id: str, *, overrides: Given | None = None) -> Shown:
        """Exactly what would be run or reached; of the environment and of headers, only the names."""
        return self._look(self._get(id), overrides or {})[1]

    def agree(self, id: str, fingerprint: str, *, overrides: Given | None = None) -> Source:
        """Allow the command that was shown; if it has changed since, nothing is allowed."""
        if self.show(id, overrides=overrides).fingerprint != fingerprint:
            raise RefusedError(f"The command of source {id!r} is not the one that was shown.", status=409)
        return self._change(id, None, agreed=fingerprint)

    def enable(self, id: str, *, version: int | None = None) -> Source:
        """Use a source again."""
        return self._change(id, version, enabled=True)

    def disable(self, id: str, *, version: int | None = None) -> Source:
        """Keep a source, but do not use it."""
        return self._change(id, version, enabled=False)

    def remove(self, id: str, *, version: int | None = None) -> None:
        """Forget a source."""
        self._get(id)
        self._check_version(id, version)
        del self._kept[id]

    def get(self, id: str) -> Source:
        """One source; UnknownNameError when there is none."""
        return self._get(id).source

    def list(self) -> list[Source]:
        """Every source, in the order in which they came."""
        return [kept.source for kept in self._kept.values()]

    # Using.

    def spec(self, id: str, *, overrides: Given | None = None) -> ServerSpec:
        """The server that a source describes, its variables resolved; only with the command that was agreed to.

        A variable that is missing makes a server that cannot be reached, with that reason.
        """
        spec, shown = self._look(self._get(id), overrides or {})
        if not shown.agreed:
            raise RefusedError(
                f"Nobody agreed to what source {id!r} runs.", status=403, hint="Show it, then call `agree`."
            )
        return spec

    def specs(self) -> Iterable[ServerSpec]:
        """The servers of all sources that are enabled and agreed to, for `open_hub`."""
        found: list[ServerSpec] = []
        for kept in self._kept.values():
            if not kept.source.enabled:
                continue
            try:
                spec, shown = self._look(kept, {})
            except ManifestError as error:
                # It is shown with its reason, and hides no other.
                found.append(ServerSpec(kept.source.id, kept.source.folder, problem=str(error)))
            else:
                found += [spec] if shown.agreed else []
        return found

    async def refresh(self, id: str, *, force: bool = False, overrides: Given | None = None) -> Refresh:
        """Read a source's tools, and say what changed. What fails counts against its health and is raised.

        After a failure it is not tried again for a while, unless forced; each further one doubles the pause.
        """
        kept = self._get(id)
        if not kept.source.enabled:
            raise RefusedError(f"Source {id!r} is disabled.", hint="Enable it first.")
        async with kept.turn:
            wait = kept.again - self._clock()
            if wait > 0 and not force:
                assert kept.health is not None
                raise UnreachableError(
                    f"Source {id!r} failed, and is tried again in {wait:.0f} s.", hint=kept.health.reason
                )
            spec = self.spec(id, overrides=overrides)
            started = self._clock()
            try:
                listing = await self._read(spec)
            except TrunklineError as error:
                self._note(kept, str(error))
                raise
            self._note(kept, "")
            return compare(kept.chronicle, listing, now=self._now(), duration=self._clock() - started)

    def report(self, id: str, failure: str = "") -> None:
        """A call or a reading came to its end: nothing, or what failed."""
        self._note(self._get(id), failure)

    def _note(self, kept: _Record, failure: str) -> None:
        kept.health = next_health(kept.health or WELL, failure)
        failures = kept.health.failures
        kept.again = self._clock() + doubled(FIRST_PAUSE, failures - 1, LONGEST_PAUSE) if failures else 0.0

    def health(self, id: str) -> HealthWord:
        """How a source fares: one failure makes it degraded, three in a row unhealthy, a success healthy."""
        health = self._get(id).health
        if health is None:
            return "unknown"
        if health.sick:
            return "unhealthy"
        return "degraded" if health.failures else "healthy"

    def reason(self, id: str) -> str:
        """What failed last; empty when all is well."""
        return (self._get(id).health or WELL).reason

    # Below.

    def _look(self, kept: _Record, overrides: Given) -> tuple[ServerSpec, Shown]:
        """The server that a source describes now: its manifest is read again each time."""
        source = kept.source
        if source.url:
            found = resolve((), configuration=kept.given, overrides=overrides)
            transport = cast("Literal['auto', 'http', 'sse']", source.transport or "auto")
            spec = ServerSpec(source.id, url=source.url, headers=found.extra, transport=transport)
            return spec, show_spec(spec, None, agreed=source.agreed)
        manifest = _overridden(open_manifest(Path(source.folder)), source)
        choice = choose(manifest, source.package)
        wanted = questions(manifest, choice)
        found = resolve(
            wanted,
            overrides=overrides,
            secrets=self._secret_of(source.id, exposed(choice)),
            configuration=kept.given,
            system=self._system if source.allow_system else None,
        )
        if isinstance(choice, Remote) and found.problem:
            spec = ServerSpec(source.id, url=choice.url, problem=found.problem)
            return spec, show_spec(spec, manifest, agreed=source.agreed, missing=found.missing)
        # What is open is shown by its name, so that the command can be read before everything is known.
        values = {variable.name: f"<{variable.name}>" for variable in wanted if variable.required} | dict(found.values)
        made = build(manifest, choice, values)
        if made.command:
            made = replace(made, env={**found.extra, **made.env}, lifecycle=source.lifecycle)
        spec = replace(made, name=source.id, problem=found.problem)
        return spec, show_spec(spec, manifest, agreed=source.agreed, missing=found.missing)

    def _secret_of(self, id: str, exposed: frozenset[str]) -> Callable[[str], str | None] | None:
        secrets = self._secrets
        return None if secrets is None else lambda name: None if name in exposed else secrets(name_for(id, name))

    def _check(self, id: str, place: str, url: str, lifecycle: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", id):
            raise ConfigError(f"{id!r} cannot be a source's id.", hint="Use 1 to 64 letters, digits, dots or dashes.")
        if bool(place) == bool(url):
            raise ConfigError(f"Source {id!r} must have a folder or a URL, and not both.")
        if url and not re.fullmatch(r"https?://[^/\s?#]+\S*", url):
            raise ConfigError(f"The URL of source {id!r} is not an http address.")
        if lifecycle not in ("transient", "singleton"):
            raise ConfigError(f"The lifecycle of source {id!r} must be transient or singleton.")
        for kept in self._kept.values():
            other = kept.source
            if other.id != id and (place, url) == (other.folder, other.url):
                raise RefusedError(f"Source {other.id!r} is the same.", status=409, hint="Change it, or remove it.")

    def _check_version(self, id: str, version: int | None) -> None:
        kept = self._kept.get(id)
        has = kept.source.version if kept else 0
        if version is not None and version != has:
            raise RefusedError(
                f"Source {id!r} has version {has}, not {version}.", status=409, hint="Look at it again, then repeat."
            )

    def _change(self, id: str, version: int | None, *, enabled: bool | None = None, agreed: str = "") -> Source:
        kept = self._get(id)
        self._check_version(id, version)
        source = kept.source
        kept.source = replace(
            source,
            enabled=source.enabled if enabled is None else enabled,
            agreed=agreed or source.agreed,
            version=source.version + 1,
        )
        return kept.source

    def _get(self, id: str) -> _Record:
        if id not in self._kept:
            raise UnknownNameError(f"There is no source {id!r}.", hint=f"There are: {', '.join(self._kept) or 'none'}.")
        return self._kept[id]


_TRANSPORTS = {"streamable-http": "http", "streamable_http": "http"}


def _check_overrides(source: Source) -> None:
    if source.transport not in ("", "stdio", "http", "sse"):
        raise ConfigError(f"The transport of source {source.id!r} must be stdio, http or sse.")
    if source.url and (source.command or source.args is not None or source.runtime or source.transport == "stdio"):
        raise ConfigError(f"Source {source.id!r} is remote: nothing is started there.", hint="Register its folder.")
    if source.runtime and source.runtime not in RUNTIMES:
        hint = f"Known are: {', '.join(RUNTIMES)}."
        raise ConfigError(f"Source {source.id!r} cannot be started by {source.runtime!r}.", hint=hint)


def _overridden(manifest: Manifest, source: Source) -> Manifest:
    """The manifest with what was said at the source in the place of what it says itself."""
    packages = manifest.packages
    if source.command:
        words = (*source.command, *(source.args or ()))
        asked = packages[0] if packages else Package()
        own = Package(runtime=source.runtime, command=words, environment=asked.environment, label=source.package)
        return replace(manifest, packages=(own,), remotes=())
    if source.runtime:
        packages = tuple(replace(one, runtime=source.runtime) for one in packages)
    if source.args is not None:
        fixed = tuple(Argument("positional", Variable(f"argument {n}", value=a)) for n, a in enumerate(source.args, 1))
        packages = tuple(replace(one, package_arguments=fixed) for one in packages)
    remotes = () if source.runtime or source.args is not None else manifest.remotes
    if source.transport:
        packages = tuple(one for one in packages if _TRANSPORTS.get(one.transport, one.transport) == source.transport)
        remotes = tuple(one for one in remotes if _TRANSPORTS.get(one.transport, one.transport) == source.transport)
    return replace(manifest, packages=packages, remotes=remotes)
