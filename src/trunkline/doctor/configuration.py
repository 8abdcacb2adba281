"""Reads the configuration piece by piece, so that one broken server does not hide what is wrong with the others."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from trunkline.config.client_forms import is_client_file
from trunkline.config.options import Config, ServerSpec, default_home
from trunkline.config.reading import load, parse, read_document, user_file
from trunkline.doctor.codes import Severity
from trunkline.doctor.finding import Finding
from trunkline.doctor.placeholder import placeholders
from trunkline.doctor.syntax import find_break
from trunkline.errors import ConfigError


@dataclass(frozen=True)
class Configured:
    """What can be used of a configuration, and what is wrong with it."""

    config: Config | None
    findings: tuple[Finding, ...] = ()
    broken: tuple[str, ...] = ()
    """Servers that are in the file, but cannot be used as they are."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every server of the file."""
        return (*(self.config.servers if self.config else ()), *self.broken)


def examine_configuration(path: Path | None, env: Mapping[str, str]) -> Configured:
    """Read a file, or find that there is none."""
    if path is None or not path.exists():
        return Configured(None, (_missing(path, env),))
    try:
        document = read_document(path)
    except ConfigError as error:
        return Configured(None, (_unreadable(path, error),))
    broken: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    try:
        config = load(path, env=env)
    except ConfigError as error:
        config, findings, broken = _piece_by_piece(path, document, env, error)
    if config is not None:
        findings += tuple(found for spec in config.servers.values() for found in _of_server(spec, path))
        if not config.servers and not broken:
            findings += (_empty(path),)
    return Configured(config, findings, broken)


def _missing(path: Path | None, env: Mapping[str, str]) -> Finding:
    where = f"there is no file {path}" if path else f"there is no trunkline.toml here, and no {user_file(env)}"
    return Finding(
        "TL101",
        f"{where}.",
        "Add a server, take over those of your other clients with `trunkline import`, or name a file with --config.",
        file=str(path or user_file(env)),
        command="trunkline add time uvx mcp-server-time",
    )


def _empty(path: Path) -> Finding:
    return Finding(
        "TL101",
        "the file names no servers.",
        "Add a server, or take over those of your other clients with `trunkline import`.",
        severity=Severity.WARNING,
        file=str(path),
        command="trunkline add time uvx mcp-server-time",
    )


def _unreadable(path: Path, error: ConfigError) -> Finding:
    if isinstance(error.__cause__, OSError | UnicodeDecodeError):
        advice = "Give yourself the right to read it, or name another with --config."
        if isinstance(error.__cause__, UnicodeDecodeError):
            advice = "Save it as UTF-8."
        elif path.is_dir():
            advice = "It is a folder: name a file with --config."
        return Finding("TL108", _plain(error, path), advice, file=str(path))
    broken = find_break(path.read_text(encoding="utf-8"), toml=path.suffix == ".toml")
    if broken is None:
        return Finding("TL105", _plain(error, path), "Begin with a table of keys and values.", file=str(path))
    likely = f"Likely it is {broken.cause}." if broken.cause else "Look at this place, and at the line before it."
    seen = f"line {broken.line}, column {broken.column}: {broken.complaint}."
    return Finding("TL102", seen, likely, file=str(path))


def _plain(error: ConfigError, path: Path) -> str:
    return error.message.removeprefix(str(path)).strip()


def _piece_by_piece(
    path: Path, document: Mapping[str, Any], env: Mapping[str, str], whole: ConfigError
) -> tuple[Config | None, tuple[Finding, ...], tuple[str, ...]]:
    """What is left when every piece that fails by itself is taken out."""
    left: dict[str, Any] = {}
    findings: list[Finding] = []

    def fits(trial: dict[str, Any], server: str = "") -> bool:
        try:
            parse(trial, env=env)
        except ConfigError as error:
            findings.append(_classified(error, path, server))
            return False
        return True

    servers = _table(document.get("mcpServers", document.get("servers")))
    # Written so, a server is read as in a client's file, whatever stands beside it.
    key = "mcpServers" if is_client_file(document) else "servers"
    broken = [name for name, spec in servers.items() if not fits({key: {name: spec}}, name)]
    left[key] = {name: spec for name, spec in servers.items() if name not in broken}
    if key == "servers":
        for name, value in document.items():
            if name not in ("servers", "groups", "profiles") and fits({name: value}):
                left[name] = value
        left = _with_groups(document, left, broken, fits)
    if not findings:
        findings.append(_classified(whole, path, ""))
    try:
        config = dataclasses.replace(parse(left, env=env), home=default_home(env), source=path)
    except ConfigError:
        config = None
    return config, tuple(dict.fromkeys(findings)), tuple(broken)


def _with_groups(
    document: Mapping[str, Any], left: dict[str, Any], broken: list[str], fits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Groups and profiles that can be used; what fails only for a broken server's sake is not held against them."""
    away = set(broken)
    for part in ("groups", "profiles"):
        for name, spec in _table(document.get(part)).items():
            trial = {**left, part: {**left.get(part, {}), name: spec}}
            if away.isdisjoint(_table(spec).get("servers", ())) and fits(trial):
                left = trial
            else:
                away.add(name)
    return left


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _classified(error: ConfigError, path: Path, server: str) -> Finding:
    """A complaint of the reader as a finding."""
    seen, advice = error.message, error.hint
    code = "TL105"
    if re.search(r"has no option '", seen):
        code = "TL103"
        if any(name in seen for name in ("'mcpservers'", "'mcp_servers'", "'MCPServers'")):
            advice = "Did you mean 'mcpServers'?"
        advice = f"{advice} Every option is in docs/configuration.md."
    elif re.search(r"^Server .* has (?:no address|both a command and a URL)", seen):
        code = "TL104"
    elif "is not set" in seen:
        code = "TL106"
        advice = _how_to_set(seen)
    return Finding(code, seen, advice or "Write another value; docs/configuration.md has them all.",
                   server=server, file=str(path))  # fmt: skip


def _of_server(spec: ServerSpec, path: Path) -> list[Finding]:
    found: list[Finding] = []
    if spec.problem and spec.enabled:
        code = "TL106" if "is not set" in spec.problem else "TL105"
        advice = _how_to_set(spec.problem) if code == "TL106" else "Set it anew."
        found.append(Finding(code, spec.problem, advice, server=spec.name, file=str(path)))
    left = placeholders(spec) if spec.enabled else []
    if left:
        found.append(
            Finding(
                "TL107",
                f"{', '.join(left)}: the value of an example is still there.",
                "Write the real value. A secret is kept out of the file by `${env:NAME}` or `${secret:NAME}`.",
                server=spec.name,
                file=str(path),
            )
        )
    return found


def _how_to_set(problem: str) -> str:
    variables = re.findall(r"environment variable ([\w, ]+) is not set", problem)
    secrets = re.findall(r"the secret (\S+) is not set", problem)
    commands = [f"export {name}=…" for names in variables for name in names.split(", ")]
    commands += [f"trunkline secret set {name}" for name in secrets]
    return f"Run `{'`, `'.join(commands)}`, where Trunkline is started, or give a default: `${{env:NAME:-value}}`."
