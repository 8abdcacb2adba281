"""What is said of a tool for those who choose and call it: when to take it, by whom, with which arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from trunkline.tool import MOST_CALLERS, ToolOptions

OWN = "dev.trunkline/"
"""Before the names of what we say in `_meta`."""

_OTHER_NAMES = {"when_to_use": "whenToUse", "cost_hint": "estimatedCost"}
"""How others spell it."""


def said_in(meta: Mapping[str, Any], key: str) -> Any:
    """What `_meta` says under a name: ours, the plain one, or another's spelling; `None` for nothing."""
    for name in (OWN + key, key, _OTHER_NAMES.get(key, key)):
        if name in meta:
            return meta[name]
    return None


def callers_of(meta: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Who may call a tool, as its server says; `None` where it says nothing, nobody where it cannot be understood."""
    value = said_in(meta, "allowed_callers")
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        return ()
    return tuple(dict.fromkeys(cast("list[str]", value)))[:MOST_CALLERS]


def meta_of(options: ToolOptions) -> dict[str, Any]:
    """What callers are told in `_meta` of what the operator says."""
    told = {
        "when_to_use": options.when_to_use or None,
        "defer_loading": options.defer_loading,
        "allowed_callers": None if options.allowed_callers is None else list(options.allowed_callers),
        "input_examples": list(options.input_examples) or None,
        "cost_hint": options.cost_hint,
    }
    return {OWN + key: value for key, value in told.items() if value is not None}
