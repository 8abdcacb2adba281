"""What is known of a source of servers, and what it would run; neither holds the value of a variable."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from trunkline.config.options import ServerSpec
from trunkline.install.manifests.manifest import Manifest

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
