"""The forms that clients give a server, and what stands for something else in them, said as in `trunkline.toml`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

Raw = Mapping[str, Any]

ADDRESS_KEYS = ("url", "serverUrl", "httpUrl", "uri")
"""What clients call the address of a server."""
COMMON_KEYS = ("command", "args", "env", "cwd", "url", "headers", "transport")
"""What `common_form` gives, besides `enabled`."""
_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}


def is_client_file(document: Mapping[str, Any]) -> bool:
    """Whether a document with servers is a client's, and not ours."""
    if "mcpServers" in document:
        return True
    servers: Any = document.get("servers")
    if not isinstance(servers, dict) or "gateway" in document:
        return False
    specs = cast("dict[str, Any]", servers).values()
    return "inputs" in document or any(isinstance(spec, dict) and "type" in spec for spec in specs)


def common_form(raw: Raw) -> dict[str, Any]:
    """What most clients write, with the keys of `[servers.NAME]`. Raises `ValueError` for what cannot be meant."""
    form: dict[str, Any] = {}
    if raw.get("command"):
        form["command"] = _text(raw["command"], "command")
        form["args"] = [_text(word, "args") for word in _list(raw.get("args"), "args")]
        form["env"] = _texts(raw.get("env"), "env")
        form["cwd"] = _text(raw.get("cwd") or "", "cwd")
    address = next((raw[key] for key in ADDRESS_KEYS if raw.get(key)), "")
    if address:
        form["url"] = _text(address, "url")
        form["headers"] = _texts(raw.get("headers"), "headers")
    form["transport"] = _TRANSPORTS.get(str(raw.get("type") or raw.get("transport")), "auto")
    if raw.get("disabled") is True or raw.get("enabled") is False:
        form["enabled"] = False
    return form


def spec_of(raw: Any, into: Translator) -> dict[str, Any]:
    """A server as `[servers.NAME]` has it. Raises `ValueError` with the reason why it cannot be one."""
    spec = _FORMS.get(into.client, _common)(_table(raw, "its entry"), into)
    return {key: value for key, value in spec.items() if value not in ("", [], {})}


def _common(raw: Raw, into: Translator) -> dict[str, Any]:
    form = common_form(raw)
    spec: dict[str, Any] = {}
    if "command" in form:
        spec["command"] = into.text(form["command"])
        spec["args"] = [into.text(word) for word in form["args"]]
        spec["env"] = {key: into.text(value, key=key) for key, value in form["env"].items()}
        spec["cwd"] = into.text(form["cwd"])
    elif "url" in form:
        spec["url"] = into.text(form["url"])
        if not re.match(r"https?://|\$\{", spec["url"]):
            raise ValueError("its address is not one of HTTP")
        spec["headers"] = {key: into.text(value) for key, value in form["headers"].items()}
        if form["transport"] == "sse":
            spec["transport"] = "sse"
    else:
        raise ValueError("it has neither a command nor an address")
    if "enabled" in form:
        spec["enabled"] = False
    for key, what in _UNKNOWN.items():
        if raw.get(key):
            into.note(f"Its `{key}` is not taken over: {what}.")
    return spec


_UNKNOWN = {
    "envFile": "write what is in that file under `env`",
    "disabledTools": "hide tools in a profile",
    "disabled_tools": "hide tools in a profile",
    "enabled_tools": "hide tools in a profile",
    "available_tools": "hide tools in a profile",
    "alwaysAllow": "see `[middleware] confirm`",
    "autoApprove": "see `[middleware] confirm`",
    "headersHelper": "write its headers",
    "sandboxEnabled": "it runs without a sandbox here",
    "oauth": "its client signs in for itself; here, write a token into its headers",
    "authProviderType": "its client signs in for itself; here, write a token into its headers",
    "includeTools": "hide tools in a profile",
    "excludeTools": "hide tools in a profile",
    "trust": "see `[middleware] confirm`",
}


def _zed(raw: Raw, into: Translator) -> dict[str, Any]:
    if raw.get("source") == "extension" or not (raw.get("command") or raw.get("url")):
        raise ValueError("an extension of Zed starts it")
    command = raw.get("command")
    if isinstance(command, dict):  # the older form
        old = cast("dict[str, Any]", command)
        raw = {**raw, **old, "command": old.get("path")}
    return _common(raw, into)


def _continue(raw: Raw, into: Translator) -> dict[str, Any]:
    if raw.get("uses"):
        raise ValueError("Continue has it from its hub")
    transport = raw.get("transport")
    if isinstance(transport, dict):  # the older form
        raw = {**raw, **cast("dict[str, Any]", transport), "transport": None}
    options = _table(raw.get("requestOptions") or {}, "its requestOptions")
    return _common({**raw, "headers": raw.get("headers") or options.get("headers")}, into)


