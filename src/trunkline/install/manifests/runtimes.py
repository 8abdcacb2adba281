"""How the runtimes of packages are called: exact words, and exact versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trunkline.errors import ManifestError
from trunkline.install.manifests.files import inside
from trunkline.install.manifests.manifest import Package

RUNTIMES = ("uvx", "npx", "python", "python3", "node", "docker")
_OF_REGISTRY = {"pypi": "uvx", "npm": "npx", "oci": "docker", "docker": "docker", "nuget": "dnx"}
_NOT_YET = {
    "dnx": "packages for .NET are not supported",
    "mcpb": "bundles are not supported, as they must be unpacked and checked first",
    "cargo": "packages that must be compiled are not supported",
}
# Not a wall, as any program may start a shell: it keeps a manifest from hiding what it does in one long word.
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "env")) | frozenset(
    ("cmd", "cmd.exe", "powershell", "powershell.exe", "pwsh")
)

_PYTHON_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?")
_NPM_NAME = re.compile(r"(@[A-Za-z0-9~_.-]+/)?[A-Za-z0-9~_][A-Za-z0-9~_.-]*")
_IMAGE = re.compile(r"[a-z0-9]+(?:[._:/-]+[A-Za-z0-9]+)*(@sha256:[0-9a-f]{64})?")
_VERSION = re.compile(r"v?[0-9][0-9A-Za-z.+!_-]*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True)
class Start:
    """The words by which a package is started; arguments of the runtime go between."""

    before: tuple[str, ...]
    subject: tuple[str, ...]
    """The package itself, with its version, and the words that belong to it."""
    cwd: str = ""
    runtime_words: tuple[str, ...] = ()


def runtime_of(package: Package) -> str:
    """What starts a package; ManifestError with the reason when nothing here does. Empty: it starts by itself."""
    runtime = package.runtime or _OF_REGISTRY.get(package.registry, "" if package.command else package.registry)
    reason = _NOT_YET.get(runtime) or _NOT_YET.get(package.registry)
    if reason:
        raise ManifestError(f"{package.shown!r} cannot be started: {reason}.")
    if runtime and runtime not in RUNTIMES:
        raise ManifestError(
            f"{package.shown!r} cannot be started by {runtime!r}.", hint=f"Known are: {', '.join(RUNTIMES)}."
        )
    return runtime


def start_of(package: Package, words: Sequence[str], folder: Path | None) -> Start:
    """How a package is started, with these words for its runtime."""
    runtime = runtime_of(package)
    if package.sha256:
        raise ManifestError(
            f"The file of {package.shown!r} must have a certain SHA-256, which {runtime or 'a program'} cannot promise."
        )
    own = list(package.command) or [package.identifier]
    if own[0] == runtime:
        own = own[1:] or [package.identifier]
    if runtime == "uvx":
        return _fetched(package, "uvx", (), words, own, _PYTHON_NAME, ("--from",), "@", "==")
    if runtime == "npx":
        while own[:1] in (["-y"], ["--yes"]):
            own = own[1:]
        kept = [word for word in words if word not in ("-y", "--yes")]
        return _fetched(package, "npx", ("-y",), kept, own, _NPM_NAME, ("--package", "-p"), "@", "@")
    if runtime == "docker":
        while own and own[0] in ("run", "-i", "--interactive", "--rm"):
            own = own[1:]
        kept = [word for word in words if word not in ("run", "-i", "--interactive", "--rm")]
        image = _image(package, own[0] if own else "")
        return Start(("docker", "run", "-i", "--rm"), (image, *own[1:]), runtime_words=tuple(kept))
    if runtime in ("python", "python3"):
        return _python(package, runtime, words, own, folder)
    if runtime == "node":
        file = _file(own[0], folder)
        return Start(("node",), (file, *own[1:]), str(folder), tuple(words))
    return _program(package, words, own, folder)


def notes_on(package: Package) -> list[str]:
    """What a person should know before agreeing."""
    notes: list[str] = []
    runtime = runtime_of(package)
    if runtime in ("python", "python3") and package.identifier:
        notes.append(f"{runtime} runs the version that is installed, whatever the manifest says.")
    if package.registry_url and runtime in ("uvx", "npx", "docker"):
        notes.append(f"The manifest expects it from {package.registry_url}; {runtime} asks where it is set up to ask.")
    return notes


def _fetched(
    package: Package,
    runtime: str,
    always: tuple[str, ...],
    words: Sequence[str],
    own: Sequence[str],
    names: re.Pattern[str],
    sources: tuple[str, ...],
    mark: str,
    source_mark: str,
) -> Start:
    """A runtime that downloads what it runs: the package is named with its version, or its source is."""
    name, version = _split(own[0] if own else "", package.version)
    if not names.fullmatch(name):
        raise ManifestError(f"{name!r} is not the name of a package for {runtime}.")
    kept = list(words)
    for at, word in enumerate(kept):
        flag, joined, source = word.partition("=")
        if flag not in sources:
            continue
        place = at if joined else at + 1
        found, pinned = _split(source if joined else kept[place] if place < len(kept) else "", package.version)
        if not names.fullmatch(found):
            raise ManifestError(f"{found!r} is not the name of a package for {runtime}.")
        exact = f"{found}{source_mark}{_exact(package, pinned)}"
        kept[place] = f"{flag}={exact}" if joined else exact
        return Start((runtime, *always), (name, *own[1:]), runtime_words=tuple(kept))
    subject = f"{name}{mark}{_exact(package, version)}"
    return Start((runtime, *always), (subject, *own[1:]), runtime_words=tuple(kept))


def _split(name: str, version: str) -> tuple[str, str]:
    """A name that may carry its version, as `pkg@1.2.3` or `pkg==1.2.3`."""
    for mark in ("==", "@"):
        at = name.rfind(mark)
        if at > 0:
            return name[:at], name[at + len(mark) :]
    return name, version


def _exact(package: Package, version: str) -> str:
    loose = not _VERSION.fullmatch(version) or re.search(r"(^|\.)[xX*](\.|$)", version)
    if loose:
        raise ManifestError(
            f"{package.shown!r} has no exact version, so that something else may be started tomorrow.",
            hint="Its manifest must say one, such as 1.2.3; `latest` and ranges are none.",
        )
    return version


def _image(package: Package, name: str) -> str:
    if not _IMAGE.fullmatch(name):
        raise ManifestError(f"{name!r} is not the name of an image.")
    tag = name.rpartition("/")[2].partition(":")[2]
    if "@sha256:" in name:
        return name
    tag, image = (tag, name) if tag else (package.version, f"{name}:{package.version}")
    if not _TAG.fullmatch(tag) or tag == "latest":
        raise ManifestError(f"Image {name!r} has no exact tag or digest.", hint="Its manifest must say one.")
    return image


def _python(package: Package, runtime: str, words: Sequence[str], own: Sequence[str], folder: Path | None) -> Start:
    cwd = str(folder) if folder else ""
    if own[0] == "-m" and len(own) > 1:
        own = own[1:]
    elif package.command:
        return Start((runtime,), (_file(own[0], folder), *own[1:]), cwd, tuple(words))
    module = own[0].replace("-", "_")
    if not _MODULE.fullmatch(module):
        raise ManifestError(f"{own[0]!r} is not the name of a Python module.")
    return Start((runtime,), ("-m", module, *own[1:]), cwd, tuple(words))


def _program(package: Package, words: Sequence[str], own: Sequence[str], folder: Path | None) -> Start:
    program = own[0]
    if "/" in program or "\\" in program or (folder is not None and (folder / program).exists()):
        program = _file(program, folder)
    # By its last name, so that a copy in the folder counts as well.
    if Path(program).name.lower() in _SHELLS:
        raise ManifestError(
            f"The manifest wants to start {Path(program).name!r}, which runs whatever it is told.",
            hint="If you trust it, add the server by hand: trunkline add NAME COMMAND.",
        )
    if program.startswith("-"):
        raise ManifestError(f"{program!r} is not a program.")
    return Start((program,), tuple(own[1:]), str(folder) if folder else "", tuple(words))


def _file(name: str, folder: Path | None) -> str:
    if folder is None:
        raise ManifestError(f"{name!r} would be a file beside the manifest, which came from elsewhere.")
    return str(inside(folder, name))
