"""Questions answered from elsewhere than the client that made the call: the console, by the same person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness import LegacyCaller, ModernCaller, faulty, gateway
from tests.tenancy.test_people import Admin

Json = dict[str, Any]
ASKABLE: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
ADA: Json = {"action": "accept", "content": {"name": "Ada"}}


async def test_a_question_of_a_modern_callers_call_is_answered_here_and_the_caller_gets_the_result(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": faulty("--era", "legacy")}, namespace="always") as opened:
        admin = Admin(opened, http)
        key = await admin.key("ana")
        ana, eve = Admin(opened, http, key), Admin(opened, http, await admin.key("eve"))
        reader = Admin(opened, http, await admin.key("ana", read_only=True))
        caller = ModernCaller(opened.url, http, token=key)
        asked = await caller.call("old__ask", {}, meta=ASKABLE)
        [waiting] = (await ana("GET", "questions"))[1]["questions"]
        others = [(await one("GET", "questions"))[1]["questions"] for one in (eve, admin, reader)]
        stolen = [await one("POST", f"questions/{waiting['id']}", ADA) for one in (eve, admin, reader)]
        odd = await ana("POST", f"questions/{waiting['id']}", {"action": "accept", "content": {"name": 3}})
        told = await ana("POST", f"questions/{waiting['id']}", ADA)
        twice = await ana("POST", f"questions/{waiting['id']}", {"action": "decline"})
        retry = {
            "name": "old__ask",
            "arguments": {},
            "requestState": asked.result["requestState"],
            "inputResponses": {next(iter(asked.result["inputRequests"])): {"action": "decline"}},
        }
        done = await caller.request("tools/call", retry, meta=ASKABLE)
        replayed = await caller.request("tools/call", retry, meta=ASKABLE)
        after = (await ana("GET", "questions"))[1]["questions"]

    assert (waiting["tool"], waiting["server"], waiting["user"]) == ("old__ask", "old", "ana")
    assert (waiting["params"]["message"], waiting["params"]["requestedSchema"]["required"]) == ("Who?", ["name"])
    assert others == [[], [], []]
    assert [status for status, _ in stolen] == [404, 404, 404]
    assert (odd[0], told, twice[0]) == (422, (200, {"id": waiting["id"], "action": "accept"}), 404)
    assert "Ada" in json.dumps(done.result)
    assert "answered already" in replayed.error["message"]
    assert after == []


async def test_who_answers_a_legacy_callers_question_first_has_answered_it_and_the_other_is_told(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": faulty("--era", "legacy")}, namespace="always") as opened:
        admin = Admin(opened, http)
        key = await admin.key("ana")
        ana = Admin(opened, http, key)
        caller = LegacyCaller(opened.url, http, capabilities={"elicitation": {}})
        caller.headers["authorization"] = f"Bearer {key}"
        await caller.open()
        call: Json = {"name": "old__ask", "arguments": {}}
        async with caller.stream("tools/call", call) as stream:
            asked = await stream.next()
            [waiting] = (await ana("GET", "questions"))[1]["questions"]
            told = await ana("POST", f"questions/{waiting['id']}", ADA)
            withdrawn = await stream.next()
            late = await caller.answer(asked["id"], {"action": "decline"})
            done = await stream.next()
        async with caller.stream("tools/call", call) as stream:
            asked = await stream.next()
            [again] = (await ana("GET", "questions"))[1]["questions"]
            await caller.answer(asked["id"], {"action": "accept", "content": {"name": "Bob"}})
            second = await stream.next()
            lost = await ana("POST", f"questions/{again['id']}", ADA)

    assert (told[0], waiting["client"]) == (200, "test")
    assert (withdrawn["method"], late < 300) == ("notifications/cancelled", True)
    assert "Ada" in json.dumps(done["result"])
    assert "Bob" in json.dumps(second["result"])
    assert (lost[0], "answered" in lost[1]["error"]["hint"]) == (404, True)


async def test_a_tool_is_tried_with_what_it_tells_meanwhile(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"old": faulty("--era", "legacy")}, namespace="always") as opened:
        admin = Admin(opened, http)
        heard = await tried(opened.url, http, "old__notify_flood", {"arguments": {"count": 2}})
        refused = await tried(opened.url, http, "old__no_such_tool", {"arguments": {}})
        asks = await tried(opened.url, http, "old__ask", {})
        [question] = asks[-1][1]["questions"]
        goes_on = {"state": asks[-1][1]["state"], "answers": {question: ADA}}
        answered = await tried(opened.url, http, "old__ask", goes_on)
        plain = await admin("POST", "tools/old__echo/call", {"arguments": {"text": "x"}})

    assert [event for event, _ in heard] == ["message", "message", "result"]
    assert heard[0][1]["data"] == "flood 0"
    assert [(event, data["error"]["code"]) for event, data in refused] == [("error", "unknown-name")]
    assert "Ada" in json.dumps(answered[-1])
    assert plain[0] == 200


async def tried(url: str, http: aiohttp.ClientSession, tool: str, body: Json) -> list[tuple[str, Json]]:
    """Every event of a call."""
    target = f"{url.removesuffix('mcp')}api/v1/tools/{tool}/call"
    async with http.post(target, json=body, headers={"accept": "text/event-stream, application/json"}) as response:
        assert response.content_type == "text/event-stream"
        blocks = (await response.text()).strip().split("\n\n")
    pairs = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [(pair["event"], json.loads(pair["data"])) for pair in pairs]


async def test_all_that_is_known_of_a_tool_and_why_it_is_found(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    said = {"tools": {"echo": {"tags": ["loud"], "cost_hint": 2.0}}}
    servers = {"old": {**faulty(), **said}}
    sections = {"profiles": {"small": {"hidden": ["*crash*"]}}, "limits": {"calls_per_hour": 100}}
    async with gateway(tmp_path, servers, namespace="always", sections=sections) as opened:
        admin = Admin(opened, http)
        await admin("POST", "tools/old__echo/call", {"arguments": {"text": "x"}})
        tool = (await admin("GET", "tools/old__echo"))[1]
        found = (await admin("GET", "tools?q=echo&strategy=bm25"))[1]["tools"]
        pattern = (await admin("GET", "tools?q=ech.&strategy=regex"))[1]["tools"]
        odd = await admin("GET", "tools?q=echo&strategy=magic")
        profiles = (await admin("GET", "profiles"))[1]["profiles"]
        limits = (await admin("GET", "limits"))[1]["limits"]
        ana = Admin(opened, http, await admin.key("ana", profile="small"))
        own = (await ana("GET", "profiles"))[1]["profiles"]
        others = await ana("GET", "limits?user=bob")

    assert (tool["statistics"]["calls"], tool["tags"], tool["cost_hint"]) == (1, ["loud"], 2.0)
    assert tool["annotations"]["cost_hint"] == {"value": 2.0, "from": "config"}
    assert tool["annotations"]["volatile_hint"]["from"] == "inferred"
    assert (tool["callers"][0], tool["held"], tool["definition"]["name"]) == ("direct", "", "old__echo")
    assert (found[0]["name"], found[0]["why"]["words"], "meaning" in found[0]["why"]) == ("old__echo", ["echo"], False)
    assert "name" in found[0]["why"]["fields"]["echo"]
    assert (pattern[0]["name"], odd[0]) == ("old__echo", 422)
    assert [one["name"] for one in profiles] == ["small"]
    assert profiles[0]["tool_count"] > 10
    assert [(one["what"], one["of"], one["most"], one["used"]) for one in limits] == [
        ("calls_per_hour", "user", 100, 1)
    ]
    assert [one["name"] for one in own] == ["small"]
    assert others[0] == 403
