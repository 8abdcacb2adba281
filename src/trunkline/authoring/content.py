"""What tools answer besides text: pictures, sound, resources; and any return value as a result."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from trunkline.tool import ToolResult


@dataclass(frozen=True, slots=True)
class Image:
    """A picture."""

    data: bytes
    mime_type: str = "image/png"

    def block(self) -> dict[str, Any]:
        """As MCP writes it."""
        return {"type": "image", "data": _text(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound."""

    data: bytes
    mime_type: str = "audio/wav"

    def block(self) -> dict[str, Any]:
        """As MCP writes it."""
        return {"type": "audio", "data": _text(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A resource with its content."""

    uri: str
    content: str | bytes
    mime_type: str = ""

    def block(self) -> dict[str, Any]:
        """As MCP writes it."""
        return {"type": "resource", "resource": contents(self.uri, self.content, self.mime_type)}


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that the caller may read."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""

    def block(self) -> dict[str, Any]:
        """As MCP writes it."""
        told = {"description": self.description, "mimeType": self.mime_type}
        return {"type": "resource_link", "uri": self.uri, "name": self.name} | {k: v for k, v in told.items() if v}


Block = Image | Audio | Embedded | Link


def result_of(value: Any) -> ToolResult:
    """The answer that a function's return value means; one that says it failed is a failure.

    A text is text, a block or a list with blocks is content, a result of MCP stays what it is, and anything else is
    JSON beside itself.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult([])
    if isinstance(value, str | Block):
        return ToolResult([block_of(value)])
    if isinstance(value, list | tuple) and any(isinstance(part, Block) for part in cast("Sequence[Any]", value)):
        return ToolResult([block_of(part) for part in cast("Sequence[Any]", value)])
    plain = plain_json(value)
    if isinstance(plain, dict):
        members = cast("dict[str, Any]", plain)
        if isinstance(members.get("content"), list) and ("isError" in members or "structuredContent" in members):
            return _of_mcp(members)
        if members.get("success") is False:
            return ToolResult([block_of(_reason(members))], structured=members, is_error=True)
    return ToolResult([block_of(msgspec.json.encode(plain).decode())], structured=plain)


def block_of(value: Any) -> dict[str, Any]:
    """One part of an answer."""
    if isinstance(value, Block):
        return value.block()
    text = value if isinstance(value, str) else msgspec.json.encode(plain_json(value)).decode()
    return {"type": "text", "text": text}


def contents(uri: str, content: str | bytes, mime_type: str = "") -> dict[str, Any]:
    """The content of a resource."""
    about = {"uri": uri} | ({"mimeType": mime_type} if mime_type else {})
    return about | ({"text": content} if isinstance(content, str) else {"blob": _text(content)})


def error_text(error: BaseException) -> str:
    """What a caller hears of an error: a sentence speaks for itself, a word only with the error's name."""
    text = str(error)
    return text if " " in text.strip() else f"{type(error).__name__}: {text}" if text else type(error).__name__


def plain_json(value: Any) -> Any:
    """Dataclasses, dates, sets and the like as JSON has them; what it cannot have becomes its text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):  # a model of pydantic, such as the SDK's types are
        return dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def _plain(value: Any) -> Any:
    return plain_json(value) if hasattr(value, "model_dump") else str(value)


def _of_mcp(members: dict[str, Any]) -> ToolResult:
    meta = members.get("_meta")
    return ToolResult(
        members["content"],
        structured=members.get("structuredContent"),
        is_error=members.get("isError") is True,
        meta=cast("dict[str, Any]", meta) if isinstance(meta, Mapping) else {},
    )


def _reason(members: Mapping[str, Any]) -> str:
    for name in ("error", "message"):
        if members.get(name):
            said = members[name]
            return said if isinstance(said, str) else msgspec.json.encode(said).decode()
    return "It failed, and did not say why."


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
