"""What can be read about a tool, field by field, before it is searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from trunkline.tool import Tool

FIELDS = ("name", "title", "server", "description", "parameters", "parameter_notes", "when_to_use", "tags", "examples")
"""The fields that are searched, as reasons name them."""

_DEEPEST = 4
_MOST_PARAMETERS = 200
_LONGEST_FIELD = 4_000


@dataclass(frozen=True, slots=True)
class ToolText:
    """The texts of one tool; `key` is what a hit gives back."""

    key: str
    name: str
    server: str = ""
    """The server's name, and its title if it has one."""
    title: str = ""
    description: str = ""
    parameters: str = ""
    """The names of its parameters."""
    parameter_notes: str = ""
    """The descriptions of its parameters, and the values they may have."""
    when_to_use: str = ""
    tags: str = ""
    examples: str = ""

    @classmethod
    def of(cls, tool: Tool, *, key: str = "", server_title: str = "") -> ToolText:
        """The texts of a tool; its `key` is `server/name` unless another is given."""
        names, notes = _parameters(tool.input_schema)
        meta = tool.meta
        return cls(
            key or (f"{tool.server}/{tool.name}" if tool.server else tool.name),
            tool.name,
            server=f"{tool.server} {server_title}".strip(),
            title=tool.annotations.title,
            description=tool.description[:_LONGEST_FIELD],
            parameters=names,
            parameter_notes=notes,
            when_to_use=_joined(meta.get("when_to_use", meta.get("whenToUse", ""))),
            tags=" ".join((*tool.annotations.tags, tool.category)).strip(),
            examples=_joined(meta.get("examples", "")),
        )

    @classmethod
    def parse(cls, definition: Mapping[str, Any], *, server: str = "", key: str = "") -> ToolText:
        """The texts of a definition as MCP's `tools/list` gives it."""
        name = _text(definition.get("name"))
        annotations = _mapping(definition.get("annotations"))
        meta = _mapping(definition.get("_meta"))
        names, notes = _parameters(_mapping(definition.get("inputSchema")))
        server = server or _text(definition.get("server"))
        return cls(
            key or _text(definition.get("key")) or (f"{server}/{name}" if server else name),
            name,
            server=f"{server} {_text(definition.get('server_title'))}".strip(),
            title=_text(definition.get("title")) or _text(annotations.get("title")),
            description=_text(definition.get("description"))[:_LONGEST_FIELD],
            parameters=names,
            parameter_notes=notes,
            when_to_use=_joined(meta.get("when_to_use", meta.get("whenToUse", ""))),
            tags=_joined(meta.get("tags", definition.get("tags", ""))),
            examples=_joined(meta.get("examples", definition.get("examples", ""))),
        )

    def fields(self) -> Iterator[tuple[int, str]]:
        """The fields that have a text, as positions in `FIELDS`."""
        for position, field in enumerate(FIELDS):
            text: str = getattr(self, field)
            if text:
                yield position, text


def _parameters(schema: Mapping[str, Any]) -> tuple[str, str]:
    """The names of a schema's parameters, and what is said about them, however it is nested."""
    names: list[str] = []
    notes: list[str] = []
    waiting: list[tuple[Mapping[str, Any], int]] = [(schema, 0)]
    while waiting and len(names) < _MOST_PARAMETERS:
        part, depth = waiting.pop(0)
        for name, about in _mapping(part.get("properties")).items():
            names.append(name)
            inner = _mapping(about)
            notes.append(_text(inner.get("description")))
            notes += [value for value in _list(inner.get("enum")) if isinstance(value, str)]
            if depth < _DEEPEST:
                waiting += [(inner, depth + 1), (_mapping(inner.get("items")), depth + 1)]
    return " ".join(names)[:_LONGEST_FIELD], " ".join(filter(None, notes))[:_LONGEST_FIELD]


def _joined(value: object) -> str:
    if isinstance(value, str):
        return value[:_LONGEST_FIELD]
    return " ".join(item for item in _list(value) if isinstance(item, str))[:_LONGEST_FIELD]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else []
