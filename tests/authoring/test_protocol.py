"""A server of one's own over MCP, in both eras: tools, resources, prompts, questions, changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.authoring.scene import Message, caller_of
from trunkline import Image, Tool, ToolServer, ask, ask_all, report_progress, send_log
from trunkline.authoring.context import was_cancelled
from trunkline.authoring.questions import form, page, roots, sample

ERAS = pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])


def accept(**content: Any) -> Callable[[Message], Any]:
    return lambda question: {"action": "accept", "content": content}


@ERAS
async def test_tools_are_listed_with_all_that_is_known_of_them(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool(category="stock")
    def get_stock(sku: str) -> dict[str, int]:
        """How many there are."""
        return {sku: 3}

    async with caller_of(server, modern=modern) as caller:
        (tool,) = (await caller.result("tools/list"))["tools"]

    assert tool["inputSchema"]["required"] == ["sku"]
    assert tool["outputSchema"]["type"] == "object"
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["_meta"]["category"] == "stock"


@ERAS
async def test_a_promise_that_an_era_does_not_know_is_not_made_there(modern: bool) -> None:
    server = ToolServer("shop")
    server.register_tool(Tool("count", execute=lambda given: [1], output_schema={"type": "array"}))

    async with caller_of(server, modern=modern) as caller:
        (tool,) = (await caller.result("tools/list"))["tools"]
        result = await caller.call("count")

    assert tool.get("outputSchema") == ({"type": "array"} if modern else None)
    assert result.get("structuredContent") == ([1] if modern else None)


@ERAS
async def test_answers_keep_their_kind(modern: bool) -> None:
    server = ToolServer("shop")
    server.register_tool(lambda: {"n": 1}, name="object")
    server.register_tool(lambda: [1, 2], name="list")
    server.register_tool(lambda: Image(b"png"), name="picture")
    server.register_tool(lambda: None, name="nothing")

    async with caller_of(server, modern=modern) as caller:
        found = {name: await caller.call(name) for name in ("object", "list", "picture", "nothing")}

    assert found["object"]["structuredContent"] == {"n": 1}
    assert found["list"].get("structuredContent") == ([1, 2] if modern else None)
    assert found["list"]["content"] == [{"type": "text", "text": "[1,2]"}]
    assert found["picture"]["content"] == [{"type": "image", "data": "cG5n", "mimeType": "image/png"}]
    assert found["nothing"]["content"] == []


@ERAS
async def test_what_mcp_does_not_have_is_a_failure_of_the_tool(modern: bool) -> None:
    server = ToolServer("shop")
    server.register_tool(lambda: {"content": [{"type": "smell"}], "isError": False}, name="strange")

    async with caller_of(server, modern=modern) as caller:
        assert (await caller.call("strange"))["isError"] is True


@ERAS
async def test_arguments_that_do_not_fit_are_the_models_to_correct(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    def count(n: int) -> int:
        return n

    async with caller_of(server, modern=modern) as caller:
        result = await caller.call("count", {"n": "three"})

    assert result["isError"] is True
    assert "'n' must be of type integer" in result["content"][0]["text"]


@ERAS
async def test_an_unknown_tool_is_an_error_of_the_protocol(modern: bool) -> None:
    async with caller_of(ToolServer("shop"), modern=modern) as caller:
        message = await caller.request("tools/call", name="fly", arguments={})

    assert message["error"]["code"] == -32602


@ERAS
async def test_a_question_in_the_middle_is_one_straight_line(modern: bool) -> None:
    server = ToolServer("shop")
    done: list[str] = []

    @server.tool
    async def order(what: str) -> str:
        done.append("looked up")
        answer = await ask(f"Which size of {what}?", size=["S", "M"])
        return f"{what} in {answer['size']}" if answer else "nothing"

    async with caller_of(server, modern=modern) as caller:
        caller.answer = accept(size="M")
        result = await caller.call("order", {"what": "shirt"})

    assert result["content"][0]["text"] == "shirt in M"
    assert done == ["looked up"]
    params = caller.asked[0]["params"]
    assert params["message"] == "Which size of shirt?"
    assert params["requestedSchema"]["properties"] == {"size": {"type": "string", "enum": ["S", "M"]}}


@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_refuse(modern: bool, action: str) -> None:
    server = ToolServer("shop")

    @server.tool
    async def wipe() -> str:
        answer = await ask("Delete all?")
        return "gone" if answer else answer.action

    async with caller_of(server, modern=modern) as caller:
        caller.answer = lambda question: {"action": action}
        assert (await caller.call("wipe"))["content"][0]["text"] == action


@ERAS
async def test_an_answer_that_does_not_fit_is_the_tools_to_handle(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    async def order() -> str:
        return str((await ask("How many?", count=int))["count"])

    async with caller_of(server, modern=modern) as caller:
        caller.answer = accept(count="many")
        result = await caller.call("order")

    assert result["isError"] is True
    assert "'count' must be of type integer" in result["content"][0]["text"]


@ERAS
async def test_several_things_can_be_asked_at_once(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    async def survey() -> list[str]:
        found = await ask_all({"who": form("Who?", name=str), "poem": sample("A poem."), "where": roots()})
        return [found["who"]["name"], found["poem"]["content"]["text"], found["where"]["roots"][0]["uri"]]

    def answer(question: Any) -> Any:
        if question["method"] == "elicitation/create":
            return {"action": "accept", "content": {"name": "Ana"}}
        if question["method"] == "roots/list":
            return {"roots": [{"uri": "file:///home"}]}
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Roses"}}

    async with caller_of(server, modern=modern) as caller:
        caller.answer = answer
        result = await caller.call("survey")

    assert result["content"][0]["text"] == '["Ana","Roses","file:///home"]'
    assert len(caller.asked) == 3


@ERAS
async def test_tasks_of_a_tool_may_ask_side_by_side(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    async def pair() -> str:
        both = await asyncio.gather(ask("First?", a=str), ask("Second?", a=str))
        return " ".join(answer["a"] for answer in both)

    async with caller_of(server, modern=modern) as caller:
        caller.answer = lambda question: {"action": "accept", "content": {"a": question["params"]["message"]}}
        result = await caller.call("pair")

    assert result["content"][0]["text"] == "First? Second?"


@ERAS
async def test_a_page_can_be_asked_to_be_opened(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    async def log_in() -> str:
        return (await ask_all({"page": page("Log in.", "https://example.org/login")}))["page"].action

    async with caller_of(server, modern=modern) as caller:
        caller.answer = lambda question: {"action": "accept"}
        result = await caller.call("log_in")

    assert result["content"][0]["text"] == "accept"
    assert caller.asked[0]["params"]["url"] == "https://example.org/login"


async def test_who_cannot_be_asked_hears_which_capability_is_missing() -> None:
    server = ToolServer("shop")

    @server.tool
    async def order() -> str:
        return str(await ask("Sure?"))

    async with caller_of(server, modern=True, capabilities={}) as caller:
        message = await caller.request("tools/call", name="order", arguments={})
    async with caller_of(server, modern=False, capabilities={}) as caller:
        result = await caller.call("order")

    assert message["error"]["code"] == -32021
    assert message["error"]["data"]["requiredCapabilities"] == {"elicitation": {}}
    assert result["isError"] is True
    assert caller.asked == []


async def test_the_clock_stands_still_while_a_person_thinks() -> None:
    server = ToolServer("shop", default_timeout=0.2)

    @server.tool
    async def order() -> str:
        return (await ask("Sure?")).action

    async with caller_of(server, modern=True) as caller:
        first = await caller.result("tools/call", name="order", arguments={})
        await asyncio.sleep(0.3)  # longer than the tool's whole time: what is tested is that this time does not count
        answers = {key: accept()({}) for key in first["inputRequests"]}
        last = await caller.result(
            "tools/call", name="order", arguments={}, inputResponses=answers, requestState=first["requestState"]
        )

    assert last["content"][0]["text"] == "accept"


async def test_a_state_serves_once_and_only_for_the_call_it_belongs_to() -> None:
    server = ToolServer("shop")
    runs: list[str] = []

    @server.tool
    async def order(what: str) -> str:
        runs.append(what)
        return str((await ask("Sure?", key="sure")).action)

    async with caller_of(server, modern=True) as caller:
        first = await caller.result("tools/call", name="order", arguments={"what": "a"})
        retry: dict[str, Any] = {
            "inputResponses": {"sure": {"action": "accept", "content": {}}},
            "requestState": first["requestState"],
        }
        other = await caller.request("tools/call", name="order", arguments={"what": "b"}, **retry)
        good = await caller.request("tools/call", name="order", arguments={"what": "a"}, **retry)
        again = await caller.request("tools/call", name="order", arguments={"what": "a"}, **retry)

    assert other["error"]["code"] == -32602
    assert good["result"]["content"][0]["text"] == "accept"
    assert again["error"]["code"] == -32602
    assert runs == ["a"]


async def test_of_two_who_bring_one_state_only_one_goes_on() -> None:
    server = ToolServer("shop")

    @server.tool
    async def order() -> str:
        await ask("Sure?", key="sure")
        await ask("Really?", key="really")
        return "ordered"

    async with caller_of(server, modern=True) as caller:
        first = await caller.result("tools/call", name="order", arguments={})
        retry = {"inputResponses": {"sure": accept()({})}, "requestState": first["requestState"]}
        both = await asyncio.gather(
            caller.request("tools/call", name="order", arguments={}, **retry),
            caller.request("tools/call", name="order", arguments={}, **retry),
        )

    assert sorted("error" in message for message in both) == [False, True]


async def test_a_missing_answer_is_asked_for_again() -> None:
    server = ToolServer("shop")

    @server.tool
    async def order() -> str:
        found = await ask_all({"a": form("A?", x=str), "b": form("B?", x=str)})
        return found["a"]["x"] + found["b"]["x"]

    async with caller_of(server, modern=True) as caller:
        first = await caller.result("tools/call", name="order", arguments={})
        answer = {"action": "accept", "content": {"x": "1"}}
        second = await caller.result(
            "tools/call", name="order", arguments={}, inputResponses={"a": answer}, requestState=first["requestState"]
        )
        third = await caller.result(
            "tools/call", name="order", arguments={}, inputResponses={"b": answer}, requestState=second["requestState"]
        )

    assert list(second["inputRequests"]) == ["b"]
    assert third["content"][0]["text"] == "11"


async def test_only_so_many_calls_may_wait_for_answers() -> None:
    server = ToolServer("shop", max_waiting=1)

    @server.tool
    async def order() -> str:
        return (await ask("Sure?")).action

    async with caller_of(server, modern=True) as caller:
        await caller.result("tools/call", name="order", arguments={})
        message = await caller.request("tools/call", name="order", arguments={})

    assert message["error"]["code"] == -32000


async def test_a_call_that_nobody_answers_ends_and_cleans_up() -> None:
    server = ToolServer("shop", question_timeout=0.01)
    ended = asyncio.Event()

    @server.tool
    async def order() -> str:
        try:
            return (await ask("Sure?")).action
        finally:
            ended.set()

    async with caller_of(server, modern=True) as caller:
        first = await caller.result("tools/call", name="order", arguments={})
        async with asyncio.timeout(5):
            await ended.wait()
        await asyncio.sleep(0)
        late = await caller.request("tools/call", name="order", arguments={}, requestState=first["requestState"])

    assert late["error"]["code"] == -32602


async def test_calls_that_wait_end_with_the_server() -> None:
    server = ToolServer("shop")
    ended: list[str] = []

    @server.tool
    async def order() -> str:
        try:
            return (await ask("Sure?")).action
        finally:
            ended.append("cancelled")

    async with caller_of(server, modern=True) as caller:
        await caller.result("tools/call", name="order", arguments={})

    assert ended == ["cancelled"]


@ERAS
async def test_progress_and_log_come_in_order_and_before_the_answer(modern: bool) -> None:
    server = ToolServer("shop")

    @server.tool
    def work() -> str:
        send_log("begun")
        for step in (1, 2, 2, 3):
            report_progress(step, 3, f"step {step}")
        send_log({"end": True}, "debug")
        return "done"

    async with caller_of(server, modern=modern, log_level="info") as caller:
        if not modern:
            await caller.result("logging/setLevel", level="info")
        await caller.result("tools/call", name="work", arguments={}, _meta={"progressToken": "p"})

    assert [note["params"].get("message", note["params"].get("data")) for note in caller.notes] == [
        "begun",
        "step 1",
        "step 2",
        "step 3",
    ]


async def test_a_modern_caller_that_wants_no_log_gets_none() -> None:
    server = ToolServer("shop")
    server.register_tool(lambda: send_log("hello"), name="talk")

    async with caller_of(server, modern=True) as caller:
        await caller.call("talk")

    assert caller.notes == []


@ERAS
async def test_a_cancelled_call_is_cancelled_in_the_tool(modern: bool) -> None:
    server = ToolServer("shop")
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with caller_of(server, modern=modern) as caller, asyncio.timeout(5):
        number, _ = caller.begin("tools/call", name="wait", arguments={})
        await begun.wait()
        caller.notify("notifications/cancelled", requestId=number)
        await ended.wait()

    assert not was_cancelled()


@ERAS
async def test_resources_templates_and_prompts_are_served(modern: bool) -> None:
    server = ToolServer("shop")
    server.resource("config://app", mime_type="application/json")(lambda_named(lambda: {"port": 1}))

    @server.resource("data://users/{id}{?verbose}")
    def user(id: str, verbose: str = "no", uri: str = "") -> str:
        """A user."""
        return f"{uri}: {id} {verbose}"

    @server.prompt
    def greet(name: str, style: str = "plain") -> str:
        """Greet somebody.

        Args:
            name: Whom.
        """
        return f"Say hello to {name}, {style}."

    async with caller_of(server, modern=modern) as caller:
        listed = (await caller.result("resources/list"))["resources"]
        templates = (await caller.result("resources/templates/list"))["resourceTemplates"]
        prompts = (await caller.result("prompts/list"))["prompts"]
        config = (await caller.result("resources/read", uri="config://app"))["contents"]
        read = (await caller.result("resources/read", uri="data://users/a%20b?verbose=yes"))["contents"]
        got = await caller.result("prompts/get", name="greet", arguments={"name": "{style}"})
        missing = await caller.request("prompts/get", name="greet", arguments={})
        nothing = await caller.request("resources/read", uri="data://nobody")

    assert [one["uri"] for one in listed] == ["config://app"]
    assert templates[0]["uriTemplate"] == "data://users/{id}{?verbose}"
    assert prompts[0]["arguments"] == [
        {"name": "name", "description": "Whom.", "required": True},
        {"name": "style", "required": False},
    ]
    assert config[0] == {"uri": "config://app", "mimeType": "application/json", "text": '{\n  "port": 1\n}'}
    assert read[0]["text"] == "data://users/a%20b?verbose=yes: a b yes"
    assert got["messages"][0]["content"]["text"] == "Say hello to {style}, plain."
    assert missing["error"]["code"] == -32602
    assert nothing["error"]["code"] == (-32602 if modern else -32002)


@ERAS
async def test_prompts_and_readers_can_ask_too(modern: bool) -> None:
    server = ToolServer("shop")

    @server.prompt
    async def essay() -> str:
        return f"Write about {(await ask('What about?', topic=str, key='topic'))['topic']}."

    async with caller_of(server, modern=modern) as caller:
        caller.answer = accept(topic="bees")
        result = await caller.result("prompts/get", name="essay")
        if modern:
            said = {"topic": {"action": "accept", "content": {"topic": "bees"}}}
            state = result["requestState"]
            result = await caller.result("prompts/get", name="essay", inputResponses=said, requestState=state)

    assert result["messages"][0]["content"]["text"] == "Write about bees."


@ERAS
async def test_arguments_are_completed(modern: bool) -> None:
    server = ToolServer("shop")

    @server.prompt
    def greet(name: str, city: str = "") -> str:
        return name + city

    @server.completion("greet", "name")
    def _(typed: str, others: dict[str, str]) -> list[str]:
        return [f"{typed}{number}{others.get('city', '')}" for number in range(150)]

    async with caller_of(server, modern=modern) as caller:
        found = await caller.result(
            "completion/complete",
            ref={"type": "ref/prompt", "name": "greet"},
            argument={"name": "name", "value": "a"},
            context={"arguments": {"city": "!"}},
        )

    assert found["completion"]["values"][:2] == ["a0!", "a1!"]
    assert (len(found["completion"]["values"]), found["completion"]["total"]) == (100, 150)


async def test_legacy_callers_hear_of_changed_lists_once_for_all_changes() -> None:
    server = ToolServer("shop")

    async with caller_of(server, modern=False) as caller:
        server.register_tools([lambda_named(lambda: 1, "one"), lambda_named(lambda: 2, "two")])
        server.prompt(name="greet")(lambda_named(lambda: "hi"))
        await caller.until(lambda note: note["method"] == "notifications/prompts/list_changed" or len(caller.notes) > 1)
        await caller.until(lambda note: note["method"] == "notifications/tools/list_changed")

    heard = [note["method"] for note in caller.notes]
    assert sorted(heard) == ["notifications/prompts/list_changed", "notifications/tools/list_changed"]


async def test_modern_callers_that_listen_hear_of_changes() -> None:
    server = ToolServer("shop")
    server.resource("data://x")(lambda_named(lambda: "x"))

    async with caller_of(server, modern=True) as caller:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["data://x"]}
        caller.begin("subscriptions/listen", notifications=wanted)
        await caller.until(lambda note: note["method"] == "notifications/subscriptions/acknowledged")
        server.register_tool(lambda: 1, name="one")
        await caller.until(lambda note: note["method"] == "notifications/tools/list_changed")
        await server.capabilities.notify_resource_changed("data://x")
        updated = await caller.until(lambda note: note["method"] == "notifications/resources/updated")

    assert updated["params"]["uri"] == "data://x"


async def test_legacy_callers_hear_of_resources_they_follow() -> None:
    server = ToolServer("shop")

    @server.resource("data://{id}")
    def data(id: str) -> str:
        return id

    async with caller_of(server, modern=False) as caller:
        await caller.result("resources/subscribe", uri="data://x")
        refused = await caller.request("resources/subscribe", uri="other://x")
        await server.capabilities.notify_resource_changed("data://y")
        await server.capabilities.notify_resource_changed("data://x")
        await caller.until(lambda note: note["method"] == "notifications/resources/updated")
        await caller.result("resources/unsubscribe", uri="data://x")
        await server.capabilities.notify_resource_changed("data://x")
        await caller.request("ping")

    assert refused["error"]["code"] == -32002
    assert [note["params"]["uri"] for note in caller.notes] == ["data://x"]


async def test_a_tool_in_a_thread_may_change_the_list() -> None:
    server = ToolServer("shop")

    @server.tool
    def learn() -> str:
        server.register_tool(lambda: 1, name="new")
        return "learnt"

    async with caller_of(server, modern=False) as caller:
        await caller.call("learn")
        await caller.until(lambda note: note["method"] == "notifications/tools/list_changed")
        assert (await caller.call("new"))["content"][0]["text"] == "1"


def lambda_named(function: Any, name: str = "named") -> Any:
    function.__name__ = name
    return function
