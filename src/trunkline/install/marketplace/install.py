"""From an entry to a server: what must be asked, what would be started or reached, and what is written down."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError, ManifestError
from trunkline.install.manifests.launch import Answers, choose, notes, plan, questions
from trunkline.install.manifests.manifest import Manifest, Package, Remote, Variable
from trunkline.install.manifests.reader import read_manifest
from trunkline.install.marketplace.entry import RegistryEntry

__all__ = ["Answers", "Installer", "command_line", "server_spec", "table"]


class Installer:
    """One way to run one entry: a package of it, or a remote server."""

    def __init__(self, entry: RegistryEntry, package: str = "") -> None:
        """ManifestError when nothing of the entry can be run here, or nothing is called `package`."""
        self.entry = entry
        self._manifest: Manifest | None = None
        self._choice: Package | Remote | None = None
        if entry.definition:
            self._manifest = read_manifest(json.loads(entry.definition), where=entry.id)
            self._choice = choose(self._manifest, package)
        elif not (entry.command or entry.npm_package or entry.pypi_package or entry.url):
            raise ConfigError(f"{entry.id!r} says neither what to start nor where it is.")

    @property
    def server_name(self) -> str:
        """How the server is called, unless somebody chooses another name."""
        last = self.entry.id.rpartition("/")[2]
        return re.sub(r"[^A-Za-z0-9.-]+", "-", last).strip("-.")[:64] or "server"

    @property
    def notes(self) -> list[str]:
        """What to know before agreeing to it."""
        return [*self.entry.notes, *(notes(self._choice) if self._choice else ())]

    def questions(self) -> list[Variable]:
        """What must be known to run it; what the entry only names may be a secret, and is taken for one."""
        if self._manifest is not None:
            return questions(self._manifest, self._choice)
        return [Variable(name, required=True, secret=True) for name in self.entry.required_env_vars]

    def arguments(self) -> set[str]:
        """The questions whose answers become arguments, which everyone on the machine can read."""
        if not isinstance(self._choice, Package):
            return set()
        inputs = [one.input for one in (*self._choice.runtime_arguments, *self._choice.package_arguments)]
        return {one.name for given in inputs for one in (given, *given.used)}

    def spec(self, answers: Answers, *, name: str = "") -> ServerSpec:
        """The server with these answers; ManifestError names those that are missing or wrong."""
        name = name or self.server_name
        if self._manifest is not None:
            return replace(plan(self._manifest, answers, package=self._choice), name=name)
        missing = [wanted for wanted in self.entry.required_env_vars if not answers.get(wanted)]
        if missing:
            raise ManifestError(f"{self.entry.id!r} needs {', '.join(missing)}.", hint="Give it a value for each.")
        env = {name: value for name, value in answers.items() if isinstance(value, str)}
        words = _words(self.entry)
        if not words:
            return ServerSpec(name, url=self.entry.url, env=env, transport=self.entry.transports[0])
        return ServerSpec(name, words[0], tuple(words[1:]), env)


def server_spec(entry: RegistryEntry, answers: Answers, *, name: str = "") -> ServerSpec:
    """The server of an entry with these answers."""
    return Installer(entry).spec(answers, name=name)


def command_line(entry: RegistryEntry) -> str:
    """What a person would type to run it, with `<NAME>` for what must be given; empty when there is nothing to type."""
    if entry.install_command:
        return entry.install_command
    return " ".join(_shown(word) for word in _words(entry))


def table(spec: ServerSpec) -> dict[str, Any]:
    """A server as it is written into a configuration."""
    found: Mapping[str, Any] = {
        "command": spec.command,
        "args": list(spec.args),
        "url": spec.url,
        "env": dict(spec.env),
        "headers": dict(spec.headers),
        "cwd": spec.cwd,
        "transport": spec.transport if spec.transport == "sse" else "",
    }
    return {key: value for key, value in found.items() if value}


def _words(entry: RegistryEntry) -> list[str]:
    """The command of an entry, word by word."""
    if entry.command:
        # As people write it: a program and its arguments in one text.
        return [*(entry.command.split() if not entry.args else [entry.command]), *entry.args]
    version = f"@{entry.version}" if entry.version else ""
    if entry.npm_package:
        return ["npx", "-y", f"{entry.npm_package}{version}", *entry.args]
    return ["uvx", f"{entry.pypi_package}{version}", *entry.args] if entry.pypi_package else []


def _shown(word: str) -> str:
    marked = re.sub(r"\$\{([^}]+)\}", r"<\1>", word)
    return marked if marked != word else shlex.quote(word)
