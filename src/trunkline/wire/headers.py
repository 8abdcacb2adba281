"""The `Mcp-*` headers of a modern request, which must agree with its body."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from trunkline.errors import RefusedError
from trunkline.wire.envelope import read_string
from trunkline.wire.era import HEADER_MISMATCH
from trunkline.wire.members import Members, decode_object

NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Which member of the params `Mcp-Name` repeats."""

PARAM = b"mcp-param-"

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

HeaderMap = dict[tuple[str, ...], str]
"""Path of a property to the lower-case name of the header that repeats it."""


class Said(msgspec.Struct, frozen=True):
    """What the headers of a request say of its body; `None` where they say nothing that can be understood."""

    version: str | None
    method: str | None
    name: str | None
    params: Mapping[bytes, bytes]
    """The `Mcp-Param-*` headers, as they were sent."""
    is_json: bool


NOTHING_SAID = Said(None, None, None, {}, False)


def read_said(headers: Mapping[bytes, bytes]) -> Said:
    """Read the headers that repeat something of the body."""
    return Said(
        _meaning(headers.get(b"mcp-protocol-version")),
        _meaning(headers.get(b"mcp-method")),
        _meaning(headers.get(b"mcp-name")),
        {name: value for name, value in headers.items() if name.startswith(PARAM)},
        headers.get(b"content-type", b"").lower().startswith(b"application/json"),
    )


def check_headers(said: Said, *, version: str, method: str, params: Members) -> str:
    """Refuse a request whose headers say something else than its body; gives what the request names."""
    if said.version != version:
        _mismatch(b"mcp-protocol-version")
    if said.method != method:
        _mismatch(b"mcp-method")
    named_by = NAMED_BY.get(method)
    if named_by is None:
        return ""
    name = read_string(params.get(named_by, b""))
    if said.name != name:
        _mismatch(b"mcp-name")
    return name


def check_param_headers(headers: Mapping[bytes, bytes], wanted: HeaderMap, arguments: bytes) -> None:
    """Refuse a call whose `Mcp-Param-*` headers do not repeat the arguments they stand for."""
    values = param_values(wanted, arguments)
    for header in wanted.values():
        name = PARAM + header.encode()
        sent = decode_value(headers[name]) if name in headers else None
        if header not in values:
            if name in headers:
                _mismatch(name)
        elif sent is None or not _same(sent, values[header]):
            _mismatch(name)


def param_headers(wanted: HeaderMap, arguments: bytes) -> dict[bytes, bytes]:
    """The `Mcp-Param-*` headers that a call with these arguments must carry."""
    return {
        PARAM + name.encode(): encode_value(_render(value)) for name, value in param_values(wanted, arguments).items()
    }


def param_values(wanted: HeaderMap, arguments: bytes) -> dict[str, str | int | float | bool]:
    """Header name to the argument it repeats, for those that are given."""
    given = decode_object(arguments)
    found: dict[str, str | int | float | bool] = {}
    for path, header in wanted.items():
        value: Any = given
        for step in path:
            value = cast("dict[str, Any]", value).get(step) if isinstance(value, dict) else None
        if isinstance(value, (str, int, float)):
            found[header] = value
    return found


def header_map(schema: Any) -> HeaderMap:
    """The properties that a tool's schema wants repeated in headers; ValueError says what is wrong with it."""
    found: HeaderMap = {}
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, list):
            stack.extend((None, item) for item in cast("list[Any]", node))
        if not isinstance(node, dict):
            continue
        position = cast("dict[str, Any]", node)
        if "x-mcp-header" in position:
            header = _checked(path, position)
            if header in found.values():
                raise ValueError(f"two properties share the header {header!r}")
            found[cast("tuple[str, ...]", path)] = header
        for keyword, value in position.items():
            if keyword == "properties" and isinstance(value, dict):
                for name, inner in cast("dict[str, Any]", value).items():
                    stack.append(((*path, name) if path is not None else None, inner))
            elif keyword in _MAPS and isinstance(value, dict):
                stack.extend((None, inner) for inner in cast("dict[str, Any]", value).values())
            elif keyword not in _DATA:
                stack.append((None, value))
    return found


_MAPS = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))
_DATA = frozenset(("default", "examples", "const", "enum", "required", "x-mcp-header"))


def encode_value(value: str) -> bytes:
    """A header value, in base64 where plain characters would not survive."""
    return _encode_again(value) if len(value) <= 128 else _encode(value)


def _encode(value: str) -> bytes:
    if _PLAIN.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value.encode()
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


_encode_again = lru_cache(maxsize=1024)(_encode)
"""For the names of tools, which are few."""


def decode_value(value: bytes) -> str | None:
    """What a header value stands for; `None` when it is broken, so that it equals nothing."""
    try:
        text = value.decode("ascii")
        found = _SENTINEL.fullmatch(text)
        if found is None:
            return text
        plain = base64.b64decode(found[1], validate=True)
        return plain.decode() if base64.b64encode(plain).decode() == found[1] else None
    except (UnicodeDecodeError, binascii.Error):
        return None


def _meaning(sent: bytes | None) -> str | None:
    if sent is None or sent[:1] == b"=":
        return decode_value(sent) if sent is not None else None
    try:
        return sent.decode()  # some send UTF-8 as it is
    except UnicodeDecodeError:
        return None


def _mismatch(name: bytes) -> None:
    raise RefusedError(f"The header {name.decode()} is missing or does not agree with the body.", code=HEADER_MISMATCH)


def _checked(path: tuple[str, ...] | None, position: dict[str, Any]) -> str:
    if not path:
        raise ValueError("x-mcp-header stands where no plain property is")
    header = position["x-mcp-header"]
    if not isinstance(header, str) or not _TOKEN.fullmatch(header):
        raise ValueError(f"x-mcp-header of {'.'.join(path)!r} is not a header name")
    if position.get("type") not in ("string", "integer", "boolean"):
        raise ValueError(f"x-mcp-header of {'.'.join(path)!r} is not on a string, integer or boolean")
    return header.lower()


def _render(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _same(sent: str, value: str | float | bool) -> bool:
    if sent == _render(value):
        return True
    # To JSON Schema 42 and 42.0 are one integer.
    whole = _INTEGRAL.fullmatch(sent)
    if whole is None or isinstance(value, (str, bool)) or (isinstance(value, float) and not value.is_integer()):
        return False
    return int(whole[1]) == int(value)


_INTEGRAL = re.compile(r"(-?\d{1,400})(?:\.0+)?")
