"""Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.frameworks.dialect import Ask, Json, Told

_MEMBERS = {"type", "description", "properties", "required", "items", "nullable", "anyOf", "enum", "title", "default"}
_SIGNATURE = "c2lnbmVk"


class GenerateContent:
    """`POST /v1/models/NAME:generateContent`."""

    path = "/v1/models/{model}"
    tells_failure = True
    shows_pictures = True

    def tools(self, body: Json) -> dict[str, Json]:
        (group,) = body["tools"]
        declared: list[Json] = group["functionDeclarations"]
        for one in declared:
            _check(one.get("parameters", {}))
        nothing: Json = {"type": "OBJECT"}
        return {one["name"]: _lower(one.get("parameters", nothing)) for one in declared}

    def told(self, body: Json) -> list[Told]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        asked = [part for part in parts if "functionCall" in part]
        assert all(part["thoughtSignature"] == _SIGNATURE for part in asked), "thoughts are given back with their calls"
        found = [part["functionResponse"] for part in parts if "functionResponse" in part]
        names = [(part["functionCall"]["id"], part["functionCall"]["name"]) for part in asked]
        assert names == [(one["id"], one["name"]) for one in found], "every call is answered under its name"
        return [_told(one) for one in found]

    def ask(self, asks: Sequence[Ask]) -> Json:
        calls = [{"id": ask.id, "name": ask.tool, "args": ask.arguments} for ask in asks]
        return _candidate([{"functionCall": call, "thoughtSignature": _SIGNATURE} for call in calls])

    def say(self, text: str) -> Json:
        return _candidate([{"text": text}])


def _check(schema: Json) -> None:
    assert schema.keys() <= _MEMBERS, schema
    inside = [schema["items"]] if "items" in schema else []
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *inside):
        _check(inner)


def _lower(schema: Json) -> Json:
    return {**schema, "type": schema["type"].lower()}


def _told(response: Json) -> Told:
    said: dict[str, str] = response["response"]
    # The SDK writes these members with underscores; the vendor takes both.
    images = [part["inline_data"] for part in response.get("parts", ())]
    assert all(image["mime_type"] == "image/png" and image["data"] for image in images), images
    return Told(response["id"], "".join(said.values()), "error" in said, len(images))


def _candidate(parts: list[Json]) -> Json:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": {"totalTokenCount": 1}, "modelVersion": "scripted"}
