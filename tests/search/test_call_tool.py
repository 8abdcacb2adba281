"""`call_tool`: the call that it means is made, once, as if it had been made directly; or nothing is."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import TESTS, LegacyCaller, ModernCaller, faulty, gateway, plain_command, until
from tests.search.scene import (
    BAKE,
    ERAS,
    GEESE,
    SEND,
    SOME,
    Json,
    refusal,
    requester,
    servers,
    shelf,
    tool,
    used,
    used_raw,
)

SEARCH: Json = {"expose": "search", "namespace": "always"}
FREE = tool("free", "Takes anything.")
SERVER_ERAS = pytest.mark.parametrize("served", ["modern", "legacy"])


async def test_an_unknown_name_is_answered_with_the_servers_that_still_start(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME)
    late = {"late": faulty("--start", "hang")}
    async with gateway(tmp_path, {**servers(one), **late}, ready=0, **SEARCH) as opened:
        await until(lambda: "one__bake_bread" in opened.hub.snapshot.tools)
        told = refusal(await used(await requester(opened, http, "modern"), "late__qqqq"))

    assert told.startswith("There is no tool 'late__qqqq'. Not everything is listed: late is starting.")


@ERAS
@SERVER_ERAS
async def test_the_tool_runs_once_with_those_arguments(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, served: str
) -> None:
    one = shelf(tmp_path, "one", SOME, era=served)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        heard = await used(await requester(opened, http, era), "one__send_letter", {"to": "Ann", "stamps": 2})

    assert heard.text == "one did send_letter"
    assert [json.loads(call.partition(" ")[2]) for call in one.calls()] == [{"to": "Ann", "stamps": 2}]


EXACT = [
    '{"n":123456789012345678901234567890,"m":1E+2,"z":-0.0,"f":1.10}',
    '{"a":null,"b":[null,{}],"":""}',
    r'{"text":"caf\u00e9 \/ \ud83d\ude00 日本 🦆","k\u0065y":1}',
    '{ "spaced" :  [ 1 ,2 ] }',
    '{"name":"call_tool","arguments":{"name":"one__free"}}',
    "{}",
]


@pytest.mark.parametrize("namespace", ["always", "auto"])
@SERVER_ERAS
async def test_arguments_reach_the_server_byte_for_byte(
    tmp_path: Path, http: aiohttp.ClientSession, served: str, namespace: str
) -> None:
    one = shelf(tmp_path, "one", [FREE], era=served)
    name = "free" if namespace == "auto" else "one__free"
    async with gateway(tmp_path, servers(one), expose="search", namespace=namespace) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await used_raw(caller, f'{{"name":"{name}", "arguments": {arguments}}}') for arguments in EXACT]

    assert [one.text for one in heard] == ["one did free"] * len(EXACT)
    assert one.calls() == [f"free {arguments}" for arguments in EXACT]


async def test_arguments_may_be_written_as_text_or_left_out(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [FREE, GEESE])
    text = '{"n": 123456789012345678901234567890, "s": "é\\n"}'
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await used(caller, "one__free", text), await used(caller, "one__count_geese")]

    assert [one.text for one in heard] == ["one did free", "one did count_geese"]
    assert one.calls() == [f"free {text}", "count_geese {}"]


NOT_OBJECTS: list[Any] = [[], ["a"], 5, True, "", "words", "[]", '{"a":', '"{}"', "null", "5"]


@ERAS
async def test_arguments_that_are_no_object_are_refused_with_help(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", [FREE])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        for arguments in NOT_OBJECTS:
            text = refusal(await used(caller, "one__free", arguments))

            assert text.startswith("The arguments of one__free must be an object"), arguments
    assert one.calls() == []


async def test_arguments_in_the_wrong_place_are_not_dropped(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", [FREE])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        heard = await ModernCaller(opened.url, http).call("call_tool", {"name": "one__free", "to": "Ann"})

    assert 'the arguments of one__free stand inside "arguments"' in refusal(heard)
    assert one.calls() == []


@ERAS
async def test_a_call_that_means_two_tools_is_refused(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", [FREE, GEESE])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        twice = [
            '{"name":"one__free","name":"one__count_geese"}',
            '{"name":"one__free","arguments":{},"arguments":{"a":1}}',
            r'{"name":"one__free","n\u0061me":"one__count_geese"}',
        ]
        for arguments in twice:
            heard = await used_raw(caller, arguments)

            assert heard.error["message"] == "A name occurs twice in one JSON object."
        inside = await used_raw(caller, '{"name":"one__free","arguments":{"a":1,"a":2}}')

    assert inside.text == "one did free"
    assert one.calls() == ['free {"a":1,"a":2}']


@pytest.mark.parametrize("depth", [500, 930, 5000])
@ERAS
async def test_arguments_of_any_depth_are_answered(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, depth: int
) -> None:
    one = shelf(tmp_path, "one", [FREE])
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        heard = await used_raw(caller, '{"name":"one__free","arguments":' + '{"a":' * depth + "1" + "}" * depth + "}")
        after = await used(caller, "one__free", {})

    assert heard.status != 500
    assert after.text == "one did free"


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, "'to' is missing"),
        ({"to": 5}, "'to' must be of type string"),
        ({"to": "a", "stamps": "many"}, "'stamps' must be of type integer"),
    ],
)
@ERAS
async def test_arguments_that_do_not_fit_are_named_with_the_schema_and_the_server_sees_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, arguments: Json, wrong: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        text = refusal(await used(await requester(opened, http, era), "one__send_letter", arguments))

    assert wrong in text
    assert "It was not called." in text
    assert json.loads(text.partition("Its input schema: ")[2].rstrip(".")) == SEND["inputSchema"]
    assert one.calls() == []


async def test_values_of_arguments_are_not_told(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        text = refusal(await used(ModernCaller(opened.url, http), "one__send_letter", {"to": ["hunter2"]}))

    assert "hunter2" not in text


@ERAS
async def test_an_unknown_name_is_answered_with_those_that_may_be_meant(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        misspelt = refusal(await used(caller, "one__sendletter", {"to": "Ann"}))
        nonsense = refusal(await used(caller, "qqqq"))
        long = refusal(await used(caller, "z" * 100_000))
        nobody = refusal(await caller.call("call_tool", {}))
        number = refusal(await caller.call("call_tool", {"name": 5}))
        odd = refusal(await caller.request("tools/call", {"name": "call_tool", "arguments": "one__bake_bread"}))

    assert misspelt.startswith("There is no tool 'one__sendletter'. Did you mean one__send_letter")
    assert nonsense == "There is no tool 'qqqq'. Find one with search_tools."
    assert len(long) < 300
    assert all("the name is missing" in text for text in (nobody, number, odd))
    assert one.calls() == []


@ERAS
async def test_our_own_tools_are_not_called_through_each_other(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        nested = refusal(await used(caller, "call_tool", {"name": "one__count_geese", "arguments": {}}))
        search = refusal(await used(caller, "search_tools", {"query": "geese"}))

    assert "Call call_tool itself." in nested
    assert "Call search_tools itself." in search
    assert one.calls() == []


async def test_a_call_made_in_python_means_the_same(tmp_path: Path) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        result = await opened.hub.call("call_tool", {"name": "one__send_letter", "arguments": {"to": "Ann"}})

    assert result.text == "one did send_letter"
    assert one.calls() == ['send_letter {"to":"Ann"}']


@ERAS
@SERVER_ERAS
async def test_a_result_is_the_same_as_that_of_a_direct_call(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, served: str
) -> None:
    one = shelf(tmp_path, "one", [tool("exact"), *SOME], era=served)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        direct = await caller.call("one__exact", id=77)
        found = await used(caller, "one__exact", {}, id=77)

    assert found.raw == direct.raw
    assert b'"structuredContent":{"z":1.0,"a":null,"m":1E+2,"\\u006bey":-0.0}' in found.raw
    assert found.result["isError"] is True
    assert b'"own":1E+2' in found.raw


@ERAS
@SERVER_ERAS
async def test_progress_and_log_messages_come_as_in_a_direct_call(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, served: str
) -> None:
    one = shelf(tmp_path, "one", [tool("chatter")], era=served)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await requester(opened, http, era)
        params = {"name": "call_tool", "arguments": {"name": "one__chatter"}}
        if isinstance(caller, ModernCaller):
            meta = {"progressToken": "mine", "io.modelcontextprotocol/logLevel": "error"}
            heard = await caller.request("tools/call", params, meta=meta)
        else:
            await caller.request("logging/setLevel", {"level": "error"})
            heard = await caller.request("tools/call", {**params, "_meta": {"progressToken": "mine"}})

    assert heard.text == "one did chatter"
    told = {message["method"]: message["params"] for message in heard.before}
    assert told["notifications/progress"]["progressToken"] == "mine"
    assert told["notifications/message"]["data"] == "chatter"


@SERVER_ERAS
async def test_a_modern_caller_that_hangs_up_cancels_the_call(
    tmp_path: Path, http: aiohttp.ClientSession, served: str
) -> None:
    one = shelf(tmp_path, "one", [tool("wait")], era=served)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        call = asyncio.create_task(used(ModernCaller(opened.url, http), "one__wait"))
        await until(lambda: one.calls())
        call.cancel()

        await until(lambda: one.log("cancelled"))
    assert len(one.calls()) == 1


@SERVER_ERAS
async def test_a_legacy_caller_that_withdraws_cancels_the_call(
    tmp_path: Path, http: aiohttp.ClientSession, served: str
) -> None:
    one = shelf(tmp_path, "one", [tool("wait")], era=served)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        call = asyncio.create_task(used(caller, "one__wait", id="away"))
        await until(lambda: one.calls())
        await caller.notify("notifications/cancelled", {"requestId": "away"})

        await until(lambda: one.log("cancelled"))
        await call


async def test_a_tool_that_goes_between_search_and_call_is_unknown(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        before = await used(caller, "one__bake_bread", {"flour": "rye"})
        await one.change([SEND])
        await until(lambda: "one__bake_bread" not in opened.hub.snapshot.tools)
        after = refusal(await used(caller, "one__bake_bread", {"flour": "rye"}))

    assert before.text == "one did bake_bread"
    assert after.startswith("There is no tool 'one__bake_bread'.")


# Other stages on the way.


async def test_a_kept_answer_is_found_however_the_call_is_made(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    reads = {**BAKE, "name": "get_bread", "annotations": {"readOnlyHint": True}}
    one = shelf(tmp_path, "one", [reads])
    async with gateway(tmp_path, servers(one), sections={"cache": {"enabled": True}}, **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [
            await used(caller, "one__get_bread", {"flour": "rye"}),
            await used(caller, "one__get_bread", {"flour": "rye"}),
            await caller.call("one__get_bread", {"flour": "rye"}),
        ]

    assert {one.text for one in heard} == {"one did get_bread"}
    assert len(one.calls()) == 1


async def test_a_group_is_found_and_called_as_one_server(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    left, right = shelf(tmp_path, "left", SOME), shelf(tmp_path, "right", SOME)
    sections: Json = {"groups": {"pair": {"servers": ["left", "right"], "strategy": "round-robin"}}}
    async with gateway(tmp_path, servers(left, right), sections=sections, **SEARCH) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await used(caller, "pair__count_geese") for _ in range(4)]
        alone = refusal(await used(caller, "left__count_geese"))

    assert sorted(one.text for one in heard) == ["left did count_geese"] * 2 + ["right did count_geese"] * 2
    assert alone.startswith("There is no tool 'left__count_geese'.")


@SERVER_ERAS
async def test_arguments_that_travel_in_headers_do_so(tmp_path: Path, http: aiohttp.ClientSession, served: str) -> None:
    with one_era(served) as url:
        async with gateway(tmp_path, {"far": {"url": url}}, **SEARCH) as opened:
            wants = opened.hub.snapshot.tools["far__region"].headers
            modern = await used(ModernCaller(opened.url, http), "far__region", {"region": "eu"})
            legacy = await used(await LegacyCaller(opened.url, http).open(), "far__region", {"region": "eu"})
            stray = {"mcp-param-region": "us"}
            odd = await used(ModernCaller(opened.url, http), "far__region", {"region": "eu"}, headers=stray)

    assert wants
    assert (modern.text, legacy.text, odd.text) == ("eu", "eu", "eu")


@contextmanager
def one_era(era: str) -> Generator[str]:
    """The address of a server that refuses calls whose headers do not repeat what they should."""
    command = plain_command("-m", "tests.fidelity.one_era_server", "--era", era, "--http")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS.parent)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}/mcp"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
