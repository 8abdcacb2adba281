"""`run_code` over MCP: what is listed, what programs give, and how callers of either era are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.harness import Heard, LegacyCaller, ModernCaller, gateway, until
from tests.sandbox.shop import Shop
from trunkline.errors import ConfigError
from trunkline.gateway.serve import Gateway
from trunkline.relay import Relay

Json = dict[str, Any]
FORMS: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
WRITES = """
import asyncio
async def one(i):
    try:
        return await buy(item=i)
    except PermissionError as error:
        return type(error).__name__
await asyncio.gather(*[one(i) for i in range(12)])
"""
PROFILES = {"profiles": {"plain": {"expose": "all"}, "no_buying": {"expose": "code", "hidden": ["buy"]}}}


@dataclass
class Scene:
    """A gateway with the shop, and who calls it."""

    gateway: Gateway
    shop: Shop
    http: aiohttp.ClientSession

    @property
    def relay(self) -> Relay:
        """What is behind the gateway."""
        return self.gateway.hub.relay

    def modern(self, profile: str = "") -> ModernCaller:
        """A modern caller."""
        return ModernCaller(f"{self.gateway.url}{profile and f'/{profile}'}", self.http)

    async def api(self, method: str, path: str) -> tuple[int, Json]:
        """Ask the admin API."""
        url = self.gateway.url.replace("/mcp", f"/api/v1/{path}")
        async with self.http.request(method, url) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Scene]:
    home = tmp_path_factory.mktemp("home")
    async with gateway(home, {}, expose="code", sections=PROFILES) as opened, aiohttp.ClientSession() as http:
        shop = Shop()
        await opened.hub.mount(shop.server)
        yield Scene(opened, shop, http)


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(caller: ModernCaller, code: str, state: Json | None = None, *, forms: bool = True) -> Heard:
    """Call `run_code`, or answer what it asked."""
    params = {"name": "run_code", "arguments": {"code": code}, **(state or {})}
    return await caller.request("tools/call", params, meta=FORMS if forms else None)


def answered(heard: Heard, refused: set[int] = frozenset()) -> Json:  # type: ignore[assignment]
    """What agrees to all calls that a program wants, but for some by their place."""
    question = heard.result["inputRequests"]["calls"]["params"]
    boxes = question["requestedSchema"]["properties"]
    content = {name: number not in refused for number, name in enumerate(boxes)}
    answer = {"calls": {"action": "accept", "content": content}}
    return {"requestState": heard.result["requestState"], "inputResponses": answer}


async def test_two_tools_are_listed_and_tools_are_found_as_functions(scene: Scene) -> None:
    caller = scene.modern()

    listed = [tool["name"] for tool in (await caller.request("tools/list")).result["tools"]]
    found = (await caller.call("search_tools", {"query": "look an item up"})).text
    named = (await caller.call("search_tools", {"names": ["say_it", "nothing"]})).text

    assert listed == ["search_tools", "run_code"]
    assert "async def look(item: int) -> " in found
    assert "item: The number on its label." in found
    assert "async def say_it(text: str)" in named
    assert "# Nothing fits: nothing" in named


async def test_a_thread_says_for_itself_whether_its_models_write_programs(scene: Scene) -> None:
    hub = scene.gateway.hub
    await hub.thread("coder").set_overrides(expose="code")
    await hub.thread("caller").set_overrides(expose="all")
    meta = {name: {"dev.trunkline/thread": name} for name in ("coder", "caller")}

    coder = await scene.modern("plain").request("tools/list", meta=meta["coder"])
    caller = await scene.modern().request("tools/list", meta=meta["caller"])
    refused = await scene.modern().request(
        "tools/call", {"name": "run_code", "arguments": {"code": "1"}}, meta=meta["caller"]
    )

    assert [tool["name"] for tool in coder.result["tools"]] == ["search_tools", "run_code"]
    assert {"look", "buy"} <= {tool["name"] for tool in caller.result["tools"]}
    assert refused.error["code"] == -32602
    with pytest.raises(ConfigError, match="Tools cannot be shown as 'everything'"):
        await hub.thread("coder").set_overrides(expose="everything")


async def test_a_value_comes_back_with_progress_for_each_call_and_prints_as_log_messages(scene: Scene) -> None:
    code = "for i in range(2):\n    print('item', i)\n    x = await look(item=i)\nx['price']"
    meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}
    params = {"name": "run_code", "arguments": {"code": code}}

    heard = await scene.modern().request("tools/call", params, meta=meta)

    assert [block["text"] for block in heard.result["content"]] == ["10", "It printed:\nitem 0\nitem 1"]
    told = [(one["method"].rpartition("/")[2], one["params"]) for one in heard.before]
    progress = [(one["progress"], one["message"]) for method, one in told if method == "progress"]
    printed = "\n".join(one["data"] for method, one in told if method == "message")
    assert progress == [(1, "look"), (2, "look")]
    assert printed == "item 0\nitem 1"


async def test_a_failure_is_a_result_that_names_the_line(scene: Scene) -> None:
    heard = await ask(scene.modern(), "x = 1\nawait fail()")

    assert heard.result["isError"] is True
    assert heard.text.startswith("Line 2: RuntimeError")


async def test_twelve_writes_are_one_question_and_what_is_refused_raises(scene: Scene) -> None:
    caller, before = scene.modern(), len(scene.shop.bought)

    asked = await ask(caller, WRITES)
    boxes = asked.result["inputRequests"]["calls"]["params"]["requestedSchema"]["properties"]
    unchanged = len(scene.shop.bought)
    done = await ask(caller, WRITES, answered(asked, {1, 2, 3}))

    assert (len(boxes), unchanged) == (12, before)
    assert sorted(scene.shop.bought[before:]) == [0, *range(4, 12)]
    assert json.loads(done.text).count("PermissionError") == 3


async def test_an_answer_is_taken_once_by_its_own_request_and_only_if_it_fits(scene: Scene) -> None:
    caller, before = scene.modern(), len(scene.shop.bought)
    asked = await ask(caller, "await buy(item=7)")
    state = answered(asked)

    other = await ask(caller, "await buy(item=8)", state)
    misfit = await ask(caller, "await buy(item=7)", {**state, "inputResponses": {"calls": {"action": "perhaps"}}})
    undeclared = await ask(caller, "await buy(item=7)", state, forms=False)
    elsewhere = await ask(scene.modern("plain"), "await buy(item=7)", state)
    first, second = await asyncio.gather(*(ask(caller, "await buy(item=7)", state) for _ in range(2)))

    assert [one.message["error"]["code"] for one in (other, misfit, undeclared, elsewhere)] == [-32602] * 4
    assert sorted("error" in one.message for one in (first, second)) == [False, True]
    assert scene.shop.bought[before:] == [7]


async def test_an_answer_that_comes_while_too_many_run_leaves_the_program_waiting(scene: Scene) -> None:
    caller, before = scene.modern(), len(scene.shop.bought)
    asked = await ask(caller, "await buy(item=6)")
    scene.shop.begun.clear()
    running = [asyncio.ensure_future(ask(scene.modern(), "await wait()")) for _ in range(8)]
    await until(lambda: len(scene.relay.programs.running()) == len(running), 20)

    busy = await ask(caller, "await buy(item=6)", answered(asked))
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await until(lambda: not scene.relay.programs.running(), 20)
    done = await ask(caller, "await buy(item=6)", answered(asked))

    assert "run already" in str(busy.message)
    assert done.text == "bought 6"
    assert scene.shop.bought[before:] == [6]


async def test_where_nobody_can_be_asked_nothing_is_done(scene: Scene) -> None:
    before = len(scene.shop.bought)

    heard = await ask(scene.modern(), "await buy(item=1)", forms=False)

    assert "nobody can be asked" in heard.text
    assert len(scene.shop.bought) == before


async def test_a_person_who_declines_refuses_everything(scene: Scene) -> None:
    asked = await ask(scene.modern(), WRITES)
    answer = {"requestState": asked.result["requestState"], "inputResponses": {"calls": {"action": "decline"}}}

    done = await ask(scene.modern(), WRITES, answer)

    assert json.loads(done.text) == ["PermissionError"] * 12


async def test_a_legacy_caller_is_asked_on_its_stream(scene: Scene) -> None:
    caller = await LegacyCaller(scene.gateway.url, scene.http, capabilities={"elicitation": {}}).open()
    before = len(scene.shop.bought)
    params = {"name": "run_code", "arguments": {"code": WRITES}}

    async with caller.stream("tools/call", params) as events:
        question = await events.next(20)
        boxes = question["params"]["requestedSchema"]["properties"]
        content = {name: number not in (1, 2, 3) for number, name in enumerate(boxes)}
        assert scene.relay.programs.pool.busy == 0
        await caller.answer(question["id"], {"action": "accept", "content": content})
        done = await events.next(20)

    assert not done["result"].get("isError"), done
    assert json.loads(done["result"]["content"][0]["text"]).count("PermissionError") == 3
    assert sorted(scene.shop.bought[before:]) == [0, *range(4, 12)]


async def test_what_waits_is_listed_and_can_be_dropped(scene: Scene) -> None:
    asked = await ask(scene.modern(), "await buy(item=5)")

    status, told = await scene.api("GET", "programs")
    [mine] = [one for one in told["programs"] if one["tools"] == ["buy"]]
    gone, _ = await scene.api("DELETE", f"programs/{mine['id']}")
    again, _ = await scene.api("DELETE", f"programs/{mine['id']}")
    late = await ask(scene.modern(), "await buy(item=5)", answered(asked))

    assert (status, mine["state"], gone, again) == (200, "waiting", 204, 404)
    assert late.message["error"]["code"] == -32602
    assert asked.result["requestState"] not in json.dumps(told)


async def test_a_program_is_live_for_whoever_watches_and_listed_when_it_is_over(scene: Scene) -> None:
    code = "x = await look(item=1)\nx.nothing"
    async with scene.http.get(scene.gateway.url.replace("/mcp", "/api/v1/events")) as events:
        await events.content.readline()
        await ask(scene.modern(), code)
        asked = await ask(scene.modern(), "await buy(item=5)")
        await ask(scene.modern(), "await buy(item=5)", answered(asked))
        states: list[str] = []
        async with asyncio.timeout(20):
            while "ended" not in states:
                line = await events.content.readline()
                told: Json = json.loads(line.partition(b": ")[2]) if line.startswith(b"data: {") else {}
                states += [told["state"]] if told.get("type") == "program.changed" else []

    listed = (await scene.api("GET", "programs"))[1]["programs"]
    failed = next(one for one in listed if one["code"] == code)

    assert states == ["running", "failed", "running", "waiting", "running", "ended"]
    assert (failed["state"], failed["calls"], "AttributeError" in failed["error"]) == ("failed", 1, True)


async def test_what_runs_is_listed_and_can_be_ended_with_its_tools(scene: Scene) -> None:
    scene.shop.begun.clear()
    scene.shop.left.clear()
    running = asyncio.ensure_future(ask(scene.modern(), "await wait()"))
    await asyncio.wait_for(scene.shop.begun.wait(), 20)

    [mine] = [one for one in (await scene.api("GET", "programs"))[1]["programs"] if one["state"] == "running"]
    await scene.api("DELETE", f"programs/{mine['id']}")
    heard = await running

    assert "ended from outside" in heard.text
    await asyncio.wait_for(scene.shop.left.wait(), 5)


async def test_a_caller_that_leaves_ends_its_program_and_the_tools(scene: Scene) -> None:
    scene.shop.begun.clear()
    scene.shop.left.clear()
    running = asyncio.ensure_future(ask(scene.modern(), "await wait()"))
    await asyncio.wait_for(scene.shop.begun.wait(), 20)

    running.cancel()

    await asyncio.wait_for(scene.shop.left.wait(), 5)


async def test_what_is_hidden_is_unknown_through_every_door(scene: Scene) -> None:
    hidden, plain = scene.modern("no_buying"), scene.modern("plain")

    inside = await ask(hidden, "await buy(item=1)")
    direct = await hidden.call("buy", {"item": 1})
    through = await hidden.call("call_tool", {"name": "buy", "arguments": {"item": 1}})
    nested = await ask(scene.modern(), "await run_code(code='1')")
    unlisted = await plain.call("run_code", {"code": "1"})

    assert "name 'buy' is not defined" in inside.text
    assert "name 'run_code' is not defined" in nested.text
    assert direct.message["error"]["code"] == unlisted.message["error"]["code"] == -32602
    assert through.result["isError"] is True


async def test_health_and_statistics_say_what_is_around_programs(scene: Scene) -> None:
    await ask(scene.modern(), "1")
    async with scene.http.get(scene.gateway.url.replace("/mcp", "/readyz")) as response:
        ready = json.loads(await response.text())
    stats = (await scene.api("GET", "stats"))[1]["programs"]

    assert ready["programs"]["isolation"] == stats["isolation"]
    assert (stats["isolation"] == "bubblewrap") == (not stats["reason"])


async def test_what_programs_read_in_models_place_is_counted(scene: Scene) -> None:
    before = scene.relay.savings.total()

    await ask(scene.modern(), "for i in range(5):\n    await say_it(text='word ' * 200)\n'done'")
    after = scene.relay.savings.total()

    assert after.programs == before.programs + 1
    assert after.read - before.read > 500
    assert after.tokens > before.tokens
