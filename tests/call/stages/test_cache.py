"""Answers are kept where nothing changes by it, apart for every user, and never longer than they are true."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import USERS, Json, able, answer, asked, calls, ledger, teller, till
from tests.faults.scene import count
from tests.harness import ModernCaller, faulty, gateway, make_config, until
from trunkline.hub import open_hub
from trunkline.questions.kinds import Elicitation

KEEP: Json = {"enabled": True}
ACCOUNT: Json = {"account": "rent"}
META = "io.modelcontextprotocol/"


# What is kept.


async def test_nothing_is_kept_unless_asked_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http) as at:
        for _ in range(3):
            await at.modern().call("get_balance", ACCOUNT)

        assert at.hub.relay.cache_stats is None
    assert len(at.calls("get_balance")) == 3


async def test_the_answer_of_a_real_server_that_only_reads_is_kept(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, {"till": ledger(tmp_path)}, cache=KEEP) as at:
        await until(lambda: at.hub.snapshot.tools, 60)
        heard = [await at.modern().call("get_balance", ACCOUNT) for _ in range(3)]
        other = await at.modern().call("get_balance", {"account": "food"})
        stats = at.hub.relay.cache_stats

    assert [one.text for one in heard] == ["rent: 1 by till"] * 3
    assert [one.result for one in heard] == [heard[0].result] * 3
    assert other.text == "food: 1 by till"
    assert at.calls() == ["till get_balance rent", "till get_balance food"]
    assert stats is not None
    assert (stats["hits"], stats["misses"], stats["size"]) == (2, 2, 2)


async def test_callers_of_both_eras_share_an_answer_each_in_its_own_form(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        modern, legacy = at.modern(), await at.legacy()
        first = await legacy.call("get_balance", ACCOUNT)
        second = await modern.call("get_balance", ACCOUNT)

    assert len(at.calls()) == 1
    assert second.result["resultType"] == "complete"
    assert "resultType" not in first.result
    assert first.text == second.text


@pytest.mark.parametrize(("infer", "made"), [(True, 1), (False, 2)])
async def test_a_tool_whose_words_say_that_it_reads_is_kept_where_words_count(
    tmp_path: Path, http: aiohttp.ClientSession, infer: bool, made: int
) -> None:
    async with till(tmp_path, http, cache=KEEP, annotations={"auto_infer": infer}) as at:
        for _ in range(2):
            await at.modern().call("find_accounts", {"owner": "ana"})

    assert len(at.calls("find_accounts")) == made


@pytest.mark.parametrize(
    ("tool", "options", "made"),
    [
        ("send_money", {}, 3),
        ("send_money", {"send_money": {"cache_ttl": 60.0}}, 1),
        ("send_money", {"send_*": {"cache_ttl": 60.0}}, 1),
        ("send_money", {"*": {"cache_ttl": 60.0}, "send_money": {"cache_ttl": 0.0}}, 3),
        ("send_money", {"send_money": {"read_only_hint": True}}, 1),
        ("get_balance", {}, 1),
        ("get_balance", {"get_balance": {"cache_ttl": 0.0}}, 3),
        ("get_balance", {"get_balance": {"read_only_hint": False}}, 3),
        ("get_balance", {"get_number": {"cache_ttl": 0.0}}, 1),
    ],
)
async def test_the_operator_says_of_each_tool_whether_it_is_kept(
    tmp_path: Path, http: aiohttp.ClientSession, tool: str, options: Json, made: int
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, tools=options)}, cache=KEEP) as at:
        for _ in range(3):
            await at.modern().call(tool, ACCOUNT)

    assert len(at.calls(tool)) == made


READS = {"readOnlyHint": True}
VOLATILE: dict[str, Json] = {
    "a clock": {"name": "get_current_time", "description": "Get the time in a timezone."},
    "lots": {"name": "pick_card", "description": "Picks a random card."},
    "a status": {"name": "git_status", "description": "Shows the working tree."},
    "the latest": {"name": "get_release", "description": "Get the latest release."},
    "a file": {"name": "read_file", "description": "Read it."},
    "a file among its arguments": {
        "name": "read_text",
        "description": "Read it.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
    "what its server calls volatile": {
        "name": "get_rate", "description": "Get a rate.", "annotations": {**READS, "volatileHint": True},
    },
}  # fmt: skip


def reader(definition: Json) -> Json:
    return {"inputSchema": {"type": "object"}, "annotations": READS, **definition}


async def test_what_changes_by_itself_is_not_kept_unless_the_operator_says_so(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    more = [reader(definition) for definition in VOLATILE.values()]
    names = [definition["name"] for definition in more]
    servers = {
        "till": teller(tmp_path, more=more),
        "mine": teller(tmp_path, "mine", more=more, tools={"*": {"volatile_hint": False}}),
        "long": teller(tmp_path, "long", more=more, tools={"*": {"cache_ttl": 60.0}}),
    }
    async with till(tmp_path, http, servers, cache=KEEP) as at:
        for shown in [f"{server}__{tool}" for server in servers for tool in names] * 2:
            await at.modern().call(shown, {})

        made = {server: [len(at.calls(f"{server} {tool}")) for tool in names] for server in servers}
        shown = [at.hub.annotations(f"till__{tool}") for tool in names]

    assert made == {"till": [2] * len(names), "mine": [1] * len(names), "long": [1] * len(names)}
    assert [known and known.volatile_hint for known in shown] == [True] * len(names)


@pytest.mark.parametrize(
    ("tool", "ttl", "made"),
    [("get_rate", 60_000, 1), ("get_rate", 0, 3), ("get_current_time", 60_000, 1), ("get_current_time", 0, 3)],
)
async def test_what_the_server_says_of_its_answer_counts_before_what_is_told_from_words(
    tmp_path: Path, http: aiohttp.ClientSession, tool: str, ttl: int, made: int
) -> None:
    more = [reader({"name": tool, "description": "Get it.", "_meta": {"ttlMs": ttl}})]
    async with till(tmp_path, http, {"till": teller(tmp_path, more=more)}, cache=KEEP) as at:
        heard = [await at.modern().call(tool, {}) for _ in range(3)]

    assert len(at.calls(tool)) == made
    assert all(one.result["ttlMs"] <= ttl for one in heard)


async def test_with_no_time_of_its_own_the_cache_keeps_what_servers_say_may_be_kept(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    more = [reader({"name": "get_rate", "description": "Get it.", "_meta": {"ttlMs": 60_000}})]
    async with till(tmp_path, http, {"till": teller(tmp_path, more=more)}, cache={**KEEP, "ttl": 0.0}) as at:
        for tool in ("get_rate", "get_rate", "get_balance", "get_balance"):
            await at.modern().call(tool, ACCOUNT)

    assert (len(at.calls("get_rate")), len(at.calls("get_balance"))) == (1, 2)


@pytest.mark.parametrize("tool", ["get_wrong", "get_refused"])
async def test_errors_are_never_kept(tmp_path: Path, http: aiohttp.ClientSession, tool: str) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        heard = [await at.modern().call(tool, ACCOUNT) for _ in range(2)]

    assert all("There is no such account." in json.dumps(one.message) for one in heard)
    assert len(at.calls(tool)) == 2


async def test_an_answer_is_kept_no_longer_than_its_time(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache={**KEEP, "ttl": 0.2}) as at:
        await at.modern().call("get_balance", ACCOUNT)

        async with asyncio.timeout(5):
            while len(at.calls("get_balance")) == 1:
                await at.modern().call("get_balance", ACCOUNT)


# Whose answer it is.


@pytest.mark.parametrize("scope", ["public", "private", "nobody"])
async def test_two_users_never_share_whatever_a_server_says_nor_do_two_gateways_of_one_store(
    tmp_path: Path, http: aiohttp.ClientSession, scope: str
) -> None:
    servers = {"till": teller(tmp_path, ttl=f"60000 for {scope}")}
    async with (
        till(tmp_path, http, servers, users=True, cache=KEEP) as at,
        till(tmp_path, http, servers, users=True, cache=KEEP) as other,
    ):
        for gateway_of in (at, other, at):
            for user in USERS:
                await gateway_of.modern(user).call("get_balance", ACCOUNT)
                read = await gateway_of.modern(user).request("resources/read", {"uri": "ledger://rules"})

                assert read.result.get("cacheScope") == (None if scope == "nobody" else scope)

    assert len(at.calls("get_balance")) == 4
    assert len(at.calls("rules")) == 4


async def test_two_users_never_share_even_a_call_that_is_under_way(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, users=True, cache=KEEP, batcher={"coalesce": True}) as at:
        under_way = [asyncio.create_task(at.modern(user).call("get_slowly", {"key": "k"})) for user in (*USERS, "ana")]
        await until(lambda: len(at.calls()) == 2)
        at.go()
        ana, bob, ana_again = await asyncio.gather(*under_way)

    assert ana.text == ana_again.text
    assert ana.text != bob.text
    assert len(at.calls()) == 2


async def test_two_users_in_python_never_share(tmp_path: Path) -> None:
    config = make_config(tmp_path / "home", {"till": teller(tmp_path)}, sections={"cache": KEEP})
    async with open_hub(config) as hub:
        await hub.ready(10)
        for user in ("", "ana", "bob", "ana", "default ana"):
            await hub.call("get_balance", ACCOUNT, user=user)

    assert len(calls(tmp_path)) == 4


async def test_two_servers_never_share(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, {name: teller(tmp_path, name) for name in "ab"}, cache=KEEP) as at:
        for tool in ("a__get_balance", "b__get_balance") * 2:
            await at.modern().call(tool, ACCOUNT)

    assert at.calls() == ["a get_balance rent", "b get_balance rent"]


# Which calls are equal.


async def test_the_order_of_arguments_and_how_they_are_spelt_do_not_matter(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    spec = teller(tmp_path, tools={"send_money": {"cache_ttl": 60.0}})
    async with till(tmp_path, http, {"till": spec}, cache=KEEP) as at:
        await at.modern().call("send_money", {"account": "café", "amount": 7})
        await at.modern().call("send_money", {"amount": 7, "account": "café"})
        await at.hub.call("send_money", {"amount": 7, "account": "café"})

    assert len(at.calls()) == 1


async def test_every_digit_of_a_number_matters(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    numbers = [2**53, 2**53 + 1, 2**64, 2**64 + 1, 10**30, 10**30 + 1]
    async with till(tmp_path, http, cache=KEEP) as at:
        for number in numbers * 2:
            heard = await at.modern().call("get_number", {"number": number})
            assert heard.text.startswith(f'{{"number": {number}}}')

    assert at.calls() == [f"till get_number {number}" for number in numbers]


@pytest.mark.parametrize(
    ("meta", "made"),
    [
        ({"progressToken": "p1"}, 1),
        ({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, 1),
        ({META + "logLevel": "info"}, 1),
        ({"org.example/tenant": "other"}, 2),
        ({"progressToken": 1, "org.example/tenant": None}, 2),
    ],
)
async def test_a_call_that_says_something_of_its_own_is_like_no_other(
    tmp_path: Path, http: aiohttp.ClientSession, meta: Json, made: int
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        await at.modern().call("get_balance", ACCOUNT)
        await at.modern().call("get_balance", ACCOUNT, meta=meta)
        await at.modern().call("get_balance", ACCOUNT)

    assert len(at.calls()) == made


async def test_a_fresh_answer_can_be_asked_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        kept = [(await at.hub.call("get_balance", ACCOUNT)).text for _ in range(2)]
        fresh = [(await at.hub.call("get_balance", ACCOUNT, cached=False)).text for _ in range(2)]

    assert kept[0] == kept[1]
    assert len({*kept, *fresh}) == 3
    assert len(at.calls()) == 3


# What is no longer true.


@pytest.mark.parametrize(("clear", "made"), [(True, 2), (False, 1)])
async def test_a_write_to_a_server_makes_its_answers_old(
    tmp_path: Path, http: aiohttp.ClientSession, clear: bool, made: int
) -> None:
    servers = {name: teller(tmp_path, name, ttl="60000") for name in "ab"}
    async with till(tmp_path, http, servers, cache={**KEEP, "clear_on_write": clear}) as at:
        for tool in ("a__get_balance", "b__get_balance", "a__send_money", "a__get_balance", "b__get_balance"):
            await at.modern().call(tool, ACCOUNT)

    assert len(at.calls("a get_balance")) == made
    assert len(at.calls("b get_balance")) == 1


async def test_a_write_that_failed_makes_answers_old_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        await at.modern().call("get_balance", ACCOUNT)
        lost = await at.modern().call("crash_after_payment", ACCOUNT)
        await at.modern().call("get_balance", ACCOUNT)

    assert "'till'" in lost.error["message"]
    assert len(at.calls("get_balance")) == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_write_that_asked_somebody_makes_answers_old_when_it_is_done(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, era=era)}, cache=KEEP) as at:
        caller = at.modern()
        heard = await caller.call("paint", {"key": "door"}, meta=able())
        await caller.call("get_balance", ACCOUNT)
        given: Json = {"action": "accept", "content": {"colour": "red"}}
        painted = await answer(caller, "paint", {"key": "door"}, heard, given)
        await caller.call("get_balance", ACCOUNT)

    assert painted.text == "door is red"
    assert len(at.calls("get_balance")) == 2


async def test_what_was_read_before_a_write_and_answered_after_it_is_not_kept(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        reading = asyncio.create_task(at.modern().call("get_slowly", {"key": "k"}))
        await until(lambda: at.calls("get_slowly"))
        await at.modern().call("send_money", ACCOUNT)
        at.go()
        await reading
        for _ in range(2):
            await at.modern().call("get_slowly", {"key": "k"})

    assert len(at.calls("get_slowly")) == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_says_that_its_list_changed_makes_its_answers_old(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    log = tmp_path / "log"
    sections = {"cache": {**KEEP, "clear_on_write": False}}
    async with gateway(tmp_path, {"one": faulty("--log", str(log), "--era", era)}, sections=sections) as opened:
        caller = ModernCaller(opened.url, http)
        await opened.hub.relay.settle()
        for _ in range(2):
            await caller.call("echo", {"text": "x"})
        before = count(log, "call echo")
        await caller.call("list_changed")
        await until(lambda: "extra_1" in opened.hub.snapshot.tools)
        await caller.call("echo", {"text": "x"})

    assert before == 1
    assert count(log, "call echo") == 2


# Resources.


@pytest.mark.parametrize(
    ("ttl", "era", "made"),
    [("60000", "auto", 1), ("0", "auto", 2), ("", "auto", 2), ("-1", "auto", 2), ("60000", "legacy", 2)],
)
async def test_a_resource_is_kept_if_its_server_says_so(
    tmp_path: Path, http: aiohttp.ClientSession, ttl: str, era: str, made: int
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, ttl=ttl, era=era)}, cache=KEEP) as at:
        heard = [await at.modern().request("resources/read", {"uri": "ledger://rules"}) for _ in range(2)]

    assert heard[0].result["contents"][0]["text"] == "Rule 1"
    assert len(at.calls("rules")) == made


async def test_who_gets_a_kept_resource_may_keep_it_for_the_rest_of_its_time(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, ttl="60000")}, cache=KEEP) as at:
        first, *others = [await at.modern().request("resources/read", {"uri": "ledger://rules"}) for _ in range(3)]

    left = [first.result["ttlMs"], *(one.result["ttlMs"] for one in others)]
    assert left[0] == 60000
    assert 60000 > left[1] >= left[2] > 0
    assert all({**one.result, "ttlMs": 60000} == first.result for one in others)


async def test_a_resource_is_kept_no_longer_than_its_server_says(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, ttl="200")}, cache=KEEP) as at:
        async with asyncio.timeout(5):
            while len(at.calls("rules")) < 2:
                await at.modern().request("resources/read", {"uri": "ledger://rules"})


@pytest.mark.parametrize("ttl", ["1" + "0" * 400, "9" * 4000, "1.5", '"60000"', "null", "[]", "true"])
async def test_a_server_that_says_nonsense_about_time_is_answered_for_all_the_same(
    tmp_path: Path, http: aiohttp.ClientSession, ttl: str
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, ttl=ttl)}, cache=KEEP) as at:
        heard = [await at.modern().request("resources/read", {"uri": "ledger://rules"}) for _ in range(2)]

    assert [one.status for one in heard] == [200, 200]


async def test_a_legacy_caller_gets_a_kept_resource_in_its_own_form(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, {"till": teller(tmp_path, ttl="60000")}, cache=KEEP) as at:
        legacy = await at.legacy()
        await at.modern().request("resources/read", {"uri": "ledger://rules"})
        heard = await legacy.request("resources/read", {"uri": "ledger://rules"})

    assert heard.result == {"contents": [{"uri": "ledger://rules", "text": "Rule 1"}]}
    assert len(at.calls("rules")) == 1


# Questions.


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_took_a_question_is_never_kept(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, group: bool
) -> None:
    sections: Json = {"groups": {"bank": {"servers": ["till"]}}} if group else {}
    async with till(tmp_path, http, {"till": teller(tmp_path, era=era)}, cache=KEEP, **sections) as at:
        caller = at.modern()
        texts: list[str] = []
        for colour in ("red", "blue"):
            heard = await caller.call("get_colour", {"key": "door"}, meta=able())
            assert asked(heard)
            given: Json = {"action": "accept", "content": {"colour": colour}}
            texts.append((await answer(caller, "get_colour", {"key": "door"}, heard, given)).text)

    assert texts == ["door is red", "door is blue"]


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_took_a_question_to_a_handler_here_is_never_kept_nor_shared(
    tmp_path: Path, era: str, group: bool
) -> None:
    sections: Json = {"cache": KEEP, "groups": {"bank": {"servers": ["till"]}} if group else {}}
    colours = iter(["red", "blue", "green", "grey"])

    async def handler(request: Elicitation) -> object:
        return next(colours)

    async with open_hub(make_config(tmp_path / "home", {"till": teller(tmp_path, era=era)}, sections=sections)) as hub:
        await hub.ready(10)
        hub.elicitation.register_handler(handler)
        one_by_one = [(await hub.call("get_colour", {"key": "door"})).text for _ in range(2)]
        at_once = await asyncio.gather(*(hub.call("get_colour", {"key": "door"}) for _ in range(2)))

    assert one_by_one == ["door is red", "door is blue"]
    assert sorted(one.text for one in at_once) == ["door is green", "door is grey"]


# Many at once.


async def test_a_thousand_equal_calls_at_once_make_one(tmp_path: Path) -> None:
    config = make_config(tmp_path / "home", {"till": teller(tmp_path)}, sections={"cache": KEEP})
    async with open_hub(config) as hub:
        await hub.ready(10)
        under_way = [asyncio.create_task(hub.call("get_slowly", {"key": "k"}, user="ana")) for _ in range(1000)]
        await until(lambda: calls(tmp_path))
        (tmp_path / "log.go").touch()
        results = await asyncio.gather(*under_way)

    assert len({result.text for result in results}) == 1
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_one_who_leaves_does_not_spoil_it_for_those_who_wait_with_him(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        callers = [at.modern() if era == "modern" else await at.legacy() for _ in range(3)]
        first, *others = [asyncio.create_task(caller.call("get_slowly", {"key": "k"})) for caller in callers]
        await until(
            lambda: at.hub.relay.cache_stats == {**(at.hub.relay.cache_stats or {}), "misses": 3} and at.calls()
        )
        first.cancel()
        await asyncio.wait([first])
        at.go()
        heard = await asyncio.gather(*others)

    assert [one.text for one in heard] == ['{"key": "k"} 1 by till'] * 2
    assert len(at.calls()) == 1


async def test_when_all_have_left_the_next_one_starts_anew(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        under_way = [asyncio.create_task(at.hub.call("get_slowly", {"key": "k"})) for _ in range(3)]
        await until(lambda: at.calls())
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way)
        at.go()
        result = await at.hub.call("get_slowly", {"key": "k"})

    assert result.text == '{"key": "k"} 2 by till'


async def test_one_with_little_time_does_not_end_the_wait_of_others(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        hasty = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}, timeout=0.1))
        patient = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}))
        await asyncio.wait([hasty])
        at.go()
        result = await patient

    assert "did not answer" in str(hasty.exception())
    assert not result.is_error


async def test_an_error_is_not_shared_with_those_who_wait(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        heard = await asyncio.gather(*(at.modern().call("get_refused", ACCOUNT) for _ in range(5)))

    assert all(one.error["message"] == "There is no such account." for one in heard)
    assert len(at.calls()) == 5


# Around it.


async def test_who_gets_a_kept_answer_agreed_to_the_call_and_is_in_the_log(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline.tools")
    spec = teller(tmp_path, tools={"get_balance": {"requires_confirmation": True}})
    given = itertools.cycle([{"action": "accept", "content": {"confirmed": True}}, {"action": "decline"}])
    async with till(tmp_path, http, {"till": spec}, cache=KEEP, middleware={"logging": True}) as at:
        caller = at.modern()
        ends: list[Any] = []
        for _ in range(4):
            heard = await caller.call("get_balance", ACCOUNT, meta=able())
            assert len(asked(heard)) == 1
            ends.append((await answer(caller, "get_balance", ACCOUNT, heard, next(given))).text)

    assert ends == ['{"account": "rent"} 1 by till', "Operation cancelled by user"] * 2
    assert len(at.calls()) == 1
    outcomes = [record.getMessage().split("outcome=")[1].split()[0] for record in caplog.records]
    assert outcomes == ["answered", "cancelled"] * 2


async def test_the_cache_can_be_turned_on_and_off_while_it_runs(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": teller(tmp_path)}
    async with till(tmp_path, http, servers) as at:
        made: list[int] = []
        for enabled in (False, True, False, True):
            assert await at.apply(servers, cache={"enabled": enabled}) == []
            before = len(at.calls())
            for _ in range(2):
                await at.modern().call("get_balance", ACCOUNT)
            made.append(len(at.calls()) - before)

    assert made == [2, 1, 2, 1]


async def test_what_the_operator_says_of_a_tool_counts_from_then_on(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"till": teller(tmp_path)}
    async with till(tmp_path, http, servers, cache=KEEP) as at:
        await at.modern().call("get_balance", ACCOUNT)
        kept = teller(tmp_path, tools={"get_balance": {"cache_ttl": 0.0}})
        assert await at.apply({"till": kept}, cache=KEEP) == []
        for _ in range(2):
            await at.modern().call("get_balance", ACCOUNT)

    assert len(at.calls()) == 3


async def test_legacy_callers_of_one_user_share_across_their_sessions(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, cache=KEEP) as at:
        for caller in [await at.legacy() for _ in range(3)]:
            await caller.call("get_balance", ACCOUNT)

    assert len(at.calls()) == 1
