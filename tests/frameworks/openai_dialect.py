"""OpenAI's Responses and Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.frameworks.dialect import Ask, Json, Told

_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


class Responses:
    """`POST /v1/responses`."""

    path = "/v1/responses"
    tells_failure = False
    shows_pictures = True

    def tools(self, body: Json) -> dict[str, Json]:
        assert all(tool["type"] == "function" for tool in body["tools"])
        return {tool["name"]: tool["parameters"] for tool in body["tools"]}

    def told(self, body: Json) -> list[Told]:
        asked = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        found = [_output(item) for item in body["input"] if item.get("type") == "function_call_output"]
        assert asked == [told.id for told in found], "every call is sent back with its answer"
        return found

    def ask(self, asks: Sequence[Ask]) -> Json:
        return _response(
            f"resp_{asks[0].id}",
            [
                {
                    "type": "function_call",
                    "id": f"fc_{ask.id}",
                    "call_id": ask.id,
                    "name": ask.tool,
                    "arguments": json.dumps(ask.arguments),
                    "status": "completed",
                }
                for ask in asks
            ],
        )

    def say(self, text: str) -> Json:
        content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        return _response("resp_last", [message])


def _output(item: Json) -> Told:
    output: str | list[Json] = item["output"]
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    assert all(part["type"] in ("input_text", "input_image") for part in parts), parts
    images = [part["image_url"] for part in parts if part["type"] == "input_image"]
    assert all(image.startswith("data:image/png;base64,") for image in images), images
    return Told(item["call_id"], "".join(part.get("text", "") for part in parts), images=len(images))


def _response(id: str, output: list[Json]) -> Json:
    said = {"id": id, "object": "response", "created_at": 0, "model": "scripted", "status": "completed"}
    return {
        **said,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _USAGE,
    }


class Completions:
    """`POST /v1/chat/completions`."""

    path = "/v1/chat/completions"
    tells_failure = False
    shows_pictures = False

    def tools(self, body: Json) -> dict[str, Json]:
        assert all(tool["type"] == "function" for tool in body["tools"])
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}

    def told(self, body: Json) -> list[Told]:
        calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        found = [_message(message) for message in body["messages"] if message["role"] == "tool"]
        assert calls == [told.id for told in found], "every call is answered, in its order"
        return found

    def ask(self, asks: Sequence[Ask]) -> Json:
        calls = [
            {
                "type": "function",
                "id": ask.id,
                "function": {"name": ask.tool, "arguments": json.dumps(ask.arguments)},
            }
            for ask in asks
        ]
        return _completion(f"chat_{asks[0].id}", {"role": "assistant", "content": None, "tool_calls": calls})

    def say(self, text: str) -> Json:
        return _completion("chat_last", {"role": "assistant", "content": text})


def _message(message: Json) -> Told:
    content: str | list[Json] = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    assert all(part["type"] == "text" for part in parts), "a tool's answer is text alone"
    return Told(message["tool_call_id"], "".join(part["text"] for part in parts))


def _completion(id: str, message: Json) -> Json:
    said = {"id": id, "object": "chat.completion", "created": 0, "model": "scripted"}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {**said, "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
