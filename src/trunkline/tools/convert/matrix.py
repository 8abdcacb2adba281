"""Which format can say what about a tool: the revisions of MCP, the vendors, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """What a format has a place for."""

    input_schema: bool = True
    full_json_schema: bool = True
    """Any JSON Schema keyword may stand in it; else a part of JSON Schema."""
    output_schema: bool = False
    any_output: bool = False
    """An output schema may describe something else than an object."""
    annotations: bool = False
    title: bool = False
    meta: bool = False
    icons: bool = False
    execution: bool = False
    """Whether a call may run as a task."""
    defer_loading: bool = False
    input_examples: bool = False
    allowed_callers: bool = False
    categories: bool = False
    tags: bool = False
    streaming_results: bool = False
    """A result may come in parts; notifications of progress are not meant."""
    batch_execution: bool = False
    """Several calls may travel as one message."""


REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

TOOL_COMPATIBILITY: Mapping[str, Compatibility] = MappingProxyType(
    {
        "MCP_2024_11_05": Compatibility(),
        "MCP_2025_03_26": Compatibility(annotations=True, batch_execution=True),
        "MCP_2025_06_18": Compatibility(annotations=True, title=True, meta=True, output_schema=True),
        "MCP_2025_11_25": Compatibility(
            annotations=True, title=True, meta=True, output_schema=True, icons=True, execution=True
        ),
        "MCP_2026_07_28": Compatibility(
            annotations=True, title=True, meta=True, output_schema=True, any_output=True, icons=True
        ),
        "ANTHROPIC": Compatibility(
            full_json_schema=False, defer_loading=True, input_examples=True, allowed_callers=True
        ),
        "OPENAI_CHAT": Compatibility(full_json_schema=False),
        "OPENAI_RESPONSES": Compatibility(full_json_schema=False, defer_loading=True),
        "OPENAI_STRICT": Compatibility(full_json_schema=False),
        "GEMINI": Compatibility(full_json_schema=False, output_schema=True, any_output=True),
        "GEMINI_JSON_SCHEMA": Compatibility(output_schema=True, any_output=True),
        "TRUNKLINE": Compatibility(
            annotations=True,
            title=True,
            meta=True,
            output_schema=True,
            any_output=True,
            icons=True,
            execution=True,
            defer_loading=True,
            input_examples=True,
            allowed_callers=True,
            categories=True,
            tags=True,
            batch_execution=True,
        ),
    }
)
"""By format; the statements about vendors were checked in November 2026."""


def compatibility_of(revision: str) -> Compatibility:
    """What a revision of MCP has a place for."""
    return TOOL_COMPATIBILITY["MCP_" + revision.replace("-", "_")]