def _codex(raw: Raw, into: Translator) -> dict[str, Any]:
    spec = _common({**raw, "headers": raw.get("http_headers")}, into)
    for name in _list(raw.get("env_vars"), "env_vars"):
        if isinstance(name, str) and "command" in spec:
            spec["env"].setdefault(name, into.joined([_named(name, "env_vars")]))
    if "url" in spec:
        for header, name in _table(raw.get("env_http_headers") or {}, "its env_http_headers").items():
            spec["headers"][header] = into.joined([_named(name, "env_http_headers")])
        if raw.get("bearer_token_env_var"):
            token = _named(raw["bearer_token_env_var"], "bearer_token_env_var")
            spec["headers"].setdefault("Authorization", into.joined(["Bearer ", token]))
    return _timed(spec, raw, start="startup_timeout_sec", call="tool_timeout_sec")


def _goose(raw: Raw, into: Translator) -> dict[str, Any]:
    kind = raw.get("type")
    if kind not in ("stdio", "sse", "streamable_http"):
        raise ValueError("it is a part of Goose")
    envs = _table(raw.get("envs") or {}, "its envs")
    names = [_text(name, "env_keys") for name in _list(raw.get("env_keys"), "env_keys")]
    headers = raw.get("headers")
    spec = _common({**raw, "command": raw.get("cmd"), "env": envs, "headers": {}}, into)
    for name in names:
        known = _named(name, "env_keys")
        into.note(f"Goose keeps {name} among its secrets; here, set the environment variable {name}.")
        if "command" in spec:
            spec["env"].setdefault(name, into.joined([known]))
    if "url" in spec:
        values: dict[str, Part] = {name: variable(name) for name in names}
        values |= {name: _text(value, "envs") for name, value in envs.items()}
        for header, value in _table(headers or {}, "its headers").items():
            spec["headers"][header] = into.joined(_filled(_text(value, "headers"), values))
    return _timed(spec, raw, start="", call="timeout")


def _filled(text: str, values: Mapping[str, Part]) -> list[Part]:
    """A header of Goose, in which `$NAME` and `${NAME}` stand for its variables."""
    parts: list[Part] = []
    behind = 0
    for found in re.finditer(r"\$(?:\{(\w+)\}|(\w+))", text):
        parts += [text[behind : found.start()], values.get(found[1] or found[2], found[0])]
        behind = found.end()
    return [*parts, text[behind:]]


def _gemini(raw: Raw, into: Translator) -> dict[str, Any]:
    if raw.get("url") and not raw.get("httpUrl") and not raw.get("type"):
        raw = {**raw, "type": "sse"}  # what it means by `url`, as opposed to `httpUrl`
    return _timed(_common(raw, into), {"timeout": _seconds(raw.get("timeout"))}, start="", call="timeout")


def _opencode(raw: Raw, into: Translator) -> dict[str, Any]:
    command = [_text(word, "command") for word in _list(raw.get("command"), "command")]
    if not command and not raw.get("url"):
        raise ValueError("it is an organisation's, which opencode asks for it")
    made = {**raw, "type": None, "env": raw.get("environment")}
    return _common({**made, "command": command[0], "args": command[1:]} if command else made, into)


def _seconds(milliseconds: Any) -> Any:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) and milliseconds is not True else None


def _timed(spec: dict[str, Any], raw: Raw, *, start: str, call: str) -> dict[str, Any]:
    for key, ours in ((start, "start_timeout"), (call, "timeout")):
        seconds = raw.get(key)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
            spec[ours] = seconds
    return spec


_FORMS: Mapping[str, Callable[[Raw, Translator], dict[str, Any]]] = {
    "zed": _zed,
    "continue": _continue,
    "codex": _codex,
    "goose": _goose,
    "gemini": _gemini,
    "opencode": _opencode,
}


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a table of keys and values")
    return cast("dict[str, Any]", value)


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"its {what} is not a list")
    return cast("list[Any]", value)


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"its {what} is not a text")
    return value


def _named(value: Any, what: str) -> Part:
    """The environment variable that a client names."""
    name = _text(value, what)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"its {what} names no variable")
    return variable(name)


def _texts(value: Any, what: str) -> dict[str, str]:
    table = _table(value or {}, f"its {what}")
    return {key: _text(item, what) for key, item in table.items() if item is not None}


LITERAL = "${TRUNKLINE_LITERAL:-$}"
"""A `$` in `trunkline.toml` that begins no variable of ours: nobody sets this one, so its default counts."""
REFERENCE = re.compile(r"\$\{(?:env|secrets?):[^}]*\}")
"""What stands for a variable in `trunkline.toml`."""


