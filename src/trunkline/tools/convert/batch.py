"""Many tools for one model: each under a name of its own, and the way back from that name to the tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trunkline.tool import Tool
from trunkline.tools.convert.definition import as_object
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.names import PORTABLE, distinct


@dataclass(frozen=True, slots=True)
class ModelTools:
    """Tools as a model is given them."""

    definitions: list[dict[str, Any]]
    by_name: dict[str, Tool]
    """Whom a model means when it calls a name."""


def batch_convert(tools: Iterable[Tool], convert: Callable[[Tool], Converted[dict[str, Any]]]) -> Converted[ModelTools]:
    """All tools by one converter, such as `to_anthropic`; names that would meet are told apart by a stable hash."""
    listed = list(tools)
    ledger = Ledger()
    definitions: list[dict[str, Any]] = []
    for place, tool in enumerate(listed):
        converted = convert(tool)
        definitions.append(converted.value)
        ledger.extend(loss.below(place) for loss in converted.losses)
    wanted = [str(_named(definition)["name"]) for definition in definitions]
    names = distinct(wanted, [tool.name for tool in listed], [tool.server for tool in listed], rule=PORTABLE)
    for place, name in enumerate(names):
        if name != wanted[place]:
            ledger.add((place, "name"), f"{wanted[place]!r} became {name!r}", "Another tool would get the same name.")
            definitions[place] = _renamed(definitions[place], name)
    return ledger.close(ModelTools(definitions, dict(zip(names, listed, strict=True))))


def _named(definition: dict[str, Any]) -> dict[str, Any]:
    return dict(as_object(definition.get("function")) or definition)


def _renamed(definition: dict[str, Any], name: str) -> dict[str, Any]:
    if "function" in definition:
        return definition | {"function": definition["function"] | {"name": name}}
    return definition | {"name": name}
