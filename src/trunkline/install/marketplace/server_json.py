"""Reads what registries say of servers, and our own catalogue; what is broken or hostile is left out and counted."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.errors import ManifestError, ProtocolError, TrunklineError
from trunkline.install.manifests.launch import choose, plan, questions
from trunkline.install.manifests.manifest import Manifest, Package, Remote
from trunkline.install.manifests.reader import read_manifest
from trunkline.install.marketplace.entry import RegistryEntry, Status, Transport, is_harmful
from trunkline.untrusted import as_object

LARGEST_ENTRY = 64 * 1024
"""Bytes that the description of one server may have."""
MOST_ENTRIES = 50_000
DEEPEST = 32
OFFICIAL_META = "io.modelcontextprotocol.registry/official"
OUR_META = "trunkline/catalogue"
"""Where `_meta` says what a `server.json` has no room for: categories, tags, tools, downloads and stars."""

NAME = re.compile(r"[a-zA-Z0-9.-]{1,150}/[a-zA-Z0-9._-]{1,150}")
"""What registries call servers."""
_TRANSPORTS: Mapping[str, Transport] = {"stdio": "stdio", "streamable-http": "http", "sse": "sse"}
_STATUS: Mapping[str, Status] = {"active": "active", "deprecated": "deprecated", "deleted": "deleted"}


@dataclass(frozen=True)
class Page:
    """One answer of a registry."""

    entries: tuple[RegistryEntry, ...]
    """Deleted ones included, so that whoever keeps a copy learns of it."""
    raw: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """What was said of each, by id."""
    cursor: str = ""
    """What to ask with for the next page; empty after the last."""
    dropped: int = 0


def read_page(content: bytes, *, source: str, several: bool = False, words: Collection[bytes] = ()) -> Page:
    """A page of `/v0.1/servers`; ProtocolError when it is none.

    Of equal names the first counts, unless several versions of one server are expected. With words, only what holds
    one of them is read.
    """
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"{source} did not answer with a list of servers: {error}.") from error
    found: dict[str, RegistryEntry] = {}
    raw: dict[str, bytes] = {}
    dropped = 0
    for item in answer.servers[:MOST_ENTRIES]:
        if words and not any(word in bytes(item).lower() for word in words):
            continue
        try:
            entry = read_one(bytes(item), source=source)
        except TrunklineError:
            dropped += 1
            continue
        key = f"{entry.id} {entry.version}" if several else entry.id
        if key in found:
            dropped += 1
            continue
        found[key], raw[key] = entry, bytes(item)
    cursor = as_object(answer.metadata).get("nextCursor")
    cursor = cursor if isinstance(cursor, str) and len(cursor) <= 2_000 else ""
    return Page(tuple(found.values()), raw, cursor, dropped)


def write_page(raw: Iterable[bytes]) -> bytes:
    """A page of what was said of servers, to be read again."""
    return b'{"servers":[' + b",".join(raw) + b"]}"


def read_one(content: bytes, *, source: str) -> RegistryEntry:
    """What is said of one server; a TrunklineError when it cannot be used."""
    if len(content) > LARGEST_ENTRY:
        raise ManifestError(f"An entry has more than {LARGEST_ENTRY} bytes.")
    try:
        item: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"{source} did not answer with JSON: {error}.") from error
    # Plain letters without escapes cannot hold anything harmful, and that is how most entries are written.
    return read_entry(item if content.isascii() and b"\\" not in content else _clean(item, DEEPEST), source=source)


def read_entry(item: object, *, source: str, ours: bool = False) -> RegistryEntry:
    """An entry of a registry's item; a TrunklineError says why it is left out.

    Only in our own catalogue an item says its short id, and whether it was verified.
    """
    if not isinstance(item, dict):
        raise ManifestError("An entry is not an object.")
    members = cast("dict[str, Any]", item)
    server: Any = members.get("server")
    if not isinstance(server, dict):
        raise ManifestError("An entry has no `server`.")
    definition = cast("dict[str, Any]", server)
    manifest = read_manifest(definition, where=source)
    _check(manifest)
    meta = as_object(members.get("_meta"))
    official, more = as_object(meta.get(OFFICIAL_META)), as_object(meta.get(OUR_META))
    spec, problem, choice = _launch(manifest)
    said = {name: more[name] for name in ("categories", "tags", "tools", "downloads", "stars") if name in more}
    return RegistryEntry(
        id=more["id"] if ours else manifest.name,
        name=manifest.title,
        description=manifest.description,
        version=manifest.version,
        author=more.get("author", "") if ours else manifest.name.partition("/")[0],
        license=manifest.license,
        homepage=manifest.website,
        repository=manifest.repository.get("url", ""),
        npm_package=_package(manifest, "npm"),
        pypi_package=_package(manifest, "pypi"),
        command=spec.command,
        args=spec.args,
        url=spec.url,
        required_env_vars=(*(more.get("env_args", ()) if ours else ()), *_required(manifest, choice)),
        env_args=more.get("env_args", ()) if ours else (),
        transports=_transports(manifest),
        last_updated=official.get("updatedAt", ""),
        verified=ours and more["verified"],
        metadata={name: meta[name] for name in meta if name not in (OFFICIAL_META, OUR_META)},
        status=more.get("status", "active") if ours else _STATUS.get(str(official.get("status")), "active"),
        notes=_notes(official, more if ours else {}, problem),
        source=source,
        definition=msgspec.json.encode(definition).decode(),
        **said,
    )


class _Answer(msgspec.Struct):
    servers: list[msgspec.Raw]
    metadata: Any = None


def _check(manifest: Manifest) -> None:
    if not NAME.fullmatch(manifest.name) or len(manifest.name) > 200:
        raise ManifestError("The name of an entry is not as the registry wants it.")
    if len(manifest.packages) + len(manifest.remotes) > 100:
        raise ManifestError("An entry offers too many packages.")
    addresses = [icon.get("src") for icon in manifest.icons] + [remote.url for remote in manifest.remotes]
    for address in addresses:
        if not isinstance(address, str) or not re.match(r"https?://|\{[A-Za-z_]", address, re.IGNORECASE):
            raise ManifestError("An entry has an address that is none of the web.")


def _launch(manifest: Manifest) -> tuple[ServerSpec, str, Package | Remote | None]:
    """How it would be started, with `${NAME}` for what must be asked; or why it cannot be."""
    try:
        choice = choose(manifest)
        wanted = [one for one in questions(manifest, choice) if one.required and not one.default]
        return plan(manifest, {one.name: f"${{{one.name}}}" for one in wanted}, package=choice), "", choice
    except ManifestError as error:
        return ServerSpec(), str(error), None


def _required(manifest: Manifest, choice: Package | Remote | None) -> tuple[str, ...]:
    """The variables that must be set: of the environment, or those that headers are made of."""
    if choice is None:
        return ()
    arguments = (*choice.runtime_arguments, *choice.package_arguments) if isinstance(choice, Package) else ()
    others = {one.name for argument in arguments for one in (argument.input, *argument.input.used)}
    wanted = [one for one in questions(manifest, choice) if one.required and not one.default]
    return tuple(one.name for one in wanted if one.name not in others)


def _transports(manifest: Manifest) -> tuple[Transport, ...]:
    """Those by which it can be reached, without repetitions."""
    said = dict.fromkeys(option.transport for option in (*manifest.packages, *manifest.remotes))
    return tuple(_TRANSPORTS[word] for word in said)


def _package(manifest: Manifest, registry: str) -> str:
    return next((package.identifier for package in manifest.packages if package.registry == registry), "")


def _notes(official: Mapping[str, Any], more: Mapping[str, Any], problem: str) -> tuple[str, ...]:
    told = [f"Deprecated: {official.get('statusMessage') or 'its author says no more.'}"]
    deprecated = official.get("status") == "deprecated"
    return (*(told if deprecated else ()), *more.get("notes", ()), *((problem,) if problem else ()))


def _clean(value: Any, depth: int) -> Any:
    """The same JSON with line breaks as blanks; ManifestError for what could harm a terminal, or never ends."""
    if depth == 0:
        raise ManifestError("An entry is nested too deeply.")
    if isinstance(value, str):
        text = re.sub(r"[\t\r\n]+", " ", value)
        if is_harmful(text):
            raise ManifestError("An entry holds control characters.")
        return text
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {_clean(key, depth - 1): _clean(member, depth - 1) for key, member in members.items()}
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in cast("list[Any]", value)]
    return value


FILE = Path(__file__).with_name("catalogue.json")
"""Written like an answer of a registry, and read by the same code."""
SOURCE = "built-in"


def get_all_well_known_servers() -> tuple[RegistryEntry, ...]:
    """The built-in entries, the most useful first."""
    return tuple(_catalogue().values())


def get_well_known_server(id: str) -> RegistryEntry | None:
    """The built-in entry of that id, if there is one."""
    known = _catalogue()
    return known.get(id) or known.get(_aliases().get(id, ""))


@cache
def _catalogue() -> dict[str, RegistryEntry]:
    found = [read_entry(item, source=SOURCE, ours=True) for item in _items()]
    return {entry.id: entry for entry in found}


@cache
def _aliases() -> dict[str, str]:
    """Names under which people look for a server as well."""
    return {alias: said["id"] for item in _items() for said in [item["_meta"][OUR_META]] for alias in said["aliases"]}


@cache
def _items() -> list[dict[str, Any]]:
    return json.loads(FILE.read_bytes())["servers"]
