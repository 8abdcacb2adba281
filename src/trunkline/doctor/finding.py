"""What the doctor can find and has found: a code, what was seen, what to do, and what it does itself when asked to.

`docs/doctor.md` has a section for each code.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trunkline.config.file import read_file, servers_of, write_file
from trunkline.errors import ConfigError


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """It works, but not as it should."""
    NOTE = "note"
    """Good to know; nothing is wrong."""


@dataclass(frozen=True)
class Mode:
    """Give a file or a folder of ours this mode."""

    path: Path
    mode: int

    @property
    def words(self) -> str:
        return f"give {self.path} the mode {self.mode:o}"


@dataclass(frozen=True)
class Folder:
    """Make the home folder; what is in its place is moved aside."""

    path: Path

    @property
    def words(self) -> str:
        return f"make the folder {self.path}" + (", and move what is there aside" if self.path.is_file() else "")


@dataclass(frozen=True)
class Deletion:
    """Delete a file of ours that is made anew by itself."""

    path: Path

    @property
    def words(self) -> str:
        return f"delete {self.path}, which is made anew by itself"


@dataclass(frozen=True)
class Url:
    """Give a server another address, at which it was reached."""

    path: Path
    server: str
    url: str

    @property
    def words(self) -> str:
        path = urlsplit(self.url).path  # the rest of it is as it was, and may hold secrets
        return f"give the url of {self.server!r} the path {path} in {self.path}, and keep a copy of the file"


Remedy = Mode | Folder | Deletion | Url


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    code: str
    seen: str
    """What was seen; never a value that may be secret."""
    advice: str
    """What to do."""
    severity: Severity = Severity.ERROR
    server: str = ""
    file: str = ""
    command: str = ""
    """A command that does it, if one does."""
    remedy: Remedy | None = None
    """What `--fix` does, where that is safe and can be undone."""

    @property
    def title(self) -> str:
        return CODES[self.code]

    @property
    def documentation(self) -> str:
        """Where more is said."""
        return f"{DOCUMENT}#{self.code.lower()}"

    def described(self) -> dict[str, Any]:
        """For programs to read."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "title": self.title,
            **({"server": self.server} if self.server else {}),
            **({"file": self.file} if self.file else {}),
            "seen": self.seen,
            "advice": self.advice,
            **({"command": self.command} if self.command else {}),
            "fixable": self.remedy is not None,
            "documentation": self.documentation,
        }


def is_wrong(findings: tuple[Finding, ...]) -> bool:
    """Whether anything is wrong."""
    return any(finding.severity is not Severity.NOTE for finding in findings)


DOCUMENT = "docs/doctor.md"

CODES: Mapping[str, str] = {
    # The configuration.
    "TL101": "Nothing is configured",
    "TL102": "The configuration file is broken",
    "TL103": "An option does not exist",
    "TL104": "A server has no address",
    "TL105": "A value cannot be used",
    "TL106": "A variable or a secret is not set",
    "TL107": "A placeholder was left in",
    "TL108": "The configuration file cannot be read",
    # Servers that are programs.
    "TL201": "A runtime is missing",
    "TL202": "The command was not found",
    "TL203": "A path leads nowhere",
    "TL204": "The program cannot be executed",
    "TL205": "The package does not exist",
    "TL206": "The program ends at once",
    "TL207": "The program prints what is not MCP",
    "TL208": "The program starts, and says nothing",
    "TL209": "The program is still being downloaded",
    "TL210": "The runtime is too old",
    "TL211": "A part of the program is not installed",
    "TL212": "Docker does not run",
    "TL213": "The package index cannot be reached",
    "TL214": "A variable is missing",
    # Servers that are remote.
    "TL301": "The host name is unknown",
    "TL302": "Nothing listens there",
    "TL303": "The address does not answer",
    "TL304": "The certificate is not trusted",
    "TL305": "The certificate is expired, or not valid yet",
    "TL306": "The certificate is for another host",
    "TL307": "TLS does not work",
    "TL308": "The path is wrong",
    "TL309": "The transport is wrong",
    "TL310": "A web page is there, not MCP",
    "TL311": "The server wants authorization",
    "TL312": "The credentials are refused",
    "TL313": "The server redirects elsewhere",
    "TL314": "The server fails, or is overloaded",
    "TL315": "The answer is not MCP",
    "TL316": "The clock is wrong",
    # What servers offer.
    "TL401": "The server speaks another revision",
    "TL402": "A list cannot be read",
    "TL403": "A list does not end",
    "TL404": "Tools are hidden by their names",
    "TL405": "A tool's schema cannot be used",
    "TL406": "A client has another server of this name",
    "TL407": "Tools are held back",
    # The gateway, and its home.
    "TL501": "The port is taken",
    "TL502": "Trunkline runs already",
    "TL503": "Trunkline would be open to everyone",
    "TL504": "A token is not safe",
    "TL505": "The home folder cannot be used",
    "TL506": "Others can read or change what is private",
    "TL507": "The key is broken",
    "TL508": "A catalogue is corrupt",
    "TL509": "A catalogue is out of date",
    # Who lets callers in.
    "TL521": "An identity provider cannot be reached",
    "TL522": "An identity provider is another than configured",
    "TL523": "An identity provider has no keys",
    "TL524": "The store cannot be used",
    # Programs over tools.
    "TL531": "Programs run without bubblewrap",
    "TL532": "Programs cannot be run",
}


def apply(remedy: Remedy) -> str:
    """Do it, and say what was done; ConfigError when it does not work."""
    try:
        match remedy:
            case Mode():
                os.chmod(remedy.path, remedy.mode)
                return f"gave {remedy.path} the mode {remedy.mode:o}"
            case Folder():
                return _make_folder(remedy.path)
            case Deletion():
                remedy.path.unlink(missing_ok=True)
                return f"deleted {remedy.path}"
            case Url():
                return _write_url(remedy)
    except OSError as error:
        raise ConfigError(f"It did not work: {error.strerror or error}.", hint="Do it by hand.") from error


def _make_folder(path: Path) -> str:
    aside = ""
    if path.exists() and not path.is_dir():
        kept = _free(path)
        path.rename(kept)
        aside = f", and moved what was there to {kept}"
    target = Path(os.path.realpath(path))
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"made the folder {target}{aside}"


def _write_url(remedy: Url) -> str:
    document = read_file(remedy.path)
    entry: Any = servers_of(document, remedy.path)[remedy.server]
    key = next((key for key in ("url", "serverUrl", "httpUrl") if key in entry), "url")
    if "${" in str(entry[key]):
        raise ConfigError(f"The url of {remedy.server!r} is made of variables.", hint="Change it by hand.")
    kept = _free(remedy.path)
    shutil.copy2(remedy.path, kept)
    entry[key] = remedy.url
    write_file(remedy.path, document)
    return f"wrote the url of {remedy.server!r} into {remedy.path}; as it was before, it is at {kept}"


def _free(path: Path) -> Path:
    """A name beside the file that nothing has."""
    tries = (path.with_name(f"{path.name}.before-doctor{f'-{number}' if number else ''}") for number in range(1000))
    return next(name for name in tries if not name.exists())
