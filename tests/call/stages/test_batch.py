"""A server gets no more calls at once than it bears; others wait in a fair queue, and are told when it is full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.call.stages.till import Json, Till, able, answer, teller, till
from tests.faults.scene import count
from tests.harness import LegacyCaller, ModernCaller, faulty, gateway, until
from trunkline.errors import BusyError

SHARE: Json = {"coalesce": True}


async def caller_of(at: Till, era: str) -> ModernCaller | LegacyCaller:
    return at.modern() if era == "modern" else await at.legacy()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_calls_beyond_the_servers_room_wait_and_all_are_answered(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, concurrency=2)}) as at:
        caller = await caller_of(at, era)
        keys = [f"k{number}" for number in range(10)]
        under_way = [asyncio.create_task(caller.call("get_slowly", {"key": key})) for key in keys]
        lane = at.hub.relay.lane("till")
        await until(lambda: (lane.inside, lane.waiting) == (2, 8) and len(at.calls()) == 2)
        at.go()
        heard = await asyncio.gather(*under_way)

    assert [one.text for one in heard] == [f'{{"key": "{key}"}} 1 by till' for key in keys]
    assert (lane.inside, lane.waiting) == (0, 0)
    assert sorted(at.calls()) == [f"till get_slowly {key}" for key in keys]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_when_the_queue_is_full_callers_are_told_when_to_come_back(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    servers = {"till": teller(tmp_path, concurrency=1), "other": teller(tmp_path, "other")}
    async with till(tmp_path, http, servers, batcher={"max_queue": 1}) as at:
        caller = await caller_of(at, era)
        under_way = [asyncio.create_task(caller.call("till__get_slowly", {"key": key})) for key in "ab"]
        await until(lambda: at.hub.relay.lane("till").waiting == 1)
        refused = await caller.call("till__get_balance", {"account": "rent"})
        other = await caller.call("other__get_balance", {"account": "rent"})
        at.go()
        answered = await asyncio.gather(*under_way)

    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert "'till'" in refused.error["message"]
    assert refused.error["code"] == -32000
    assert not other.result.get("isError")
    assert all("by till" in one.text for one in answered)
    assert at.calls("till get_balance") == []


async def test_who_waits_too_long_is_refused_and_the_server_never_hears_of_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"till": teller(tmp_path, concurrency=1)}
    async with till(tmp_path, http, servers, batcher={"max_wait": 0.1}) as at:
        inside = asyncio.create_task(at.modern().call("get_slowly", {"key": "a"}))
        await until(lambda: at.calls())
        refused = await at.modern().call("send_money", {"account": "rent"})
        with pytest.raises(BusyError, match="'till'"):
            await at.hub.call("send_money", {"account": "rent"})
        at.go()
        answered = await inside
        after = await at.modern().call("send_money", {"account": "rent"})

    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert "'till'" in refused.error["message"]
    assert "by till" in answered.text
    assert after.status == 200
    assert len(at.calls("send_money")) == 1


async def test_one_who_leaves_the_queue_leaves_his_place_to_others(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, concurrency=1)}) as at:
        inside = asyncio.create_task(at.modern().call("get_slowly", {"key": "in"}))
        await until(lambda: at.calls())
        leaving = asyncio.create_task(at.modern().call("send_money", {"account": "leaving"}))
        await until(lambda: at.hub.relay.lane("till").waiting == 1)
        leaving.cancel()
        await until(lambda: at.hub.relay.lane("till").waiting == 0)
        staying = asyncio.create_task(at.modern().call("send_money", {"account": "staying"}))
        at.go()
        await asyncio.gather(inside, staying)

    assert at.calls("send_money") == ["till send_money staying"]


async def test_a_noisy_user_does_not_keep_another_from_being_next(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, concurrency=1)}, users=True) as at:
        ana, bob = at.modern("ana"), at.modern("bob")
        noisy = [asyncio.create_task(ana.call("get_slowly", {"key": f"ana{number}"})) for number in range(50)]
        await until(lambda: at.hub.relay.lane("till").waiting == 49)
        quiet = [asyncio.create_task(bob.call("get_slowly", {"key": f"bob{number}"})) for number in range(2)]
        await until(lambda: at.hub.relay.lane("till").waiting == 51)
        at.go()
        heard = await asyncio.gather(*noisy, *quiet)

    who = [line.split()[-1][:3] for line in at.calls()]
    assert who[:5] in (["ana", "ana", "bob", "ana", "bob"], ["ana", "bob", "ana", "bob", "ana"])
    assert len(who) == 52
    assert all(one.status == 200 for one in heard)


async def test_a_noisy_user_fills_no_more_than_his_share_of_the_queue(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"till": teller(tmp_path, concurrency=1)}
    async with till(tmp_path, http, servers, users=True, batcher={"max_queue": 10}) as at:
        ana, bob = at.modern("ana"), at.modern("bob")
        noisy = [asyncio.create_task(ana.call("get_slowly", {"key": f"ana{number}"})) for number in range(30)]
        await until(lambda: sum(task.done() for task in noisy) == 19)
        quiet = asyncio.create_task(bob.call("get_slowly", {"key": "bob"}))
        await until(lambda: sum(task.done() for task in noisy) == 20)
        at.go()
        heard = await asyncio.gather(*noisy)
        answered = await quiet

    assert sorted(one.status for one in heard) == [200] * 10 + [503] * 20
    assert "by till" in answered.text


# Equal calls at the same time.


@pytest.mark.parametrize(("coalesce", "made"), [(True, 1), (False, 2)])
async def test_equal_reads_at_the_same_time_are_one_where_that_is_wanted(
    tmp_path: Path, http: aiohttp.ClientSession, coalesce: bool, made: int
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, concurrency=9)}, batcher={"coalesce": coalesce}) as at:
        under_way = [asyncio.create_task(at.hub.call("get_slowly", {"key": "k"})) for _ in range(2)]
        await until(lambda: len(at.calls()) == made)
        at.go()
        results = await asyncio.gather(*under_way)

    assert len({result.text for result in results}) == made
    assert len(at.calls()) == made


async def test_a_hundred_callers_who_ask_the_same_at_once_make_one_call(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, concurrency=1)}, batcher=SHARE) as at:
        first = asyncio.create_task(at.modern().call("get_slowly", {"key": "k"}))
        await until(lambda: at.calls())
        others = [asyncio.create_task(at.hub.call("get_slowly", {"key": "k"})) for _ in range(99)]
        probe = asyncio.create_task(at.hub.call("get_balance", {"account": "rent"}))
        await until(lambda: at.hub.relay.lane("till").waiting)
        # There is no free slot, and none of them waits for one: they wait for the one call.
        waiting = at.hub.relay.lane("till").waiting
        at.go()
        results = await asyncio.gather(*others, probe)
        heard = await first

    assert waiting == 1
    assert {heard.text, *(result.text for result in results[:-1])} == {'{"key": "k"} 1 by till'}
    assert len(at.calls("get_slowly")) == 1


async def test_nothing_is_shared_after_the_answer(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, batcher=SHARE) as at:
        for _ in range(2):
            await at.modern().call("get_balance", {"account": "rent"})

    assert len(at.calls()) == 2


async def test_writes_are_never_one_however_equal(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, batcher=SHARE) as at:
        under_way = [asyncio.create_task(at.modern().call("pay_slowly", {"account": "rent"})) for _ in range(5)]
        await until(lambda: len(at.calls()) == 5)
        at.go()
        heard = await asyncio.gather(*under_way)

    assert len({one.text for one in heard}) == 5


async def test_calls_that_are_not_quite_equal_are_not_one(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    ways: list[Json] = [
        {"arguments": {"key": "a"}},
        {"arguments": {"key": "b"}},
        {"arguments": {"key": "a"}, "meta": {"org.example/x": 1}},
    ]
    async with till(tmp_path, http, users=True, batcher=SHARE) as at:
        under_way = [asyncio.create_task(at.modern("ana").call("get_slowly", **way)) for way in ways]
        under_way.append(asyncio.create_task(at.modern("bob").call("get_slowly", **ways[0])))
        await until(lambda: len(at.calls()) == 4)
        at.go()
        await asyncio.gather(*under_way)

    assert len(at.calls()) == 4


async def test_one_who_leaves_does_not_spoil_the_call_that_others_share(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, batcher=SHARE) as at:
        first = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}))
        await until(lambda: at.calls())
        second = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}))
        hasty = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}, timeout=0.1))
        await asyncio.wait([hasty])
        first.cancel()
        await asyncio.wait([first])
        at.go()
        result = await second

    assert "did not answer" in str(hasty.exception())
    assert result.text.endswith("by till")


# While somebody thinks.


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_waits_for_an_answer_takes_nobodys_place(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    spec = teller(tmp_path, era=era, concurrency=1)
    async with till(tmp_path, http, {"till": spec}, batcher={"max_queue": 0}) as at:
        first = await at.modern().call("paint", {"key": "door"}, meta=able())
        answers: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        at.hub.elicitation.register_handler(lambda request: answers)
        second = asyncio.create_task(at.hub.call("paint", {"key": "door"}))
        await until(at.hub.elicitation.get_pending_count)
        meanwhile = await at.modern().call("get_balance", {"account": "rent"})
        answers.set_result("red")
        result = await second
        given: Json = {"action": "accept", "content": {"colour": "blue"}}
        heard = await answer(at.modern(), "paint", {"key": "door"}, first, given)

    assert meanwhile.status == 200
    assert result.text == "door is red"
    assert heard.text == "door is blue"


# One server's trouble.


async def test_a_hung_server_leaves_others_untouched(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "hung"
    servers = {"hung": faulty("--log", str(log), concurrency=4, timeout=60), "till": teller(tmp_path)}
    async with gateway(tmp_path / "home", servers, sections={"batcher": {"max_queue": 20}}) as opened:
        caller = ModernCaller(opened.url, http)
        stuck = [asyncio.create_task(caller.call("hung__hang")) for _ in range(200)]
        await until(lambda: count(log, "call hang") == 4 and sum(task.done() for task in stuck) == 176)

        for number in range(50):
            heard = await caller.call("till__get_balance", {"account": str(number)})
            assert heard.text.startswith(f'{{"account": "{number}"}}')
        still_stuck = sum(not task.done() for task in stuck)
        for task in stuck:
            task.cancel()
        refused = [task.result() for task in stuck if task.done() and not task.cancelled()]
        await asyncio.wait(stuck)

    assert len(refused) == 176
    assert {one.status for one in refused} == {503}
    assert all("'hung'" in one.error["message"] for one in refused)
    assert still_stuck == 24


async def test_more_room_is_given_out_at_once_when_the_configuration_says_so(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"till": teller(tmp_path, concurrency=1)}
    async with till(tmp_path, http, servers, batcher={"max_queue": 0}) as at:
        inside = asyncio.create_task(at.modern().call("get_slowly", {"key": "in"}))
        await until(lambda: at.calls())
        refused = await at.modern().call("get_balance", {"account": "rent"})
        await at.apply(servers, batcher={"max_queue": 5})
        waiting = asyncio.create_task(at.modern().call("get_balance", {"account": "rent"}))
        await until(lambda: at.hub.relay.lane("till").waiting == 1)
        at.go()
        heard = await asyncio.gather(inside, waiting)

    assert refused.status == 503
    assert [one.status for one in heard] == [200, 200]


async def test_a_tool_that_bears_few_calls_a_minute_gets_no_more_and_its_tags_are_listed(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    said: Json = {"rate_limit_hint": 2.0, "tags": ["mine"]}
    more = [{"name": "get_quota", "inputSchema": {"type": "object"}, "_meta": {"tags": ["theirs"], "x/y": 1}}]
    servers = {"till": teller(tmp_path, more=more, tools={"get_quota": said})}
    async with till(tmp_path, http, servers) as at:
        heard = [await at.modern().call("get_quota", {}) for _ in range(3)]
        await at.modern().call("get_number", {"number": 1})
        listed = (await at.modern().request("tools/list")).result["tools"]
        known = at.hub.annotations("get_quota")

    assert [one.message.get("error", {}).get("code") for one in heard] == [None, None, BusyError.code]
    assert "Try again in 30 s" in heard[2].error["message"]
    assert len(at.calls("get_quota")) == 2
    assert next(tool["_meta"] for tool in listed if tool["name"] == "get_quota") == {
        "tags": ["theirs", "mine"],
        "x/y": 1,
    }
    assert known is not None
    assert known.tags == ("theirs", "mine")
