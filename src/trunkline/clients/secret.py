"""Secrets in clients' configurations: found by their names and looks, moved elsewhere, and never shown."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from trunkline.config.client_forms import LITERAL, REFERENCE, spelled, variable
from trunkline.untrusted import printable

_NAME = re.compile(
    r"token|secret|passw|pwd|api[-_]?key|access[-_]?key|private[-_]?key|credential|authorization|bearer|cookie"
    r"|(?:^|[-_])(?:key|auth|pat|dsn)$|connection[-_]?string|database[-_]?url",
    re.IGNORECASE,
)
_KINDS = r"(?:sk|pk|rk)[-_]\w|gh[opsu]_\w|github_pat_|glpat-|xox[abeprs]-|AKIA[0-9A-Z]|eyJ[\w-]{10}"
_LOOK = re.compile(rf"{_KINDS}|Bearer\s|Basic\s")
_USERINFO = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
_VARIABLES = re.compile(r"\$\{(?:env:|secrets?:)?\w[\w.]*")
HIDDEN = "***"


@dataclass(frozen=True)
class MovedSecret:
    """A secret that is no longer in the file, but in an environment variable or among our own secrets."""

    server: str
    key: str
    name: str
    value: str = field(repr=False)


def is_secret(name: str, value: str) -> bool:
    """Whether a value is one that should not lie about; what stands for a variable is not."""
    if not value or REFERENCE.search(value):
        return False
    return bool(_NAME.search(name) or _LOOK.match(value) or _USERINFO.search(value))


def secrets_of(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The secrets of a server: `env` or `headers`, and the key."""
    return [
        (part, key) for part in ("env", "headers") for key, value in spec.get(part, {}).items() if is_secret(key, value)
    ]


def is_private(spec: Mapping[str, Any]) -> bool:
    """Whether an entry holds anything that others on the machine should not read, wherever it stands in it."""
    words = [str(word) for word in spec.get("args", ())]
    url = str(spec.get("url", ""))
    return bool(secrets_of(spec)) or holds_secret(words) or bool(_USERINFO.search(url)) or "?" in url


def holds_secret(words: Sequence[str]) -> bool:
    """Whether something among a program's arguments should not lie about."""
    return _masked(words) != list(words)


def move(
    specs: Mapping[str, Mapping[str, Any]], *, into_variables: bool, taken: Collection[str] = ()
) -> tuple[dict[str, dict[str, Any]], list[MovedSecret]]:
    """The servers without their secrets, and which those are.

    They are to be kept by name, each server's for itself and none in the place of those that are `taken`, or set as
    environment variables, which equal ones share.
    """
    from trunkline.config.secrets import name_for  # who only hides secrets need not load what keeps them

    made: dict[str, dict[str, Any]] = {}
    moved: list[MovedSecret] = []
    values: dict[str, str] = {}
    for server, spec in specs.items():
        made[server] = dict(spec)
        for part, key in secrets_of(spec):
            scheme, value = _parted(spec[part][key])
            if into_variables:
                plain = spelled(key) if part == "env" else spelled(f"{server} {'token' if scheme else key}")
                name = next(name for name in _names(plain, server) if values.get(name, value) == value)
                values[name] = value
                text = variable(name).text
            else:
                plain = name_for(server, key)
                name = next(name for name in (plain, *(f"{plain}-{n}" for n in range(2, 1000))) if name not in taken)
                text = f"${{secret:{name}}}"
            made[server][part] = {**made[server][part], key: scheme + text}
            moved.append(MovedSecret(server, key, name, value))
    return made, moved


def _parted(value: str) -> tuple[str, str]:
    found = re.match(r"(?:Bearer|Basic|Token)\s+", value, re.IGNORECASE)
    return (found[0], value[found.end() :]) if found else ("", value)


def _names(plain: str, server: str) -> Iterable[str]:
    yield plain
    longer = spelled(f"{server} {plain}")
    yield longer
    number = 2
    while True:
        yield f"{longer}_{number}"
        number += 1


