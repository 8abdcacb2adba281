"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.frameworks.dialect import Ask, Json, Told


class Messages:
    """`POST /v1/messages`."""

    path = "/v1/messages"
    tells_failure = True
    shows_pictures = True

    def tools(self, body: Json) -> dict[str, Json]:
        for tool in body["tools"]:
            assert tool.keys() <= {"name", "description", "input_schema", "type"}, tool
        return {tool["name"]: tool["input_schema"] for tool in body["tools"]}

    def told(self, body: Json) -> list[Told]:
        roles = [message["role"] for message in body["messages"]]
        assert all(role == ("user", "assistant")[place % 2] for place, role in enumerate(roles)), roles
        blocks = [block for message in body["messages"][1:] for block in message["content"]]
        return [_told(block) for block in blocks if block["type"] == "tool_result"]

    def ask(self, asks: Sequence[Ask]) -> Json:
        blocks = [{"type": "tool_use", "id": ask.id, "name": ask.tool, "input": ask.arguments} for ask in asks]
        return _message(f"msg_{asks[0].id}", [{"type": "text", "text": "Let me look."}, *blocks], "tool_use")

    def say(self, text: str) -> Json:
        return _message("msg_last", [{"type": "text", "text": text}], "end_turn")


def _told(block: Json) -> Told:
    failed = block.get("is_error", False)
    content: list[Json] = block["content"]
    assert content, "an answer says something"
    assert all(part.get("text") or part["type"] == "image" for part in content), content
    images = [part["source"] for part in content if part["type"] == "image"]
    assert all(image["type"] == "base64" and image["media_type"] == "image/png" for image in images), images
    assert not (failed and images), "an error is told in words"
    return Told(block["tool_use_id"], "".join(part.get("text", "") for part in content), failed, len(images))


def _message(id: str, content: list[dict[str, Any]], reason: str) -> Json:
    said = {"id": id, "type": "message", "role": "assistant", "model": "scripted", "content": content}
    return {**said, "stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
