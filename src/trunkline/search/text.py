"""What can be read about a tool, field by field, before it is searched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from trunkline.search.tokens import is_stop, is_telling, terms
from trunkline.tool import Annotations, Tool
from trunkline.tools.convert.definition import tool_from
from trunkline.tools.guidance import OWN, said_in
from trunkline.untrusted import as_object, as_text

FIELDS = ("name", "title", "server", "description", "parameters", "parameter_notes", "when_to_use", "tags", "examples")
"""The fields that are searched, as reasons name them."""

_WEIGHTS = dict(zip(FIELDS, (3.5, 3.0, 1.3, 1.3, 0.7, 0.5, 1.0, 2.0, 0.6), strict=True))
_LENGTHS = dict(zip(FIELDS, (3.0, 3.0, 4.0, 22.0, 5.0, 30.0, 15.0, 3.0, 20.0), strict=True))
"""How long a field usually is. Fixed, so that a new tool changes nothing for the others."""
_DAMPING = dict(zip(FIELDS, (0.5, 0.4, 0.5, 0.7, 0.7, 0.8, 0.7, 0.5, 0.8), strict=True))
_NONE = "\0"
"""The sign of no term."""
_LAST_SIGN = 0xFFFF
"""What a tool says after so many terms counts as one."""
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
            when_to_use=_joined(said_in(meta, "when_to_use")),
            tags=" ".join((*tool.annotations.tags, tool.category)).strip(),
            examples=_joined(meta.get("examples", "")),
        )

    @classmethod
    def parse(cls, definition: Mapping[str, Any], *, server: str = "", key: str = "") -> ToolText:
        """The texts of a definition as MCP's `tools/list` gives it."""
        # What stands beside `_meta` counts where it says nothing.
        beside = {name: definition.get(name) for name in ("tags", "examples")}
        meta = {**beside, **as_object(definition.get("_meta"))}
        hints = as_object(definition.get("annotations"))
        title = as_text(definition.get("title")) or as_text(hints.get("title"))
        tool = tool_from(
            {**definition, "_meta": meta},
            as_text(definition.get("name")),
            Annotations(title=title, tags=(_joined(meta["tags"]), _joined(meta.get(OWN + "tags")))),
            server=server or as_text(definition.get("server")),
        )
        return cls.of(
            tool, key=key or as_text(definition.get("key")), server_title=as_text(definition.get("server_title"))
        )

    def fields(self) -> Iterator[tuple[int, str]]:
        """The fields that have a text, as positions in `FIELDS`."""
        for position, field in enumerate(FIELDS):
            text: str = getattr(self, field)
            if text:
                yield position, text


@dataclass(frozen=True, slots=True)
class ToolTerms:
    """What a tool says, term by term."""

    strengths: dict[str, float]
    """How strongly it has each term: where, how often, and among how many others."""
    fields: dict[str, int]
    """The fields a term stands in, as bits."""
    text: str
    """The telling terms in their order, a sign for each: see `sign_of`."""


def terms_of(tool: ToolText) -> ToolTerms:
    """The terms of a tool; stop words count in its name alone."""
    strengths: dict[str, float] = {}
    fields: dict[str, int] = {}
    spoken: list[str] = []
    for position, words in tool.fields():
        field = FIELDS[position]
        found = terms(words)
        # One that is no term's between two fields: the end of one and the start of the next are no phrase.
        spoken += [*filter(is_telling, found), ""]
        counts = Counter(found if field == "name" else (term for term in found if not is_stop(term)))
        damping = _DAMPING[field]
        scale = _WEIGHTS[field] / (1.0 - damping + damping * counts.total() / _LENGTHS[field])
        for term, count in counts.items():
            strengths[term] = strengths.get(term, 0.0) + scale * count
            fields[term] = fields.get(term, 0) | 1 << position
    signs = {term: sign_of(place) for place, term in enumerate(strengths)}
    return ToolTerms(strengths, fields, "".join(signs.get(term, _NONE) for term in spoken))


def sign_of(place: int) -> str:
    """What stands for a tool's term in its text, by its place among the tool's terms: one byte for the first 255."""
    return chr(1 + min(place, _LAST_SIGN))


@lru_cache(maxsize=1_000)
def field_names(bits: int) -> tuple[str, ...]:
    """The fields that bits stand for."""
    return tuple(field for position, field in enumerate(FIELDS) if bits >> position & 1)


def _parameters(schema: Mapping[str, Any]) -> tuple[str, str]:
    """The names of a schema's parameters, and what is said about them, however it is nested."""
    names: list[str] = []
    notes: list[str] = []
    waiting: list[tuple[Mapping[str, Any], int]] = [(schema, 0)]
    while waiting and len(names) < _MOST_PARAMETERS:
        part, depth = waiting.pop(0)
        for name, about in as_object(part.get("properties")).items():
            names.append(name)
            inner = as_object(about)
            notes.append(as_text(inner.get("description")))
            notes += [value for value in _list(inner.get("enum")) if isinstance(value, str)]
            if depth < _DEEPEST:
                waiting += [(inner, depth + 1), (as_object(inner.get("items")), depth + 1)]
    return " ".join(names)[:_LONGEST_FIELD], " ".join(filter(None, notes))[:_LONGEST_FIELD]


def _joined(value: object) -> str:
    if isinstance(value, str):
        return value[:_LONGEST_FIELD]
    return " ".join(item for item in _list(value) if isinstance(item, str))[:_LONGEST_FIELD]


def _list(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else []
