"""Definitions of tools for a model to read, as much of each as a budget of tokens allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from trunkline.tools.guidance import said_in
from trunkline.tools.tokens import estimated
from trunkline.untrusted import as_object

Definition = Mapping[str, Any]
"""What a tool says of itself; one from which something was left out says `shortened`."""


@dataclass(frozen=True, slots=True)
class Briefs:
    """What fits into the budget."""

    tools: list[dict[str, Any]]
    """In the order they were given; one that says `shortened` was cut."""
    left_out: list[str]
    """Names of the next ones, for which nothing was left, as many as fit into a quarter of the budget."""


def within(definitions: Sequence[Definition], budget: int) -> Briefs:
    """As many of the definitions as fit, whole where that is possible; what is small leaves its share to the others."""
    whole = [_whole(definition) for definition in definitions]
    costs = [_cost(brief, budget) for brief in whole]
    least = [min(cost, _cost(_line(one), budget)) for one, cost in zip(definitions, costs, strict=True)]
    kept, room = len(definitions), budget
    while kept > 1 and sum(least[:kept]) > room:
        kept, room = kept - 1, budget - budget // 4
    left_out = _named(definitions[kept:], budget // 4)
    share = _share(costs[:kept], least[:kept], room)
    tools = [
        brief if cost <= share or cost == lowest else _shortened(definition, share)
        for definition, brief, cost, lowest in zip(definitions[:kept], whole, costs, least, strict=False)
    ]
    return Briefs(tools, left_out)


def complete(definition: Definition) -> dict[str, Any]:
    """Everything that a definition says to a model, whatever it costs."""
    brief = _whole({**definition, "shortened": False})
    if "outputSchema" in definition:
        brief["outputSchema"] = definition["outputSchema"]
    return brief


def one_line(definition: Definition, longest: int = 160) -> str:
    """What a tool does, in a line."""
    text = definition.get("description") or definition.get("title") or ""
    lines = str(text).strip().splitlines()
    return _cut(lines[0], longest) if lines else ""


def _named(definitions: Sequence[Definition], budget: int) -> list[str]:
    names: list[str] = []
    for definition in definitions:
        names.append(str(definition.get("name", "")))
        budget -= estimated(names[-1]) + _JOINT
        if budget < 0:
            return names[:-1]
    return names


def _share(costs: Sequence[int], least: Sequence[int], budget: int) -> int:
    """The most that one may cost, if it cannot do with less, so that all together fit."""
    fits, beyond = 0, budget + 1
    while beyond - fits > 1:
        share = (fits + beyond) // 2
        if sum(min(cost, max(lowest, share)) for cost, lowest in zip(costs, least, strict=True)) <= budget:
            fits = share
        else:
            beyond = share
    return fits


def _shortened(definition: Definition, share: int) -> dict[str, Any]:
    for shorten in _WAYS:
        brief = shorten(definition)
        if _cost(brief, share) <= share:
            return brief
    return _line(definition)


def _whole(definition: Definition) -> dict[str, Any]:
    brief: dict[str, Any] = {"name": definition.get("name", "")}
    if definition.get("description"):
        brief["description"] = definition["description"]
    meta = as_object(definition.get("_meta"))
    when = said_in(meta, "when_to_use")
    if isinstance(when, str) and when:
        brief["when_to_use"] = when
    brief["inputSchema"] = definition.get("inputSchema") or {"type": "object"}
    examples = said_in(meta, "input_examples")
    if isinstance(examples, list) and examples:
        brief["examples"] = cast("list[Any]", examples)[:3]
    return {**brief, "shortened": True} if definition.get("shortened") is True else brief


def _less_said(definition: Definition) -> dict[str, Any]:
    """The whole schema, but every text in it is cut, and what only explains is gone."""
    brief = _whole(definition)
    brief["description"] = _cut(str(definition.get("description", "")), 500)
    brief["inputSchema"] = _plain(brief["inputSchema"], longest=100, depth=0)
    return {**brief, "shortened": True}


def _top_level(definition: Definition) -> dict[str, Any]:
    """The arguments with their types, and no more."""
    schema = as_object(definition.get("inputSchema"))
    properties = {name: _kind(about) for name, about in list(as_object(schema.get("properties")).items())[:_MOST]}
    short: dict[str, Any] = {"type": "object", "properties": properties}
    if isinstance(schema.get("required"), list):
        short["required"] = [name for name in cast("list[Any]", schema["required"]) if str(name) in properties]
    return {
        "name": definition.get("name", ""),
        "description": _cut(str(definition.get("description", "")), 250),
        "inputSchema": short,
        "shortened": True,
    }


def _line(definition: Definition) -> dict[str, Any]:
    return {"name": definition.get("name", ""), "description": one_line(definition, 120), "shortened": True}


_WAYS: tuple[Callable[[Definition], dict[str, Any]], ...] = (_less_said, _top_level)
_JOINT = 8
"""Tokens for what stands around a tool in a list: a comma, a score."""
_LONGEST_TOKEN = 16
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
    rules = as_object(about)
    made: dict[str, Any] = {key: rules[key] for key in ("type",) if key in rules}
    values = rules.get("enum")
    if isinstance(values, list) and len(cast("list[Any]", values)) <= 10:
        made["enum"] = values
    return made


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _cost(brief: Mapping[str, Any], most: int) -> int:
    """About how many tokens it takes; of what is much too long, only that it is too long."""
    text = msgspec.json.encode(brief)
    return _JOINT + (estimated(text) if len(text) < _LONGEST_TOKEN * (most + 1) else len(text))
