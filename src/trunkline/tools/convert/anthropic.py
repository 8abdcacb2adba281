"""Tools to and from the format of Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trunkline.model import Entry
from trunkline.tool import Tool
from trunkline.tools.convert.loss import Converted, Ledger
from trunkline.tools.convert.vendor import adopt, definition_of, frame, parameters_of, plain_root, strings
from trunkline.tools.names import ANTHROPIC
from trunkline.untrusted import as_object

_HINTS = ("defer_loading", "allowed_callers", "input_examples")
_MEMBER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def to_anthropic(
    tool: Tool | Entry,
    *,
    defer_loading: bool | None = None,
    allowed_callers: Iterable[str] | None = None,
    input_examples: Iterable[Mapping[str, Any]] | None = None,
) -> Converted[dict[str, Any]]:
    """The tool for `tools=[...]`; what is not given here is taken from its metadata, keys of the same names."""
    definition = definition_of(tool)
    ledger = Ledger()
    result = frame(definition, ANTHROPIC, ledger, hints=_HINTS)
    schema = plain_root(parameters_of(definition, ledger), ANTHROPIC.format, ledger, ("inputSchema",))
    result["input_schema"] = _with_legal_members(schema, ledger)
    if defer_loading is not None:
        result["defer_loading"] = defer_loading
    if allowed_callers is not None:
        result["allowed_callers"] = list(allowed_callers)
    if input_examples is not None:
        result["input_examples"] = [dict(example) for example in input_examples]
    return ledger.close(result)


def from_anthropic(value: Mapping[str, Any]) -> Converted[Tool]:
    """The tool that an entry of `tools` describes; `type: custom` is what every such tool is."""
    known = ("input_schema", "type") if value.get("type") == "custom" else ("input_schema",)
    return adopt(ANTHROPIC.format, value, value.get("input_schema"), known=known, hints=_HINTS)


def _with_legal_members(schema: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Without the arguments that the whole request would be refused for."""
    members = as_object(schema.get("properties"))
    strange = [name for name in members if not _MEMBER.fullmatch(name)]
    for name in strange:
        ledger.add(
            ("inputSchema", "properties", name), "dropped", "Anthropic takes 64 of a-z A-Z 0-9 _ . - in such a name."
        )
    if not strange:
        return schema
    required = [name for name in strings(schema.get("required")) if name not in strange]
    kept = {name: about for name, about in members.items() if name not in strange}
    return schema | {"properties": kept, "required": required}
