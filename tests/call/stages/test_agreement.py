"""A person agrees to the calls that the configuration names: once, in time, to this call alone; or nothing is done."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.call.stages.people import CALLERS, End, Person, use
from tests.call.stages.till import Json, Till, able, answer, asked, ledger, marked, teller, till
from tests.harness import Heard, gateway, until
from trunkline.questions.kinds import Elicitation

RENT: Json = {"account": "rent"}
MARKED: Json = {"requires_confirmation": True}
YES: Json = {"action": "accept", "content": {"confirmed": True}}
TOOLS = ("get_balance", "send_money", "delete_account")
AGREEMENT = "requires confirmation"


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("marked", {}, []),
        ("marked", {"get_*": MARKED}, ["get_balance"]),
        ("marked", {"*": MARKED, "get_balance": {"requires_confirmation": False}}, ["send_money", "delete_account"]),
        ("destructive", {}, ["delete_account"]),
        ("destructive", {"delete_*": {"requires_confirmation": False}}, []),
        ("destructive", {"send_money": {"destructive_hint": True}}, ["send_money", "delete_account"]),
        ("writes", {}, ["send_money", "delete_account"]),
        ("writes", {"send_money": {"read_only_hint": True}}, ["delete_account"]),
        ("never", {"*": MARKED}, []),
    ],
)
async def test_a_person_agrees_to_the_calls_that_the_configuration_names(
    tmp_path: Path, http: aiohttp.ClientSession, mode: str, options: Json, expected: list[str]
) -> None:
    servers = {"till": teller(tmp_path, tools=options)}
    async with till(tmp_path, http, servers, middleware={"confirm": mode}) as at:
        for caller, tool in itertools.product(CALLERS, TOOLS):
            person = Person()
            end = await use(at, caller, person, tool, RENT)

            assert not end.failed
            assert len(person.heard) == (tool in expected), (caller, tool)
            assert all(AGREEMENT in question and tool in question for question in person.heard)
        known = {tool: at.hub.annotations(tool) for tool in TOOLS}
    assert [tool for tool, shown in known.items() if shown and shown.requires_confirmation] == expected
    assert at.calls() == [f"till {tool} rent" for _ in CALLERS for tool in TOOLS]


@pytest.mark.parametrize(("mode", "times"), [("marked", 1), ("destructive", 1), ("writes", 1), ("never", 0)])
async def test_what_a_server_marks_is_asked_about(
    tmp_path: Path, http: aiohttp.ClientSession, mode: str, times: int
) -> None:
    hints = {"readOnlyHint": True, "requiresConfirmation": True}
    servers = {"till": teller(tmp_path, more=[{"name": "get_secret", "inputSchema": {}, "annotations": hints}])}
    person = Person()
    async with till(tmp_path, http, servers, middleware={"confirm": mode}) as at:
        end = await use(at, CALLERS[0], person, "get_secret", {})
        shown = at.hub.annotations("get_secret")

    assert not end.failed
    assert len(person.heard) == times
    assert shown is not None
    assert (shown.requires_confirmation is True) == bool(times)


async def test_a_call_of_a_real_server_waits_for_agreement(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": ledger(tmp_path)}
    async with till(tmp_path, http, servers, middleware={"confirm": "destructive"}) as at:
        await until(lambda: at.hub.snapshot.tools, 60)
        for caller in CALLERS:
            refused = await use(at, caller, Person("no"), "delete_account", {"account": caller})
            before = at.calls(caller)
            agreed = await use(at, caller, Person("yes"), "delete_account", {"account": caller})

            assert refused.text == "Operation cancelled by user"
            assert before == []
            assert agreed.text == "deleted 1 times by till"


async def test_without_anybody_to_ask_nothing_is_done(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        ends = [await use(at, caller, None, "send_money", RENT) for caller in CALLERS]

    assert all(end.failed and "nobody can be asked" in end.text for end in ends)
    assert at.calls() == []


OTHER_WAYS: list[Json] = [{"elicitation": {"url": {}}}, {"sampling": {}}, {"roots": {}}]


async def test_a_caller_that_is_asked_in_other_ways_cannot_agree(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        for capabilities in OTHER_WAYS:
            heard = await at.modern().call("send_money", RENT, meta=able(capabilities))
            assert heard.text.startswith("Operation cancelled")

    assert at.calls() == []


async def test_a_legacy_caller_is_asked_on_the_stream_of_its_call(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        caller = await at.legacy({"elicitation": {}})
        async with caller.stream("tools/call", {"name": "send_money", "arguments": RENT}) as events:
            question = await events.next()
            assert await caller.answer(question["id"], YES) == 202
            end = await events.next()

    assert question["method"] == "elicitation/create"
    assert "rent" not in question["params"]["message"]
    assert "account" in question["params"]["message"]
    assert "by till" in end["result"]["content"][0]["text"]


async def test_a_legacy_caller_that_reads_no_stream_cannot_agree(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        caller = await at.legacy({"elicitation": {}})
        caller.headers["accept"] = "application/json"
        heard = await caller.call("send_money", RENT)

    assert heard.text == "Operation cancelled by user"
    assert at.calls() == []


async def test_anything_but_a_yes_means_no(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        for caller, way in itertools.product(CALLERS, ["no", "decline", "cancel"]):
            person = Person(way)
            end = await use(at, caller, person, "send_money", RENT)

            assert end == End("Operation cancelled by user", failed=True), (caller, way)
            assert len(person.heard) == 1
    assert at.calls() == []


ODD: list[Any] = [
    {},
    {"action": "accept"},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": {"confirmed": "true"}},
    {"action": "accept", "content": {"confirmed": 1}},
    {"action": "accept", "content": [True]},
    {"action": "ACCEPT", "content": {"confirmed": True}},
    {"error": {"code": -32603, "message": "broken"}},
    None,
    True,
]


async def test_an_odd_answer_is_not_a_yes(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        for given in ODD:
            heard = await at.modern().call("send_money", RENT, meta=able())
            end = await answer(at.modern(), "send_money", RENT, heard, given)

            assert end.text == "Operation cancelled by user", given
    assert at.calls() == []


async def test_a_yes_to_another_question_is_none_to_this(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        for other in ("", "confirmed", "no-such-question"):
            heard = await at.modern().call("send_money", RENT, meta=able())
            params = {"name": "send_money", "arguments": RENT, "requestState": heard.result["requestState"]}
            end = await at.modern().request("tools/call", {**params, "inputResponses": {other: YES}}, meta=able())

            assert end.text == "Operation cancelled by user"
    assert at.calls() == []


@pytest.mark.parametrize("caller", ["modern", "legacy"])
async def test_a_yes_that_comes_too_late_is_none(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline.tools")
    middleware = {"confirm_timeout": 0.1, "logging": True}
    async with till(tmp_path, http, marked(tmp_path, "send_money"), middleware=middleware) as at:
        if caller == "modern":
            heard = await at.modern().call("send_money", RENT, meta=able())
            await until(lambda: "outcome=cancelled" in caplog.text)
            text = (await answer(at.modern(), "send_money", RENT, heard, YES)).text
        else:
            made = await at.legacy({"elicitation": {}})
            async with made.stream("tools/call", {"name": "send_money", "arguments": RENT}) as events:
                question = await events.next()
                await until(lambda: "outcome=cancelled" in caplog.text)
                await made.answer(question["id"], YES)
                text = (await events.next())["result"]["content"][0]["text"]

    assert text == "Operation cancelled by user"
    assert at.calls() == []


async def test_a_legacy_caller_that_says_nothing_is_told_when_the_time_is_up(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money"), middleware={"confirm_timeout": 0.1}) as at:
        caller = await at.legacy({"elicitation": {}})
        async with caller.stream("tools/call", {"name": "send_money", "arguments": RENT}) as events:
            await events.next()
            end = await events.next()

    assert end["result"]["isError"]
    assert at.calls() == []


async def test_a_handler_in_python_that_never_answers_means_no(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def never(request: Elicitation) -> object:
        return await asyncio.get_running_loop().create_future()

    async with till(tmp_path, http, marked(tmp_path, "send_money"), middleware={"confirm_timeout": 0.1}) as at:
        at.hub.elicitation.register_handler(never)
        result = await at.hub.call("send_money", RENT)

    assert result.text == "Operation cancelled by user"
    assert at.calls() == []


async def test_a_caller_that_never_comes_back_is_given_up(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = marked(tmp_path, "send_money")
    async with gateway(tmp_path / "home", servers, question_timeout=0.2) as opened:
        at = Till(opened, http, tmp_path)
        heard = await at.modern().call("send_money", RENT, meta=able())
        await until(lambda: all(task.get_name() != "call send_money" for task in asyncio.all_tasks()))
        late = await answer(at.modern(), "send_money", RENT, heard, YES)

    assert late.status == 400
    assert at.calls() == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_person_is_asked_once_by_us_and_once_by_the_server(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    async with till(tmp_path, http, marked(tmp_path, "paint", era=era)) as at:
        for caller in CALLERS:
            person = Person(knows={"colour": caller})
            end = await use(at, caller, person, "paint", {"key": "door"})

            assert end == End(f"door is {caller}")
            assert [AGREEMENT in question for question in person.heard] == [True, False]
    assert at.calls(" in ") == [f"till paint in {caller}" for caller in CALLERS]


@pytest.mark.parametrize("caller", CALLERS)
async def test_a_person_is_asked_once_however_often_the_call_is_tried(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str
) -> None:
    middleware = {"retries": 1, "retry_delay": 0.01}
    async with till(tmp_path, http, marked(tmp_path, "crash_at_first"), middleware=middleware) as at:
        person = Person()
        end = await use(at, caller, person, "crash_at_first", {"key": "k", "times": 2})

    assert "by till" in end.text
    assert len(person.heard) == 1
    assert len(at.calls()) == 3


async def test_a_call_whose_server_died_after_asking_is_tried_anew(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    """What was answered went with the server, which therefore asks again; our own question stays answered."""
    more: Json = {"paint": {**MARKED, "idempotent_hint": True}}
    servers = {"till": teller(tmp_path, era="legacy", tools=more)}
    killed: list[int] = []
    async with till(tmp_path, http, servers, middleware={"retries": 2, "retry_delay": 0.01}) as at:
        heard: list[str] = []

        async def handler(request: Elicitation) -> object:
            heard.append(request.message)
            if AGREEMENT in request.message:
                return True
            if not killed:
                killed.append(await kill_servers(at))
            return "red"

        at.hub.elicitation.register_handler(handler)
        result = await at.hub.call("paint", {"key": "door"})

    assert killed[0] > 0
    assert result.text == "door is red"
    assert [AGREEMENT in question for question in heard] == [True, False, False]
    assert at.calls(" in ") == ["till paint in red"]


async def kill_servers(at: Till) -> int:
    """End every process of the server itself, not one that stands for it, and wait until it is over."""
    written = set((at.folder / "log.pids").read_text().split())
    servers = [one for one in psutil.Process().children(recursive=True) if str(one.pid) in written]
    for one in servers:
        with suppress(psutil.NoSuchProcess):  # one that looked at the list ends by itself
            one.kill()
    await until(lambda: all(is_over(one) for one in servers))
    return len(servers)


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended, noticed by its parent or not."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_tool_that_its_server_does_not_list_is_marked_all_the_same(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, marked(tmp_path, "hidden_*")) as at:
        refused = await at.modern().call("hidden_tool", RENT)
        person = Person()
        agreed = await use(at, "modern", person, "hidden_tool", RENT)
        other = await at.modern().call("another_tool", RENT)

    assert refused.result["isError"]
    assert len(person.heard) == 1
    assert "by till" in agreed.text
    assert "by till" in other.text
    assert len(at.calls("hidden_tool")) == 1


async def test_a_tool_that_its_server_does_not_list_may_be_destructive(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, middleware={"confirm": "destructive"}) as at:
        heard = await at.modern().call("get_hidden", RENT)

    assert heard.result["isError"]
    assert at.calls() == []


async def test_a_new_configuration_may_want_agreement(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": teller(tmp_path)}
    async with till(tmp_path, http, servers) as at:
        before = await use(at, "modern", None, "delete_account", RENT)
        await at.apply(servers, middleware={"confirm": "destructive"})
        after = await use(at, "modern", None, "delete_account", RENT)
        await at.apply(marked(tmp_path, "send_money"))
        marked_now = await use(at, "modern", None, "send_money", RENT)

    assert (before.failed, after.failed, marked_now.failed) == (False, True, True)
    assert at.calls() == ["till delete_account rent"]


# States.


def refused(heard: Heard) -> bool:
    return (heard.status, heard.message.get("error", {}).get("code")) == (400, -32602)


async def test_a_yes_is_good_once(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        heard = await at.modern().call("send_money", RENT, meta=able())
        at_once = await asyncio.gather(*(answer(at.modern(), "send_money", RENT, heard, YES) for _ in range(5)))
        again = await answer(at.modern(), "send_money", RENT, heard, YES)

    assert sorted(one.status for one in at_once) == [200, 400, 400, 400, 400]
    assert refused(again)
    assert len(at.calls()) == 1


async def test_a_yes_is_good_for_the_call_and_the_user_that_it_was_given_for(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money", "delete_account"), users=True) as at:
        ana, bob = at.modern("ana"), at.modern("bob")
        heard = await ana.call("send_money", RENT, meta=able())
        wrong = [
            await answer(bob, "send_money", RENT, heard, YES),
            await answer(ana, "delete_account", RENT, heard, YES),
            await answer(ana, "send_money", {"account": "thief"}, heard, YES),
            await answer(ana, "send_money", {**RENT, "amount": 1000}, heard, YES),
        ]
        before = at.calls()
        right = await answer(ana, "send_money", RENT, heard, YES)

    assert all(refused(one) for one in wrong)
    assert before == []
    assert "by till" in right.text
    assert len(at.calls()) == 1


async def test_a_forged_state_is_no_yes(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        heard = await at.modern().call("send_money", RENT, meta=able())
        state: str = heard.result["requestState"]
        (key,) = asked(heard)
        forged = [state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :] for place in range(4, 40)]
        for one in (*forged, state[:-2], "tl1.", "tl1." + "A" * 60, ""):
            params = {"name": "send_money", "arguments": RENT, "requestState": one, "inputResponses": {key: YES}}
            wrong = await at.modern().request("tools/call", params, meta=able())
            assert refused(wrong), wrong.message
        params = {"name": "send_money", "arguments": RENT, "requestState": "a server's", "inputResponses": {key: YES}}
        assert asked(await at.modern().request("tools/call", params, meta=able()))  # not ours to judge, and no yes
        before = at.calls()
        right = await answer(at.modern(), "send_money", RENT, heard, YES)

    assert before == []
    assert "by till" in right.text


async def test_a_session_does_not_answer_for_another(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money")) as at:
        one, other = [await at.legacy({"elicitation": {}}) for _ in range(2)]
        async with one.stream("tools/call", {"name": "send_money", "arguments": RENT}) as events:
            question = await events.next()
            await other.answer(question["id"], YES)
            await one.answer(question["id"], {"action": "decline"})
            end = await events.next()

    assert end["result"]["isError"]
    assert at.calls() == []
