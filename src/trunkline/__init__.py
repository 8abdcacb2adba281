"""Trunkline: one line to every MCP tool."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

with open(f"{__file__.rpartition('.')[0]}.pyi", encoding="utf-8") as _stub:
    _HOMES = {
        name: module
        for module, names in re.findall(r"^from (\S+) import ([^(\n]+|\([^)]+\))", _stub.read(), re.MULTILINE)
        for name in re.findall(r"(\w+) as ", names)
    }
"""Public names, and where they live: listed once, in the stub beside this file."""

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - checkers read the stub


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import trunkline` stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trunkline' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
