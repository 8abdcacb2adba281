"""What can be told of a server's program before it is started: is it there, can it run, are its files there."""

from __future__ import annotations

import dataclasses
import difflib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from trunkline.config.server import ServerSpec
from trunkline.doctor.finding import Finding
from trunkline.doctor.words import scrubbed
from trunkline.upstream.process import child_environment

_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".php", ".jar", ".pyz")
_INTERPRETERS = ("python", "node", "bun", "deno", "ruby", "php", "java", "sh", "bash", "tsx", "ts-node")


def examine_program(spec: ServerSpec, env: Mapping[str, str], folder: Path) -> Finding | None:
    """Why the program cannot be started from this folder; `None` when nothing speaks against it."""
    if spec.cwd and not Path(spec.cwd).is_dir():
        advice = "Write an existing folder as `cwd`, or leave it out."
        if spec.cwd.startswith("~"):
            advice = f'`~` means nothing there: write cwd = "{_expanded(spec.cwd, env)}".'
        return _found("TL203", f"there is no folder {spec.cwd!r} to start it in.", advice, spec)
    path = child_environment(spec.env, env).get("PATH", os.defpath)
    if shutil.which(_at(spec.command, folder), path=path) is None:
        return _not_startable(spec, env, folder, path)
    if "/" in spec.command and spec.cwd and not Path(spec.command).is_absolute():
        started = Path(spec.cwd, spec.command)
        if not started.is_file():
            full = Path(_at(spec.command, folder)).resolve()
            seen = f"{spec.command!r} is not in the folder {spec.cwd!r} that it is started in."
            return _found("TL203", seen, f'Write the full path: command = "{full}".', spec)
    return _missing_script(spec, env, folder)


def _not_startable(spec: ServerSpec, env: Mapping[str, str], folder: Path, path: str) -> Finding:
    command = spec.command
    words = _words(command)
    if len(words) > 1 and shutil.which(words[0], path=path):
        args = (*words[1:], *spec.args)
        rest = scrubbed(", ".join(f'"{word}"' for word in args), dataclasses.replace(spec, args=args))
        advice = f'Write command = "{words[0]}" and args = [{rest}].'
        return _found("TL202", "the command and its arguments stand in one text.", advice, spec)
    if command.startswith("~"):
        advice = f'Write command = "{_expanded(command, env)}".'
        return _found("TL203", f"{command!r}: `~` means nothing in a command.", advice, spec)
    if "/" in command:
        return _not_there(spec, Path(_at(command, folder)), env, folder)
    if command in RUNTIMES:
        place = elsewhere(command, env)
        if place:
            advice = f'It is at {place}, which is not in the PATH: write command = "{place}".'
        else:
            advice = how_to_get(command, path)
        return _found("TL201", f"{command!r} is not in the PATH.", advice, spec)
    for place in (*(Path(part, command) for part in path.split(os.pathsep) if part), folder / command):
        if place.is_file():
            if os.access(place, os.X_OK):
                advice = f'Write the full path: command = "{place.resolve()}".'
                return _found("TL202", f"{command!r} is a file here, but not in the PATH.", advice, spec)
            return _not_executable(spec, place)
    name = words[0] if words else command  # what follows it may be secret
    close = difflib.get_close_matches(name, list(RUNTIMES), 1)
    advice = "Install it, or write its full path as `command`."
    return _found(
        "TL202",
        f"there is no program {name!r} in the PATH.",
        f"Did you mean {close[0]!r}? Else: {advice[0].lower()}{advice[1:]}" if close else advice,
        spec,
    )


def _not_there(spec: ServerSpec, place: Path, env: Mapping[str, str], folder: Path) -> Finding:
    if place.is_dir():
        return _found("TL203", f"{spec.command!r} is a folder.", "Write the program that is in it.", spec)
    if place.is_file():
        return _not_executable(spec, place)
    found = _nearby(spec.command, spec, env, folder)
    advice = f'It is at {found}: write command = "{found}".' if found else "Write the path where it is, in full."
    return _found("TL203", f"there is no file {str(place)!r}.", advice, spec)


def _not_executable(spec: ServerSpec, place: Path) -> Finding:
    command = shlex.join(["chmod", "+x", str(place)])
    advice = "Make it executable, or write its interpreter as `command` and the file into `args`."
    return Finding("TL204", f"{str(place)!r} is not executable.", advice, server=spec.name, command=command)


def _missing_script(spec: ServerSpec, env: Mapping[str, str], folder: Path) -> Finding | None:
    script = _script(spec)
    if not script:
        return None
    where = Path(spec.cwd or folder)
    if Path(where, script).exists():
        return None
    if script.startswith("~"):
        advice = f'Write "{_expanded(script, env)}" in its `args`.'
        return _found("TL203", f"{script!r}: `~` means nothing in an argument.", advice, spec)
    found = _nearby(script, spec, env, folder)
    if found is None:
        advice = "Write the full path of the file in its `args`."
    elif Path(script).is_absolute():
        advice = f'It is at {found}: write "{found}" in its `args`.'
    else:
        base = str(found)[: -len(script)].rstrip("/") if str(found).endswith(script) else str(found.parent)
        advice = f'It is at {found}: write that in its `args`, or cwd = "{base}".'
    return _found("TL203", f"there is no file {script!r} in {str(where)!r}, where it is started.", advice, spec)