@dataclass(frozen=True)
class Variable:
    """Part of a text that stands for something else, in the words of `trunkline.toml`."""

    text: str


Part = str | Variable


def variable(name: str) -> Variable:
    """An environment variable in `trunkline.toml`."""
    return Variable(f"${{env:{name}}}")


def spelled(text: str) -> str:
    """Any words as the name of an environment variable."""
    name = re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")
    return name if name[:1].isalpha() else f"MCP_{name}".rstrip("_")


@dataclass
class Translator:
    """Translates the texts of one server, and notes what its reader should know."""

    client: str
    home: Path
    folder: Path
    project: bool
    """Whether the file belongs to the folder, so that what it calls its folder is known."""
    notes: list[str] = field(default_factory=list[str])

    def text(self, text: str, *, key: str = "") -> str:
        """One text, perhaps for the environment variable `key`. Raises `ValueError` for what only the client knows."""
        pattern, meaning = _SYNTAX.get(self.client, (None, None))
        if pattern is None or meaning is None:
            return self.joined([text])
        parts: list[Part] = []
        behind = 0
        for found in pattern.finditer(text):
            parts += [text[behind : found.start()], meaning(self, found, key if found[0] == text else "")]
            behind = found.end()
        return self.joined([*parts, text[behind:]])

    def joined(self, parts: Sequence[Part]) -> str:
        """One text of several parts, in which only those that are meant so are variables.

        Whoever writes a client's file must not reach our secrets, not even with a variable put together from pieces.
        """
        made: list[str] = []
        for variables, group in itertools.groupby(parts, lambda part: isinstance(part, Variable)):
            text = "".join(part.text if isinstance(part, Variable) else part for part in group)
            made.append(text if variables else text.replace("${", LITERAL + "{"))
            if not variables and "${" in text:
                self.note("What looks like a variable in it means itself, as it did, and is written so.")
        return "".join(made)

    def note(self, text: str) -> None:
        """Once is enough."""
        if text not in self.notes:
            self.notes.append(text)


Meaning = Callable[[Translator, "re.Match[str]", str], Part]


def _editor(into: Translator, found: re.Match[str], key: str) -> Part:
    """VS Code, and what was made of it."""
    word, _, detail = found[1].partition(":")
    if word == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", detail):
        return variable(detail)
    if word == "input" and into.client.startswith("vscode"):
        name = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) else spelled(detail)
        into.note(f"The client asks for {detail!r}; here, set the environment variable {name}.")
        return variable(name)
    if word in ("workspaceFolder", "workspaceFolderBasename", "cwd"):
        if not into.project:
            into.note(f"${{{word}}} is whatever folder is open; here it is {into.folder}.")
        return into.folder.name if word.endswith("Basename") else str(into.folder)
    simple = {"userHome": str(into.home), "/": "/", "pathSeparator": "/"}
    if word in simple:
        return simple[word]
    raise ValueError(f"it uses ${{{found[1]}}}, which only the client knows")


def _shell(into: Translator, found: re.Match[str], key: str) -> Part:
    """Claude Code's way, which is also ours."""
    return Variable(found[0])


def _secrets(into: Translator, found: re.Match[str], key: str) -> Part:
    """Continue's way."""
    into.note(f"The client knows {found[2]!r} as a secret; here, set the environment variable {found[2]}.")
    return variable(found[2])


def _dollar(into: Translator, found: re.Match[str], key: str) -> Part:
    """Gemini's way, which is that of shells."""
    return variable(found[1] or found[2])


def _braced(into: Translator, found: re.Match[str], key: str) -> Part:
    """opencode's way."""
    if found[1] == "file":
        raise ValueError(f"it uses {found[0]}, which only the client knows")
    return variable(found[2])


_EDITOR = re.compile(
    r"\$\{((?:env|input|config|command|file):[^}]+|workspaceFolder(?::[^}]*)?|workspaceFolderBasename"
    r"|cwd|userHome|/|pathSeparator)\}"
)
_SYNTAX: Mapping[str, tuple[re.Pattern[str], Meaning]] = {
    "vscode": (_EDITOR, _editor),
    "vscode-insiders": (_EDITOR, _editor),
    "cursor": (_EDITOR, _editor),
    "windsurf": (re.compile(r"\$\{((?:env|file):[^}]+)\}"), _editor),
    "claude-code": (re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}"), _shell),
    "gemini": (re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"), _dollar),
    "opencode": (re.compile(r"\{(env|file):([^}]+)\}"), _braced),
    "continue": (re.compile(r"\$\{\{\s*(secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}"), _secrets),
}
