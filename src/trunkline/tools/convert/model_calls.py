"""What a model asks for and is answered, in the vendors' words: what it cannot be shown is told in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from trunkline.errors import ConfigError, InvalidArgumentsError, TrunklineError
from trunkline.tool import DIRECT, ToolResult

Make = Callable[..., Awaitable[ToolResult]]
"""Calls a tool, by name and arguments: `hub.call`, or a partial of it that says whose call it is."""


async def answer(make: Make, asked: object, format: str) -> dict[str, Any]:
    """Make the call that a model asks for, and give its answer as the vendor takes it.

    `asked` is the call as the vendor's SDK hands it over, or the same as JSON. What goes wrong with the call is not
    raised: the model is told, as of a tool that failed, and may do otherwise.
    """
    if format not in _DIALECTS:
        raise ConfigError(f"No calls come in the format {format!r}.", hint=f"They come in: {', '.join(_DIALECTS)}.")
    dialect = _DIALECTS[format]
    try:
        call = dialect.read(asked)
    except msgspec.ValidationError as error:
        hint = f"Give one call, as a model asks for it in the format {format!r}."
        raise ConfigError("That is no call of a tool.", hint=hint) from error
    try:
        by_program = {"program": call.program} if call.program else {}
        result = await make(call.tool, _arguments(call), **by_program)
    except TrunklineError as error:
        result = ToolResult.failed(str(error))
    return dialect.write(call, result)


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    """As the vendor's format names it."""
    arguments: str | Mapping[str, Any]
    """A text where the vendor passes on what the model wrote, which need not be JSON."""
    id: str = ""
    program: str = ""
    """The program of the vendor's that calls, where one does."""


class _Dialect(NamedTuple):
    read: Callable[[object], _Call]
    write: Callable[[_Call, ToolResult], dict[str, Any]]


def _arguments(call: _Call) -> Mapping[str, Any]:
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        # A function without arguments is called with an empty text by some models.
        return msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        message = f"The arguments of {call.tool!r} are no JSON object: {error}."
        raise InvalidArgumentsError(message, hint="Write them again.") from error


class _By(msgspec.Struct):
    type: str


class _ToolUse(msgspec.Struct):
    id: str
    name: str
    input: dict[str, Any]
    caller: _By | None = None


def _read_anthropic(asked: object) -> _Call:
    use = msgspec.convert(asked, _ToolUse, from_attributes=True)
    by = use.caller.type if use.caller is not None else DIRECT
    return _Call(use.name, use.input, use.id, "" if by == DIRECT else by)


def _write_anthropic(call: _Call, result: ToolResult) -> dict[str, Any]:
    said = {"type": "tool_result", "tool_use_id": call.id, "content": for_anthropic(result)}
    return {**said, "is_error": True} if result.is_error else said


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Item(_Function):
    call_id: str


def _read_openai(asked: object) -> _Call:
    item = msgspec.convert(asked, _Item, from_attributes=True)
    return _Call(item.name, item.arguments, item.call_id)


def _write_openai(call: _Call, result: ToolResult) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.id, "output": for_openai(result)}


class _ChatCall(msgspec.Struct):
    id: str
    function: _Function


def _read_openai_chat(asked: object) -> _Call:
    call = msgspec.convert(asked, _ChatCall, from_attributes=True)
    return _Call(call.function.name, call.function.arguments, call.id)


def _write_openai_chat(call: _Call, result: ToolResult) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": for_openai_chat(result)}


class _FunctionCall(msgspec.Struct):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


def _read_gemini(asked: object) -> _Call:
    call = msgspec.convert(asked, _FunctionCall, from_attributes=True)
    return _Call(call.name, call.args or {}, call.id or "")


def _write_gemini(call: _Call, result: ToolResult) -> dict[str, Any]:
    known = {"id": call.id} if call.id else {}
    return {"functionResponse": {**known, "name": call.tool, **for_gemini(result)}}


_DIALECTS: Mapping[str, _Dialect] = {
    "anthropic": _Dialect(_read_anthropic, _write_anthropic),
    "openai": _Dialect(_read_openai, _write_openai),
    "openai-chat": _Dialect(_read_openai_chat, _write_openai_chat),
    "gemini": _Dialect(_read_gemini, _write_gemini),
}


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
