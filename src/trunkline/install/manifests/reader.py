"""Reads manifests: `server.json` of the MCP registry, and the `plugin.json` of plugin folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from trunkline.errors import ManifestError
from trunkline.install.manifests.manifest import Argument, Format, Manifest, Package, Remote, Transport, Variable
from trunkline.tools.digest import digest

_FORMATS: Mapping[str, Format] = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "filepath": "filepath",
}
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
    "http": "streamable-http",
    "sse": "sse",
}


def read_manifest(value: Mapping[str, Any], *, where: str) -> Manifest:
    """Make a `Manifest` of a file's content; errors begin with `where` and name the field.

    Keys may be written in either spelling, `isRequired` or `is_required`, whatever the file is called.
    """
    table = Table(value, where)
    inner = table.get("server")
    if "name" not in table.members and isinstance(inner, Mapping):
        table = Table(cast("object", inner), where)  # as a registry's API wraps it
    name = table.text("name")
    if not name or not name.isprintable() or len(name) > 200:
        raise ManifestError(f"{where}: `name` must be a text of 1 to 200 printable characters.")
    detail = table.table("version_detail")
    version = table.text("version") or (detail.text("version") if detail else "")
    packages = table.each("packages", lambda item: _package(item, version))
    remotes = table.each("remotes", _remote)
    if not packages and not remotes and not {"command", "identifier"}.isdisjoint(table.members):
        packages = (_package(Table(table.source, where), version),)
    return Manifest(
        name=name,
        title=table.text("title") or name,
        version=version,
        description=table.text("description"),
        status=table.text("status"),
        license=table.text("license"),
        website=table.text("website_url"),
        repository=table.mapping("repository"),
        icons=table.each("icons", lambda item: item.source),
        schema=table.text("$schema"),
        packages=packages,
        remotes=remotes,
        meta=table.mapping("_meta"),
        extra=table.rest(),
        fingerprint=_fingerprint(table.source, where),
    )


def _package(table: Table, version: str) -> Package:
    transport = table.get("transport")
    inner = table.table("transport") if isinstance(transport, Mapping) else None
    named = inner.text("type") if inner else table.text("transport_type") or table.text("transport")
    command = table.words("command")
    found = Package(
        registry=(table.text("registry_type") or table.text("registry_name")).lower(),
        identifier=table.text("identifier"),
        version=table.text("version") or version,
        runtime=table.text("runtime_hint") or table.text("runtime"),
        transport=_transport(named or "stdio", table),
        url=inner.text("url") if inner else "",
        command=(*command, *table.words("args")) if command else (),
        runtime_arguments=table.each("runtime_arguments", _argument),
        package_arguments=(
            *(() if command else _fixed(table.words("args"))),
            *table.each("package_arguments", _argument),
        ),
        environment=table.each("environment_variables", _named),
        headers=inner.each("headers", _named) if inner else (),
        sha256=table.text("file_sha256").lower(),
        registry_url=table.text("registry_base_url"),
        label=table.text("name"),
        extra=table.rest(),
    )
    if not found.identifier and not found.command:
        raise ManifestError(f"{table.where} has neither an `identifier` nor a `command`.")
    return found


def _remote(table: Table) -> Remote:
    url = table.text("url") or table.text("server_url")
    if not url:
        raise ManifestError(f"{table.where} has no `url`.")
    named = table.text("type") or table.text("transport_type") or "streamable-http"
    headers = table.each("headers", _named)
    return Remote(_transport(named, table), url, headers, _variables(table), table.rest())


def _argument(table: Table) -> Argument:
    kind = table.text("type") or ("named" if table.text("name").startswith("-") else "positional")
    repeated = table.flag("is_repeated", "repeated")
    hint = table.text("value_hint")
    name = table.text("name")
    if kind == "named":
        if not name or re.search(r"[\s=\x00-\x1f]", name):
            raise ManifestError(f"{table.where}.name must be a flag such as `--port`.")
        return Argument("named", _input(table, name, repeated, hint), name)
    if kind != "positional":
        raise ManifestError(f"{table.where}.type must be `positional` or `named`.")
    label = hint or name or f"argument {table.number}"
    return Argument("positional", _input(table, label, repeated))


def _named(table: Table) -> Variable:
    name = table.text("name")
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ManifestError(f"{table.where}.name must be the name of a variable or a header.")
    return _input(table, name, table.flag("is_repeated", "repeated"))


def _input(table: Table, name: str, repeated: bool = False, hint: str = "") -> Variable:
    said = table.text("format") or "string"
    if said not in _FORMATS:
        raise ManifestError(f"{table.where}.format must be one of: {', '.join(_FORMATS)}.")
    return Variable(
        name=name,
        description=table.text("description"),
        required=table.flag("is_required", "required"),
        secret=table.flag("is_secret", "secret"),
        default=table.scalar("default"),
        choices=table.scalars("choices"),
        format=_FORMATS[said],
        placeholder=table.text("placeholder") or hint,
        value=table.scalar("value"),
        variables=_variables(table, repeated),
        repeated=repeated,
    )


def _variables(table: Table, repeated: bool = False) -> tuple[Variable, ...]:
    return tuple(_input(inner, name, repeated) for name, inner in table.tables("variables").items())


def _fixed(words: tuple[str, ...]) -> tuple[Argument, ...]:
    return tuple(Argument("positional", Variable(word, value=word)) for word in words)


def _transport(said: str, table: Table) -> Transport:
    if said not in _TRANSPORTS:
        raise ManifestError(f"{table.where}: the transport must be stdio, streamable-http or sse.")
    return _TRANSPORTS[said]


def _fingerprint(value: Mapping[str, Any], where: str) -> str:
    try:
        return digest(value)
    except TypeError as error:
        raise ManifestError(f"{where} holds something that is not JSON: {error}") from error


T = TypeVar("T")


class Table:
    """An object of the file, read by the names that its keys have in snake_case; null counts as absent."""

    def __init__(self, value: object, where: str, *, inner: bool = False, number: int = 1) -> None:
        if not isinstance(value, Mapping):
            raise ManifestError(f"{where} must be an object.")
        self.where, self.source = where, cast("Mapping[str, Any]", value)
        """`server.json`, or in it `server.json: packages[0]`."""
        self.inner, self.number = inner, number
        self.members: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        self._read: set[str] = set()
        for key, member in self.source.items():
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(key)).lower()
            if name in self.members and self.members[name] != member:
                raise ManifestError(f"{where} says both {self._spelled[name]!r} and {key!r}.", hint="Leave one out.")
            self._spelled[name] = str(key)
            if member is not None:
                self.members[name] = member

    def get(self, name: str) -> Any:
        """A member, as it is."""
        self._read.add(name)
        return self.members.get(name)

    def text(self, name: str) -> str:
        """A text; empty when there is none."""
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        raise self._wrong(name, "a text")

    def scalar(self, name: str) -> str:
        """A text; numbers and booleans are written as people write them."""
        value = self.get(name)
        return "" if value is None else self._written(name, value)

    def scalars(self, name: str) -> tuple[str, ...]:
        """A list of such."""
        return tuple(self._written(name, value) for value in self._list(name))

    def flag(self, *names: str) -> bool:
        """Whether any of these is true."""
        found = False
        for name in names:
            value = self.get(name)
            if value is not None and not isinstance(value, bool):
                raise self._wrong(name, "true or false")
            found = found or bool(value)
        return found

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a command; one text is one word, and is never taken apart."""
        value = self.get(name)
        if isinstance(value, str):
            if re.search(r"\s", value):
                raise self._wrong(name, 'a list of words, such as ["uvx", "mcp-server-time"]')
            return (value,) if value else ()
        for word in self._list(name):
            if not isinstance(word, str) or not word:
                raise self._wrong(name, "a list of words")
        return tuple(cast("list[str]", self._list(name)))

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object, as it is."""
        value = self.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, "an object")
        return cast("Mapping[str, Any]", value or {})

    def table(self, name: str) -> Table | None:
        """An object, to be read."""
        value = self.get(name)
        return None if value is None else Table(value, self._path(name), inner=True)

    def each(self, name: str, read: Callable[[Table], T]) -> tuple[T, ...]:
        """Every object of a list, read."""
        path = self._path(name)
        tables = [Table(item, f"{path}[{at}]", inner=True, number=at + 1) for at, item in enumerate(self._list(name))]
        return tuple(read(table) for table in tables)

    def tables(self, name: str) -> dict[str, Table]:
        """Objects by name."""
        path = self._path(name)
        return {str(key): Table(said, f"{path}.{key}", inner=True) for key, said in self.mapping(name).items()}

    def rest(self) -> dict[str, Any]:
        """What nobody asked for, as it was written."""
        return {self._spelled[name]: value for name, value in self.members.items() if name not in self._read}

    def _list(self, name: str) -> list[Any]:
        value = self.get(name)
        if value is not None and not isinstance(value, list | tuple):
            raise self._wrong(name, "a list")
        return list(cast("list[Any]", value or []))

    def _written(self, name: str, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._wrong(name, "a text, a number, true or false")

    def _path(self, name: str) -> str:
        mark = "." if self.inner else ": "
        return f"{self.where}{mark}{self._spelled.get(name, name)}"

    def _wrong(self, name: str, what: str) -> ManifestError:
        return ManifestError(f"{self._path(name)} must be {what}.")
