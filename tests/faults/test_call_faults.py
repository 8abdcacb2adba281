"""A server fails a call: its caller hears so in time, the next call works, and nobody else notices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import ERAS, caller_of, count, number_of
from tests.faulty import stdio_server
from tests.harness import Heard, LegacyCaller, ModernCaller, faulty, faulty_http, gateway, until

DEADLINE = 0.5
SLACK = 2.0
LIMITS: dict[str, Any] = {"timeout": DEADLINE, "answer_limit": 2**20, "start_timeout": 5}

TIMED_OUT = -32001
NO_PROTOCOL = -32603
FAILED = -32000

STDIO_FAULTS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("crash", {}, {FAILED}),
    ("hang", {}, {TIMED_OUT}),
    ("garbage", {}, {TIMED_OUT, NO_PROTOCOL}),
    ("slow", {"seconds": 30}, {TIMED_OUT}),
    ("huge", {"bytes": 3 * 2**20}, {NO_PROTOCOL}),
    ("wrong_id", {}, {TIMED_OUT}),
    ("partial", {}, {TIMED_OUT}),
    ("badutf8", {}, {NO_PROTOCOL}),
    ("deep", {}, {NO_PROTOCOL}),
    ("nulls", {}, {NO_PROTOCOL}),
    ("progress_forever", {}, {TIMED_OUT}),
]
HTTP_FAULTS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("hang", {}, {TIMED_OUT}),
    ("hang", {"headers": True}, {TIMED_OUT}),
    ("slow", {"seconds": 30}, {TIMED_OUT}),
    ("garbage", {}, {NO_PROTOCOL}),
    ("huge", {"bytes": 3 * 2**20}, {NO_PROTOCOL}),
    ("wrong_id", {}, {NO_PROTOCOL}),
    ("partial", {}, {FAILED}),
    ("half_body", {}, {FAILED}),
    ("badutf8", {}, {NO_PROTOCOL}),
    ("deep", {}, {NO_PROTOCOL}),
    ("nulls", {}, {NO_PROTOCOL}),
    ("progress_forever", {}, {TIMED_OUT}),
    ("drip", {}, {TIMED_OUT}),
    ("gzip_bomb", {}, {NO_PROTOCOL, TIMED_OUT}),  # packing it may take the server longer than it has
    ("endless_sse", {}, {NO_PROTOCOL}),
    ("redirect", {}, {FAILED}),
    ("redirect", {"code": 307}, {FAILED}),
    ("unauthorized", {}, {FAILED}),
    ("reset", {}, {FAILED}),
    ("close_before", {}, {FAILED}),
    ("status", {"code": 429, "body": "text"}, {FAILED}),
    ("status", {"code": 500, "body": "text"}, {FAILED}),
    ("status", {"code": 503, "body": "text"}, {FAILED}),
    ("status", {"code": 200, "body": "text"}, {NO_PROTOCOL}),
]
SSE_FAULTS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("garbage", {}, {NO_PROTOCOL}),
    ("wrong_id", {}, {FAILED}),
    ("badutf8", {}, {NO_PROTOCOL}),
    ("deep", {}, {NO_PROTOCOL}),
    ("nulls", {}, {NO_PROTOCOL}),
]


def cases(faults: list[tuple[str, dict[str, Any], set[int]]]) -> list[Any]:
    return [pytest.param(*fault, id="-".join([fault[0], *map(str, fault[1].values())])) for fault in faults]


@contextmanager
def http_server(log: Path, *flags: str) -> Generator[dict[str, Any]]:
    with faulty_http("--log", str(log), *flags) as url:
        yield {"url": url, **LIMITS}


async def fails_alone(home: Path, bad: dict[str, Any], log: Path, http: aiohttp.ClientSession, era: str, tool: str,
                      arguments: dict[str, Any]) -> Heard:  # fmt: skip
    """Have a call fail beside a good server, and see that nothing but this call suffers from it."""
    async with gateway(home, {"bad": bad, "good": faulty()}) as opened:
        caller = await caller_of(era, opened.url, http)
        started = time.monotonic()
        failing = asyncio.create_task(caller.call(f"bad__{tool}", arguments))
        await until(lambda: count(log, f"call {tool} ") or failing.done())
        beside = await caller.call("good__echo", {"text": "beside"})
        heard = await failing
        took = time.monotonic() - started
        after = await caller.call("bad__echo", {"text": "after"})

    assert beside.text == "beside"
    assert heard.error["message"].startswith("Server 'bad'")
    assert took < DEADLINE + SLACK
    assert after.text == "after"
    assert count(log, f"call {tool} ") == 1
    return heard


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "arguments", "codes"), cases(STDIO_FAULTS))
async def test_a_fault_over_stdio_costs_one_call_an_error(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, tool: str, arguments: dict[str, Any], codes: set[int]
) -> None:
    log = tmp_path / "log"

    heard = await fails_alone(tmp_path, faulty("--log", str(log), **LIMITS), log, http, era, tool, arguments)

    assert heard.error["code"] in codes


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "arguments", "codes"), cases(HTTP_FAULTS))
async def test_a_fault_over_http_costs_one_call_an_error(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, tool: str, arguments: dict[str, Any], codes: set[int]
) -> None:
    log = tmp_path / "log"

    with http_server(log) as server:
        heard = await fails_alone(tmp_path, server, log, http, era, tool, arguments)

    assert heard.error["code"] in codes


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "arguments", "codes"), cases(SSE_FAULTS))
async def test_a_fault_inside_a_stream_costs_one_call_an_error(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, tool: str, arguments: dict[str, Any], codes: set[int]
) -> None:
    log = tmp_path / "log"

    with http_server(log, "--sse") as server:
        heard = await fails_alone(tmp_path, server, log, http, era, tool, arguments)

    assert heard.error["code"] in codes


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_server_died_after_the_side_effect_is_not_repeated(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    log, effects = tmp_path / "log", tmp_path / "effects"

    server = faulty("--log", str(log), **LIMITS)
    await fails_alone(tmp_path, server, log, http, era, "crash_after", {"file": str(effects)})

    assert len(effects.read_text().splitlines()) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_connection_closed_after_the_side_effect_is_not_repeated(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    log, effects = tmp_path / "log", tmp_path / "effects"

    with http_server(log) as server:
        await fails_alone(tmp_path, server, log, http, era, "side_effect", {"file": str(effects)})

    assert len(effects.read_text().splitlines()) == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["hang", "slow", "wrong_id", "partial", "progress_forever"])
async def test_a_server_that_kept_a_call_too_long_is_told_to_stop(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, tool: str
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"bad": faulty("--log", str(log), **LIMITS)}) as opened:
        caller = await caller_of(era, opened.url, http)

        await caller.call(tool, {"seconds": 30} if tool == "slow" else {})

        await until(lambda: count(log, f"cancelled {number_of(log, tool)}"))


@pytest.mark.parametrize("era", ERAS)
async def test_an_http_server_that_died_is_used_again_once_it_is_back(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    with faulty_http() as url:
        async with gateway(tmp_path, {"bad": {"url": url, **LIMITS}, "good": faulty()}) as opened:
            caller = await caller_of(era, opened.url, http)

            died = await caller.call("bad__crash")
            gone = await caller.call("bad__echo", {"text": "anyone"})
            with faulty_http("--port", url.split(":")[2].removesuffix("/mcp")):
                back = await caller.call("bad__echo", {"text": "back"})

    assert died.error["message"].startswith("Server 'bad'")
    assert gone.error["message"].startswith("Server 'bad'")
    assert back.text == "back"


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_that_the_server_forgot_costs_no_caller_anything(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    with faulty_http("--era", "legacy") as url:
        async with gateway(tmp_path, {"bad": {"url": url, **LIMITS}}) as opened:
            caller = await caller_of(era, opened.url, http)

            forgot = await caller.call("forget")
            after = await caller.call("echo", {"text": "after"})

    assert forgot.text == "forget"
    assert after.text == "after"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("code", [404, 500])
async def test_the_error_of_a_server_is_passed_on_whatever_its_http_status(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, code: int
) -> None:
    with faulty_http("--era", "modern") as url:
        async with gateway(tmp_path, {"bad": {"url": url, **LIMITS}}) as opened:
            caller = await caller_of(era, opened.url, http)

            heard = await caller.call("status", {"code": code})
            after = await caller.call("echo", {"text": "after"})

    assert heard.error == {"code": -32603, "message": f"status {code}"}
    assert after.text == "after"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_second_answer_to_one_call_is_dropped(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, transport: str
) -> None:
    log = tmp_path / "log"
    with http_server(log) as remote:
        server = remote if transport == "http" else faulty(**LIMITS)
        async with gateway(tmp_path, {"bad": server}) as opened:
            caller = await caller_of(era, opened.url, http)

            twice = await caller.call("dup")
            after = await caller.call("echo", {"text": "after"})

    assert (twice.text, after.text) == ("dup", "after")


async def test_an_answer_that_follows_half_a_line_is_not_lost_for_a_call_that_may_not_be_repeated(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"bad": faulty(**LIMITS)}) as opened:
        caller = ModernCaller(opened.url, http)

        await caller.call("partial")
        after = await caller.call("slow", {"seconds": 0})

    assert after.text == "slow"


@pytest.mark.parametrize("answered_by", ["modern", "legacy"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_what_a_server_answers_arrives_byte_for_byte(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, transport: str, answered_by: str
) -> None:
    with faulty_http("--era", answered_by, *(["--sse"] if transport == "sse" else [])) as url:
        server = faulty("--era", answered_by) if transport == "stdio" else {"url": url}
        async with gateway(tmp_path, {"exact": server, "other": faulty()}) as opened:
            caller = await caller_of(era, opened.url, http)

            heard = await caller.call("exact__bigint")

    assert stdio_server.EXACT in heard.raw


async def test_two_callers_of_one_session_do_not_get_each_others_answers(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"bad": faulty("--era", "legacy")}) as opened:
        caller = await LegacyCaller(opened.url, http).open()

        slow = asyncio.create_task(caller.call("slow", {"seconds": 0.2}))
        echoes = await asyncio.gather(*(caller.call("echo", {"text": str(n)}) for n in range(50)))

        assert [heard.text for heard in echoes] == [str(n) for n in range(50)]
        assert (await slow).text == "slow"
