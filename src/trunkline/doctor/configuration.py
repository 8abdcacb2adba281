"""Reads the configuration piece by piece, so that one broken server does not hide what is wrong with the others."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.config.client_forms import is_client_file
from trunkline.config.options import Config, default_home
from trunkline.config.placeholder import PATH, is_placeholder
from trunkline.config.reading import load, parse, read_document, user_file
from trunkline.config.server import ServerSpec
from trunkline.doctor.finding import Finding, Severity
from trunkline.errors import ConfigError
from trunkline.untrusted import as_object


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

    servers = as_object(document.get("mcpServers", document.get("servers")))
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
        for name, spec in as_object(document.get(part)).items():
            trial = {**left, part: {**left.get(part, {}), name: spec}}
            if away.isdisjoint(as_object(spec).get("servers", ())) and fits(trial):
                left = trial
            else:
                away.add(name)
    return left


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


_MARKED = re.compile(r"<[^<>]+>|(?:[\w-]*[_-])?your[_-][\w-]+", re.IGNORECASE)
"""What cannot be meant in an argument either, where words may be anything."""


def placeholders(spec: ServerSpec) -> list[str]:
    """Where placeholders were left, by name and never by value."""
    found = [f"the variable {key}" for key, value in spec.env.items() if is_placeholder(value)]
    found += [f"the header {key}" for key, value in spec.headers.items() if is_placeholder(value)]
    found += [
        f"argument {number}"
        for number, word in enumerate(spec.args, 1)
        if _MARKED.fullmatch(word.rpartition("=")[2]) or PATH.match(word)
    ]
    if re.search(r"<[^<>/]+>|\byour[-_](?:host|domain|server|company)\b", spec.url, re.IGNORECASE):
        found.append("the url")
    return found


_SMART = "“”„‟‘’‚‛«»"
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Break:
    """The place, and the likely cause."""

    line: int
    column: int
    complaint: str
    cause: str = ""


def find_break(text: str, *, toml: bool) -> Break | None:
    """Where the text is broken; `None` when it is not."""
    try:
        if toml:
            tomllib.loads(text)
        else:
            json.loads(_blanked(text))
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found and found[1] else _end_of(text)
        complaint = _POSITION.sub("", str(error)).partition("\n")[0]
        return Break(line, column, complaint, _toml_cause(text, line, complaint))
    except json.JSONDecodeError as error:
        return Break(error.lineno, error.colno, error.msg, _json_cause(text, error))
    except RecursionError:
        return Break(1, 1, "nested too deeply")
    return None


def _blanked(text: str) -> str:
    """JSON without comments and trailing commas, every other letter in its place."""
    blank = re.sub(
        r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/',
        lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]),
        text,
        flags=re.DOTALL,
    )
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda found: found[1] or " ", blank)


def _end_of(text: str) -> tuple[int, int]:
    lines = text.split("\n")
    return len(lines), len(lines[-1]) + 1


def _line_of(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _any_cause(text: str, line: str) -> str:
    """What goes wrong in either format."""
    if text.startswith("\ufeff"):
        return "the file begins with a byte order mark: save it as UTF-8 without one"
    if re.search(r"^(?:<{7}|={7}|>{7})(?:\s|$)", text, re.MULTILINE):
        return "a conflict of a merge was left in: remove the lines with <<<<<<<, ======= and >>>>>>>"
    if any(letter in line for letter in _SMART):
        return 'typographic quotes: replace “ and ” by "'
    return ""


def _toml_cause(text: str, number: int, complaint: str) -> str:
    line = _line_of(text, number)
    if cause := _any_cause(text, line):
        return cause
    if text.lstrip().startswith("{"):
        return "it is JSON: name the file .json, or write it as TOML"
    if "\\" in line and re.search(r"escape|Unescaped|hex value", complaint):
        return "a backslash in a text: write it twice, or put the text in single quotes"
    if re.search(r",\s*}", line):
        return "a trailing comma: remove the comma before }"
    if "Expected '=' after a key" in complaint or "Invalid statement" in complaint:
        if re.match(r"\s*[\w\"'-]+\s*:", line):
            return "a colon: TOML wants `key = value`"
        return "a line that is neither `key = value` nor `[table]`"
    if "twice" in complaint or "overwrite" in complaint or "Cannot" in complaint:
        return "the same key or table is there twice: keep one"
    if "Invalid value" in complaint or "value" in complaint.lower():
        return "a text without quotes, or no value at all"
    if "Unclosed" in complaint or "Unterminated" in complaint or "Illegal character" in complaint:
        return "a quote or a bracket that is not closed"
    if "newline" in complaint.lower():
        return "two things on one line, or a comma that is missing"
    return ""


def _json_cause(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the file is empty"
    if cause := _any_cause(text, _line_of(text, error.lineno)):
        return cause
    here = text[error.pos : error.pos + 1]
    if "escape" in error.msg:
        return "a backslash in a text: write it twice"
    if "property name" in error.msg:
        if here == "'":
            return "single quotes: JSON wants double ones"
        if here == ",":
            return "a comma too many"
        return "a key without quotes" if re.match(r"[\w$]", here) else "a comma too many, or a bracket not closed"
    if error.pos >= len(text.rstrip()):
        return "a bracket or a quote that is not closed"
    if "',' delimiter" in error.msg:
        return "a comma is missing before this place"
    if "':' delimiter" in error.msg:
        return "a colon is missing: TOML's = is not JSON" if here == "=" else "a colon is missing"
    if "Unterminated" in error.msg or "control character" in error.msg:
        return "a text whose closing quote is missing"
    if "Extra data" in error.msg:
        return "something stands behind the end"
    if "Expecting value" in error.msg:
        if here == "'":
            return "single quotes: JSON wants double ones"
        if here in ",}]":
            return "a value is missing, or there is a comma too many"
        if re.match(r"\s*\[[\w.\"-]+\]", text) or re.match(r"\s*\w+\s*=", text):
            return "it is TOML: name the file .toml"
        return "a text without quotes: true, false and null are the only bare words"
    return ""
