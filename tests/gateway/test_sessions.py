"""Legacy callers: their sessions begin, are resumed, are asked, and end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway, post, until
from trunkline.gateway.mcp import legacy

ELICITS: dict[str, Any] = {"elicitation": {}}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}


async def test_a_session_lives_from_initialize_to_delete(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        ping = await caller.request("ping")
        echo = await caller.call("echo", {"text": "in a session"})
        async with http.delete(opened.url, headers=caller.headers) as deleted:
            status = deleted.status
        after = await caller.request("ping")
        async with http.delete(opened.url, headers=caller.headers) as again:
            status_again = again.status

    assert ping.result == {}
    assert echo.text == "in a session"
    assert status == 200
    assert (after.status, status_again) == (404, 404)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_the_version_that_was_asked_for_is_spoken(
    tmp_path: Path, http: aiohttp.ClientSession, version: str
) -> None:
    async with gateway(tmp_path, {"one": faulty(), "two": faulty()}) as opened:
        caller = await LegacyCaller(opened.url, http).open(version)
        echo = await caller.call("two__echo", {"text": version})

    assert caller.introduction["protocolVersion"] == version
    assert echo.text == version


async def test_an_unknown_session_is_404_and_a_missing_one_400(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        stranger = LegacyCaller(opened.url, http)
        missing = await stranger.call("echo", {"text": "x"})
        stranger.headers["mcp-session-id"] = "nobody"
        unknown = await stranger.call("echo", {"text": "x"})
        async with http.get(opened.url, headers={**stranger.headers, "accept": "text/event-stream"}) as got:
            status = got.status
        notified = await stranger.notify("notifications/initialized")

    assert (missing.status, missing.message["id"]) == (400, 0)
    assert (unknown.status, unknown.message["id"]) == (404, 1)
    assert (status, notified) == (404, 404)


async def test_a_caller_that_says_more_of_itself_than_is_worth_remembering_gets_no_session(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}) as opened:
        refused: list[tuple[int, int]] = []
        for capabilities, name in (({"experimental": {"x": "x" * 20_000}}, "a"), ({}, "x" * 70_000)):
            params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": name}}
            heard = await LegacyCaller(opened.url, http).request("initialize", params)
            refused.append((heard.status, heard.error["code"]))
        sessions = len(opened.app.legacy.sessions)

    assert refused == [(400, -32602)] * 2
    assert sessions == 0


async def test_session_ids_cannot_be_guessed(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        callers = [await LegacyCaller(opened.url, http).open() for _ in range(20)]

    ids = {caller.headers["mcp-session-id"] for caller in callers}
    assert len(ids) == 20
    assert all(len(id) >= 22 and id.isascii() and id.isprintable() for id in ids)


async def test_an_idle_session_ends_and_one_that_listens_does_not(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy, "EXPIRY_SWEEP", 0.02)
    async with gateway(tmp_path, {"one": faulty()}, session_idle=0.2) as opened:
        idle = await LegacyCaller(opened.url, http).open()
        listening = await LegacyCaller(opened.url, http).open()
        async with listening.listen():
            await until(lambda: len(opened.app.legacy.sessions) == 1)
            gone, alive = await idle.request("ping"), await listening.request("ping")

    assert (gone.status, alive.status) == (404, 200)


async def test_beyond_the_most_the_session_idle_longest_ends(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}, max_sessions=2) as opened:
        first = await LegacyCaller(opened.url, http).open()
        second = await LegacyCaller(opened.url, http).open()
        await first.request("ping")
        third = await LegacyCaller(opened.url, http).open()
        statuses = [(await caller.request("ping")).status for caller in (first, second, third)]

    assert statuses == [200, 404, 200]


async def test_a_session_with_a_call_in_flight_does_not_make_room(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}, max_sessions=2) as opened:
        busy = await LegacyCaller(opened.url, http).open()
        slow = asyncio.create_task(busy.call("slow", {"seconds": 0.5}))
        await until(lambda: "call slow" in log.read_text())
        idle = await LegacyCaller(opened.url, http).open()
        await LegacyCaller(opened.url, http).open()
        answer, ended = await slow, await idle.request("ping")

    assert answer.text == "slow"
    assert ended.status == 404


async def test_a_session_that_ends_takes_its_calls_and_its_process_along(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        hanging = asyncio.create_task(caller.call("hang"))
        await until(lambda: "call hang" in log.read_text())

        async with http.delete(opened.url, headers=caller.headers) as deleted:
            status = deleted.status
        heard = await asyncio.wait_for(hanging, 5)
        await until(lambda: "eof" in log.read_text())

    assert status == 200
    assert heard.message == {}


async def test_a_call_that_is_cancelled_gets_no_answer_and_the_server_is_told(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        hanging = asyncio.create_task(caller.call("hang", id=5))
        await until(lambda: "call hang" in log.read_text())

        status = await caller.notify("notifications/cancelled", {"requestId": 5})
        heard = await asyncio.wait_for(hanging, 5)
        await until(lambda: "cancelled" in log.read_text())
        after = await caller.call("echo", {"text": "still here"}, id=5)

    assert status == 202
    assert heard.message == {}
    assert after.text == "still here"


async def test_one_session_cannot_cancel_the_call_of_another(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        caller, other = [await LegacyCaller(opened.url, http).open() for _ in range(2)]
        slow = asyncio.create_task(caller.call("slow", {"seconds": 0.5}, id=5))
        await until(lambda: "call slow" in log.read_text())

        await other.notify("notifications/cancelled", {"requestId": 5})
        heard = await slow
        told = log.read_text()

    assert heard.text == "slow"
    assert "cancelled" not in told


# The stream for what belongs to no call.


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_changed_list_is_heard_on_the_standing_stream(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with gateway(tmp_path, {"one": faulty("--era", era)}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.listen() as stream:
            added = (await caller.call("list_changed")).text
            heard = await stream.next()
            listed = await caller.request("tools/list")

    assert heard["method"] == "notifications/tools/list_changed"
    assert added in [tool["name"] for tool in listed.result["tools"]]


async def test_what_was_missed_on_the_standing_stream_is_heard_later(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        caller, other = [await LegacyCaller(opened.url, http).open() for _ in range(2)]
        async with caller.listen() as stream, other.listen() as elsewhere:
            await caller.call("list_changed")
            await stream.next()
            await elsewhere.next()
            last = stream.last_id
            stream.response.close()
            await caller.call("list_changed")
            await elsewhere.next()
        async with caller.listen(**{"last-event-id": last}) as resumed:
            heard = await resumed.next()

    assert last
    assert heard["method"] == "notifications/tools/list_changed"


async def test_a_get_needs_a_caller_that_reads_events(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        async with http.get(opened.url, headers={**caller.headers, "accept": "application/json"}) as got:
            status = got.status

    assert status == 406


# Coming back.


@pytest.mark.parametrize("over_http", [False, True])
async def test_an_answer_is_fetched_after_the_connection_broke(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool
) -> None:
    with faulty_http("--era", "legacy") as address:
        servers = {"one": {"url": address} if over_http else faulty("--era", "legacy")}
        async with gateway(tmp_path, servers) as opened:
            caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
            async with caller.stream("tools/call", {"name": "ask", "arguments": {}}, id=9) as stream:
                question = await stream.next()
                last = stream.last_id
                stream.response.close()
            await caller.answer(question["id"], ACCEPTED)
            async with caller.listen(**{"last-event-id": last}) as resumed:
                answer = await resumed.next()
                with pytest.raises(EOFError):
                    await resumed.next()

    assert answer["id"] == 9
    assert json.loads(answer["result"]["content"][0]["text"]) == ACCEPTED


@pytest.mark.parametrize("over_http", [False, True])
async def test_a_stream_goes_on_where_it_broke_without_a_gap(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool
) -> None:
    params = {"name": "progress_forever", "arguments": {}, "_meta": {"progressToken": "mine"}}
    with faulty_http() as address:
        async with gateway(tmp_path, {"one": {"url": address} if over_http else faulty()}) as opened:
            caller = await LegacyCaller(opened.url, http).open()
            async with caller.stream("tools/call", params, id=3) as stream:
                seen = [await stream.next() for _ in range(2)]
                last = stream.last_id
                stream.response.close()
            async with caller.listen(**{"last-event-id": last}) as resumed:
                seen += [await resumed.next() for _ in range(3)]
            await caller.notify("notifications/cancelled", {"requestId": 3})

    assert [message["params"]["progress"] for message in seen] == [1, 2, 3, 4, 5]
    assert {message["params"]["progressToken"] for message in seen} == {"mine"}


async def test_an_event_id_of_another_session_opens_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    params = {"name": "progress_forever", "arguments": {}, "_meta": {"progressToken": "secret"}}
    async with gateway(tmp_path, {"one": faulty()}, drain=0.1) as opened:
        caller, thief = [await LegacyCaller(opened.url, http).open() for _ in range(2)]
        async with caller.stream("tools/call", params) as stream:
            await stream.next()
            async with thief.listen(**{"last-event-id": stream.last_id}) as stolen:
                await stream.next()
                await caller.call("list_changed")
                heard = await stolen.next()

    assert heard["method"] == "notifications/tools/list_changed"


# Questions.


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("era", ["legacy", "both"])
async def test_a_question_is_asked_on_the_stream_of_the_call(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool, era: str
) -> None:
    with faulty_http("--era", era) as address:
        async with gateway(tmp_path, {"one": {"url": address} if over_http else faulty("--era", era)}) as opened:
            caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
            async with caller.stream("tools/call", {"name": "ask", "arguments": {}}, id=1) as stream:
                question = await stream.next()
                status = await caller.answer(question["id"], ACCEPTED)
                answer = await stream.next()

    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Who?")
    assert status == 202
    assert answer["id"] == 1
    assert json.loads(answer["result"]["content"][0]["text"]) == ACCEPTED


@pytest.mark.parametrize("over_http", [False, True])
async def test_two_sessions_that_are_asked_at_once_answer_for_themselves(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool
) -> None:
    async def asked(caller: LegacyCaller, name: str, both: asyncio.Barrier) -> Any:
        async with caller.stream("tools/call", {"name": "ask", "arguments": {}}, id=0) as stream:
            question = await stream.next()
            await both.wait()
            await caller.answer(question["id"], {"action": "accept", "content": {"name": name}})
            return json.loads((await stream.next())["result"]["content"][0]["text"])["content"]["name"]

    with faulty_http("--era", "legacy") as address:
        async with gateway(tmp_path, {"one": {"url": address} if over_http else faulty("--era", "legacy")}) as opened:
            callers = [await LegacyCaller(opened.url, http, capabilities=ELICITS).open() for _ in range(5)]
            together = asyncio.Barrier(5)
            names = await asyncio.gather(*(asked(caller, f"n{n}", together) for n, caller in enumerate(callers)))

    assert names == ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize("over_http", [False, True])
async def test_a_session_cannot_answer_the_question_of_another(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool
) -> None:
    with faulty_http("--era", "legacy") as address:
        async with gateway(tmp_path, {"one": {"url": address} if over_http else faulty("--era", "legacy")}) as opened:
            caller, thief = [await LegacyCaller(opened.url, http, capabilities=ELICITS).open() for _ in range(2)]
            async with caller.stream("tools/call", {"name": "ask", "arguments": {}}) as stream:
                question = await stream.next()
                await thief.answer(question["id"], {"action": "accept", "content": {"name": "thief"}})
                await caller.answer(question["id"], ACCEPTED)
                answer = await stream.next()

    assert json.loads(answer["result"]["content"][0]["text"]) == ACCEPTED


@pytest.mark.parametrize("over_http", [False, True])
async def test_a_server_that_asks_a_session_without_the_capability_is_told_so(
    tmp_path: Path, http: aiohttp.ClientSession, over_http: bool
) -> None:
    with faulty_http("--era", "legacy") as address:
        async with gateway(tmp_path, {"one": {"url": address} if over_http else faulty("--era", "legacy")}) as opened:
            caller = await LegacyCaller(opened.url, http).open()
            heard = await asyncio.wait_for(caller.call("ask"), 5)

    assert json.loads(heard.text)["code"] == -32601
    assert heard.before == []


async def test_a_question_that_nobody_answers_ends_the_call(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    servers = {"one": faulty("--era", "legacy", "--log", str(log))}
    async with gateway(tmp_path, servers, question_timeout=0.2) as opened:
        caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        heard = await asyncio.wait_for(caller.call("ask"), 5)
        await until(lambda: "cancelled" in log.read_text())

    assert "Nobody answered" in heard.error["message"]


async def test_a_caller_that_takes_json_only_is_answered_in_json(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        caller.headers["accept"] = "application/json"
        heard = await caller.call("notify_flood", {"count": 3})

    assert heard.headers["content-type"] == "application/json"
    assert heard.text == "notify_flood"


async def test_a_modern_request_needs_no_session_and_is_not_bound_by_a_wrong_one(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        heard = await ModernCaller(opened.url, http).call("echo", {"text": "x"}, headers={"mcp-session-id": "stray"})

    assert heard.text == "x"


async def test_a_session_of_an_unknown_version_is_refused(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        heard = await post(http, opened.url, body, {**caller.headers, "mcp-protocol-version": "1999-01-01"})

    assert heard.status == 400


USERS = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}


async def test_a_session_is_as_good_as_none_to_another_user_and_under_another_profile(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    profiles = {"profiles": {"work": {"servers": ["one"]}}}
    async with gateway(tmp_path, {"one": faulty()}, users=USERS, sections=profiles) as opened:
        ana = LegacyCaller(opened.url, http)
        ana.headers["authorization"] = f"Bearer {USERS['ana']}"
        await ana.open()
        thief, elsewhere = LegacyCaller(opened.url, http), LegacyCaller(f"{opened.url}/work", http)
        thief.headers = {**ana.headers, "authorization": f"Bearer {USERS['bob']}"}
        elsewhere.headers = dict(ana.headers)
        stolen = [await one.call("echo", {"text": "mine"}) for one in (thief, elsewhere)]
        listened: list[int] = []
        for method in ("GET", "DELETE"):
            async with http.request(method, opened.url, headers=thief.headers) as response:
                listened.append(response.status)
        own = await ana.call("echo", {"text": "hers"})

    assert [one.status for one in stolen] == [404, 404]
    assert listened == [404, 404]
    assert own.text == "hers"