def shown_command(spec: Mapping[str, Any]) -> str:
    """What is started or reached, word for word but for secrets, and safe to print."""
    names = [
        _given(key, str(value)) for part in ("env", "headers") for key, value in sorted(spec.get(part, {}).items())
    ]
    where = f" (in {spec['cwd']})" if spec.get("cwd") else ""
    given = f" (with {', '.join(names)})" if names else ""
    if spec.get("url"):
        return printable(_USERINFO.sub(f"://{HIDDEN}@", str(spec["url"]).partition("?")[0]) + given)
    words = [str(spec.get("command", "")), *_masked([str(word) for word in spec.get("args", ())])]
    return printable(shlex.join(words) + where + given)


def _given(key: str, value: str) -> str:
    """What a server gets, without its value, but with the variables of this machine that go into it."""
    used = "".join(f"{found}}}" for found in _VARIABLES.findall(value.replace(LITERAL, "")))
    return f"{key}={used}" if used else key


def _masked(words: Sequence[str]) -> list[str]:
    made: list[str] = []
    hide = False
    for word in words:
        flag, equals, value = word.partition("=")
        header = re.match(r"([\w-]+:\s*)(?!\$\{)\S", word)
        if hide and not word.startswith("-"):
            made.append(HIDDEN)
        elif equals and value and is_secret(flag.lstrip("-"), value):
            made.append(f"{flag}={HIDDEN}")
        elif header and is_secret(header[1].strip(": "), "x"):
            made.append(header[1] + HIDDEN)
        else:
            made.append(HIDDEN if _LOOK.match(word) else _USERINFO.sub(f"://{HIDDEN}@", word))
        hide = word.startswith("-") and not equals and bool(_NAME.search(word.lstrip("-")))
    return made


def hidden(text: str, documents: Iterable[Any]) -> str:
    """A text with the secrets of these documents hidden."""
    values = sorted({value for document in documents for value in _values(document, "")}, key=len, reverse=True)
    lines = {line.strip() for value in values for line in value.splitlines() if len(line.strip()) >= 8}
    for value in (*values, *lines):
        for form in (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]):
            text = text.replace(form, HIDDEN)
    # What no reader sees, such as an entry in a comment, is told by its looks alone.
    return "\n".join(_hidden_line(line) for line in text.split("\n"))


_TOKEN = re.compile(rf"(?<![\w-])(?:{_KINDS})[\w.~+/=-]*|(?<=Bearer )[\w.~+/=-]{{4,}}")
_QUERY = re.compile(r"(https?://[^\s\"'?#]+\?)[^\s\"'#]+")
_PAIR = re.compile(r"""(["']?)([\w.-]+)\1(\s*[:=]\s*)(["']?)([^"',\s{}\[\]][^"',]{3,})""")


def _hidden_line(line: str) -> str:
    """A line of whatever format without what looks like a secret."""
    line = _QUERY.sub(rf"\1{HIDDEN}", _USERINFO.sub(f"://{HIDDEN}@", line))

    def pair(found: re.Match[str]) -> str:
        quote, name, mark, opening, value = found.groups()
        if not is_secret(name, value) or value.startswith(("$", "{", HIDDEN)) or _LEADS.match(value):
            return found[0]
        return f"{quote}{name}{quote}{mark}{opening}{HIDDEN}"

    return _TOKEN.sub(HIDDEN, _PAIR.sub(pair, line))


_LEADS = re.compile(r"(?:Bearer|Basic|Token)\s+(?:\$|\{|\*)|https?://|TRUNKLINE_")


def _values(value: Any, key: str, *, inside: bool = False) -> Iterable[str]:
    """Values that must not be shown: of headers, and of whatever is called, or looks, like a secret."""
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _values(item, str(name), inside=inside or name in ("headers", "http_headers"))
    elif isinstance(value, list):
        words = cast("list[Any]", value)
        for word, masked in zip(words, _masked([str(word) for word in words]), strict=True):
            if isinstance(word, str):
                if masked == HIDDEN:
                    yield word
                elif masked.endswith(HIDDEN):
                    yield word[len(masked) - len(HIDDEN) :]
            else:
                yield from _values(word, key, inside=inside)
    elif isinstance(value, str) and len(value) >= 4 and (is_secret(key, value) or (inside and "${" not in value)):
        yield from filter(None, [_parted(value)[1]])


def may_need_sign_in(spec: Mapping[str, Any]) -> bool:
    """Whether a server is elsewhere and nothing is sent along that could say who asks."""
    url = str(spec.get("url", ""))
    return (
        url.startswith("https://")
        and not any(is_secret(name, "x") for name in spec.get("headers", {}))
        and "?" not in url
    )
