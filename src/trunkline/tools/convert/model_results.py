"""A tool's answer as the models of each vendor are given it: what they cannot be shown is told in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec

from trunkline.tool import ToolResult

_SHOWN = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SHOWN_BY_GEMINI = ("image/jpeg", "image/png", "image/webp")


def for_anthropic(result: ToolResult) -> list[dict[str, Any]]:
    """The `content` of a `tool_result`; the vendor refuses pictures in one that says it is an error."""
    parts = _parts(result, () if result.is_error else _SHOWN)
    return [_block(part) if isinstance(part, _Picture) else {"type": "text", "text": part} for part in parts]


def for_openai(result: ToolResult) -> str | list[dict[str, Any]]:
    """The `output` of a `function_call_output`: a text, or a list if there are pictures."""
    parts = _parts(result, _SHOWN)
    if not any(isinstance(part, _Picture) for part in parts):
        return _text(result, parts)
    marked = ["Error:", *parts] if result.is_error else parts
    return [
        {"type": "input_image", "image_url": f"data:{part.kind};base64,{part.data}"}
        if isinstance(part, _Picture)
        else {"type": "input_text", "text": part}
        for part in marked
    ]


def for_openai_chat(result: ToolResult) -> str:
    """The `content` of a message of the role `tool`, which is text alone."""
    return _text(result, _parts(result, ()))


def for_gemini(result: ToolResult) -> dict[str, Any]:
    """The `response` of a `functionResponse`, and its `parts` if there are pictures."""
    parts = _parts(result, _SHOWN_BY_GEMINI)
    said: dict[str, Any] = {"response": {"error" if result.is_error else "output": _joined(parts)}}
    pictures = [part for part in parts if isinstance(part, _Picture)]
    if pictures:
        said["parts"] = [{"inlineData": {"mimeType": picture.kind, "data": picture.data}} for picture in pictures]
    return said


class _Picture(NamedTuple):
    kind: str
    data: str


def _block(picture: _Picture) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": picture.kind, "data": picture.data}}


def _text(result: ToolResult, parts: Iterable[str | _Picture]) -> str:
    # OpenAI has no member that says that a call failed, so the text does.
    return f"Error: {_joined(parts)}" if result.is_error else _joined(parts)


def _joined(parts: Iterable[str | _Picture]) -> str:
    return "\n".join(part for part in parts if isinstance(part, str))


def _parts(result: ToolResult, shown: Collection[str]) -> list[str | _Picture]:
    """The blocks in their order: pictures of the kinds that can be shown, all else as text that is not empty."""
    parts = [part for block in result.content if (part := _part(block, shown))]
    if not parts and result.structured is not None:
        return [msgspec.json.encode(result.structured).decode()]
    # An error without a word is refused by Anthropic, and no model can tell silence from a fault.
    return parts or ["The tool said nothing."]


def _part(block: dict[str, Any], shown: Collection[str]) -> str | _Picture:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return " ".join(str(block[key]) for key in ("title", "name", "uri", "description") if block.get(key))
    inside: dict[str, Any] = block.get("resource", {}) if kind == "resource" else block
    if "text" in inside:
        return str(inside["text"])
    mime = str(inside.get("mimeType", ""))
    data = inside.get("data", inside.get("blob"))
    if mime in shown and isinstance(data, str):
        return _Picture(mime, data)
    where = f" from {inside['uri']}" if "uri" in inside else ""
    return f"[{mime or kind}{where}: it cannot be shown here.]"
