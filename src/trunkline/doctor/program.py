"""What can be told of a server's program before it is started: is it there, can it run, are its files there."""

from __future__ import annotations

import dataclasses
import difflib
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from trunkline.config.options import ServerSpec
from trunkline.doctor.finding import Finding
from trunkline.doctor.runtime import RUNTIMES, elsewhere, how_to_get
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
