"""The edges of both eras by their rules: whose session it is, who is asked and for how long, what ends with what."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faulty.http_server import RefusedError
from tests.gateway.behind import Paper
from tests.gateway.inside import Inside, inside
from tests.harness import META, VERSION, EventReader, LegacyCaller, ModernCaller, events, gateway, post, until
from trunkline.gateway.mcp import legacy
from trunkline.gateway.mcp.modern import loud_enough, modern_error, modern_result
from trunkline.gateway.request import Request
from trunkline.gateway.serve import Gateway
from trunkline.identity import EVERYONE
from trunkline.model import Reply
from trunkline.tenancy.people import Admission
from trunkline.wire.envelope import read_caller_message

ELICITS: dict[str, Any] = {"elicitation": {}}
CAN_BE_ASKED = {"io.modelcontextprotocol/clientCapabilities": ELICITS}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}
USERS = {"ana": "token-of-ana-0123456789", "bob": "token-of-bob-0123456789"}
PLAIN = {"content-type": "application/json", "accept": "application/json"}


@asynccontextmanager
async def scene(home: Path, era: str = "legacy", **options: Any) -> AsyncGenerator[tuple[Inside, Gateway]]:
    """A server, and a gateway in front of it."""
    async with inside(era) as server, gateway(home, {"one": {"url": server.url}}, **options) as opened:
        yield server, opened


def listening(session: str, *, expires: float = 0.0) -> tuple[Request, Paper]:
    """A GET in a session, of a caller whose token ends then."""
    paper = Paper()
    headers = {b"accept": b"text/event-stream", b"mcp-session-id": session.encode()}
    request = Request(paper, "GET", "/mcp", headers, b"")
    request.admission = Admission(EVERYONE, expires=expires)
    return request, paper


def session_of(opened: Gateway, caller: LegacyCaller) -> Any:
    return opened.app.legacy.sessions.get(caller.headers["mcp-session-id"].encode())


@asynccontextmanager
async def subscribed(
    opened: Gateway, http: aiohttp.ClientSession, wanted: Any, *, token: str = "", **headers: str
) -> AsyncGenerator[EventReader]:
    """A modern caller that listens."""
    body = {
        "jsonrpc": "2.0",
        "id": "mine",
        "method": "subscriptions/listen",
        "params": {"notifications": wanted, "_meta": META},
    }
    own = {**PLAIN, "mcp-protocol-version": VERSION, "mcp-method": "subscriptions/listen", **headers}
    own["accept"] = "application/json, text/event-stream"
    async with http.post(opened.url, data=json.dumps(body).encode(), headers=own) as response:
        yield EventReader(response)


# Whose session it is.


async def test_a_session_of_another_user_is_as_unknown_as_one_that_never_was(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path, users=USERS) as (_, opened):
        ana = LegacyCaller(opened.url, http)
        ana.headers["authorization"] = f"Bearer {USERS['ana']}"
        await ana.open()
        bob = LegacyCaller(opened.url, http)
        bob.headers |= {**ana.headers, "authorization": f"Bearer {USERS['bob']}"}
        strange = await bob.request("ping")
        async with http.get(opened.url, headers={**bob.headers, "accept": "text/event-stream"}) as got:
            read = got.status
        async with http.delete(opened.url, headers=bob.headers) as deleted:
            ended = deleted.status
        bob.headers["mcp-session-id"] = "never-was"
        unknown = await bob.request("ping")
        still = await ana.request("ping")

    assert (strange.status, read, ended) == (404, 404, 404)
    assert strange.error == unknown.error
    assert still.result == {}


async def test_a_session_wants_its_id_and_a_version_that_is_spoken(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        caller.headers["mcp-protocol-version"] = "2024-01-01"
        odd = await caller.request("ping")
        caller.headers["mcp-protocol-version"] = "2025-03-26"
        fine = await caller.request("ping")
        del caller.headers["mcp-protocol-version"]
        without = await caller.request("ping")
        caller.headers.pop("mcp-session-id")
        missing = await caller.request("ping")
        silent = await caller.notify("initialize", {"protocolVersion": "2025-11-25"})

    assert (odd.status, fine.status, without.status, missing.status, silent) == (400, 200, 200, 400, 400)


@pytest.mark.parametrize(
    ("said", "kept"), [(b'{"elicitation":{}}', b'{"elicitation":{}}'), (b"[1]", b"{}"), (None, b"{}")]
)
async def test_a_session_begins_with_what_its_caller_said_of_itself(
    tmp_path: Path, http: aiohttp.ClientSession, said: bytes | None, kept: bytes
) -> None:
    async with scene(tmp_path, replay_events=7) as (_, opened):
        capabilities = b',"capabilities":' + said if said else b""
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"%s}}'
        heard = await post(http, opened.url, body % capabilities, {**PLAIN, "accept": "text/event-stream, */*"})
        plain = await post(http, opened.url, body % capabilities, PLAIN)
        session = opened.app.legacy.sessions.get(heard.headers["mcp-session-id"].encode())

    assert heard.headers["content-type"] == "text/event-stream"
    assert plain.headers["content-type"] == "application/json"
    assert session is not None
    assert (session.version, session.capabilities) == ("2025-03-26", kept)
    assert heard.result["serverInfo"]["name"] == plain.result["serverInfo"]["name"] == "inside"


async def test_a_session_lasts_as_long_as_the_longest_token_that_used_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as (_, opened):
        edge, expiries = opened.app.legacy, list[float]()
        text = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
        request = Request(Paper(), "POST", "/mcp", {}, text)
        request.admission = Admission(EVERYONE, expires=100.0)
        message = read_caller_message(text)
        await edge.post(message, {"protocolVersion": b'"2025-11-25"'}, request)
        (session,) = edge.sessions.of(lambda _: True)
        expiries.append(session.expires)
        for expires in (300.0, 200.0):
            ping = Request(Paper(), "POST", "/mcp", {b"mcp-session-id": session.id.encode()}, b"")
            ping.admission = Admission(EVERYONE, expires=expires)
            await edge.post(read_caller_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'), {}, ping)
            expiries.append(session.expires)

    assert expiries == [100.0, 300.0, 300.0]


async def test_what_a_caller_of_a_session_is_told_comes_in_the_form_it_accepts(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        stream = await caller.request("ping")
        caller.headers["accept"] = "application/json"
        plain = [await caller.request("ping"), await caller.call("echo", {"text": "a"})]
        quiet = await caller.call("progress", {"count": 2})
        unknown = await caller.request("no/such")

    assert stream.headers["content-type"] == "text/event-stream"
    assert [heard.headers["content-type"] for heard in (*plain, quiet, unknown)] == ["application/json"] * 4
    assert quiet.text == "progress"
    assert (unknown.status, unknown.error["code"]) == (200, -32601)


# What is listened to.


async def test_listening_wants_a_stream_to_be_accepted(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        async with http.get(opened.url, headers={**caller.headers, "accept": "application/json"}) as refused:
            status = refused.status
        async with caller.listen() as stream:
            accepted, named = stream.response.status, stream.response.headers["mcp-session-id"]

    assert (status, accepted) == (406, 200)
    assert named == caller.headers["mcp-session-id"]


async def test_a_session_is_open_while_somebody_listens_and_idle_from_then_on(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        session = session_of(opened, caller)
        async with caller.listen():
            await until(lambda: session.open_requests == 1)
            session.last_seen = 0.0
        await until(lambda: session.open_requests == 0)

    assert session.last_seen > 0


@pytest.mark.parametrize(("left", "ends"), [(0.01, True), (60.0, False)])
async def test_a_stream_ends_with_the_token_that_opened_it(
    tmp_path: Path, http: aiohttp.ClientSession, left: float, ends: bool
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        request, _ = listening(caller.headers["mcp-session-id"], expires=time.time() + left)
        reading = asyncio.create_task(opened.app.legacy.get(request))
        done, _ = await asyncio.wait([reading], timeout=5 if ends else 0.05)
        reading.cancel()
        await asyncio.wait([reading])

    assert bool(done) is ends


async def test_of_two_who_resume_one_stream_the_first_is_hung_up(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        async with caller.stream("tools/call", {"name": "ask", "arguments": {}}) as asked:
            question = await asked.next()
            begun = asked.last_id
        await until(lambda: not session_of(opened, caller).resumed(begun)[0].attached)
        first, _ = listening(caller.headers["mcp-session-id"])
        second, paper = listening(caller.headers["mcp-session-id"])
        for one in (first, second):
            one.headers = {**one.headers, b"last-event-id": begun.encode()}
        reading = asyncio.create_task(opened.app.legacy.get(first))
        await until(lambda: session_of(opened, caller).open_requests == 2)
        again = asyncio.create_task(opened.app.legacy.get(second))
        await asyncio.wait([reading], timeout=5)
        alone = (reading.done(), again.done())
        await caller.answer(question["id"], ACCEPTED)
        await asyncio.wait([again], timeout=5)

    assert alone == (True, False)
    assert b"Ada" in paper.data


async def test_a_stream_that_is_over_is_read_to_its_end_by_all_who_resume_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.stream(
            "tools/call", {"name": "progress", "arguments": {"count": 1}, "_meta": {"progressToken": 1}}
        ) as first:
            await first.next()
            key = first.last_id
            last = await first.next()
        async with caller.listen(**{"last-event-id": key}) as again:
            resumed = await again.next()

    assert resumed == last


async def test_a_session_hears_of_changed_lists(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.listen() as stream:
            await until(lambda: bool(server.streams))
            await ModernCaller(opened.url, http).call("list_changed")
            told = await stream.next()

    assert told["method"] == "notifications/tools/list_changed"


# What ends with a session.


async def test_what_is_open_in_a_session_ends_with_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        await caller.request("resources/subscribe", {"uri": "page://a"})
        hanging = asyncio.create_task(caller.call("hang"))
        await until(lambda: "tools/call" in server.methods())
        async with caller.listen():
            async with http.delete(opened.url, headers=caller.headers) as deleted:
                status = deleted.status
            async with asyncio.timeout(5):
                await hanging
        left = len(opened.app.legacy.sessions)
        gone = await caller.request("ping")
        await until(lambda: len(server.sessions) == 1)  # the gateway's own
        unsubscribed = server.methods("resources/unsubscribe")
        cancelled = [one for one in server.heard if one.get("method") == "notifications/cancelled"]

    assert (status, left, gone.status) == (200, 0, 404)
    assert unsubscribed == ["resources/unsubscribe"]
    assert len(cancelled) == 1


async def test_sessions_of_somebody_who_may_no_longer_come_are_ended(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path, users=USERS) as (_, opened):
        callers: dict[str, LegacyCaller] = {}
        for name, token in USERS.items():
            callers[name] = LegacyCaller(opened.url, http)
            callers[name].headers["authorization"] = f"Bearer {token}"
            await callers[name].open()
        opened.app.legacy.end(lambda scope: scope.user == "bob")
        await until(lambda: len(opened.app.legacy.sessions) == 1)
        statuses = {name: (await caller.request("ping")).status for name, caller in callers.items()}

    assert statuses == {"ana": 200, "bob": 404}


async def test_a_session_that_makes_room_is_ended_whole(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path, max_sessions=1) as (server, opened):
        first = await LegacyCaller(opened.url, http).open()
        await first.request("resources/subscribe", {"uri": "page://a"})
        await LegacyCaller(opened.url, http).open()
        await until(lambda: "resources/unsubscribe" in server.methods())
        status = (await first.request("ping")).status

    assert status == 404


async def test_an_idle_session_is_ended_whole(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy, "EXPIRY_SWEEP", 0.01)
    async with scene(tmp_path, session_idle=1000.0) as (server, opened):
        caller = await LegacyCaller(opened.url, http).open()
        await caller.request("resources/subscribe", {"uri": "page://a"})
        session_of(opened, caller).last_seen -= 1001.0
        await until(lambda: "resources/unsubscribe" in server.methods())
        status = (await caller.request("ping")).status

    assert status == 404


# What a session hears, and says.


async def test_a_call_is_withdrawn_by_its_id_and_no_answer_comes(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        caller = await LegacyCaller(opened.url, http).open()
        hanging = asyncio.create_task(caller.call("hang", id="slow"))
        await until(lambda: "tools/call" in server.methods())
        await caller.notify("notifications/cancelled", {"requestId": "other", "reason": "no"})
        await caller.notify("notifications/cancelled", {"requestId": "slow", "reason": "r" * 2000})
        heard = await hanging
        caller.headers["accept"] = "application/json"
        plain = asyncio.create_task(caller.call("hang", id=7))
        await until(lambda: server.methods().count("tools/call") == 2)
        await caller.notify("notifications/cancelled", {"requestId": 7})
        silent = await plain
        after = (await caller.call("echo", {"text": "on"})).text
        session = session_of(opened, caller)
        open_requests, in_flight = session.open_requests, dict(session.in_flight)
        await until(lambda: withdrawn(server) == 2)
        reasons = [
            one["params"].get("reason", "") for one in server.heard if one.get("method") == "notifications/cancelled"
        ]

    assert (heard.status, heard.message, silent.status, silent.raw) == (200, {}, 202, b"")
    assert reasons[0] == "r" * 1000
    assert reasons[1] != "r" * 1000
    assert after == "on"
    assert (open_requests, in_flight) == (0, {})


async def test_a_withdrawn_call_whose_stream_had_begun_ends_without_an_answer(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = await LegacyCaller(opened.url, http).open()
        params = {"name": "progress_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        async with caller.stream("tools/call", params, id=5) as stream:
            assert (await stream.next())["method"] == "notifications/progress"
            await caller.notify("notifications/cancelled", {"requestId": 5})
            rest = events(await stream.response.read())

    assert all(one.get("method") == "notifications/progress" for one in rest)


async def test_roots_that_changed_are_told_to_servers_that_the_session_uses(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (server, opened):
        caller = await LegacyCaller(opened.url, http, capabilities={"roots": {"listChanged": True}}).open()
        await caller.call("echo", {"text": "a"})
        assert await caller.notify("notifications/other") == 202
        assert await caller.notify("notifications/roots/list_changed") == 202
        assert await caller.answer(99, {}) == 202
        await until(lambda: "notifications/roots/list_changed" in [one.get("method") for one in server.heard])
        methods = [one.get("method") for one in server.heard]

    assert "notifications/other" not in methods


async def test_a_resource_is_followed_once_and_unfollowed_once(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        caller = await LegacyCaller(opened.url, http).open()
        for method in ("resources/unsubscribe", *["resources/subscribe"] * 2, *["resources/unsubscribe"] * 2):
            assert (await caller.request(method, {"uri": "page://a"})).result == {}
        followed = server.methods("resources/subscribe"), server.methods("resources/unsubscribe")
        server.results["resources/subscribe"] = RefusedError(200, -32002, "There is no such page.")
        refused = (await caller.request("resources/subscribe", {"uri": "page://a"})).error
        server.results["resources/subscribe"] = {}
        await caller.request("resources/subscribe", {"uri": "page://a"})
        again = server.methods("resources/subscribe")

    assert [len(one) for one in followed] == [1, 1]
    assert (refused["code"], refused["message"]) == (-32002, "There is no such page.")
    assert len(again) == 3


async def test_methods_that_only_their_server_knows_reach_it_where_it_stands_alone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with inside("legacy") as one, inside("legacy") as two:
        one.results["odd/method"] = {"odd": True}
        async with gateway(tmp_path / "1", {"one": {"url": one.url}}, namespace="never") as opened:
            alone = await (await LegacyCaller(opened.url, http).open()).request("odd/method")
            modern = await ModernCaller(opened.url, http).request("odd/method")
            removed = await ModernCaller(opened.url, http).request("ping")
        async with gateway(tmp_path / "2", {"one": {"url": one.url}, "two": {"url": two.url}}) as opened:
            merged = await (await LegacyCaller(opened.url, http).open()).request("odd/method")
            both = await ModernCaller(opened.url, http).request("odd/method")

    assert alone.result == {"odd": True}
    assert modern.result["odd"] is True
    assert (removed.status, removed.error["code"]) == (404, -32601)
    assert (merged.error["code"], both.error["code"]) == (-32601, -32601)


async def test_what_a_server_refuses_is_told_as_it_said_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        server.results["resources/read"] = RefusedError(200, -32002, "No page.")
        old, new = await LegacyCaller(opened.url, http).open(), ModernCaller(opened.url, http)
        told = [await caller.request("resources/read", {"uri": "page://a"}) for caller in (old, new)]
        server.results["resources/read"] = {"contents": []}
        read = [await caller.request("resources/read", {"uri": "page://a"}) for caller in (old, new)]

    assert [(one.status, one.error["code"]) for one in told] == [(200, -32002), (400, -32602)]
    assert [one.result["contents"] for one in read] == [[], []]
    assert "resultType" not in read[0].result
    assert (read[1].result["resultType"], read[1].result["ttlMs"]) == ("complete", 0)


# Who is asked.


async def test_a_question_is_put_to_the_caller_of_its_call_and_nobody_else(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        able = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        async with able.stream("tools/call", {"name": "ask", "arguments": {}}) as stream:
            question = await stream.next()
            waiting = len(opened.app.questions.of(""))
            await able.answer(question["id"], ACCEPTED)
            answer = await stream.next()
        left = len(opened.app.questions.of(""))
        unable = await (await LegacyCaller(opened.url, http).open()).call("ask")
        able.headers["accept"] = "application/json"
        plain = await able.call("ask")

    assert question["method"] == "elicitation/create"
    assert json.loads(answer["result"]["content"][0]["text"]) == ACCEPTED
    assert (waiting, left) == (1, 0)
    for refused in (unable, plain):
        assert "Ada" not in json.dumps(refused.message)
        assert refused.before == []


async def test_a_question_that_nobody_answers_ends_the_call_after_so_long(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path, question_timeout=0.05) as (server, opened):
        caller = await LegacyCaller(opened.url, http, capabilities=ELICITS).open()
        heard = await caller.call("ask")
        left = len(opened.app.questions.of(""))
        await until(lambda: withdrawn(server) > 0)

    assert "Nobody answered the server's question within 0.05 s." in heard.error["message"]
    assert left == 0


def withdrawn(server: Inside) -> int:
    """How many calls the server was told to give up."""
    return sum(one.get("method") == "notifications/cancelled" for one in server.heard)


async def test_a_caller_that_leaves_is_waited_for_only_if_it_can_come_back(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (server, opened):
        old, new = [LegacyCaller(opened.url, http, capabilities=ELICITS) for _ in range(2)]
        await old.open("2025-06-18")
        async with old.stream("tools/call", {"name": "ask", "arguments": {}}) as stream:
            await stream.next()
        await until(lambda: withdrawn(server) == 1)
        await new.open("2025-11-25")
        async with new.stream("tools/call", {"name": "ask", "arguments": {}}) as stream:
            question = await stream.next()
        async with new.listen(**{"last-event-id": stream.last_id}) as again:
            await new.answer(question["id"], ACCEPTED)
            answer = await again.next()

    assert "Ada" in json.dumps(answer)
    assert withdrawn(server) == 1


async def test_a_stream_begins_with_an_event_to_resume_from_where_the_caller_knows_that(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        begun: list[bytes] = []
        for version in ("2025-06-18", "2025-11-25"):
            caller = await LegacyCaller(opened.url, http).open(version)
            params = {"name": "progress", "arguments": {"count": 1}, "_meta": {"progressToken": 1}}
            begun.append((await caller.request("tools/call", params)).raw.partition(b"\n\n")[0])

    assert b"progress" in begun[0]
    assert b"progress" not in begun[1]
    assert begun[1].startswith(b"id:")


# Modern callers.


async def test_a_state_that_was_given_to_nobody_is_refused(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path, "modern", users=USERS) as (server, opened):
        ana = ModernCaller(opened.url, http, token=USERS["ana"])
        params = {"name": "echo", "arguments": {"text": "a"}, "requestState": "any", "inputResponses": {}}
        foreign = await ana.request("tools/call", params)
        empty = await ana.request("tools/call", {**params, "requestState": ""})
        calls = server.methods("tools/call")

    assert (foreign.error["code"], empty.error["code"]) == (-32602, -32602)
    assert calls == []


async def test_a_question_waits_for_the_caller_whom_it_was_put_to(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path, users=USERS) as (_, opened):
        ana, bob = (ModernCaller(opened.url, http, token=USERS[name]) for name in ("ana", "bob"))
        asked = (await ana.call("ask", meta=CAN_BE_ASKED)).result
        (key,) = asked["inputRequests"]
        params = {
            "name": "ask",
            "arguments": {},
            "requestState": asked["requestState"],
            "inputResponses": {key: ACCEPTED},
        }
        strange = await bob.request("tools/call", params, meta=CAN_BE_ASKED)
        mine = await ana.request("tools/call", params, meta=CAN_BE_ASKED)

    assert asked["resultType"] == "input_required"
    assert strange.error["code"] == -32602
    assert json.loads(mine.text) == ACCEPTED


async def test_notifications_and_answers_of_modern_callers_are_taken_and_refused(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        headers = {**PLAIN, "mcp-protocol-version": VERSION, "mcp-method": "notifications/cancelled"}
        meta = {"_meta": META}
        notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, **meta}}
        answer = {"jsonrpc": "2.0", "id": 1, "result": meta}
        told = await post(http, opened.url, json.dumps(notification).encode(), headers)
        said = await post(http, opened.url, json.dumps(answer).encode(), headers)

    assert (told.status, told.raw) == (202, b"")
    assert (said.status, said.error["message"]) == (400, "This era has no questions to answer.")


async def test_only_versions_that_are_spoken_are_answered(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        meta, headers = (
            {"io.modelcontextprotocol/protocolVersion": "2026-01-01"},
            {"mcp-protocol-version": "2026-01-01"},
        )
        refused = await ModernCaller(opened.url, http).call("echo", {"text": "a"}, meta=meta, headers=headers)
        calls = server.methods("tools/call")

    assert (refused.status, refused.error["code"]) == (400, -32022)
    assert calls == []


async def test_lists_and_introductions_are_in_the_words_of_their_caller(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        old, new = await LegacyCaller(opened.url, http).open(), ModernCaller(opened.url, http)
        legacy_list, modern_list = [await caller.request("tools/list") for caller in (old, new)]
        introduced = await new.request("server/discover")

    assert {"echo", "ask"} <= {tool["name"] for tool in legacy_list.result["tools"]}
    assert legacy_list.result["tools"] == modern_list.result["tools"]
    assert "resultType" not in legacy_list.result
    assert (modern_list.status, modern_list.result["resultType"]) == (200, "complete")
    assert "ttlMs" in modern_list.result
    assert (introduced.status, introduced.result["resultType"]) == (200, "complete")
    assert "tools" in introduced.result["capabilities"]
    assert VERSION in introduced.result["supportedVersions"]


async def test_progress_reaches_those_who_asked_for_it_whatever_log_they_want(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        heard = await ModernCaller(opened.url, http).call("progress", {"count": 2}, meta={"progressToken": "mine"})

    assert [one["params"]["progressToken"] for one in heard.before] == ["mine", "mine"]
    assert heard.text == "progress"


@pytest.mark.parametrize("wanted", [True, False])
async def test_changed_lists_are_told_to_those_who_want_to_hear_of_them(
    tmp_path: Path, http: aiohttp.ClientSession, wanted: bool
) -> None:
    asked = {"toolsListChanged": wanted}
    async with scene(tmp_path) as (server, opened), subscribed(opened, http, asked) as stream:
        await stream.next()
        await until(lambda: bool(server.streams))
        added = (await ModernCaller(opened.url, http).call("list_changed")).text
        await until(lambda: added in opened.hub.relay.snapshot.tools)
        opened.app.drain()
        rest = events(await stream.response.read())

    assert [one.get("method") for one in rest] == ["notifications/tools/list_changed", None][not wanted :]
    assert rest[-1]["id"] == "mine"
    assert rest[-1]["result"]["resultType"] == "complete"
    assert rest[-1]["result"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "mine"}


@pytest.mark.parametrize(
    "headers", [{"mcp-method": "tools/list"}, {"mcp-protocol-version": "2026-01-01"}, {"mcp-name": "other"}]
)
async def test_headers_that_say_something_else_than_the_body_are_refused(
    tmp_path: Path, http: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    async with scene(tmp_path) as (server, opened):
        refused = await ModernCaller(opened.url, http).call("echo", {"text": "a"}, headers=headers)
        calls = server.methods("tools/call")

    assert refused.status == 400
    assert calls == []


async def test_what_comes_before_an_answer_makes_it_a_stream_and_nothing_else_does(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened):
        caller = ModernCaller(opened.url, http)
        plain = await caller.call("echo", {"text": "a"})
        quiet = await caller.call("notify_flood", {"count": 2})
        loud = await caller.call("notify_flood", {"count": 2}, meta={"io.modelcontextprotocol/logLevel": "info"})
        deaf = await caller.call("notify_flood", {"count": 2}, meta={"io.modelcontextprotocol/logLevel": "error"})
        unknown = await caller.call("no_such")

    assert [one.headers["content-type"] for one in (plain, quiet, loud, deaf)] == [
        "application/json",
        "application/json",
        "text/event-stream",
        "application/json",
    ]
    assert [one["params"]["data"] for one in loud.before] == ["flood 0", "flood 1"]
    assert (plain.text, quiet.text, loud.text, deaf.text) == ("a", "notify_flood", "notify_flood", "notify_flood")
    assert (unknown.status, unknown.error["code"]) == (400, -32602)


async def test_a_modern_caller_that_hangs_up_withdraws_its_call(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path) as (server, opened):
        hanging = asyncio.create_task(ModernCaller(opened.url, http).call("hang"))
        await until(lambda: "tools/call" in server.methods())
        hanging.cancel()
        await until(lambda: withdrawn(server) > 0)


async def test_a_subscription_grants_what_can_be_followed_and_unfollows_it_when_it_ends(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (server, opened):
        wanted = {
            "toolsListChanged": True,
            "promptsListChanged": False,
            "resourceSubscriptions": ["page://a", "no://b"],
        }
        async with subscribed(opened, http, wanted) as stream:
            granted = (await stream.next())["params"]
            await until(lambda: bool(server.streams))
            server.tell("notifications/resources/updated", {"uri": "page://b"})
            server.tell("notifications/prompts/list_changed", {})
            server.tell("notifications/resources/updated", {"uri": "page://a", "_meta": {"x": 1}})
            told = await stream.next()
            before = server.methods("resources/unsubscribe")
        await until(lambda: "resources/unsubscribe" in server.methods())

    tag = {"io.modelcontextprotocol/subscriptionId": "mine"}
    assert granted == {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["page://a"]},
        "_meta": tag,
    }
    assert (told["method"], told["params"]) == (
        "notifications/resources/updated",
        {"uri": "page://a", "_meta": {"x": 1, **tag}},
    )
    assert before == []


@pytest.mark.parametrize(
    "wanted", [[], "x", {"resourceSubscriptions": "page://a"}, {"taskIds": "a"}], ids=["list", "text", "uris", "tasks"]
)
async def test_a_subscription_says_what_it_wants_in_the_right_form(
    tmp_path: Path, http: aiohttp.ClientSession, wanted: Any
) -> None:
    async with scene(tmp_path) as (_, opened), subscribed(opened, http, wanted) as stream:
        error = (await stream.response.json())["error"]

    assert error["code"] == -32602


async def test_tasks_are_followed_by_those_alone_who_say_that_they_know_tasks(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with scene(tmp_path) as (_, opened), subscribed(opened, http, {"taskIds": ["a"]}) as stream:
        error = (await stream.response.json())["error"]

    assert error["code"] == -32021


# Words.


def test_a_result_of_a_legacy_server_says_that_it_is_complete() -> None:
    assert modern_result(Reply(result=b"{}", modern=False), "tools/call") == b'{"resultType":"complete"}'
    assert modern_result(Reply(result=b'{ "a":1}', modern=False), "tools/call") == b'{"resultType":"complete","a":1}'
    assert modern_result(Reply(result=b"{ } ", modern=False), "tools/call") == b'{"resultType":"complete"} '
    assert b'"cacheScope":"private"' in modern_result(Reply(result=b"{}", modern=False), "resources/read")
    assert modern_result(Reply(result=b"{}", modern=True), "resources/read") == b"{}"


@pytest.mark.parametrize(
    ("method", "code", "told"),
    [
        ("resources/read", -32002, -32602),
        ("tools/call", -32602, -32602),
        ("odd/method", -32602, -32601),
        ("odd/method", -32603, -32603),
    ],
)
def test_errors_of_legacy_servers_get_the_codes_of_this_era(method: str, code: int, told: int) -> None:
    assert json.loads(modern_error(b'{"code":%d,"message":"m"}' % code, method)) == {"code": told, "message": "m"}


@pytest.mark.parametrize(
    ("level", "wanted", "loud"),
    [
        ("error", "", False),
        ("error", "shouting", False),
        ("info", "error", False),
        ("error", "error", True),
        ("alert", "error", True),
        ("odd", "error", True),
    ],
)
def test_log_messages_are_for_who_asked_for_their_level(level: str, wanted: str, loud: bool) -> None:
    assert loud_enough(b'{"level":"%s"}' % level.encode(), wanted) is loud
