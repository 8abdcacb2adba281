"""One object of a manifest: its members by name, each of the kind that it must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from trunkline.errors import ManifestError

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
