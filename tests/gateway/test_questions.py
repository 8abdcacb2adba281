"""Questions in the middle of a call, across the eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, faulty, faulty_http, gateway
from trunkline.questions.mcp import flag_secrets

ASKABLE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


async def test_a_modern_caller_answers_a_legacy_servers_question(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    with faulty_http("--era", "legacy") as url:
        servers = {"pipe": faulty("--era", "legacy"), "web": {"url": url}}
        async with gateway(tmp_path, servers) as opened:
            caller = ModernCaller(opened.url, http)
            for name in servers:
                asked = await caller.call(f"{name}__ask", {}, meta=ASKABLE)
                (key,) = asked.result["inputRequests"]
                retry = {
                    "name": f"{name}__ask",
                    "arguments": {},
                    "requestState": asked.result["requestState"],
                    "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}},
                }
                done = await caller.request("tools/call", retry, meta=ASKABLE)
                replayed = await caller.request("tools/call", retry, meta=ASKABLE)

                assert asked.result["resultType"] == "input_required"
                assert asked.result["inputRequests"][key]["method"] == "elicitation/create"
                assert "Ada" in json.dumps(done.result)
                assert done.result["resultType"] == "complete"
                assert "answered already" in replayed.error["message"]


@pytest.mark.parametrize(
    ("name", "field", "secret"),
    [
        ("password", {"type": "string"}, True),
        ("newPassword", {"type": "string"}, True),
        ("api_key", {"type": "string"}, True),
        ("access-token", {"type": "string"}, True),
        ("clientSecret", {"type": "string"}, True),
        ("pin", {"type": "integer"}, True),
        ("code", {"type": "string", "title": "Passphrase"}, True),
        ("code", {"type": "string", "format": "password"}, True),
        ("name", {"type": "string"}, False),
        ("max_tokens", {"type": "integer"}, False),
        ("spinner", {"type": "string"}, False),
        ("reset_password", {"type": "boolean"}, False),
        ("secretary", {"type": "string", "enum": ["Ann", "Bob"]}, False),
    ],
)
def test_fields_that_look_secret(name: str, field: dict[str, Any], secret: bool) -> None:
    schema = {"type": "object", "properties": {"first": {"type": "string"}, name: field}}

    assert flag_secrets({"message": "?", "requestedSchema": schema}) == ([name] if secret else [])


@pytest.mark.parametrize("schema", [None, [], {"properties": []}, {"properties": {"password": "string"}}])
def test_a_form_that_is_none_has_no_secret_fields(schema: Any) -> None:
    assert flag_secrets({"requestedSchema": schema}) == []
