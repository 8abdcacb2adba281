"""Trunkline in a client's configuration: whether it is there, and the change that brings it in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

from trunkline.clients.client import ENTRY, Around, Client, Keys, Place
from trunkline.clients.document import Document
from trunkline.clients.file import Original, check_writable, look
from trunkline.clients.secret import hidden
from trunkline.clients.server import entries, is_trunkline, read, same, same_address
from trunkline.config.client_forms import ADDRESS_KEYS
from trunkline.config.options import GatewayConfig
from trunkline.errors import ConfigError
from trunkline.untrusted import printable


@dataclass(frozen=True)
class FileChange:
    """What a client's file is, and what it would be."""

    original: Original
    before: Document
    after: Document
    touched: tuple[Keys, ...] = ()
    """Where the entries stand that are written or taken out: Trunkline's own first."""

    @property
    def replaced(self) -> tuple[str, ...]:
        """Servers that are taken out, since Trunkline has them."""
        return tuple(keys[-1] for keys in self.touched[1:])

    @property
    def needed(self) -> bool:
        """Whether anything is to be written."""
        return self.original.data is None or self.before.text != self.after.text

    def preview(self) -> str:
        """The change, line by line."""
        return difference(self.before.text, self.after.text, [self.before.value(), self.after.value()])


def plan(
    client: Client,
    place: Place,
    around: Around,
    *,
    url: str,
    token: str = "",
    program: Mapping[str, Any] | None = None,
    known: Mapping[str, Mapping[str, Any]] | None = None,
) -> FileChange:
    """The change that connects a client; `token` is the variable of the gateway's token, `known` what to take out.

    A client that can only start programs is given the `program` that leads to Trunkline.
    """
    original = look(place.path)
    check_writable(original)
    data = place.preamble.encode() if original.data is None else original.data
    before = Document.of(place.path, place.format, data)
    value, keys = before.value(), place.keys[0]
    name, found = own_entry(place, value, [url]) or (ENTRY, {})
    wanted = url
    if same_address(address_of(found), url):
        url = address_of(found)  # `localhost` is as good as `127.0.0.1`
    header = f"Bearer {client.variable.replace('NAME', token)}" if token and client.variable else ""
    entry = client.entry(url, header)
    if program is not None:
        entry = {**program, "args": [url if word == wanted else word for word in program["args"]]}
    if place.listed:
        entry["name"] = name
    kept = {key: found[key] for key in found if key not in _ADDRESS}
    after = before
    if found != {**kept, **entry}:
        after = before.with_entry((*keys, name), {**kept, **entry}, listed=place.listed)
    touched: list[Keys] = [(*keys, name)]
    for server in read(place, value, around).servers:
        if server.name != name and any(same(spec, server.spec) for spec in (known or {}).values()):
            after = after.without_entry(server.keys)
            touched.append(server.keys)
    fresh = Document(before.path, before.format, "") if original.data is None else before
    return FileChange(original, fresh, after, tuple(touched))


def taken_back(now: Document, before: Document, place: Place, touched: Iterable[Keys]) -> Document:
    """A file that others changed meanwhile, with the entries that a change touched as they were before it.

    What was taken out and is there again stays as it is.
    """
    own, *replaced = touched
    was = dict(entries(before.value(), own[:-1]))
    after = now.with_entry(own, was[own[-1]], listed=place.listed) if own[-1] in was else now.without_entry(own)
    for keys in replaced:
        was, there = dict(entries(before.value(), keys[:-1])), dict(entries(now.value(), keys[:-1]))
        if keys[-1] in was and keys[-1] not in there:
            after = after.with_entry(keys, was[keys[-1]], listed=place.listed)
    return after


_ADDRESS = frozenset(
    [
        *ADDRESS_KEYS,
        "type",
        "transport",
        "headers",
        "requestOptions",
        "http_headers",
        "env_http_headers",
        "bearer_token_env_var",
        "env_keys",
        "command",
        "args",
        "env",
        "environment",
        "envs",
        "cmd",
        "source",
        "name",
    ]
)
"""Keys of an entry that say where Trunkline is; others are the user's, and stay."""


def own_entry(place: Place, value: Mapping[str, Any], urls: Iterable[str]) -> tuple[str, dict[str, Any]] | None:
    """Trunkline's entry in a file: the one that leads here, or else the one of that name."""
    addresses = list(urls)
    tables = {
        name: cast("dict[str, Any]", entry) for name, entry in entries(value, place.keys[0]) if isinstance(entry, dict)
    }
    for name, entry in tables.items():
        if is_trunkline({**entry, "url": address_of(entry)}, addresses):
            return name, entry
    return (ENTRY, tables[ENTRY]) if ENTRY in tables else None


def address_of(entry: Mapping[str, Any]) -> str:
    """The URL that an entry leads to, by whatever name, or among the words of a program."""
    words = [entry.get(key) for key in ADDRESS_KEYS]
    arguments: Any = entry.get("args")
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    return next((word for word in words if isinstance(word, str) and word.startswith(("http://", "https://"))), "")


def gateway_url(gateway: GatewayConfig) -> str:
    """Where clients on this machine reach the gateway."""
    if gateway.public_url:
        return f"{gateway.public_url.rstrip('/')}/mcp"
    if not gateway.port:
        raise ConfigError("The gateway takes any free port.", hint="Say where it listens with --url.")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(gateway.host, gateway.host)  # noqa: S104 - not to listen on
    return f"http://{f'[{host}]' if ':' in host else host}:{gateway.port}/mcp"


def difference(before: str, after: str, documents: Iterable[Any]) -> str:
    """The lines that change, with three around them, secrets hidden."""
    old, new = before.splitlines(), after.splitlines()
    lead = _equal(zip(old, new, strict=False))
    tail = _equal(zip(reversed(old[lead:]), reversed(new[lead:]), strict=False))
    start, around = max(lead - 3, 0), max(tail - 3, 0)
    # Only what differs is compared: a file of many thousand lines would take minutes.
    lines = difflib.unified_diff(old[start : len(old) - around], new[start : len(new) - around], lineterm="", n=3)
    changed = [line for line in list(lines)[2:] if not line.startswith("@@")]
    shown = [printable(line) for line in hidden("\n".join(changed), documents).split("\n")]
    return "\n".join(_cut(line, shown[at - 1 : at] + shown[at + 1 : at + 2]) for at, line in enumerate(shown))


def _cut(line: str, beside: list[str]) -> str:
    """A long line around what tells it from the one that takes its place."""
    if len(line) <= WIDEST:
        return line
    other = next((one for one in beside if {one[:1], line[:1]} == {"+", "-"}), "")
    first = _equal(zip(line[1:], other[1:], strict=False)) + 1 if other else 0
    start = max(first - 40, 1)
    if start == 1:
        return line[: WIDEST - 1] + "…"
    rest = line[start : start + WIDEST - 3]
    return f"{line[0]}…{rest}" + ("…" if start + len(rest) < len(line) else "")


WIDEST = 200
"""Signs of a line that are shown."""


def _equal(pairs: Iterator[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
