"""What a tool gave, as programs have it: structured content, else its one text, read where it is JSON."""

from __future__ import annotations

import json
from typing import Any

from trunkline.untrusted import as_list, as_object
from trunkline.wire.members import decode


def value_of(structured: Any, content: Any) -> Any:
    """The value of a result, of which either may be absent."""
    if structured is not None:
        return structured
    values = [_block(block) for block in as_list(content)]
    return values[0] if len(values) == 1 else values or None


def read_value(structured: bytes) -> Any:
    """The value of structured content; ValueError for what is no JSON."""
    return _held(decode(structured), structured)


def read_blocks(content: bytes) -> Any:
    """The value of a result that has blocks alone; ValueError for what is no JSON."""
    return _held(value_of(None, decode(content) if content else []), content)


def _held(value: Any, raw: bytes) -> Any:
    if b"\\ud" in raw or b"\\uD" in raw:  # half of a pair JSON can write, but a program cannot hold
        value = decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def _block(block: Any) -> Any:
    found = as_object(block)
    if found.get("type") != "text":
        return block
    text = str(found.get("text", ""))
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text
