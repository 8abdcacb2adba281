"""Groups: equal servers that are shown as one and share calls, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.members import READS, TOOLS, WRITES, Member, serving, tool
from tests.call.stages.till import Till, teller, till
from tests.harness import LegacyCaller, ModernCaller, faulty, gateway, make_config, until
from tests.questions.scene import ACCEPT, EVERYTHING, Talker, ask, asking, retry, yes
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.tool import ToolOptions

Json = dict[str, Any]
AT_ONCE: Json = {"slow_start": 0.0, "retry_ratio": 1.0}
"""A router that hides nothing: whoever came back has its full share, and retries are not counted."""


@asynccontextmanager
async def bank(
    home: Path, *members: Member, beside: Json | None = None, router: Json | None = None, **group: Any
) -> AsyncGenerator[Gateway]:
    """A gateway before a group that is called `bank`."""
    async with serving(*members) as servers:
        listed = {"bank": {"servers": [member.name for member in members], **group}}
        sections = {"groups": listed, "router": {**AT_ONCE, **(router or {})}}
        async with gateway(home, {**servers, **(beside or {})}, sections=sections) as opened:
            yield opened


def seen(*members: Member) -> list[int]:
    """How much reached each of them."""
    return [len(member.seen) for member in members]


# What is shown.


async def test_a_group_that_stands_alone_shows_the_bare_names_of_its_tools(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with bank(tmp_path, Member("a"), Member("b")) as opened:
        listed = await ModernCaller(opened.url, http).request("tools/list")

    assert [one["name"] for one in listed.result["tools"]] == ["get_balance", "send_money", "delete_account"]


async def test_beside_other_servers_a_group_is_one_server_with_a_name_of_its_own(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    other = Member("other", tools=(READS,))
    async with serving(other) as beside, bank(tmp_path, Member("a"), Member("b"), beside=beside) as opened:
        caller = ModernCaller(opened.url, http)
        listed = await caller.request("tools/list")
        called = await caller.call("bank__get_balance")

    names = ["bank__get_balance", "bank__send_money", "bank__delete_account", "other__get_balance"]
    assert sorted(one["name"] for one in listed.result["tools"]) == sorted(names)
    assert called.text in ("by a", "by b")
    assert other.seen == []


# How calls are shared.


@pytest.mark.parametrize(
    ("group", "shares"),
    [
        ({"strategy": "round-robin"}, [6, 6]),
        ({"strategy": "weighted", "weights": {"a": 75, "b": 25}}, [9, 3]),
        ({"strategy": "failover-only", "priorities": {"a": 2, "b": 1}}, [0, 12]),
    ],
    ids=["round-robin", "weighted", "failover-only"],
)
async def test_calls_are_shared_as_the_strategy_says(
    tmp_path: Path, http: aiohttp.ClientSession, group: Json, shares: list[int]
) -> None:
    a, b = Member("a"), Member("b")
    async with bank(tmp_path, a, b, **group) as opened:
        caller = ModernCaller(opened.url, http)
        answers = Counter([(await caller.call("get_balance")).text for _ in range(12)])

    assert seen(a, b) == shares
    assert [answers["by a"], answers["by b"]] == shares


async def test_the_least_loaded_server_is_not_the_one_that_is_busy(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b")
    async with bank(tmp_path, a, b, strategy="least-loaded") as opened, asyncio.TaskGroup() as group:
        caller = ModernCaller(opened.url, http)
        a.free.clear()
        b.free.clear()
        waiting = group.create_task(caller.call("get_balance"))
        await until(lambda: sum(seen(a, b)) == 1)
        busy, idle = (a, b) if a.seen else (b, a)
        idle.free.set()
        for _ in range(5):
            assert (await caller.call("get_balance")).text == f"by {idle.name}"
        busy.free.set()

    assert waiting.result().text == f"by {busy.name}"
    assert seen(busy, idle) == [1, 5]


async def test_what_a_full_server_does_not_take_another_does(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b")
    async with serving(a, b) as servers:
        servers["a"] |= {"concurrency": 1}
        sections: Json = {
            "groups": {"bank": {"servers": ["a", "b"], "strategy": "failover-only", "priorities": {"b": 1}}},
            "batcher": {"max_queue": 0},
        }
        async with gateway(tmp_path, servers, sections=sections) as opened, asyncio.TaskGroup() as group:
            caller = ModernCaller(opened.url, http)
            a.free.clear()
            waiting = group.create_task(caller.call("send_money"))
            await until(lambda: a.seen)
            second = await caller.call("send_money")
            a.free.set()

    assert (waiting.result().text, second.text) == ("by a", "by b")


async def test_weights_of_nothing_are_equal_weights(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b")
    async with bank(tmp_path, a, b, strategy="weighted", weights={"a": 0, "b": 0}) as opened:
        answers = [(await ModernCaller(opened.url, http).call("get_balance")).text for _ in range(4)]

    assert len(answers) == sum(seen(a, b)) == 4


async def test_a_tool_that_one_server_has_goes_there(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b", tools=(*TOOLS, tool("close_books")))
    async with bank(tmp_path, a, b, strategy="round-robin") as opened:
        caller = ModernCaller(opened.url, http)
        answers = [(await caller.call("close_books")).text for _ in range(4)]

    assert answers == ["by b"] * 4
    assert a.seen == []


@pytest.mark.parametrize(
    "strategy", ["round-robin", "least-loaded", "capability-based", "affinity", "priority", "random", "weighted"]
)
async def test_every_strategy_finds_a_server_for_every_call(
    tmp_path: Path, http: aiohttp.ClientSession, strategy: str
) -> None:
    a, b = Member("a"), Member("b")
    async with bank(tmp_path, a, b, strategy=strategy) as opened:
        caller = ModernCaller(opened.url, http)
        names = ["get_balance", "send_money", "delete_account"]
        answers = {(await caller.call(name)).text for name in names for _ in range(3)}

    assert answers <= {"by a", "by b"}
    assert sum(seen(a, b)) == 9


async def test_tools_of_a_category_go_where_it_is_at_home(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    told, marked = tool("refund_invoice"), tool("ring_bell")
    a, b = Member("a", tools=(told, marked, READS)), Member("b", tools=(told, marked, READS))
    router = {"category_mapping": {"payment": ["b"], "noise": ["a"]}}
    async with serving(a, b) as servers:
        servers["a"] |= {"tools": {"ring_bell": {"category": "noise"}}}
        sections: Json = {"groups": {"bank": {"servers": ["a", "b"], "strategy": "round-robin"}}, "router": router}
        async with gateway(tmp_path, servers, sections=sections) as opened:
            caller = ModernCaller(opened.url, http)
            for name in ("refund_invoice", "ring_bell", "get_balance"):
                for _ in range(4):
                    await caller.call(name)

    assert Counter(a.seen) == {"ring_bell": 4, "get_balance": 2}
    assert Counter(b.seen) == {"refund_invoice": 4, "get_balance": 2}


async def test_a_session_stays_with_its_server(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    router = {"enable_affinity": True}
    async with bank(tmp_path, Member("a"), Member("b"), strategy="round-robin", router=router) as opened:
        callers = [await LegacyCaller(opened.url, http).open() for _ in range(4)]
        served = [[(await caller.call("get_balance")).text for _ in range(3)] for caller in callers]
        later = [(await caller.call("get_balance")).text for caller in callers]

    assert [len({*answers, last}) for answers, last in zip(served, later, strict=True)] == [1] * 4
    assert Counter(later) == {"by a": 2, "by b": 2}


async def test_a_user_stays_with_one_server_whatever_it_connects_with(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    tokens = {"ana": "ana-token-0123456789", "bob": "bob-token-0123456789"}
    sections = {"groups": {"bank": {"servers": ["a", "b"], "strategy": "affinity"}}}
    async with (
        serving(Member("a"), Member("b")) as servers,
        gateway(tmp_path, servers, sections=sections, users=tokens) as opened,
    ):
        served = {
            user: {(await ModernCaller(opened.url, http, token=token).call("get_balance")).text for _ in range(3)}
            for user, token in tokens.items()
        }

    assert [len(answers) for answers in served.values()] == [1, 1]
    assert served["ana"] != served["bob"]


# One server fails.


@pytest.mark.parametrize("name", ["get_balance", "send_money", "delete_account"])
async def test_what_never_reached_a_server_that_is_gone_is_done_by_another(
    tmp_path: Path, http: aiohttp.ClientSession, name: str
) -> None:
    a, b = Member("a"), Member("b")
    async with bank(tmp_path, a, b, strategy="failover-only", priorities={"b": 1}) as opened:
        caller = ModernCaller(opened.url, http)
        before = await caller.call("get_balance")
        await a.stop()
        after = await caller.call(name)

    assert (before.text, after.text) == ("by a", "by b")
    assert b.seen == [name]


async def test_a_server_that_never_came_up_costs_no_call(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    sections: Json = {"groups": {"bank": {"servers": ["gone", "b"], "strategy": "round-robin"}}}
    async with serving(Member("b")) as servers:
        servers = {"gone": {"command": "no-such-program"}, **servers}
        async with gateway(tmp_path, servers, sections=sections) as opened:
            caller = ModernCaller(opened.url, http)
            answers = {(await caller.call("send_money")).text for _ in range(6)}

    assert answers == {"by b"}


async def test_a_read_that_failed_is_answered_by_another_server(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b")
    a.fails = lambda: True
    async with bank(tmp_path, a, b, strategy="failover-only", priorities={"b": 1}) as opened:
        answer = await ModernCaller(opened.url, http).call("get_balance")

    assert answer.text == "by b"
    assert seen(a, b) == [1, 1]


@pytest.mark.parametrize("name", ["send_money", "delete_account"])
async def test_a_write_that_may_have_happened_is_not_done_again(
    tmp_path: Path, http: aiohttp.ClientSession, name: str
) -> None:
    a, b = Member("a"), Member("b")
    a.fails = lambda: True
    async with bank(tmp_path, a, b, strategy="failover-only", priorities={"b": 1}) as opened:
        answer = await ModernCaller(opened.url, http).call(name)

    assert answer.error["code"] == -32000
    assert seen(a, b) == [1, 0]


@pytest.mark.parametrize(("name", "again"), [("get_balance", True), ("send_money", False)])
async def test_a_server_that_does_not_answer_in_time_is_followed_by_another_only_in_reads(
    tmp_path: Path, http: aiohttp.ClientSession, name: str, again: bool
) -> None:
    a, b = Member("a"), Member("b")
    async with serving(a, b) as servers:
        servers["a"] |= {"timeout": 1.0}
        group = {"servers": ["a", "b"], "strategy": "failover-only", "priorities": {"b": 1}}
        async with gateway(tmp_path, servers, sections={"groups": {"bank": group}}) as opened:
            a.free.clear()
            answer = await ModernCaller(opened.url, http).call(name)
            a.free.set()

    assert seen(a, b) == [1, int(again)]
    assert answer.text == "by b" if again else answer.error["code"] == -32001


def tellers(folder: Path, http: aiohttp.ClientSession) -> AbstractAsyncContextManager[Till]:
    """A gateway before a group of two processes that write their calls into a file."""
    servers = {name: teller(folder, name) for name in ("a", "b")}
    return till(folder, http, servers, groups={"bank": {"servers": ["a", "b"], "strategy": "round-robin"}})


async def test_a_crash_is_survived_by_what_may_be_repeated_and_by_nothing_else(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with tellers(tmp_path, http) as at:
        repeated = await at.modern().call("crash_at_first", {"key": "k", "times": 1})
        paid = await at.modern().call("crash_after_payment", {"account": "x"})

    first, second, *rest = at.calls()
    assert first[0] != second[0]
    assert repeated.text.endswith(f"by {second[0]}")
    assert "look before you repeat it" in paid.error["message"]
    assert [line[2:] for line in rest] == ["crash_after_payment x"]


async def test_what_a_tool_calls_a_failure_is_an_answer_and_not_tried_elsewhere(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with tellers(tmp_path, http) as at:
        answer = await at.modern().call("get_wrong", {"account": "x"})
        refused = await at.modern().call("get_refused", {"account": "x"})
        standing = [at.hub.relay.group_of(name)["health"] for name in ("a", "b")]

    assert answer.result["isError"] is True
    assert refused.error["code"] == -32602
    assert [line[2:] for line in at.calls()] == ["get_wrong x", "get_refused x"]
    assert standing == ["well", "well"]


async def test_right_after_a_start_a_call_waits_for_a_server_that_was_known_before(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {name: faulty("--start", "slow") for name in ("a", "b")}
    config = make_config(tmp_path, servers, sections={"groups": {"bank": {"servers": ["a", "b"]}}})
    async with open_gateway(config) as opened:
        await opened.hub.ready(10)
    async with open_gateway(config) as opened:
        await until(lambda: opened.hub.snapshot.tools)
        states = {view.state.value for view in opened.hub.servers()}
        answer = await ModernCaller(opened.url, http).call("echo", {"text": "hello"})

    assert states == {"starting"}
    assert answer.text == "hello"


# Ejected, and back.


async def test_five_failures_in_a_row_eject_a_server_and_one_good_call_brings_it_back(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b = Member("a"), Member("b")
    a.fails = lambda: True
    group: Json = {"strategy": "failover-only", "priorities": {"b": 1}, "router": {"eject_seconds": 1.5}}
    async with bank(tmp_path, a, b, **group) as opened:
        caller = ModernCaller(opened.url, http)
        health: list[str] = []
        for _ in range(5):
            health.append(opened.hub.relay.group_of("a")["health"])
            assert (await caller.call("get_balance")).text == "by b"
        ejected = opened.hub.relay.group_of("a")
        answers = [(await caller.call("get_balance")).text for _ in range(3)]
        passed_by = len(a.seen)
        await until(lambda: opened.hub.relay.group_of("a")["health"] == "half-open")
        a.fails = lambda: False
        back = [(await caller.call("get_balance")).text for _ in range(2)]
        at_last = opened.hub.relay.group_of("a")

    assert health == ["well"] * 5
    assert ejected == {"name": "bank", "health": "ejected"}
    assert answers == ["by b"] * 3
    assert passed_by == 5
    assert back == ["by a", "by a"]
    assert at_last["health"] == "well"


async def test_a_probe_that_fails_costs_the_caller_nothing_and_ejects_for_longer(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b = Member("a"), Member("b")
    a.fails = lambda: True
    group: Json = {"strategy": "failover-only", "priorities": {"b": 1}, "router": {"eject_seconds": 0.3}}
    async with bank(tmp_path, a, b, **group) as opened:
        caller = ModernCaller(opened.url, http)
        for _ in range(5):
            await caller.call("get_balance")
        await until(lambda: opened.hub.relay.group_of("a")["health"] == "half-open")
        probed = await caller.call("get_balance")
        again = opened.hub.relay.group_of("a")["health"]

    assert probed.text == "by b"
    assert len(a.seen) == 6
    assert again == "ejected"


async def test_a_write_may_be_the_probe_and_is_still_done_at_most_once(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b = Member("a"), Member("b")
    a.fails = lambda: True
    group: Json = {"strategy": "failover-only", "priorities": {"b": 1}, "router": {"eject_seconds": 0.3}}
    async with bank(tmp_path, a, b, **group) as opened:
        caller = ModernCaller(opened.url, http)
        for _ in range(5):
            await caller.call("get_balance")
        await until(lambda: opened.hub.relay.group_of("a")["health"] == "half-open")
        await caller.call("send_money")

    assert (a.seen + b.seen).count("send_money") == 1


async def test_retries_stay_within_a_fifth_of_the_calls_when_three_attempts_in_ten_fail(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b = Member("a"), Member("b")
    a.fails = b.fails = lambda: sum(seen(a, b)) % 10 in (0, 3, 6)  # too few to eject anybody
    async with bank(tmp_path, a, b, strategy="round-robin", router={"retry_ratio": 0.2}) as opened:
        caller = ModernCaller(opened.url, http)
        heard = [await caller.call("get_balance") for _ in range(300)]

    failed = sum("error" in one.message for one in heard)
    retries = sum(seen(a, b)) - 300
    assert 40 < retries <= 0.2 * 300 + 4, "besides three in any ten seconds, without which nobody could ever retry"
    assert 0 < failed < 90


# Destructive calls.

UNEVEN: Json = {"strategy": "round-robin", "weights": {"a": 60, "b": 10, "c": 50}}


async def test_destructive_calls_go_to_primaries_only(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b, c = Member("a"), Member("b"), Member("c")
    async with bank(tmp_path, a, b, c, **UNEVEN) as opened:
        caller = ModernCaller(opened.url, http)
        for _ in range(6):
            await caller.call("delete_account")
            await caller.call("send_money")

    assert [Counter(one.seen)["delete_account"] for one in (a, b, c)] == [3, 0, 3]
    assert Counter(b.seen)["send_money"] > 0


@pytest.mark.parametrize("fallback", [False, True])
async def test_without_a_primary_that_is_well_a_destructive_call_is_refused_unless_you_say_otherwise(
    tmp_path: Path, http: aiohttp.ClientSession, fallback: bool
) -> None:
    a, b = Member("a"), Member("b")
    group: Json = {"strategy": "round-robin", "weights": {"a": 60, "b": 10}}
    async with bank(tmp_path, a, b, router={"destructive_fallback": fallback}, **group) as opened:
        caller = ModernCaller(opened.url, http)
        await a.stop()
        destroyed = await caller.call("delete_account")
        read = await caller.call("get_balance")

    assert read.text == "by b"
    if fallback:
        assert destroyed.text == "by b"
    else:
        assert "'a'" in destroyed.error["message"]
        assert "delete_account" not in b.seen


# What is no tool.


async def test_prompts_resources_and_completions_are_shared_by_those_who_have_them(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a = Member("a", prompts=("greet",), resources=("note://both",))
    b = Member("b", prompts=("greet",), resources=("note://both",))
    async with bank(tmp_path, a, b, strategy="round-robin") as opened:
        caller = ModernCaller(opened.url, http)
        prompts = {str((await caller.request("prompts/get", {"name": "greet"})).result) for _ in range(4)}
        read = {str((await caller.request("resources/read", {"uri": "note://both"})).result) for _ in range(4)}
        ref: Json = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "x", "value": ""}}
        completed = {str((await caller.request("completion/complete", ref)).result) for _ in range(4)}

    assert [len(prompts), len(read), len(completed)] == [2, 2, 2]


async def test_what_is_no_tool_goes_to_a_server_that_has_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a = Member("a", prompts=("greet",), resources=("note://both",))
    b = Member(
        "b", prompts=("greet", "part"), resources=("note://both", "note://b"), templates=("user://{id}", "mail://{id}")
    )
    async with bank(tmp_path, a, b, strategy="round-robin") as opened:
        caller = ModernCaller(opened.url, http)
        for _ in range(3):
            prompt = await caller.request("prompts/get", {"name": "part"})
            listed = await caller.request("resources/read", {"uri": "note://b"})
            made = await caller.request("resources/read", {"uri": "user://7"})
            ref: Json = {"ref": {"type": "ref/resource", "uri": "mail://{id}"}, "argument": {"name": "id", "value": ""}}
            completed = await caller.request("completion/complete", ref)

            assert prompt.result["messages"][0]["content"]["text"] == "by b"
            assert listed.result["contents"][0]["text"] == made.result["contents"][0]["text"] == "by b"
            assert completed.result["completion"]["values"] == ["b"]

    assert a.seen == []


async def test_reads_of_resources_and_prompts_survive_a_server_that_fails(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a = Member("a", prompts=("greet",), resources=("note://both",))
    b = Member("b", prompts=("greet",), resources=("note://both",))
    a.fails = lambda: True
    async with bank(tmp_path, a, b, strategy="failover-only", priorities={"b": 1}) as opened:
        caller = ModernCaller(opened.url, http)
        prompt = await caller.request("prompts/get", {"name": "greet"})
        read = await caller.request("resources/read", {"uri": "note://both"})

    assert prompt.result["messages"][0]["content"]["text"] == "by b"
    assert read.result["contents"][0]["text"] == "by b"


async def test_a_resource_of_a_group_can_be_followed(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    a, b = Member("a"), Member("b", resources=("note://b",))
    async with bank(tmp_path, a, b) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.listen() as events:
            followed = await caller.request("resources/subscribe", {"uri": "note://b"})
            await until(lambda: b.watchers)
            b.update("note://b")
            heard = await events.next()

    assert followed.result == {}
    assert heard["method"] == "notifications/resources/updated"
    assert heard["params"]["uri"] == "note://b"


# Questions.


@asynccontextmanager
async def shops(
    folder: Path, http: aiohttp.ClientSession, era: str, **options: Any
) -> AsyncGenerator[tuple[Gateway, Path]]:
    """A gateway before a group of two servers that ask, and the file in which they do what they are told."""
    sections: Json = {"groups": {"shop": {"servers": ["a", "b"], "strategy": "round-robin"}}}
    with asking(era, "stdio", folder / "a") as a, asking(era, "stdio", folder / "b") as b:
        async with gateway(folder / "home", {"a": a, "b": b}, sections=sections, **options) as opened:
            yield opened, folder / "done"


def calls_in(log: Path) -> list[str]:
    """The tools that a server was called by, in order."""
    return [line.split()[2] for line in log.read_text().splitlines() if line.startswith("call ")]


@pytest.mark.parametrize("caller", ["modern", "legacy"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", ["order", "twice", "both"])
async def test_an_answer_goes_back_to_the_server_that_asked(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, era: str, name: str
) -> None:
    async with shops(tmp_path, http, era) as (opened, done):
        modern = ModernCaller(opened.url, http)
        legacy = await LegacyCaller(opened.url, http, capabilities=EVERYTHING).open()
        talker = Talker(modern if caller == "modern" else legacy, EVERYTHING)
        told = [await talker.call(name, {"item": f"tea{at}", "file": str(done)}, yes) for at in range(4)]

    assert [one.text for one in told] == [f"ordered tea{at}" for at in range(4)]
    assert done.read_text().split() == [f"tea{at}" for at in range(4)]
    assert len(calls_in(tmp_path / "a")) == len(calls_in(tmp_path / "b")) > 0


async def test_a_state_belongs_to_its_user_in_a_group_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    users = {"ana": "ana-token-0123456789", "bob": "bob-token-0123456789"}
    async with shops(tmp_path, http, "modern", users=users) as (opened, done):
        ana, bob = (ModernCaller(opened.url, http, token=token) for token in users.values())
        arguments = {"item": "tea", "file": str(done)}
        state = (await ask(ana, "order", arguments)).result["requestState"]
        foreign = await retry(bob, "order", arguments, state, {"confirm": ACCEPT})
        own = await retry(ana, "order", arguments, state, {"confirm": ACCEPT})

    assert foreign.error["code"] == -32602
    assert own.text == "ordered tea"


@pytest.mark.parametrize(
    "changed",
    [
        "trunkline-group:nobody:OWN",
        'STATE","name":"visit',
        'STATE", "arguments": {}, "x": "',
        "trunkline-group:",
        "trunkline-group:a",
        "trunkline-group:a:{",
        "OWN",
        "",
        "trunkline-group:a:OWNx",
    ],
)
async def test_a_state_that_was_tampered_with_changes_nothing_but_itself(
    tmp_path: Path, http: aiohttp.ClientSession, changed: str
) -> None:
    async with shops(tmp_path, http, "modern") as (opened, done):
        caller = ModernCaller(opened.url, http)
        arguments = {"item": "tea", "file": str(done)}
        state = (await ask(caller, "order", arguments)).result["requestState"]
        forged = changed.replace("STATE", state).replace("OWN", state.rpartition(":")[2])
        answer = await retry(caller, "order", arguments, forged, {"confirm": ACCEPT})
        again = await retry(caller, "order", arguments, state, {"confirm": ACCEPT})

    assert answer.error["code"] == -32602
    assert {*calls_in(tmp_path / "a"), *calls_in(tmp_path / "b")} == {"order"}
    assert again.text == "ordered tea"


async def test_a_state_that_no_server_gave_out_does_not_make_a_legacy_server_act(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    sections: Json = {"groups": {"shop": {"servers": ["a", "b"], "strategy": "round-robin"}}}
    with asking("modern", "stdio", tmp_path / "a") as a, asking("legacy", "stdio", tmp_path / "b") as b:
        async with gateway(tmp_path / "home", {"a": a, "b": b}, sections=sections) as opened:
            caller = ModernCaller(opened.url, http)
            heard = [await retry(caller, "later", {"after": str(tmp_path)}, "made-up", {}) for _ in range(2)]

    assert [one.error["code"] for one in heard] == [-32602, -32602]
    assert calls_in(tmp_path / "b") == []


async def test_servers_with_odd_names_get_their_states_back(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    names = ["a:1", "a:2"]
    sections: Json = {"groups": {"shop": {"servers": names, "strategy": "round-robin"}}}
    with asking("modern", "stdio", tmp_path / "a") as one, asking("modern", "stdio", tmp_path / "b") as two:
        servers = dict(zip(names, (one, two), strict=True))
        async with gateway(tmp_path / "home", servers, sections=sections) as opened:
            talker = Talker(ModernCaller(opened.url, http), EVERYTHING)
            arguments = {"item": "tea", "file": str(tmp_path / "done")}
            told = [await talker.call("order", arguments, yes) for _ in range(2)]

    assert [one.text for one in told] == ["ordered tea"] * 2


async def test_what_somebody_was_asked_for_in_python_is_not_kept(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with shops(tmp_path, http, "modern") as (opened, done):
        servers = {
            name: dataclasses.replace(spec, tools={"order": ToolOptions(cache_ttl=60.0)})
            for name, spec in opened.hub.config.servers.items()
        }
        cache = dataclasses.replace(opened.hub.config.cache, enabled=True)
        await opened.hub.apply(dataclasses.replace(opened.hub.config, servers=servers, cache=cache))
        opened.hub.elicitation.register_handler(lambda request: {"sure": True})
        for _ in range(3):
            await opened.hub.call("order", {"item": "tea", "file": str(done)})

    assert done.read_text().split() == ["tea"] * 3


# The configuration changes.


async def test_a_server_comes_and_goes_and_the_others_of_its_group_are_not_touched(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b, c = Member("a"), Member("b"), Member("c")
    async with serving(a, b, c) as servers:

        def config(*members: str) -> Any:
            sections: Json = {"groups": {"bank": {"servers": list(members), "strategy": "round-robin"}}}
            return make_config(tmp_path, {name: servers[name] for name in members}, sections=sections)

        async with gateway(
            tmp_path, {n: servers[n] for n in "ab"}, sections={"groups": {"bank": {"servers": ["a", "b"]}}}
        ) as opened:
            caller = ModernCaller(opened.url, http)
            added = await opened.hub.apply(config("a", "b", "c"))
            await opened.hub.ready(5)
            with_c = {(await caller.call("get_balance")).text for _ in range(6)}
            removed = await opened.hub.apply(config("a", "c"))
            without_b = {(await caller.call("get_balance")).text for _ in range(6)}
            listed = await caller.request("tools/list")

    assert (added, removed) == (["added c"], ["removed b"])
    assert with_c == {"by a", "by b", "by c"}
    assert without_b == {"by a", "by c"}
    assert [one.introductions for one in (a, b, c)] == [1, 1, 1]
    assert [one["name"] for one in listed.result["tools"]] == ["get_balance", "send_money", "delete_account"]


async def test_a_change_elsewhere_leaves_the_standing_of_a_group_as_it_was(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    a, b, other = Member("a"), Member("b"), Member("other")
    a.fails = lambda: True
    sections: Json = {
        "groups": {"bank": {"servers": ["a", "b"], "strategy": "failover-only", "priorities": {"b": 1}}},
        "router": {"eject_after": 1, "eject_seconds": 60},
    }
    async with serving(a, b, other) as servers:
        two = {name: servers[name] for name in ("a", "b")}
        async with gateway(tmp_path, two, sections=sections) as opened:
            await ModernCaller(opened.url, http).call("get_balance")
            await opened.hub.apply(make_config(tmp_path, servers, sections=sections))
            after = opened.hub.relay.group_of("a")
            servers["a"] = {**servers["a"], "timeout": 3.0}
            await opened.hub.apply(make_config(tmp_path, servers, sections=sections))
            changed = opened.hub.relay.group_of("a")

    assert after["health"] == "ejected"
    assert changed["health"] == "well"


async def test_what_is_said_of_a_tool_counts_whichever_server_of_the_group_is_there(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    sections: Json = {"groups": {"bank": {"servers": ["a", "b"]}}}
    async with serving(Member("b", tools=(WRITES,))) as servers:
        marked = {"command": "no-such-program", "tools": {"send_money": {"requires_confirmation": True}}}
        async with gateway(tmp_path, {"a": marked, **servers}, sections=sections) as opened:
            answer = await ModernCaller(opened.url, http).call("send_money")

    assert answer.result["isError"] is True
    assert "nobody can be asked" in answer.text
