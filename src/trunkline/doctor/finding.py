"""What the doctor found: a code, what was seen, what to do, and what it could do itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trunkline.doctor.codes import CODES, DOCUMENT, Severity


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
