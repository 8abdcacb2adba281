"""Definitions of tools for a model to read, as much of each as a budget of tokens allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from trunkline.catalog.tokens import estimated

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Briefs:
    """What fits into the budget."""

    tools: list[dict[str, Any]]
    """In the order they were given; one that says `shortened` was cut."""
    left_out: list[str]
    """Names of those at the end for which nothing was left."""


def within(definitions: Sequence[Definition], budget: int) -> Briefs:
    """As many of the definitions as fit, whole where that is possible; what is small leaves its share to the others."""
    kept = len(definitions)
    whole = [_whole(definition) for definition in definitions]
    costs = [_cost(brief) for brief in whole]
    shortest = [_cost(_line(definition)) for definition in definitions]
    while kept > 1 and sum(map(min, shortest[:kept], costs)) > budget:
        kept -= 1
    share = _share(costs[:kept], budget)
    tools = [
        brief if cost <= share else _shortened(definition, share)
        for definition, brief, cost in zip(definitions[:kept], whole, costs, strict=False)
    ]
    return Briefs(tools, [str(definition.get("name")) for definition in definitions[kept:]])


def complete(definition: Definition) -> dict[str, Any]:
    """Everything that a definition says to a model, whatever it costs."""
    brief = _whole(definition)
    if "outputSchema" in definition:
        brief["outputSchema"] = definition["outputSchema"]
    return brief


def one_line(definition: Definition, longest: int = 160) -> str:
    """What a tool does, in a line."""
    text = definition.get("description") or definition.get("title") or ""
    lines = str(text).strip().splitlines()
    return _cut(lines[0], longest) if lines else ""


def _share(costs: Sequence[int], budget: int) -> float:
    """The most that one may cost, so that all together fit."""
    left, rest = float(budget), sorted(costs)
    for place, cost in enumerate(rest):
        share = left / (len(rest) - place)
        if cost > share:
            return share
        left -= cost
    return float(budget)


def _shortened(definition: Definition, share: float) -> dict[str, Any]:
    for shorten in _WAYS:
        brief = shorten(definition)
        if _cost(brief) <= share:
            return brief
    return _line(definition)


def _whole(definition: Definition) -> dict[str, Any]:
    brief: dict[str, Any] = {"name": definition.get("name", "")}
    if definition.get("description"):
        brief["description"] = definition["description"]
    meta = _mapping(definition.get("_meta"))
    guidance = meta.get("when_to_use", meta.get("whenToUse"))
    if isinstance(guidance, str) and guidance:
        brief["when_to_use"] = guidance
    brief["inputSchema"] = definition.get("inputSchema") or {"type": "object"}
    examples = meta.get("input_examples")
    if isinstance(examples, list) and examples:
        brief["examples"] = cast("list[Any]", examples)[:3]
    return brief


def _less_said(definition: Definition) -> dict[str, Any]:
    """The whole schema, but every text in it is cut, and what only explains is gone."""
    brief = _whole(definition)
    brief["description"] = _cut(str(definition.get("description", "")), 500)
    brief["inputSchema"] = _plain(brief["inputSchema"], longest=100, depth=0)
    return {**brief, "shortened": True}


def _top_level(definition: Definition) -> dict[str, Any]:
    """The arguments with their types, and no more."""
    schema = _mapping(definition.get("inputSchema"))
    properties = {name: _kind(about) for name, about in list(_mapping(schema.get("properties")).items())[:_MOST]}
    short: dict[str, Any] = {"type": "object", "properties": properties}
    if isinstance(schema.get("required"), list):
        short["required"] = [name for name in cast("list[Any]", schema["required"]) if name in properties]
    return {
        "name": definition.get("name", ""),
        "description": _cut(str(definition.get("description", "")), 250),
        "inputSchema": short,
        "shortened": True,
    }


def _line(definition: Definition) -> dict[str, Any]:
    return {"name": definition.get("name", ""), "description": one_line(definition, 120), "shortened": True}


_WAYS: tuple[Callable[[Definition], dict[str, Any]], ...] = (_less_said, _top_level)
_MOST = 60
_DEEPEST = 8
_EXPLAINS = frozenset(("title", "examples", "$schema", "$id", "$comment", "default", "markdownDescription"))


def _plain(schema: Any, *, longest: int, depth: int) -> Any:
    if depth > _DEEPEST and isinstance(schema, dict | list):
        return {}
    if isinstance(schema, list):
        return [_plain(item, longest=longest, depth=depth + 1) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key == "description" and isinstance(value, str):
            made[key] = _cut(value, longest)
        elif key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            inner = cast("dict[str, Any]", value)  # here keys are names, not words of the schema's language
            made[key] = {name: _plain(about, longest=longest, depth=depth + 1) for name, about in inner.items()}
        elif key not in _EXPLAINS:
            made[key] = _plain(value, longest=longest, depth=depth + 1)
    return made


def _kind(about: Any) -> dict[str, Any]:
    """The type of an argument, and the values it may have if they are few."""
    rules = _mapping(about)
    made: dict[str, Any] = {key: rules[key] for key in ("type",) if key in rules}
    values = rules.get("enum")
    if isinstance(values, list) and len(cast("list[Any]", values)) <= 10:
        made["enum"] = values
    return made


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _cost(brief: Mapping[str, Any]) -> int:
    return estimated(msgspec.json.encode(brief))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
