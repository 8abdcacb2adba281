"""Calls as models ask for them, and answers as they are given them."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from trunkline import Config, Image, Tool, ToolContext, ToolResult, ToolServer, open_hub
from trunkline.call.middleware.chain import CallNext
from trunkline.errors import ConfigError
from trunkline.hub import Hub
from trunkline.tools.convert.model_calls import answer, for_anthropic, for_gemini, for_openai, for_openai_chat

DOT = b"\x89PNG\xfb\xff"
ASKED: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "tool_use", "id": "c1", "name": "get_stock", "input": {"hat": "fedora"}},
    "openai": {"type": "function_call", "call_id": "c1", "name": "get_stock", "arguments": '{"hat": "fedora"}'},
    "openai-chat": {
        "type": "function",
        "id": "c1",
        "function": {"name": "get_stock", "arguments": '{"hat": "fedora"}'},
    },
    "gemini": {"id": "c1", "name": "get_stock", "args": {"hat": "fedora"}},
}
FORMATS = pytest.mark.parametrize("format", ASKED)


@pytest_asyncio.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Hub]:
    """A hub over a shop with a tool whose name no vendor takes."""
    shop = ToolServer("shop", "Sells hats.")

    @shop.tool
    def get_stock(hat: str) -> str:  # pyright: ignore[reportUnusedFunction] # the decorator takes it
        """How many of a hat there are."""
        if hat != "fedora":
            raise ValueError(f"There is no hat {hat!r}.")
        return "3"

    @shop.tool
    def draw() -> Image:  # pyright: ignore[reportUnusedFunction] # the decorator takes it
        """A picture of the shop."""
        return Image(DOT, "image/png")

    @shop.tool(name="shop.hours")
    def hours() -> str:  # pyright: ignore[reportUnusedFunction] # the decorator takes it
        """When the shop is open."""
        return "9 to 5"

    async with open_hub(Config(home=tmp_path)) as opened:
        await opened.mount(shop)
        yield opened


def asked(format: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A call of another tool."""
    text = {"name": name, "arguments": ""} if not arguments else {"name": name, "arguments": str(arguments["text"])}
    changed: dict[str, dict[str, Any]] = {
        "anthropic": {"name": name, "input": arguments},
        "openai": text,
        "openai-chat": {"function": text},
        "gemini": {"name": name, "args": arguments or None},
    }
    return {**ASKED[format], **changed[format]}


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("anthropic", {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3"}]}),
        ("openai", {"type": "function_call_output", "call_id": "c1", "output": "3"}),
        ("openai-chat", {"role": "tool", "tool_call_id": "c1", "content": "3"}),
        ("gemini", {"functionResponse": {"id": "c1", "name": "get_stock", "response": {"output": "3"}}}),
    ],
)
async def test_a_call_is_made_and_answered_as_the_vendor_takes_it(hub: Hub, format: str, expected: Any) -> None:
    assert await answer(hub.call, ASKED[format], format) == expected


class Block:
    """What an SDK hands over has attributes."""

    def __init__(self, members: dict[str, Any]) -> None:
        for key, value in members.items():
            setattr(self, key, Block(value) if key == "function" else value)


@FORMATS
async def test_a_call_may_be_the_object_of_an_sdk(hub: Hub, format: str) -> None:
    assert "3" in str(await answer(hub.call, Block(ASKED[format]), format))


@FORMATS
async def test_a_name_that_was_changed_for_the_vendor_leads_to_its_tool(hub: Hub, format: str) -> None:
    definitions = await hub.tools(format=format)
    names = [definition.get("function", definition)["name"] for definition in definitions]
    (changed,) = set(names) - {"get_stock", "draw"}

    said = await answer(hub.call, asked(format, changed), format)

    assert changed != "shop.hours"
    assert "9 to 5" in str(said)


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        (
            "anthropic",
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(DOT).decode()},
            },
        ),
        (
            "openai",
            {"type": "input_image", "image_url": f"data:image/png;base64,{base64.b64encode(DOT).decode()}"},
        ),
        ("openai-chat", "[image/png: it cannot be shown here.]"),
        ("gemini", {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(DOT).decode()}}),
    ],
)
async def test_a_picture_is_shown_where_the_vendor_can_show_it(hub: Hub, format: str, expected: Any) -> None:
    said = await answer(hub.call, asked(format, "draw"), format)

    found = said.get("functionResponse", said)
    (picture,) = [found[key] for key in ("parts", "content", "output") if key in found]
    assert picture in ([expected], expected)


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("anthropic", {"is_error": True}),
        ("openai", {"output": "Error: "}),
        ("openai-chat", {"content": "Error: "}),
        ("gemini", {"error": ""}),
    ],
)
@pytest.mark.parametrize("name", ["get_stock", "get_stoc"])
async def test_what_goes_wrong_is_told_to_the_model(hub: Hub, format: str, name: str, expected: dict[str, Any]) -> None:
    said = await answer(hub.call, asked(format, name), format)

    found = said["functionResponse"]["response"] if format == "gemini" else said
    ((key, value),) = expected.items()
    assert found[key] is True if value is True else found[key].startswith(value)
    assert "get_stoc" in str(said)


