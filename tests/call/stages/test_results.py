"""Results too large to read are kept aside: callers see a true preview, and read the rest as they need it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.call.results.scene import IMAGE, PREVIEW, Json, handle_of, lines, opened, stock, warehouse
from tests.call.stages.till import teller
from tests.harness import until
from trunkline.identity import Scope
from trunkline.model import Call
from trunkline.tool import Annotations
from trunkline.tools.tokens import estimated

ANA, BOB = "the-long-token-of-ana", "the-long-token-of-bob"
USERS = {"ana": ANA, "bob": BOB}
MUCH: Json = {"account": "a word " * 2000}
READERS = {"read_result", "search_result", "query_result"}


async def shown(scene: Any, **whose: str) -> set[str]:
    heard = await scene.caller(**whose).request("tools/list")
    return {tool["name"] for tool in heard.result["tools"]}


# What is shown.


async def test_a_large_result_is_shown_as_a_preview_of_its_structure_with_a_link(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with opened(tmp_path, http) as scene:
        heard = await scene.caller().call("list_stock")

    text, link = heard.result["content"]
    whole = stock(3000)
    assert estimated(text["text"]) <= 600
    assert "$.items: array of 3,000" in text["text"]
    assert "$.items[*].shelf.row: number" in text["text"]
    cut = heard.result["structuredContent"]
    assert cut["total"] == 3000
    assert cut["items"][0] == whole["items"][0]
    assert cut["items"][-1] == whole["items"][-1]
    assert json.dumps(cut["items"][0], separators=(",", ":")) in text["text"]
    said = heard.result["_meta"][PREVIEW]
    assert said["bytes"] > 100_000
    assert said["tokens"] > 30_000
    assert (link["type"], link["uri"]) == ("resource_link", f"trunkline://results/{said['result']}")
    assert said["result"] in text["text"]


async def test_a_large_text_is_shown_by_its_first_and_last_lines(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        heard = await scene.caller().call("read_log")

    assert "structuredContent" not in heard.result
    assert "3,000 lines" in heard.text
    assert "\n1 the quick" in heard.text
    assert heard.text.endswith("3000 the quick brown fox jumped over the lazy dog")
    assert estimated(heard.text) <= 600


async def test_text_that_is_json_is_taken_for_what_it_is(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        handle = await scene.kept("dump_stock")

        answer = await scene.read("query_result", handle, query="$.items[2999].name")

    assert answer["values"] == ["Thing 2999"]


async def test_what_is_small_passes_as_its_server_sent_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path / "on", http) as scene, opened(tmp_path / "off", http, {}) as plain:
        heard = [await one.caller().call("list_stock", {"count": 5}) for one in (scene, plain)]

    assert heard[0].result == heard[1].result
    assert heard[0].result["structuredContent"] == stock(5)


async def test_nothing_is_kept_aside_unless_somebody_says_so(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http, {}) as scene:
        heard = await scene.caller().call("list_stock")
        tools = await shown(scene)

    assert heard.result["structuredContent"] == stock(3000)
    assert not READERS & tools


async def test_an_error_stays_an_error(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        heard = await scene.caller().call("fail")

        assert heard.result["isError"] is True
        assert "3,000 lines" in heard.text
        assert (await scene.read("read_result", handle_of(heard), start=2999))["text"].startswith("2999 ")


async def test_pictures_are_never_weighed_nor_cut_nor_in_a_preview(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        alone = await scene.caller().call("draw")
        beside = await scene.caller().call("draw_and_tell")

    assert alone.result["content"] == [IMAGE, {"type": "text", "text": "A picture."}]
    assert "_meta" not in alone.result or PREVIEW not in alone.result["_meta"]
    assert [block["type"] for block in beside.result["content"]] == ["text", "resource_link", "image"]
    assert IMAGE["data"][:20] not in beside.text
    assert beside.result["_meta"]["kept"] == 1


async def test_encoded_data_is_not_shown_in_a_preview(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    def export() -> dict[str, Any]:
        return {"name": "plan", "data": IMAGE["data"]}

    async with opened(tmp_path, http, server=warehouse(export=export)) as scene:
        heard = await scene.caller().call("export")

    assert "iVBOR" not in json.dumps(heard.result["content"])
    assert heard.result["structuredContent"]["name"] == "plan"


async def test_callers_that_check_structured_content_take_a_preview(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    def inventory() -> dict[str, Any]:
        return stock(3000)

    def strict() -> dict[str, Any]:
        return stock(3000)

    server = warehouse()
    item = {"type": "object", "required": ["id", "name"]}
    schema: Json = {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": item}}}
    exact = {**schema, "properties": {"items": {"type": "array", "minItems": 3000}}}
    server.register_tool(inventory, output_schema=schema)
    server.register_tool(strict, output_schema=exact)
    async with (
        opened(tmp_path, http, server=server) as scene,
        streamable_http_client(scene.opened.url) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        await session.list_tools()
        cut, whole = await session.call_tool("inventory", {}), await session.call_tool("strict", {})

    assert cut.structured_content is not None
    assert len(cut.structured_content["items"]) == 5
    assert whole.structured_content is not None
    assert len(whole.structured_content["items"]) == 3000  # no part of it would have fitted
    assert "3,000" in whole.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
async def test_a_legacy_caller_gets_a_link_if_its_version_has_any(
    tmp_path: Path, http: aiohttp.ClientSession, version: str
) -> None:
    async with opened(tmp_path, http) as scene:
        heard = await (await scene.legacy(version)).call("read_log")

    assert [block["type"] for block in heard.result["content"]] == ["text", "resource_link"][
        : 1 + (version > "2025-06")
    ]
    assert "resultType" not in heard.result


# Who gets it whole.


async def test_programs_get_results_whole(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        by_python = await scene.hub.call("list_stock")
        said = await scene.caller().call("list_stock", meta={"dev.trunkline/whole": True})
        base = scene.opened.url.removesuffix("/mcp")
        async with http.post(f"{base}/api/v1/tools/list_stock/call", json={"arguments": {}}) as response:
            by_api = await response.json()

    assert by_python.structured == said.result["structuredContent"] == by_api["structuredContent"] == stock(3000)


async def test_a_program_of_a_vendor_gets_results_whole(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    program = "code_execution_20250825"
    servers = {"till": teller(tmp_path, tools={"*": {"allowed_callers": ["direct", program]}})}
    async with opened(tmp_path, http, servers=servers) as scene:
        scope = Scope(program=program)
        arguments = {"name": b'"get_balance"', "arguments": json.dumps(MUCH).encode()}
        got = await scene.hub.relay.handle(Call("tools/call", "get_balance", arguments, scope=scope))
        tools = {tool.shown for tool in scene.hub.relay.view(scope).tools}

    assert MUCH["account"] in got.result.decode()
    assert not READERS & tools


async def test_a_profile_and_a_tool_have_limits_of_their_own(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    said = {"get_number": {"max_result_tokens": 0}, "find_accounts": {"max_result_tokens": 500}}
    servers = {"till": teller(tmp_path, tools=said)}
    profiles = {"wide": {"max_result_tokens": 0}, "narrow": {"max_result_tokens": 5_000}}
    asked = {"get_balance": MUCH, "find_accounts": {"owner": MUCH["account"]}}
    async with opened(tmp_path, http, servers=servers, sections={"profiles": profiles}) as scene:
        cut = {
            (profile, tool)
            for profile in ("", "wide", "narrow")
            for tool in asked
            if PREVIEW in (await scene.caller(profile=profile).call(tool, asked[tool])).result.get("_meta", {})
        }
        listed = {profile for profile in ("", "wide", "narrow") if READERS & await shown(scene, profile=profile)}

    assert cut == {("", "get_balance"), *((profile, "find_accounts") for profile in ("", "wide", "narrow"))}
    assert listed == {"", "wide", "narrow"}  # of one tool all see a preview


async def test_the_cache_keeps_the_whole(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    server = warehouse()
    server.register_tool(
        lambda: stock(3000), name="get_stock", annotations=Annotations(read_only_hint=True, volatile_hint=False)
    )
    async with opened(tmp_path, http, sections={"cache": {"enabled": True}}, server=server) as scene:
        first = await scene.caller().call("get_stock")
        second = await scene.hub.call("get_stock")

        stats = scene.hub.relay.cache_stats
    assert handle_of(first)
    assert second.structured == stock(3000)
    assert stats is not None
    assert stats["hits"] == 1


# Reading.


async def test_the_tools_that_read_results_are_listed_and_fit_their_own_schema(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with opened(tmp_path, http) as scene:
        tools = await shown(scene)
        heard = await scene.caller().call("read_result", {"start": "one"})

    assert tools >= READERS
    assert heard.result["isError"]
    assert "result" in heard.text


async def test_every_part_of_a_result_can_be_read_in_turn(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    got: list[Json] = []
    async with opened(tmp_path, http, {"max_tokens": 6000}) as scene:
        handle = await scene.kept()
        at: Json = {"start": 0}
        while at:
            answer = await scene.read("read_result", handle, path="$.items", **at)
            assert estimated(json.dumps(answer)) <= 9000
            got += answer["items"]
            at = answer.get("next", {})

    assert got == stock(3000)["items"]


async def test_a_text_is_read_by_lines_and_a_long_line_by_columns(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    long = "x" * 3000 + "y" * 9000

    def read_line() -> str:
        return long

    async with opened(tmp_path, http, server=warehouse(read_line=read_line)) as scene:
        handle = await scene.kept("read_log")
        some = await scene.read("read_result", handle, start=100, count=2)
        line, got = await scene.kept("read_line"), ""
        at: Json = {"start": 1}
        while at:
            answer = await scene.read("read_result", line, **at)
            got, at = got + answer["text"], answer.get("next", {})

    assert some["text"].splitlines() == lines(101).splitlines()[99:]
    assert (some["lines"], some["next"]) == (3000, {"start": 102})
    assert got == long


async def test_text_is_found_by_paths_and_by_lines(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        handle, log = await scene.kept(), await scene.kept("read_log")
        paths = await scene.read("search_result", handle, text="THING 299")
        numbers = await scene.read("search_result", log, text="2999 THE quick")
        regular = await scene.read("search_result", log, text=r"^29\d8 ", regex=True, count=2)

    found = [one["path"] for one in paths["found"]]
    assert found == ["$.items[299].name", *(f"$.items[{at}].name" for at in range(2990, 3000))]
    assert [one["line"] for one in numbers["found"]] == [2999]
    assert [one["line"] for one in regular["found"]] == [2908, 2918]
    assert regular["next"] == {"start": 2928}


async def test_a_query_gives_what_matches_and_how_many(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    whole = stock(3000)["items"]
    cheap = [{"id": one["id"]} for one in whole if one["price"] < 1 and one["shelf"]["row"] != 3]
    async with opened(tmp_path, http) as scene:
        handle = await scene.kept()
        answer = await scene.read(
            "query_result", handle, query="$.items[?@.price < 1 && @.shelf.row != 3]", fields=["id"]
        )
        wrong = await scene.caller().call("query_result", {"result": handle, "query": "$.items["})

    assert (answer["matched"], answer["values"]) == (len(cheap), cheap)
    assert wrong.result["isError"]
    assert "cannot be read at" in wrong.text


async def test_the_whole_can_be_read_as_a_resource(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        heard = [await scene.caller().call(tool) for tool in ("list_stock", "read_log")]
        uris = [one.result["content"][1]["uri"] for one in heard]
        read = [(await scene.caller().request("resources/read", {"uri": uri})).result for uri in uris]

    assert json.loads(read[0]["contents"][0]["text"]) == stock(3000)
    assert read[1]["contents"][0] == {"uri": uris[1], "mimeType": "text/plain", "text": lines(3000)}
    assert read[0]["cacheScope"] == "private"


async def test_callers_who_search_for_tools_read_results_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http, expose="search") as scene:
        tools = await shown(scene)
        heard = await scene.caller().call("call_tool", {"name": "list_stock", "arguments": {}})
        answer = await scene.read("query_result", handle_of(heard), query="$.total")

    assert tools == {"search_tools", "call_tool", *READERS}
    assert answer["values"] == [3000]


async def test_a_server_that_stands_alone_keeps_a_tool_of_the_same_name(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    def read_result() -> str:
        """Read the result of the match."""
        return "2:1"

    server = warehouse(read_result=read_result)
    async with opened(tmp_path / "on", http, server=server) as scene:
        tools = await shown(scene)
        heard = await scene.caller().call("store__read_result")
    async with opened(tmp_path / "off", http, {}, server=warehouse(read_result=read_result)) as scene:
        plain = await scene.caller().call("read_result")

    assert tools >= {"store__read_result", "read_result"}
    assert heard.text == plain.text == "2:1"


# Whose it is, and for how long.


async def test_another_users_result_is_as_unknown_as_one_that_never_was(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with opened(tmp_path, http, users=USERS) as scene:
        handle = await scene.kept(token=ANA)
        tools = [
            (await scene.caller(BOB).call(tool, {"result": name, **more})).message["result"]
            for tool, more in (("read_result", {}), ("search_result", {"text": "x"}), ("query_result", {"query": "$"}))
            for name in (handle, "A" * len(handle))
        ]
        read = [
            (await scene.caller(BOB).request("resources/read", {"uri": f"trunkline://results/{name}"})).error
            for name in (handle, "A" * len(handle))
        ]
        own = await scene.read("query_result", handle, token=ANA, query="$.total")

    assert own["values"] == [3000]
    assert all(one["isError"] for one in tools)
    assert len({json.dumps(one) for one in tools}) == 1
    said = [str(error).replace(name, "H") for error, name in zip(read, (handle, "A" * len(handle)), strict=True)]
    assert said[0] == said[1]


async def test_a_result_belongs_to_the_thread_in_which_it_came(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http, users=USERS) as scene:
        for thread in ("t1", "t2"):
            await scene.hub.thread(thread, user="ana").enable_server("store")
        in_thread = {"headers": {"trunkline-thread": "t1"}}
        heard = await scene.caller(ANA).request("tools/call", {"name": "list_stock", "arguments": {}}, **in_thread)
        ask = {"name": "query_result", "arguments": {"result": handle_of(heard), "query": "$.total"}}
        here = await scene.caller(ANA).request("tools/call", ask, **in_thread)
        there = await scene.caller(ANA).request("tools/call", ask, headers={"trunkline-thread": "t2"})

    assert "3000" in here.text
    assert there.result["isError"]


async def test_what_a_caller_no_longer_has_cannot_be_read_either(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        await scene.hub.mount(warehouse(), "other")
        handle = await scene.kept("store__list_stock")
        await scene.hub.unmount("store")
        heard = await scene.caller().call("query_result", {"result": handle, "query": "$.total"})

    assert heard.result["isError"]


async def test_a_result_is_forgotten_when_its_time_is_up(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http, {"max_tokens": 1000, "ttl": 0.2, "memory_bytes": 0}) as scene:
        handle = await scene.kept()
        await until(lambda: len(scene.hub.relay.results) == 0)
        heard = await scene.caller().call("query_result", {"result": handle, "query": "$.total"})
        left = files(tmp_path)

    assert heard.result["isError"]
    assert left == []


async def test_the_oldest_of_a_user_go_when_there_is_too_much_and_nobody_elses(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    results = {"max_tokens": 1000, "user_bytes": 500_000, "memory_bytes": 0}
    async with opened(tmp_path, http, results, users=USERS) as scene:
        bobs = await scene.kept(token=BOB)
        anas = [await scene.kept(token=ANA) for _ in range(4)]
        known = [
            not (await scene.caller(token).call("query_result", {"result": one, "query": "$.total"})).result.get(
                "isError"
            )
            for token, one in ((BOB, bobs), *((ANA, one) for one in anas))
        ]
        size, kept = scene.hub.relay.results.size, len(files(tmp_path))

    assert known[0]
    assert known[1:] == sorted(known[1:])
    assert not known[1]
    assert known[-1]
    assert size <= 1_000_000
    assert kept == sum(known)


async def test_whoever_has_most_gives_first_when_all_have_too_much(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    results = {"max_tokens": 1000, "max_bytes": 600_000}
    async with opened(tmp_path, http, results, users=USERS) as scene:
        bobs = await scene.kept(token=BOB)
        for _ in range(6):
            await scene.kept(token=ANA)
        answer = await scene.read("query_result", bobs, token=BOB, query="$.total")

    assert answer["values"] == [3000]


async def test_a_result_that_cannot_be_kept_is_passed_on_whole(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http, {"max_tokens": 1000, "user_bytes": 10_000}) as scene:
        heard = await scene.caller().call("list_stock")

    assert heard.result["structuredContent"] == stock(3000)


async def test_a_file_is_for_its_owner_alone_and_gone_with_the_gateway(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with opened(tmp_path, http, {"max_tokens": 1000, "memory_bytes": 1000}) as scene:
        handle = await scene.kept()
        (file,) = files(tmp_path)
        modes = [path.stat().st_mode & 0o777 for path in (file, file.parent, file.parent.parent)]
        names = str(file)

    assert modes == [0o600, 0o700, 0o700]
    assert handle not in names
    assert files(tmp_path) == []


async def test_what_a_process_left_that_died_is_deleted_and_what_a_living_one_has_is_not(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    dead = tmp_path / "results" / "dead"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    (dead / "result").write_bytes(b"secret")
    async with opened(tmp_path, http, {"max_tokens": 1000, "memory_bytes": 0}) as living:
        await until(lambda: not dead.exists())
        handle = await living.kept()
        async with opened(tmp_path, http, {"max_tokens": 1000, "memory_bytes": 0}) as second:
            await second.kept()
        answer = await living.read("query_result", handle, query="$.total")

    assert answer["values"] == [3000]


async def test_a_full_disk_loses_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    (tmp_path / "results").write_text("a file where a folder should be")
    async with opened(tmp_path, http, {"max_tokens": 1000, "memory_bytes": 0}) as scene:
        answer = await scene.read("query_result", await scene.kept(), query="$.total")

    assert answer["values"] == [3000]


def files(home: Path) -> list[Path]:
    """Files of results that are there."""
    return [Path(folder, name) for folder, _, names in os.walk(home / "results") for name in names if name != "lock"]


# What was saved.


async def test_tokens_that_nobody_read_are_counted_as_saved(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with opened(tmp_path, http) as scene:
        heard = await scene.caller().call("list_stock")
        before = scene.hub.relay.savings.total()
        saved, kept = before.tokens, before.kept_aside
        await scene.read("query_result", handle_of(heard), query="$.items[0:20]")
        base = scene.opened.url.removesuffix("/mcp")
        async with http.get(f"{base}/api/v1/stats") as response:
            told = (await response.json())["tokens"]

    whole = heard.result["_meta"][PREVIEW]["tokens"]
    assert 0.9 * whole < kept < whole
    assert saved == kept
    assert (told["previews"], told["reads"], told["kept_aside"]) == (1, 1, kept)
    assert 0 < told["read_back"] < 2000
    assert told["saved"] == kept - told["read_back"]
