"""The forms that clients give a server, brought into the one of `trunkline.toml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from trunkline.clients.variable import Part, Translator, variable

Raw = Mapping[str, Any]


def spec_of(raw: Any, into: Translator) -> dict[str, Any]:
    """A server as `[servers.NAME]` has it. Raises `ValueError` with the reason why it cannot be one."""
    table = _table(raw, "its entry")
    return _clean(_SHAPES.get(into.client, _common)(table, into))


def _common(raw: Raw, into: Translator) -> dict[str, Any]:
    """`command`, `args` and `env`, or `url` and `headers`: what most clients have."""
    command = raw.get("command")
    address = next((raw[key] for key in ("url", "serverUrl", "httpUrl", "uri") if raw.get(key)), "")
    spec: dict[str, Any] = {}
    if command:
        spec["command"] = into.text(_text(command, "command"))
        spec["args"] = [into.text(_text(word, "args")) for word in _list(raw.get("args"), "args")]
        spec["env"] = _texts(raw.get("env"), "env", into)
        spec["cwd"] = into.text(_text(raw.get("cwd") or "", "cwd"))
    elif address:
        spec["url"] = into.text(_text(address, "url"))
        if not re.match(r"https?://|\$\{", spec["url"]):
            raise ValueError("its address is not one of HTTP")
        spec["headers"] = _texts(raw.get("headers"), "headers", into)
        if (raw.get("type") or raw.get("transport")) == "sse":
            spec["transport"] = "sse"
    else:
        raise ValueError("it has neither a command nor an address")
    if raw.get("disabled") is True or raw.get("enabled") is False:
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
    "oauth": "write its headers",
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


def _timed(spec: dict[str, Any], raw: Raw, *, start: str, call: str) -> dict[str, Any]:
    for key, ours in ((start, "start_timeout"), (call, "timeout")):
        seconds = raw.get(key)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
            spec[ours] = seconds
    return spec


_SHAPES: Mapping[str, Callable[[Raw, Translator], dict[str, Any]]] = {
    "zed": _zed,
    "continue": _continue,
    "codex": _codex,
    "goose": _goose,
}


def _clean(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if value not in ("", [], {})}


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


def _texts(value: Any, what: str, into: Translator) -> dict[str, str]:
    table = _table(value or {}, f"its {what}")
    return {
        key: into.text(_text(item, what), key=key if what == "env" else "")
        for key, item in table.items()
        if item is not None
    }