def _script(spec: ServerSpec) -> str:
    """The file that an interpreter is to run; empty when there is none, or none that can be told."""
    name = Path(spec.command).name
    if not name.startswith(_INTERPRETERS):
        return ""
    words = list(spec.args)
    while words:
        word = words.pop(0)
        if word in ("-m", "-c", "-e", "--eval", "-p"):
            return ""  # a module, or a program in the argument itself
        if word == "-jar" or word in ("run", "--"):
            continue
        if not word.startswith("-"):
            return word if word.endswith(_SCRIPTS) or ("/" in word and "://" not in word) else ""
    return ""


def _nearby(name: str, spec: ServerSpec, env: Mapping[str, str], folder: Path) -> Path | None:
    """The file that was likely meant: from other folders that a relative path may have been written for."""
    relative = Path(name).name if Path(name).is_absolute() else name
    home = Path(env.get("HOME", "/nowhere"))
    for base in (folder, *folder.parents[:2], home, *((Path(spec.cwd).parent,) if spec.cwd else ())):
        place = base / relative
        if place.is_file():
            return place.resolve()
    return None


def _found(code: str, seen: str, advice: str, spec: ServerSpec) -> Finding:
    return Finding(code, seen, advice, server=spec.name)


def _at(command: str, folder: Path) -> str:
    """A relative path as it is meant from a folder; a bare name is looked for in the PATH."""
    return str(folder / command) if "/" in command and not command.startswith("~") else command


def _expanded(text: str, env: Mapping[str, str]) -> str:
    return env.get("HOME", "~") + text[1:] if text.startswith("~/") or text == "~" else text


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


_NODE = "Install Node.js 20 or newer, which brings it: with your system's packages, nvm, or from nodejs.org."
_UV = "Install uv, which brings it: `pip install uv`, `pipx install uv`, or your system's packages."
_PYTHON = "Install Python 3.10 or newer: with your system's packages, uv, or from python.org."
_DOCKER = "Install Docker Engine or Docker Desktop, and let yourself use it."

RUNTIMES: Mapping[str, str] = {
    "npx": _NODE,
    "node": _NODE,
    "npm": _NODE,
    "pnpm": "Install pnpm: `npm install --global pnpm`.",
    "yarn": "Install Yarn: `npm install --global yarn`.",
    "tsx": "Install tsx: `npm install --global tsx`.",
    "bun": "Install Bun: `npm install --global bun`.",
    "bunx": "Install Bun: `npm install --global bun`.",
    "deno": "Install Deno: `npm install --global deno`.",
    "uvx": _UV,
    "uv": _UV,
    "pipx": "Install pipx: with your system's packages, or `pip install pipx`.",
    "python": _PYTHON,
    "python3": _PYTHON,
    "docker": _DOCKER,
    "podman": "Install Podman, with your system's packages.",
    "java": "Install a Java runtime (JRE 17 or newer), with your system's packages.",
    "dotnet": "Install the .NET runtime, with your system's packages.",
    "go": "Install Go, with your system's packages.",
    "cargo": "Install Rust, with your system's packages or rustup.",
    "ruby": "Install Ruby, with your system's packages.",
    "php": "Install PHP, with your system's packages.",
}

_TWINS = {"python": "python3", "python3": "python", "npx": "bunx", "docker": "podman"}

_PLACES = (
    ".local/bin", ".cargo/bin", ".volta/bin", ".bun/bin", ".deno/bin", ".nvm/versions/node/*/bin", ".fnm/aliases/*/bin",
    ".asdf/shims", ".pyenv/shims", ".local/share/mise/shims",
    "/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/snap/bin", "/Applications/Docker.app/Contents/Resources/bin",
    str(Path(sys.executable).parent),
)  # fmt: skip


def how_to_get(command: str, path: str) -> str:
    """What to do about a runtime that is missing."""
    twin = _TWINS.get(command, "")
    if twin and shutil.which(twin, path=path):
        return f'There is {twin!r}: write command = "{twin}". Or: {RUNTIMES[command][0].lower()}{RUNTIMES[command][1:]}'
    return RUNTIMES[command]


def elsewhere(command: str, env: Mapping[str, str]) -> Path | None:
    """Where a program lies that is not in the PATH, as installers leave it."""
    home = Path(env.get("HOME", "/nowhere"))
    for place in _PLACES:
        base = Path("/") if place.startswith("/") else home
        for found in sorted(base.glob(f"{place.lstrip('/')}/{command}"), reverse=True):
            if found.is_file():
                return found
    return None