@pytest.mark.parametrize("format", ["openai", "openai-chat"])
@pytest.mark.parametrize("text", ['{"hat": "fed', "[1]", "7"])
async def test_arguments_that_are_no_object_are_told_to_the_model(hub: Hub, format: str, text: str) -> None:
    said = await answer(hub.call, asked(format, "get_stock", text=text), format)

    assert "Error: The arguments of 'get_stock' are no JSON object" in str(said)


async def test_a_partial_says_whose_call_it_is(hub: Hub) -> None:
    users: list[str] = []

    async def note(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        users.append(context.user)
        return await call_next()

    await answer(partial(hub.use(note).call, user="ana"), ASKED["gemini"], "gemini")

    assert users == ["ana"]


async def test_a_call_of_gemini_without_an_id_is_answered_without_one(hub: Hub) -> None:
    said = await answer(hub.call, {"name": "shop.hours"}, "gemini")

    assert said == {"functionResponse": {"name": "shop.hours", "response": {"output": "9 to 5"}}}


@FORMATS
async def test_what_is_no_call_is_refused_with_what_is_one(hub: Hub, format: str) -> None:
    with pytest.raises(ConfigError, match=f"as a model asks for it in the format '{format}'"):
        await answer(hub.call, {"type": "text", "text": "Hello."}, format)


async def test_a_format_without_calls_is_refused_with_those_that_have_them(hub: Hub) -> None:
    with pytest.raises(ConfigError, match="anthropic, openai, openai-chat, gemini"):
        await answer(hub.call, ASKED["gemini"], "mcp")


PNG: dict[str, Any] = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
GIF: dict[str, Any] = {"type": "image", "mimeType": "image/gif", "data": "AAAA"}
HELLO: dict[str, Any] = {"type": "text", "text": "Hello."}


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "resource", "resource": {"uri": "note://a", "text": "A note."}}, "A note."),
        (
            {"type": "resource", "resource": {"uri": "file://a", "mimeType": "application/zip", "blob": "AAAA"}},
            "[application/zip from file://a: it cannot be shown here.]",
        ),
        ({"type": "resource_link", "name": "a", "uri": "note://a", "description": "A note."}, "a note://a A note."),
        ({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}, "[audio/wav: it cannot be shown here.]"),
        ({"type": "hologram"}, "[hologram: it cannot be shown here.]"),
    ],
)
def test_what_cannot_be_shown_is_told_in_words(block: dict[str, Any], words: str) -> None:
    result = ToolResult([block])

    assert for_openai_chat(result) == for_openai(result) == words
    assert for_anthropic(result) == [{"type": "text", "text": words}]
    assert for_gemini(result) == {"response": {"output": words}}


def test_a_picture_inside_a_resource_is_a_picture() -> None:
    block = {"type": "resource", "resource": {"uri": "file://a", "mimeType": "image/png", "blob": "AAAA"}}

    assert for_anthropic(ToolResult([block])) == for_anthropic(ToolResult([PNG]))


def test_words_and_pictures_keep_their_order() -> None:
    result = ToolResult([PNG, HELLO, GIF])

    assert [block["type"] for block in for_anthropic(result)] == ["image", "text", "image"]
    assert [item["type"] for item in for_openai(result) if isinstance(item, dict)] == [
        "input_image",
        "input_text",
        "input_image",
    ]
    assert for_gemini(result) == {
        "response": {"output": "Hello.\n[image/gif: it cannot be shown here.]"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    }


def test_a_picture_in_an_error_is_told_in_words_to_anthropic_alone() -> None:
    result = ToolResult([HELLO, PNG], is_error=True)

    assert {block["type"] for block in for_anthropic(result)} == {"text"}
    assert for_openai(result) == [
        {"type": "input_text", "text": "Error:"},
        {"type": "input_text", "text": "Hello."},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    assert for_gemini(result)["response"] == {"error": "Hello."}


def test_an_answer_without_words_is_its_structure() -> None:
    assert for_openai_chat(ToolResult([], structured={"stock": 3})) == '{"stock":3}'


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}]])
def test_an_answer_is_never_empty(content: list[dict[str, Any]]) -> None:
    assert for_anthropic(ToolResult(content, is_error=True)) == [{"type": "text", "text": "The tool said nothing."}]
