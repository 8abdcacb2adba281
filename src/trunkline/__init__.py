"""Trunkline: one line to every MCP tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Config", "Hub", "Scope", "ServerSpec", "ToolResult", "TrunklineError", "__version__", "open_hub"]

if TYPE_CHECKING:
    from trunkline.config import Config, ServerSpec
    from trunkline.errors import TrunklineError
    from trunkline.hub import Hub, open_hub
    from trunkline.model import Scope
    from trunkline.tool import ToolResult

_HOMES = {
    "Config": "config",
    "ServerSpec": "config",
    "TrunklineError": "errors",
    "Hub": "hub",
    "open_hub": "hub",
    "Scope": "model",
    "ToolResult": "tool",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import trunkline` stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trunkline' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"trunkline.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
