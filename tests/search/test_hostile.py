"""Definitions that no sane server would send: they disturb neither the index, nor a search, nor other tools."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, gateway, until
from tests.search.scene import SEND, Json, found, searched, servers, shelf, used

SEARCH: Json = {"expose": "search", "namespace": "always"}
DEEP = 240


def odd(schema: str, **more: str) -> str:
    """The definition of a tool that is about zebras, with this text for a schema."""
    members = {"description": '"Paint a zebra."', **more, "name": '"zebra"', "inputSchema": schema}
    return "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"


def nested(depth: int) -> str:
    """A schema with so many objects in objects, which is twice as many levels of JSON."""
    return '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth


HOSTILE: dict[str, str] = {
    "recursive $ref": odd('{"$ref":"#"}'),
    "mutual $ref": odd('{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}'),
    "dangling $ref": odd('{"$ref":"#/$defs/none"}'),
    "remote $ref": odd('{"$ref":"http://127.0.0.1:9/schema.json"}'),
    "file $ref": odd('{"properties":{"a":{"$ref":"file:///etc/passwd"}}}'),
    "10k anyOf": odd(json.dumps({"anyOf": [{"required": [f"a{number}"]} for number in range(10_000)]})),
    "ReDoS": odd('{"properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}'),
    "broken pattern": odd('{"properties":{"a":{"pattern":"(["}}}'),
    "1 MB": odd(json.dumps({"properties": {f"p{n}": {"description": "x" * 100} for n in range(8000)}})),
    "1 MB of words": odd('{"type":"object"}', description=json.dumps("Paint a zebra. " + "word " * 200_000)),
    "480 levels and long": odd(nested(DEEP), title=json.dumps("x" * 300_000)),
    "480 levels": odd(nested(DEEP)),
    "940 levels": odd(nested(470)),
    "120 levels of lists": odd('{"enum":' + "[" * 120 + "]" * 120 + "}"),
    "40,000 levels": odd(nested(20_000)),
    "deep annotations": odd("{}", annotations='{"a":' * DEEP + "1" + "}" * DEEP),
    "deep meta": odd("{}", _meta='{"a":' * 900 + "1" + "}" * 900),
    "properties are a list": odd('{"properties":["a","b"]}'),
    "properties are a number": odd('{"properties":5,"required":"a"}'),
    "a property is a text": odd('{"properties":{"a":"string","b":5,"c":null,"d":true,"e":[]}}'),
    "required is odd": odd('{"properties":{"a":{}},"required":[{},[],5,null]}'),
    "schema is a list": odd('[{"type":"object"}]'),
    "schema is a number": odd("5"),
    "schema is null": odd("null"),
    "schema is false": odd("false"),
    "description is a number": odd("{}", description="5", title='"zebra"'),
    "description is an object": odd("{}", description='{"text":"zebra"}'),
    "description is null": odd("{}", description="null"),
    "half a pair": odd("{}", description=r'"Paint a zebra \ud83d."'),
    "half a pair in a schema": odd(r'{"properties":{"\udc00":{"description":"\ud83d"}}}'),
    "a whole pair": odd(r'{"properties":{"\ud83e\udd86":{"description":"\ud83e\udd86"}}}'),
    "meta is odd": odd("{}", _meta='{"when_to_use":5,"input_examples":5,"tags":{"a":[]},"examples":[[],{}]}'),
    "type is odd": odd('{"type":{"a":1},"properties":{"a":{"type":5,"enum":5}}}'),
    "big numbers": odd('{"properties":{"a":{"default":1e400,"minimum":-123456789012345678901234567890}}}'),
}

UNREADABLE = (HOSTILE["940 levels"], HOSTILE["40,000 levels"])
"""Of a message as deep as this nothing can be read, so that its server's list is not known."""


@pytest.mark.parametrize("definition", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_definition_disturbs_nobody(
    tmp_path: Path, http: aiohttp.ClientSession, definition: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    hostile = shelf(tmp_path, "odd", f"[{definition},{json.dumps(SEND)}]")
    good = shelf(tmp_path, "good", [SEND])
    async with gateway(tmp_path, servers(hostile, good), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        async with asyncio.timeout(20):
            letters = await found(caller, "send a letter")
            zebras = await searched(caller, queries=["paint a zebra", "zebra"], limit=50)
            named = await searched(caller, names=["odd__zebra"])
            calls = [await used(caller, "odd__zebra", arguments) for arguments in ARGUMENTS]
            other = await used(caller, "good__send_letter", {"to": "Ann"})
            read = [await caller.request("resources/read", {"uri": uri}) for uri in ADDRESSES]
            missing = await used(caller, "odd__zebras")

    shown, readable = "odd__zebra" in opened.hub.snapshot.tools, "odd__send_letter" in opened.hub.snapshot.tools
    assert readable == (definition not in UNREADABLE)
    assert sorted(letters) == ["good__send_letter", *(["odd__send_letter"] if readable else [])]
    assert other.text == "good did send_letter"
    assert all(tool["name"] for tool in zebras["tools"])
    assert [tool["name"] for tool in named["tools"]] == (["odd__zebra"] if shown else [])
    assert all("result" in heard.message for heard in (*calls, missing))
    assert len(json.loads(read[0].result["contents"][0]["text"])["tools"]) == 1 + readable + shown
    assert ("result" in read[1].message) == shown
    assert caplog.records == []


ARGUMENTS: list[Any] = [{}, {"a": "a" * 5000 + "!"}, {"a": {"a": {"a": 1}}}, {"a0": 1}]
ADDRESSES = ("trunkline://tools", "trunkline://tools/odd__zebra")


@pytest.mark.parametrize("name", ["1 MB", "480 levels", "480 levels and long", "1 MB of words"])
async def test_what_is_too_large_to_show_is_marked_and_given_whole_on_demand(
    tmp_path: Path, http: aiohttp.ClientSession, name: str
) -> None:
    one = shelf(tmp_path, "one", f"[{HOSTILE[name]}]")
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        heard = await caller.call("search_tools", {"query": "zebra"})
        whole = await caller.call("search_tools", {"names": ["one__zebra"]})

    answer = json.loads(heard.text)
    assert [tool["name"] for tool in answer["tools"]] == ["one__zebra"]
    assert answer["tools"][0]["shortened"] is True
    assert len(heard.text) < 20_000
    for member, length in (('"inputSchema":', 100), ('"description":', 16)):
        assert HOSTILE[name].partition(member)[2][:length] in whole.text


async def test_all_of_them_at_once_leave_the_others_findable(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    readable = [text for text in HOSTILE.values() if text not in UNREADABLE]
    many = [text.replace('"name":"zebra"', f'"name":"zebra_{number}"') for number, text in enumerate(readable)]
    hostile = shelf(tmp_path, "odd", f"[{','.join(many)}]")
    good = shelf(tmp_path, "good", [SEND])
    async with gateway(tmp_path, servers(hostile, good), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        await until(lambda: opened.hub.snapshot.tools)
        letters = await found(caller, "send a letter")
        zebras = await searched(caller, "paint a zebra", limit=50)

    assert letters == ["good__send_letter"]
    assert len(zebras["tools"]) > 10
    assert caplog.records == []
