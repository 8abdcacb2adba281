"""A client's configuration as text: read by its format, and changed in one place; every change is read back."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trunkline.clients import jsonc, toml
from trunkline.errors import ConfigError

Format = Literal["json", "yaml", "toml"]

_MARK = "\ufeff"


@dataclass(frozen=True)
class Document:
    """The text of a file, without the mark that some editors begin files with."""

    path: Path
    format: Format
    text: str
    marked: bool = False

    @classmethod
    def of(cls, path: Path, format: Format, data: bytes) -> Document:
        """The document of a file's bytes."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not text in UTF-8.", hint="It was left as it is.") from error
        return cls(path, format, text.removeprefix(_MARK), text.startswith(_MARK))

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return ((_MARK if self.marked else "") + self.text).encode("utf-8")

    def value(self) -> dict[str, Any]:
        """What the file says."""
        try:
            value = _editor(self.format).read(self.text)
        except ValueError as error:
            raise self._refusal(error) from error
        if not isinstance(value, dict):
            raise self._refusal("is not a table of keys and values")
        return cast("dict[str, Any]", value)

    def with_entry(self, path: Sequence[str], entry: dict[str, Any], *, listed: bool = False) -> Document:
        """The same with an entry at a path; `listed` says that the last key is the `name` of an item in a list."""
        before = self.value()
        try:
            more = {"listed": True} if listed else {}  # YAML alone has such lists
            text = _editor(self.format).put(self.text, path, entry, **more)
        except ValueError as error:
            raise self._refusal(error) from error
        return self._checked(text, _put(before, path, entry, listed=listed))

    def without_entry(self, path: Sequence[str]) -> Document:
        """The same without the entry at a path, if there is one."""
        before = self.value()
        try:
            text = _editor(self.format).take(self.text, path)
        except ValueError as error:
            raise self._refusal(error) from error
        after = _taken(before, path)
        if self.format == "toml" and not after.get(path[0], True) and path[0] not in text:
            del after[path[0]]  # a table that only had what is below it needs no line of its own
        return self._checked(text, after)

    def _checked(self, text: str, expected: Any) -> Document:
        changed = Document(self.path, self.format, text, self.marked)
        try:
            right = _editor(self.format).read(text) == expected
        except ValueError:
            right = False
        if not right:
            raise self._refusal("is written in a way that cannot be changed here without losing something")
        return changed

    def _refusal(self, why: object) -> ConfigError:
        return ConfigError(f"{self.path} {why}.", hint="It was left as it is.")


def _editor(format: Format) -> Any:
    """The module with `read`, `put` and `take` for texts of a format."""
    if format == "yaml":
        from trunkline.clients import yaml_edit  # PyYAML is loaded for files of YAML alone

        return yaml_edit
    return jsonc if format == "json" else toml


def _put(value: Any, path: Sequence[str], entry: dict[str, Any], *, listed: bool) -> Any:
    made = copy.deepcopy(value)
    holder = made
    for key in path[:-2] if listed else path[:-1]:
        holder = holder.setdefault(key, {})
    if not listed:
        holder[path[-1]] = entry
        return made
    items: list[Any] = holder.get(path[-2]) or []
    names = [cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None for item in items]
    if path[-1] in names:
        items[names.index(path[-1])] = entry
    else:
        items = [*items, entry]
    holder[path[-2]] = items
    return made


def _taken(value: Any, path: Sequence[str]) -> Any:
    made = copy.deepcopy(value)
    holder = made
    for key in path[:-1]:
        holder = holder.get(key)
        if not holder:
            return made
    if isinstance(holder, list):
        items = cast("list[dict[str, Any]]", holder)
        first = next((at for at, item in enumerate(items) if item.get("name") == path[-1]), None)
        if first is not None:
            del items[first]
    else:
        holder.pop(path[-1], None)
    return made
