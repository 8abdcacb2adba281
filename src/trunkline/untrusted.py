"""What others wrote: taken for what it should be, or for nothing; and shown so that it does no harm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON list; empty for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """A JSON text; empty for anything else."""
    return value if isinstance(value, str) else ""


def as_texts(value: Any) -> tuple[str, ...]:
    """The texts of a JSON list."""
    return tuple(one for one in as_list(value) if isinstance(one, str))


def printable(text: str) -> str:
    """A text that cannot move the cursor, forge a line, nor hide or reorder what is read."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
