"""What a manifest says of a server: where its packages and remotes are, and what they want to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trunkline.config.server import shown_url

Format = Literal["string", "number", "boolean", "filepath"]
Transport = Literal["stdio", "streamable-http", "sse"]

_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


@dataclass(frozen=True)
class Variable:
    """A value that is fixed by the manifest, or asked for: a variable, an argument or a header."""

    name: str
    """What answers call it."""
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str = ""
    """Empty means that there is none."""
    choices: tuple[str, ...] = ()
    format: Format = "string"
    placeholder: str = ""
    value: str = ""
    """Set by the manifest; `{name}` in it stands for one of `variables`."""
    variables: tuple[Variable, ...] = ()
    repeated: bool = False
    """Whether it may be given several times."""

    @property
    def used(self) -> tuple[Variable, ...]:
        """The variables that its value names."""
        names = set(_BRACES.findall(self.value))
        return tuple(variable for variable in self.variables if variable.name in names)


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    kind: Literal["positional", "named"]
    input: Variable
    flag: str = ""
    """What a named one is introduced by, dashes included."""


@dataclass(frozen=True)
class Package:
    """A program that is started here."""

    registry: str = ""
    """`npm`, `pypi`, `oci`, ...; empty for a program that lies beside its manifest."""
    identifier: str = ""
    version: str = ""
    runtime: str = ""
    """What starts it: `uvx`, `npx`, `python`, `node`, `docker`."""
    transport: Transport = "stdio"
    url: str = ""
    """Where it listens, if it is not spoken to on its standard streams."""
    command: tuple[str, ...] = ()
    """The words after the runtime, as `plugin.json` writes them."""
    runtime_arguments: tuple[Argument, ...] = ()
    package_arguments: tuple[Argument, ...] = ()
    environment: tuple[Variable, ...] = ()
    headers: tuple[Variable, ...] = ()
    sha256: str = ""
    """What the downloaded file must have."""
    registry_url: str = ""
    label: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members that we do not know."""

    @property
    def shown(self) -> str:
        """How messages call it."""
        return self.identifier or (self.command[0] if self.command else self.label) or "the package"


@dataclass(frozen=True)
class Remote:
    """A server that runs elsewhere."""

    transport: Transport
    url: str
    """With `{name}` for one of `variables`."""
    headers: tuple[Variable, ...] = ()
    variables: tuple[Variable, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def shown(self) -> str:
        """How messages call it."""
        return shown_url(self.url)


@dataclass(frozen=True)
class Manifest:
    """One `server.json` or `plugin.json`."""

    name: str
    title: str
    version: str = ""
    description: str = ""
    status: str = ""
    license: str = ""
    website: str = ""
    repository: Mapping[str, Any] = field(default_factory=dict[str, Any])
    icons: tuple[Mapping[str, Any], ...] = ()
    schema: str = ""
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fingerprint: str = ""
    """The SHA-256 of the definition; the order of its members does not count."""
    folder: Path | None = None
    """Where it lies; files that it names must be there too."""

    @property
    def server_name(self) -> str:
        """How the server is called here, unless somebody chooses another name."""
        last = self.name.rstrip("/").rpartition("/")[2]
        return re.sub(r"[^A-Za-z0-9.]+", "-", last).strip("-.")[:64].rstrip("-.") or "server"


def substitute(template: str, values: Mapping[str, str]) -> str:
    """Put values in the place of `{name}`, once; a name that nobody defines stays as it is."""
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), template)


def names_in(template: str) -> list[str]:
    """The names that stand in braces."""
    return _BRACES.findall(template)
