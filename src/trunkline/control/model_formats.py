"""Tools of the hub as a model is given them, in the format of its vendor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from trunkline.errors import ConfigError
from trunkline.model import Entry
from trunkline.tool import DIRECT, Tool
from trunkline.tools.convert.anthropic import to_anthropic
from trunkline.tools.convert.definition import tool_of
from trunkline.tools.convert.gemini import to_gemini
from trunkline.tools.convert.loss import Converted
from trunkline.tools.convert.mcp import to_mcp_tool
from trunkline.tools.convert.openai import to_openai
from trunkline.tools.convert.vendor import ModelTools, batch_convert

Convert = Callable[..., Converted[dict[str, Any]]]

_CONVERTERS: Mapping[str, Convert] = {
    "mcp": to_mcp_tool,
    "anthropic": to_anthropic,
    "openai": partial(to_openai, format="responses"),
    "openai-chat": partial(to_openai, format="chat"),
    "gemini": to_gemini,
}
FORMATS = tuple(_CONVERTERS)
"""What a list of tools can be written as; `openai` is for Responses, `openai-chat` for Chat Completions."""
DEFERRING = ("anthropic", "openai")
"""The formats that can name a tool without loading it."""
PROGRAMMATIC = ("anthropic",)
"""The formats that can say who may call a tool; others are given no tool that only programs may call."""


def formatted(
    entries: Iterable[Entry], format: str, *, defer: bool = False, keep: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The tools for `tools=[...]` of a request; see `for_model` for what was lost, and whom a name means."""
    return for_model(entries, format, defer=defer, keep=keep).value.definitions


def for_model(
    entries: Iterable[Entry], format: str, *, defer: bool = False, keep: Collection[str] = ()
) -> Converted[ModelTools]:
    """The tools by the names that the hub shows, and everything that the format cannot say.

    With `defer` a model loads those it searches for; the ones in `keep` it has at once. Tools for an MCP App's own use
    are left out, as are those that only programs may call where the format cannot say so. A name that the vendor
    refuses is changed; `by_name` leads back to the shown one.
    """
    convert = _converter(format, defer=defer)
    usable = (entry for entry in entries if not entry.app_only and (DIRECT in entry.callers or format in PROGRAMMATIC))

    def converted(tool: Tool) -> Converted[dict[str, Any]]:
        return convert(tool, defer_loading=tool.name not in keep) if defer else convert(tool)

    return batch_convert((tool_of(entry) for entry in usable if entry.callers), converted)


def _converter(format: str, *, defer: bool) -> Convert:
    if format not in _CONVERTERS:
        raise ConfigError(f"There is no format {format!r}.", hint=f"There are: {', '.join(FORMATS)}.")
    if defer and format not in DEFERRING:
        hint = f"Leave out `defer`, or use one of {', '.join(DEFERRING)}."
        raise ConfigError(f"The format {format!r} cannot defer the loading of tools.", hint=hint)
    return _CONVERTERS[format]
