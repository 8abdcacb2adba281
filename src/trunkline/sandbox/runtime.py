"""What runs programs: the interpreter that was installed, checked, with as much around it as the machine has."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from trunkline.config.programs import ProgramsSection
from trunkline.errors import ConfigError
from trunkline.storage.files import replace_file

DISTRIBUTION = "pydantic-monty-runtime"
INSTALL = "Install it: pip install 'trunkline[programs]'"
BUBBLEWRAP = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
SETPRIV = ("/usr/bin/setpriv", "/bin/setpriv")
"""Never looked for by `PATH`, which others may have set."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_PATIENCE = 10.0
_HEADROOM = 2**30
"""Bytes of addresses that a worker has beyond what a program may hold: its own code, and the type checker."""


@dataclass(frozen=True)
class Runtime:
    """How a worker is started."""

    launcher: Path
    isolation: Literal["bubblewrap", "process"]
    reason: str = ""
    """Why there is no bubblewrap around it; empty where there is."""


@cache
def is_installed() -> bool:
    """Whether programs can be run at all: the extra is there, and the machine is one that it has workers for."""
    if sys.platform == "win32":
        return False  # workers are started by a script
    return importlib.util.find_spec("pydantic_monty") is not None


def prepare(config: ProgramsSection, home: Path) -> Runtime:
    """Check the interpreter, and write what starts it; blocks for a moment, so run it in a thread."""
    binary = _checked_binary()
    wanted = config.isolation
    reason = "`isolation` says so"
    if wanted != "process":
        reason = "there is no bwrap in /usr/bin, /bin or /usr/local/bin"
        found = _first(BUBBLEWRAP)
        if found:
            runtime = Runtime(_launcher(home, _wrapped(found, binary), config.memory), "bubblewrap")
            reason = _problem(runtime)
            if not reason:
                return runtime
    if wanted == "bubblewrap":
        raise ConfigError(
            f"No program can be run in bubblewrap: {reason}.",
            hint='Install bubblewrap, let it make user namespaces, or set `isolation = "auto"` in `[programs]`.',
        )
    runtime = Runtime(_launcher(home, _bare(binary), config.memory), "process", reason)
    problem = _problem(runtime)
    if problem:
        raise ConfigError(f"No program can be run: {problem}.", hint=INSTALL)
    return runtime


def _checked_binary() -> Path:
    """The interpreter as its package was installed; nothing else is ever started in its place."""
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError("Programs cannot be run: their interpreter is not installed.", hint=INSTALL) from None
    for file in distribution.files or ():
        if file.name == "monty" and file.hash is not None and file.hash.mode == "sha256":
            path = Path(os.path.normpath(str(distribution.locate_file(file))))
            try:
                with path.open("rb") as opened:
                    digest = hashlib.file_digest(opened, "sha256").digest()
            except OSError as error:
                raise ConfigError(f"The interpreter of programs cannot be read: {error}.", hint=INSTALL) from error
            if not hmac.compare_digest(base64.urlsafe_b64encode(digest).decode().rstrip("="), file.hash.value):
                raise ConfigError(
                    f"{path} is not what was installed: its sha256 differs. It is not started.",
                    hint="Find out who changed it, then install `trunkline[programs]` again.",
                )
            return path
    raise ConfigError(f"The package {DISTRIBUTION} does not say which file its interpreter is.", hint=INSTALL)


def _wrapped(bubblewrap: str, binary: Path) -> list[str]:
    # No session of its own: in that of its keeper it has no terminal either, and counts as little as the keeper does.
    libraries = [part for folder in _LIBRARIES for part in ("--ro-bind-try", folder, folder)]
    return [
        *(bubblewrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"),
        *("--ro-bind", str(binary), "/monty", *libraries, "--proc", "/proc", "--chdir", "/"),
        *("--", "/monty"),
    ]


def _bare(binary: Path) -> list[str]:
    """As little as can be had: it gains no rights, and ends with us."""
    setpriv = _first(SETPRIV) if sys.platform == "linux" else ""
    return [*((setpriv, "--pdeathsig", "KILL", "--no-new-privs") if setpriv else ()), str(binary)]


def _launcher(home: Path, command: list[str], memory: int) -> Path:
    """A script that starts a worker, since the pool starts one file and passes its own arguments."""
    # A keeper has its own bound on what it holds, which is none for workers: theirs is the one of addresses.
    limits = "ulimit -c 0; ulimit -n 64; ulimit -S -d $(ulimit -H -d)"
    if sys.platform == "linux":
        limits += f"; ulimit -v {(memory + _HEADROOM) // 1024}"
    # What a worker says of a program that it ends is said by the pool as well.
    text = f'#!/bin/sh\n{limits}\nexec {shlex.join(command)} "$@" 2>/dev/null\n'.encode()
    path = home / "sandbox" / f"worker-{hashlib.sha256(text).hexdigest()[:16]}"
    try:
        replace_file(path.absolute(), text, mode=0o700)
    except OSError as error:
        raise ConfigError(f"What starts programs cannot be written: {error}.") from error
    return path.absolute()


def _problem(runtime: Runtime) -> str:
    """Why a worker does not start; empty when it does."""
    try:
        done = subprocess.run([str(runtime.launcher), "--version"], capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"its worker does not start ({type(error).__name__})"
    if done.returncode == 0 and done.stdout.startswith(b"monty"):
        return ""
    where = "bubblewrap makes no sandbox here" if runtime.isolation == "bubblewrap" else "its worker does not start"
    return f"{where} (exit code {done.returncode})"


def _first(places: tuple[str, ...]) -> str:
    return next((place for place in places if os.access(place, os.X_OK)), "")
