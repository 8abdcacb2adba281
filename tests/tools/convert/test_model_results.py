"""What models are told where a vendor has no place for what a tool answered."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.tool import ToolResult
from trunkline.tools.convert.model_results import for_anthropic, for_gemini, for_openai, for_openai_chat

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
