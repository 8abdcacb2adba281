"""What happens around calls of tools: checks, deadlines, retries, logs, and middleware of one's own."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.people import CALLERS, End, Person, use
from tests.call.stages.till import USERS, Json, able, answer, asked, calls, marked, teller, till
from tests.faulty.stdio_server import EXACT
from tests.harness import ModernCaller, faulty, gateway, make_config, until
from trunkline.call.middleware.chain import CallNext, ToolContext
from trunkline.errors import ServerRefusedError, UpstreamError, UpstreamTimeoutError
from trunkline.hub import open_hub
from trunkline.tool import Tool, ToolResult

RENT: Json = {"account": "rent"}
MARKED: Json = {"requires_confirmation": True}
YES: Json = {"action": "accept", "content": {"confirmed": True}}
AGREEMENT = "requires confirmation"


async def test_a_call_that_no_middleware_concerns_does_not_enter_any(tmp_path: Path) -> None:
    config = make_config(tmp_path / "home", {"till": teller(tmp_path, tools={"get_*": {"validate": True}})})
    async with open_hub(config) as hub:
        await hub.ready(10)
        with pytest.raises(UpstreamError) as caught:
            await hub.call("crash_after_payment", RENT)

    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.endswith("call/stages/send.py") for file in files)
    assert not any("call/middleware/" in file or file.endswith("call/suspended.py") for file in files)


# Checks of arguments.


async def test_arguments_that_do_not_fit_are_named_and_never_told(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    wrong: Json = {"account": ["canary-1"], "amount": "canary-2"}
    async with till(tmp_path, http, middleware={"validate": True}) as at:
        for caller in CALLERS:
            end = await use(at, caller, None, "send_money", wrong)
            missing = await use(at, caller, None, "send_money", {"amount": 1})
            right = await use(at, caller, None, "send_money", RENT)

            assert "'account'" in end.error
            assert "'amount'" in end.error
            assert "canary" not in end.error
            assert "'account' is missing" in missing.error
            assert "by till" in right.text
    assert at.calls() == ["till send_money rent"] * 3


@pytest.mark.parametrize(
    ("everybody", "options", "checked"),
    [
        (False, {}, []),
        (True, {}, ["send_money", "get_balance"]),
        (False, {"send_*": {"validate": True}}, ["send_money"]),
        (True, {"*_money": {"validate": False}}, ["get_balance"]),
    ],
)
async def test_each_tool_may_be_checked_or_not(
    tmp_path: Path, http: aiohttp.ClientSession, everybody: bool, options: Json, checked: list[str]
) -> None:
    servers = {"till": teller(tmp_path, tools=options)}
    async with till(tmp_path, http, servers, middleware={"validate": everybody}) as at:
        for tool in ("send_money", "get_balance"):
            heard = await at.modern().call(tool, {"account": 5})

            assert ("error" in heard.message) == (tool in checked)


async def test_nobody_is_asked_to_agree_to_what_cannot_be_called(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, marked(tmp_path, "send_money"), middleware={"validate": True}) as at:
        person = Person()
        end = await use(at, "modern", person, "send_money", {"account": 5})

    assert "'account'" in end.error
    assert person.heard == []


def hostile(**schema: Any) -> Json:
    return {"type": "object", **schema}


HOSTILE: dict[str, tuple[Json, Json, bool]] = {
    "far": (hostile(properties={"x": {"$ref": "http://127.0.0.1:@port@/schema"}}), {"x": 1}, False),
    "file": (hostile(properties={"x": {"$ref": "file:///etc/passwd"}}), {"x": 1}, False),
    "wide": (hostile(anyOf=[{"required": [f"a{n}"]} for n in range(11_000)]), {"x": 1}, False),
    "bomb": (
        hostile(
            **{"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}}},
            properties={"x": {"$ref": "#/$defs/d0"}},
        ),
        {"x": 1},
        False,
    ),
    "deep": (json.loads('{"not":' * 150 + "{}" + "}" * 150), {"x": 1}, False),
    "broken": (hostile(properties={"x": {"type": "nonsense"}}), {"x": 1}, False),
    "itself": (hostile(properties={"x": {"$ref": "#"}}), {"x": {"x": {}}}, True),
    "slow": (hostile(properties={"x": {"pattern": "^(a+)+$"}}), {"x": "a" * 5_000 + "!"}, False),
    "looks": (hostile(properties={"x": {"pattern": "^(?=(a+)+$)a"}}), {"x": "a" * 50 + "!"}, True),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_tool_with_a_hostile_schema_is_out_and_holds_up_nobody(
    tmp_path: Path, http: aiohttp.ClientSession, name: str
) -> None:
    schema, arguments, runs = HOSTILE[name]
    with canary() as (port, fetched):
        text = json.dumps([{"name": "hostile", "inputSchema": schema}]).replace("@port@", str(port))
        servers = {"till": teller(tmp_path, more=json.loads(text))}
        async with till(tmp_path, http, servers, middleware={"validate": True}) as at:
            stall = asyncio.create_task(longest_stall())
            heard = await at.modern().call("hostile", arguments)
            stall.cancel()
            other = await at.modern().call("get_balance", RENT)
            longest = await stall

    if runs:
        assert "by till" in heard.text
    else:
        assert heard.error["code"] == -32602
        assert "'hostile'" in heard.error["message"]
        assert len(heard.error["message"]) < 400
    assert len(at.calls("hostile")) == runs
    assert "by till" in other.text
    assert fetched == []
    assert longest < 1.0


async def longest_stall() -> float:
    """The longest that the loop did not come round, until cancelled."""
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.002)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return max(longest, time.monotonic() - last)


class canary:
    """A web server that nobody should come to."""

    def __enter__(self) -> tuple[int, list[str]]:
        fetched: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fetched.append(self.path)
                self.send_error(404)

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self._server.server_port, fetched

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def test_a_hostile_schema_is_no_matter_where_nothing_is_checked(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    more: list[Json] = [{"name": name, "inputSchema": schema} for name, (schema, _, _) in HOSTILE.items()]
    async with till(tmp_path, http, {"till": teller(tmp_path, more=more)}) as at:
        heard = [await at.modern().call(name, {"x": 1}) for name in HOSTILE]

    assert all("by till" in one.text for one in heard)


async def test_a_person_fills_in_what_is_missing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = marked(tmp_path, "send_money")
    async with till(tmp_path, http, servers, middleware={"validate": True, "elicit_missing": True}) as at:
        for caller in CALLERS:
            person = Person(knows={"account": caller})
            end = await use(at, caller, person, "send_money", {"amount": 7})

            assert json.loads(end.text.partition("}")[0] + "}") == {"amount": 7, "account": caller}
            assert [AGREEMENT in question for question in person.heard] == [False, True]
            assert len(at.calls(caller)) == 1


async def test_what_nobody_fills_in_stays_missing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, middleware={"validate": True, "elicit_missing": True}) as at:
        for caller, person in itertools.product(CALLERS, [Person(), Person(knows={"account": 5}), None]):
            end = await use(at, caller, person, "send_money", {"amount": 7})

            assert "'account' is missing" in end.error, (caller, person)
    assert at.calls() == []


async def test_nobody_is_asked_for_what_is_missing_unless_that_is_wanted(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http, middleware={"validate": True}) as at:
        person = Person(knows={"account": "food"})
        end = await use(at, "modern", person, "send_money", {"amount": 7})

    assert "'account' is missing" in end.error
    assert person.heard == []


# Deadlines.


async def test_a_tool_may_have_a_deadline_of_its_own(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": teller(tmp_path, tools={"pay_*": {"timeout": 0.2}})}
    async with till(tmp_path, http, servers, middleware={"timeout": 60.0}) as at:
        slow = [asyncio.create_task(use(at, caller, None, "get_slowly", {"key": caller})) for caller in CALLERS]
        ends = [await use(at, caller, None, "pay_slowly", RENT) for caller in CALLERS]
        at.go()
        others = await asyncio.gather(*slow)

    assert all("'pay_slowly' did not answer in time" in end.error for end in ends)
    assert all("by till" in other.text for other in others)
    assert len(at.calls("pay_slowly")) == 3


async def test_all_tools_may_have_a_deadline(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": teller(tmp_path, tools={"get_slowly": {"timeout": 0.0}})}
    async with till(tmp_path, http, servers, middleware={"timeout": 0.2}) as at:
        slow = asyncio.create_task(at.modern().call("get_slowly", {"key": "k"}))
        heard = await at.modern().call("pay_slowly", RENT)
        at.go()
        other = await slow

    assert heard.error["code"] == -32001
    assert "by till" in other.text


async def test_a_deadline_that_passes_while_somebody_thinks_ends_the_call(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline.tools")
    servers = {"till": teller(tmp_path, tools={"send_money": {**MARKED, "timeout": 0.1}})}
    async with till(tmp_path, http, servers, middleware={"logging": True}) as at:
        heard = await at.modern().call("send_money", RENT, meta=able())
        await until(lambda: "outcome=UpstreamTimeoutError" in caplog.text)
        late = await answer(at.modern(), "send_money", RENT, heard, YES)

    assert late.error["code"] == -32001
    assert at.calls() == []


# Retries.


@pytest.mark.parametrize("caller", CALLERS)
async def test_what_is_safe_to_repeat_is_tried_again(tmp_path: Path, http: aiohttp.ClientSession, caller: str) -> None:
    servers = {"till": teller(tmp_path, tools={"crash_*": {"retries": 1}})}
    async with till(tmp_path, http, servers, middleware={"retry_delay": 0.01}) as at:
        end = await use(at, caller, None, "crash_at_first", {"key": "k", "times": 2})

    assert "by till" in end.text
    assert len(at.calls()) == 3


async def test_without_retries_it_is_not(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http) as at:
        end = await use(at, "modern", None, "crash_at_first", {"key": "k", "times": 2})

    assert "'till'" in end.error
    assert len(at.calls()) == 2


@pytest.mark.parametrize("options", [{}, {"retries": 5}, {"read_only_hint": False, "destructive_hint": False}])
async def test_what_is_not_safe_to_repeat_is_done_exactly_once(
    tmp_path: Path, http: aiohttp.ClientSession, options: Json
) -> None:
    servers = {"till": teller(tmp_path, tools={"crash_after_payment": options})}
    async with till(tmp_path, http, servers, middleware={"retries": 5, "retry_delay": 0.01}) as at:
        for caller in CALLERS:
            end = await use(at, caller, None, "crash_after_payment", {"account": caller})

            assert "'till'" in end.error
            assert len(at.calls(caller)) == 1


@pytest.mark.parametrize(("infer", "times", "kept"), [(True, 2, 1), (False, 1, 2)])
async def test_words_that_are_good_enough_to_keep_an_answer_by_are_good_enough_to_repeat_a_call_by(
    tmp_path: Path, http: aiohttp.ClientSession, infer: bool, times: int, kept: int
) -> None:
    async with till(tmp_path, http, cache={"enabled": True}, annotations={"auto_infer": infer}) as at:
        end = await use(at, "modern", None, "find_lost", RENT)
        for _ in range(2):
            await use(at, "modern", None, "find_accounts", {"owner": "ana"})

    assert "'till'" in end.error
    assert len(at.calls("find_lost")) == times
    assert len(at.calls("find_accounts")) == kept


async def test_a_failing_tool_is_an_answer_and_not_tried_again(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http, middleware={"retries": 5, "retry_delay": 0.01}) as at:
        wrong = await at.modern().call("get_wrong", RENT)
        refusing = await at.modern().call("get_refused", RENT)

    assert wrong.result["isError"]
    assert refusing.error["message"] == "There is no such account."
    assert len(at.calls()) == 2


@pytest.mark.slow
async def test_retries_are_a_small_part_of_all_calls(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"till": teller(tmp_path, concurrency=1)}
    sections: Json = {"batcher": {"max_queue": 0}, "middleware": {"retries": 5, "retry_delay": 0.01}}
    async with till(tmp_path, http, servers, **sections) as at:
        blocking = asyncio.create_task(at.modern().call("pay_slowly", RENT))
        await until(lambda: at.calls())
        began = time.monotonic()
        heard = [await at.modern().call("get_balance", RENT) for _ in range(6)]
        took = time.monotonic() - began
        at.go()
        await blocking

    assert {one.status for one in heard} == {503}
    assert took < 15.0  # a retry waits for the second that a busy server asks for: without a budget, all take thirty


# The log.


@pytest.mark.parametrize("caller", CALLERS)
async def test_every_call_has_one_line_in_the_log(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline.tools")
    wanted = {
        "get_balance": "answered",
        "get_wrong": "failed",
        "get_refused": "ServerRefusedError",
        "send_money": "cancelled",
        "crash_after_payment": "UpstreamError",
    }
    async with till(tmp_path, http, marked(tmp_path, "send_money"), middleware={"logging": True}) as at:
        for tool in wanted:
            await use(at, caller, Person("no"), tool, RENT)

    lines = [record.getMessage() for record in caplog.records if record.name == "trunkline.tools"]
    assert [line.rpartition(" duration=")[0] for line in lines] == [
        f"tool={tool} server=till user=- outcome={outcome}" for tool, outcome in wanted.items()
    ]


async def test_the_log_says_whose_call_it_was(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline.tools")
    async with till(tmp_path, http, users=True, middleware={"logging": True}) as at:
        for user in USERS:
            await at.modern(user).call("get_balance", RENT)
        await at.hub.call("get_balance", RENT, user="eve\r\ntool=forged")
        leaving = asyncio.create_task(at.hub.call("get_slowly", {"key": "k"}, user="gone"))
        await until(lambda: at.calls("get_slowly"))
        leaving.cancel()
        await asyncio.wait([leaving])

    lines = [record.getMessage() for record in caplog.records if record.name == "trunkline.tools"]
    assert [line.split()[2] for line in lines] == ["user=ana", "user=bob", "user=eve\\r\\ntool=forged", "user=gone"]
    assert "outcome=interrupted" in lines[-1]


@pytest.mark.parametrize("caller", ["legacy", "python"])
async def test_a_name_cannot_forge_a_line_of_the_log(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trunkline")
    name = "evil\r\ntool=forged server=till\x1b[2J\u2028"
    more = [{"name": name, "inputSchema": hostile(properties={"x": {"type": "integer"}})}]
    servers = {"till": teller(tmp_path, more=more, tools={"evil*": MARKED})}
    async with till(tmp_path, http, servers, middleware={"logging": True, "validate": True}) as at:
        person = Person()
        end = await use(at, caller, person, name, {})
        wrong = await use(at, caller, person, name, {"x": "no", "y\r\nz": 1})

    assert "by till" in end.text
    told = [record.getMessage() for record in caplog.records] + person.heard + [wrong.error]
    assert not [text for text in told if set(text) & set("\r\n\x1b\u2028")]
    assert len([text for text in told if text.startswith("tool=")]) == 2


@pytest.mark.parametrize("caller", CALLERS)
async def test_what_people_and_callers_say_is_neither_logged_nor_repeated_in_errors(
    tmp_path: Path, http: aiohttp.ClientSession, caller: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    canaries = [f"canary-{number}" for number in range(9)]
    tools = {"*": MARKED, "pay_slowly": {**MARKED, "timeout": 0.2}}
    middleware = {"logging": True, "validate": True, "elicit_missing": True, "retries": 1, "retry_delay": 0.01}
    person = Person(knows={"account": canaries[0], "colour": canaries[1]})
    async with till(tmp_path, http, {"till": teller(tmp_path, tools=tools)}, middleware=middleware) as at:
        ends = [
            await use(at, caller, person, "send_money", {"account": 1, "amount": canaries[2]}),
            await use(at, caller, person, "send_money", {"amount": canaries[3], canaries[4] * 9: 1}),
            await use(at, caller, person, "get_refused", {}),
            await use(at, caller, person, "pay_slowly", {"account": canaries[5]}),
            await use(at, caller, person, "crash_after_payment", {"account": canaries[6]}),
            await use(at, caller, Person("no"), "send_money", {"account": canaries[7]}),
            await use(at, caller, None, "send_money", {"account": canaries[8]}),
        ]
        painted = await use(at, caller, person, "paint", {"key": "door"})

    assert painted.text == f"door is {canaries[1]}"
    assert all(end.error or end.failed for end in ends)
    told = caplog.text + "".join(end.error + end.text for end in ends) + "".join(person.heard)
    assert [canary for canary in canaries if canary in told and canary != canaries[4]] == []
    assert canaries[4] * 9 not in told


# Middleware of one's own.


async def shout(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
    """Changes what goes in, and what comes out."""
    if "account" in params:
        params["account"] = params["account"].upper()
    result = await call_next()
    return dataclasses.replace(result, content=[{"type": "text", "text": result.text + "!"}])


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_plain_function_sees_and_changes_calls_and_answers(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    seen: list[tuple[str, str, Json, str]] = []

    async def watch(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        seen.append((tool.name, tool.server, dict(params), context.user))
        return await call_next()

    async with till(tmp_path, http, {"till": teller(tmp_path, era=era)}) as at:
        before = await use(at, "modern", None, "get_balance", RENT)
        at.hub.use(watch).use(shout)
        ends = [await use(at, caller, None, "get_balance", RENT) for caller in CALLERS]

    assert before.text == '{"account": "rent"} 1 by till'
    assert [end.text for end in ends] == [f'{{"account": "RENT"}} {number} by till!' for number in (1, 2, 3)]
    assert seen == [("get_balance", "till", RENT, "")] * 3
    assert at.calls() == ["till get_balance rent", *["till get_balance RENT"] * 3]


async def test_middleware_knows_the_user_and_what_is_known_of_the_tool(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    seen: list[Any] = []

    async def watch(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        seen.append((context.user, tool.annotations.destructive_hint, tool.description, tool.input_schema["required"]))
        return await call_next()

    async with till(tmp_path, http, users=True) as at:
        at.hub.use(watch)
        await at.modern("bob").call("delete_account", RENT)
        await at.hub.call("delete_account", RENT, user="eve")

    known = (True, "Delete an account for good.", ["account"])
    assert seen == [("bob", *known), ("eve", *known)]


async def test_middleware_may_answer_by_itself(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def forbid(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        return ToolResult.failed("Not on Sundays.", day="Sunday")

    async with till(tmp_path, http) as at:
        at.hub.use(forbid)
        ends = [await use(at, caller, None, "send_money", RENT) for caller in CALLERS]

    assert ends == [End("Not on Sundays.", failed=True)] * 3
    assert at.calls() == []


async def test_an_answer_that_middleware_makes_says_what_it_says_about_itself(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async def add(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        return ToolResult([{"type": "text", "text": "x"}], structured={"n": 10**30}, meta={"a": 1, "org.example/b": 2})

    async with till(tmp_path, http) as at:
        at.hub.use(add)
        heard = await at.modern().call("get_balance", RENT)

    assert heard.result == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "x"}],
        "structuredContent": {"n": 10**30},
        "_meta": {"dev.trunkline/a": 1, "org.example/b": 2},
    }


async def test_middleware_may_catch_a_servers_error(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def forgive(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        try:
            return await call_next()
        except ServerRefusedError as error:
            return ToolResult.of(f"forgiven: {error.message} {error.code}")

    async with till(tmp_path, http) as at:
        at.hub.use(forgive)
        ends = [await use(at, caller, None, "get_refused", RENT) for caller in CALLERS]

    assert [end.text for end in ends] == ["forgiven: There is no such account. -32602"] * 3


async def test_what_middleware_only_looks_at_passes_byte_for_byte(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def look(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        result = await call_next()
        assert result.content
        return result

    sections: Json = {"middleware": {"logging": True, "timeout": 30.0, "validate": True, "retries": 1}}
    async with gateway(tmp_path, {"one": faulty()}, sections=sections) as opened:
        opened.hub.use(look)
        heard = await ModernCaller(opened.url, http).call("bigint")

    assert EXACT in heard.raw


async def test_an_error_of_a_server_passes_byte_for_byte(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with till(tmp_path, http) as at:
        plain = await at.modern().call("get_refused", RENT)
        await at.apply({"till": teller(tmp_path)}, middleware={"logging": True})
        logged = await at.modern().call("get_refused", RENT)

    assert logged.raw == plain.raw


async def test_middleware_may_ask_whoever_calls(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def ask(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        assert context.elicitation is not None
        colour = await context.elicitation.get_text("Which colour?")
        again = await context.elicitation.get_text("Sure?")
        return await call_next({"account": f"{colour} {again}"})

    async with till(tmp_path, http) as at:
        at.hub.use(ask)
        for caller in CALLERS:
            person = Person(knows={"Which colour?": "red", "Sure?": "quite"})
            await use(at, caller, person, "get_balance", RENT)

            assert person.heard == ["Which colour?", "Sure?"]
    assert at.calls() == ["till get_balance red quite"] * 3


async def test_middleware_may_ask_two_things_at_once(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def ask(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        assert context.elicitation is not None
        texts = await asyncio.gather(*(context.elicitation.get_text(question) for question in ("One?", "Two?")))
        return await call_next({"account": " ".join(map(str, texts))})

    async with till(tmp_path, http) as at:
        at.hub.use(ask)
        for caller in CALLERS:
            await use(at, caller, Person(knows={"One?": "1", "Two?": "2"}), "get_balance", RENT)

    assert at.calls() == ["till get_balance 1 2"] * 3


async def test_what_is_asked_after_a_question_ran_out_is_put_when_the_caller_comes_back(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    second = asyncio.Event()

    async def ask(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        assert context.elicitation is not None
        hint = await context.elicitation.get_text("Any hint?", timeout=0.1)
        second.set()
        colour = await context.elicitation.get_text("Which colour?")
        return await call_next({"account": f"{hint} {colour}"})

    async with till(tmp_path, http) as at:
        at.hub.use(ask)
        first = await at.modern().call("get_balance", RENT, meta=able())
        async with asyncio.timeout(5):
            await second.wait()
        late: Json = {"action": "accept", "content": {"value": "late"}}
        heard = await answer(at.modern(), "get_balance", RENT, first, late)
        assert [one["params"]["message"] for one in asked(heard).values()] == ["Which colour?"]
        given: Json = {"action": "accept", "content": {"value": "red"}}
        end = await answer(at.modern(), "get_balance", RENT, heard, given)

    assert "by till" in end.text
    assert at.calls() == ["till get_balance None red"]


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("change", [False, True])
async def test_what_a_server_reports_reaches_the_request_that_waits(
    tmp_path: Path, http: aiohttp.ClientSession, group: bool, change: bool
) -> None:
    async def add(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        return await call_next({**params, "more": 1} if change else None)

    sections: Json = {"groups": {"bank": {"servers": ["till"]}}} if group else {}
    async with till(tmp_path, http, marked(tmp_path, "paint", era="legacy"), **sections) as at:
        at.hub.use(add)
        meta = {**able(), "progressToken": "p1"}
        first = await at.modern().call("paint", {"key": "door"}, meta=meta)
        second = await answer(at.modern(), "paint", {"key": "door"}, first, YES, meta=meta)
        given: Json = {"action": "accept", "content": {"colour": "red"}}
        third = await answer(at.modern(), "paint", {"key": "door"}, second, given, meta=meta)

    assert third.text == "door is red"
    assert [one["params"] for one in third.before] == [{"progressToken": "p1", "progress": 1}]


async def test_arguments_nested_too_deeply_are_refused(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    nested: Any = "x"
    for _ in range(200):
        nested = [nested]
    async with till(tmp_path, http, middleware={"logging": True}) as at:
        heard = await at.modern().call("send_money", {"account": nested})

    assert heard.error["code"] == -32602
    assert at.calls() == []


async def test_middleware_that_breaks_breaks_one_call_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def broken(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        if tool.name == "send_money":
            raise ValueError("canary")
        return await call_next()

    async with till(tmp_path, http) as at:
        at.hub.use(broken)
        heard = await at.modern().call("send_money", RENT)
        other = await at.modern().call("get_balance", RENT)
        with pytest.raises(ValueError, match="canary"):
            await at.hub.call("send_money", RENT)

    assert heard.status == 500
    assert b"canary" not in heard.raw
    assert "by till" in other.text


async def test_a_caller_that_hangs_up_ends_the_call_inside_its_middleware(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    ended = asyncio.Event()

    async def watch(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        try:
            return await call_next()
        finally:
            ended.set()

    async with till(tmp_path, http) as at:
        at.hub.use(watch)
        leaving = asyncio.create_task(at.modern().call("get_slowly", {"key": "k"}))
        await until(lambda: at.calls())
        leaving.cancel()
        async with asyncio.timeout(5):
            await ended.wait()
        await until(lambda: at.hub.relay.lane("till").inside == 0)


async def test_a_python_caller_gets_the_deadline_as_an_error(tmp_path: Path) -> None:
    spec = teller(tmp_path, tools={"get_slowly": {"timeout": 0.1}})
    async with open_hub(make_config(tmp_path / "home", {"till": spec})) as hub:
        await hub.ready(10)
        with pytest.raises(UpstreamTimeoutError):
            await hub.call("get_slowly", {"key": "k"})

    assert len(calls(tmp_path)) == 1
