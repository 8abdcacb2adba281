"""Records of calls: what is known of a call while it runs, and when it ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.call.stages.till import able, answer, marked, teller, till
from tests.harness import make_config, until
from trunkline.hub import Hub, open_hub
from trunkline.identity import Scope
from trunkline.model import Call, Entry, Reply
from trunkline.telemetry.record import CallRecord, Records

Json = dict[str, Any]
RENT: Json = {"account": "rent"}


def ended(hub: Hub) -> list[CallRecord]:
    hub.relay.recording.records.drain()
    return list(hub.relay.recording.past.recent)


async def test_each_call_leaves_a_record_of_who_called_what_and_how_it_ended(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http) as at:
        caller = at.modern()
        for name in ("get_balance", "get_wrong", "get_refused", "crash_after_payment"):
            await caller.call(name, {"account": "the secret of this call"})
        found = ended(at.hub)

    assert [(one.server, one.tool, one.outcome) for one in found] == [
        ("till", "get_balance", "answered"),
        ("till", "get_wrong", "tool-error"),
        ("till", "get_refused", "failed"),
        ("till", "crash_after_payment", "failed"),
    ]
    first = found[0]
    assert (first.method, first.name, first.listed) == ("tools/call", "get_balance", True)
    assert [(what, how) for what, how, _ in first.path] == [("entry", "till"), ("send", "till"), ("answer", "till")]
    assert 0 < first.path[0][2] <= first.path[-1][2] <= first.seconds
    assert first.bytes_in > 20
    assert 5 < first.tokens_out < first.bytes_out
    assert sorted(one.id for one in found) == [one.id for one in found]
    assert "the secret" not in repr(found)


async def test_a_call_is_seen_while_it_runs_and_when_its_caller_leaves(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http) as at:
        call = asyncio.create_task(at.modern().call("get_slowly", {"key": "x"}))
        await until(lambda: bool(at.calls("get_slowly")))
        (running,) = at.hub.relay.recording.records.running()
        call.cancel()
        await until(lambda: bool(ended(at.hub)))
        (left,) = ended(at.hub)

    assert (running.tool, running.outcome, running.seconds > 0) == ("get_slowly", "running", True)
    assert (left.id, left.outcome) == (running.id, "cancelled")
    assert not at.hub.relay.recording.records.live


async def test_what_stages_did_is_in_the_path_of_the_call(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    sections: Json = {"cache": {"enabled": True}, "groups": {"bank": {"servers": ["till"]}}}
    spec = teller(tmp_path, tools={"get_balance": {"cache_ttl": 60.0, "read_only_hint": True}})
    async with till(tmp_path, http, servers={"till": spec}, **sections) as at:
        for _ in range(2):
            await at.modern().call("get_balance", {"account": "x"})
        made, kept = ended(at.hub)

    assert [f"{what} {how}" for what, how, _ in made.path] == [
        "entry bank",
        "cache miss",
        "route till",
        "send till",
        "answer till",
    ]
    assert [f"{what} {how}" for what, how, _ in kept.path] == ["entry bank", "cache hit"]
    assert (made.server, kept.server, kept.outcome) == ("till", "bank", "answered")


async def test_a_question_parts_a_call_in_two_records_and_a_no_is_a_refusal(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, servers=marked(tmp_path, "pay")) as at:
        caller = at.modern()
        asked = await caller.call("pay", RENT, meta=able())
        await answer(caller, "pay", RENT, asked, {"action": "decline"})
        first, second = ended(at.hub)

    assert (first.outcome, second.outcome) == ("asked", "refused")
    assert second.path[0][0] == "resumed"


async def test_a_call_keeps_its_id_and_time_when_somebody_sets_the_clock_meanwhile() -> None:
    now, told = [1000.0], list[CallRecord]()
    records = Records(clock=lambda: now[0], timer=lambda: 5.0)
    records.readers = (told.extend,)
    running = records.begin(Call("tools/call", "look", {}))
    (live,) = records.running()
    now[0] = 5000.0
    records.end(running, Reply(result=b"{}"), None)
    records.drain()
    records.end(records.begin(Call("tools/call", "look", {})), Reply(result=b"{}"), None)
    records.drain()

    assert [one.time for one in told] == [1000.0, 5000.0]
    assert told[0].id == live.id < told[1].id


def test_calls_of_one_caller_to_one_tool_at_one_server_are_alike_and_no_others() -> None:
    told = list[CallRecord]()
    records = Records(timer=lambda: 5.0)
    records.eager, records.readers = True, (told.extend,)
    tool, other = (Entry(name, "group", name, b"{}") for name in ("look", "see"))
    ana, bob = Scope(user="ana"), Scope(user="bob")
    made = [(ana, tool, "one"), (ana, tool, "two"), (bob, tool, "one"), (ana, other, "one"), (ana, None, "one")]
    for scope, entry, server in made * 2:
        call = Call("tools/call", "look", {}, scope=scope, entry=entry, server="group")
        records.end(records.begin(call), Reply(result=b"{}", server=server), None)

    first, again = [one.alike for one in told[:5]], [one.alike for one in told[5:]]
    assert first == again
    assert len(set(first)) == 5
    assert first[4] == 0  # what no server lists may have any name
    assert [(one.user, one.tool, one.server) for one in told[:2]] == [("ana", "look", "one"), ("ana", "look", "two")]


async def test_a_hub_of_a_program_makes_no_records_that_nobody_reads(tmp_path: Path) -> None:
    async with open_hub(make_config(tmp_path / "home", {"till": teller(tmp_path)})) as hub:
        await hub.ready(10)
        await hub.call("get_balance", {"account": "x"})
        names = [type(stage).__name__ for stage in hub.relay.stages]

        assert ended(hub) == []
        assert "RecordStage" not in names


async def test_calls_are_kept_up_to_a_number_which_can_be_changed(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    spec = teller(tmp_path)
    async with till(tmp_path, http, servers={"till": spec}, calls={"keep": 2}) as at:
        for account in "abc":
            await at.modern().call("get_balance", {"account": account})
        kept = len(ended(at.hub))
        await at.apply({"till": spec}, calls={"keep": 0})
        await at.modern().call("get_balance", {"account": "d"})

        assert kept == 2
        assert ended(at.hub) == []
