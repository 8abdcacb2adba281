"""A server says far too much: what it costs is bounded, and the callers of other servers do not wait for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import ERAS, all_tried, caller_of, watching
from tests.harness import META, VERSION, ModernCaller, faulty, faulty_http, gateway, trunkline_up

LIMIT = 16 * 2**20
GROWTH = 2 * 16 + 16
"""Megabytes that a gateway may grow by: twice the limit, and something for everything else."""
PATIENCE = 1.0
"""Seconds that a gateway may compute before another server's answer: it is busy reading the flood."""


async def flood(home: Path, http: aiohttp.ClientSession, bad: dict[str, Any], tool: str, arguments: dict[str, Any],
                growth: float = GROWTH) -> dict[str, Any]:  # fmt: skip
    """Call a tool that floods, watch the gateway meanwhile, and see that the server is of use afterwards."""
    config = {"gateway": {}, "servers": {"bad": bad, "good": faulty()}}
    with trunkline_up(home, config) as (url, process):
        caller = ModernCaller(url, http)
        await all_tried(http, url)
        await caller.call("bad__echo", {"text": "warm"})
        async with watching(process.pid, caller, "good__echo") as watch:
            heard = await caller.call(f"bad__{tool}", arguments)
        after = await caller.call("bad__echo", {"text": "after"})
        grown = watch.growth

    assert watch.answers
    assert grown < growth
    assert watch.slowest < PATIENCE
    assert after.text == "after"
    return heard.message


async def test_a_line_of_100_megabytes_costs_its_call_and_little_memory(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    message = await flood(tmp_path, http, faulty(answer_limit=LIMIT), "huge", {"bytes": 100 * 2**20})

    assert "'bad'" in message["error"]["message"]
    assert str(LIMIT) in message["error"]["message"]


async def test_a_body_of_100_megabytes_costs_its_call_and_little_memory(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with faulty_http() as url:
        message = await flood(tmp_path, http, {"url": url, "answer_limit": LIMIT}, "huge", {"bytes": 100 * 2**20})

    assert "'bad'" in message["error"]["message"]


async def test_a_line_of_events_without_end_costs_its_call_and_little_memory(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with faulty_http() as url:
        message = await flood(tmp_path, http, {"url": url, "answer_limit": LIMIT}, "endless_sse", {})

    assert "'bad'" in message["error"]["message"]


async def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    with faulty_http() as url:
        message = await flood(tmp_path, http, {"url": url}, "gzip_bomb", {}, growth=8)

    assert "compressed" in message["error"]["message"]


async def test_50_megabytes_of_standard_error_are_not_kept(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    message = await flood(tmp_path, http, faulty(), "stderr_flood", {"bytes": 50 * 2**20}, growth=8)

    assert message["result"]["content"][0]["text"] == "stderr_flood"


@pytest.mark.slow
@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_100_000_notifications_do_not_hold_up_the_answer_or_others(
    tmp_path: Path, http: aiohttp.ClientSession, server_era: str
) -> None:
    message = await flood(tmp_path, http, faulty("--era", server_era), "notify_flood", {"count": 100_000})

    assert message["result"]["content"][0]["text"] == "notify_flood"


@pytest.mark.slow
@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_100_000_notifications_over_http_do_not_hold_up_the_answer_or_others(
    tmp_path: Path, http: aiohttp.ClientSession, server_era: str
) -> None:
    with faulty_http("--era", server_era) as url:
        message = await flood(tmp_path, http, {"url": url}, "notify_flood", {"count": 100_000})

    assert message["result"]["content"][0]["text"] == "notify_flood"


FLOODS = f"""
async def of(flood):
    try:
        return str(await flood)[:200]
    except Exception as error:
        return type(error).__name__ + ': ' + str(error)[:500]
[
    await of(bad__huge(bytes={100 * 2**20})), await of(web__huge(bytes={100 * 2**20})), await of(web__endless_sse()),
    await of(bad__stderr_flood(bytes={50 * 2**20})), await of(bad__notify_flood(count=100_000)),
]
"""


@pytest.mark.slow
async def test_a_program_meets_floods_as_any_caller_does_and_a_preview_stands_for_what_is_just_within_the_limit(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with faulty_http() as url:
        bad = {"bad": faulty(answer_limit=LIMIT), "web": {"url": url, "answer_limit": LIMIT}}
        config: dict[str, Any] = {
            "gateway": {"expose": "code"},
            "results": {"max_tokens": 5000},
            "profiles": {"plain": {"expose": "all"}},
            "servers": {**bad, "good": faulty()},
        }
        with trunkline_up(tmp_path, config) as (url, process):
            caller, plain = ModernCaller(url, http), ModernCaller(f"{url}/plain", http)
            await all_tried(http, url)
            await caller.call("run_code", {"code": "1"})
            async with watching(process.pid, plain, "good__echo") as watch:
                heard = await caller.call("run_code", {"code": FLOODS})
            grown = watch.growth
            whole = await caller.call("run_code", {"code": f"len(await bad__huge(bytes={LIMIT - 2**10}))"})
            preview = await plain.call("bad__huge", {"bytes": LIMIT - 2**10})

    line, body, sse, errors, notes = json.loads(heard.text)
    assert all("RuntimeError" in one for one in (line, body, sse)), heard.text
    assert str(LIMIT) in line
    assert (errors, notes) == ("stderr_flood", "notify_flood")
    assert int(whole.text) > LIMIT - 2**12
    assert len(preview.raw) < 16 * 2**10
    assert watch.slowest < PATIENCE
    assert grown < GROWTH + 16  # of what one of the five floods took, the allocator may keep a piece for the next


@pytest.mark.slow
async def test_a_caller_that_does_not_read_a_flood_costs_little_memory(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    config = {"gateway": {}, "servers": {"bad": faulty("--era", "legacy"), "good": faulty()}}
    with trunkline_up(tmp_path, config) as (url, process):
        caller = ModernCaller(url, http)
        await all_tried(http, url)
        await caller.call("bad__echo", {"text": "warm"})
        async with watching(process.pid, caller, "good__echo") as watch:
            host, port = url.removeprefix("http://").removesuffix("/mcp").split(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            reader.feed_data(b"x" * 4096)  # more than its limit: from now on nothing is read from the socket
            writer.write(raw_call("bad__notify_flood", {"count": 100_000}))
            meanwhile = await caller.call("good__slow", {"seconds": 2})
            writer.close()
        after = await caller.call("bad__echo", {"text": "after"})
        grown = watch.growth

    assert meanwhile.text == "slow"
    assert after.text == "after"
    assert grown < GROWTH


def raw_call(tool: str, arguments: dict[str, Any]) -> bytes:
    """The bytes of a modern call, for a caller that is no proper client."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": META},
        }
    )
    return (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {VERSION}\r\nmcp-method: tools/call\r\n"
        f"mcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_just_within_the_limit_passes(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    with faulty_http() as url:
        servers = {"lines": faulty(answer_limit=2**20), "remote": {"url": url, "answer_limit": 2**20}}
        async with gateway(tmp_path, servers) as opened:
            caller = await caller_of(era, opened.url, http)

            answers = [await caller.call(f"{name}__huge", {"bytes": 2**20}) for name in servers]

    assert all(len(heard.raw) > 2**20 - 1000 for heard in answers)
    assert all("result" in heard.message for heard in answers)
