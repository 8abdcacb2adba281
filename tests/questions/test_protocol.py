"""Questions and answers travel as JSON-RPC, in the spelling of either side."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from trunkline.errors import ConfigError
from trunkline.questions.events import ElicitationRequested
from trunkline.questions.fields import FieldValidation, FormField, SelectOption
from trunkline.questions.kinds import Elicitation, ElicitationHandler, TextRequest
from trunkline.questions.manager import ElicitationManager, answered_elsewhere, global_elicitation_manager
from trunkline.questions.protocol import (
    ElicitationProtocolAdapter,
    create_confirmation_request,
    create_form_request,
    create_select_request,
    create_text_input_request,
    global_elicitation_protocol,
    is_elicitation_protocol_message,
    read_request,
    write_request,
)

Json = dict[str, Any]
BOOLEAN = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def message(method: str, params: object, **more: object) -> Json:
    """A JSON-RPC message."""
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}


def always_moon(request: Elicitation) -> str:
    """A handler with one answer."""
    return "moon"


def adapter_for(handler: ElicitationHandler, **options: Any) -> ElicitationProtocolAdapter:
    """An adapter with a manager of its own."""
    return ElicitationProtocolAdapter(manager=ElicitationManager(handler=handler), **options)


@pytest.mark.parametrize("id", ["r1", 7, 0])
async def test_a_request_gets_a_json_rpc_result_with_its_own_id(id: str | int) -> None:
    adapter = adapter_for(lambda _: "Ana")

    reply = await adapter.handle_message(message("elicitation/request", {"type": "text", "message": "Name?"}, id=id))

    assert reply is not None
    assert (reply["jsonrpc"], reply["id"]) == ("2.0", id)
    assert "method" not in reply
    assert reply["result"]["requestId"] == str(id)
    assert (reply["result"]["responded"], reply["result"]["value"]) == (True, "Ana")


async def test_a_question_of_mcp_gets_the_result_of_mcp() -> None:
    adapter = adapter_for(lambda _: True)

    asked = message("elicitation/create", {"message": "Sure?", "requestedSchema": BOOLEAN}, id=3)
    reply = await adapter.handle_message(asked)

    assert reply == {"jsonrpc": "2.0", "id": 3, "result": {"action": "accept", "content": {"sure": True}}}


async def test_a_question_of_mcp_that_nobody_answers_is_cancelled() -> None:
    adapter = adapter_for(answered_elsewhere, default_timeout=0.01)

    asked = message("elicitation/create", {"message": "Sure?", "requestedSchema": BOOLEAN}, id=3)
    reply = await adapter.handle_message(asked)

    assert reply == {"jsonrpc": "2.0", "id": 3, "result": {"action": "cancel"}}


async def test_an_incoming_response_answers_the_question_that_waits() -> None:
    adapter = adapter_for(answered_elsewhere)
    waits = asyncio.Event()
    adapter.manager.on(ElicitationRequested, lambda _: waits.set())
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        question = message("elicitation/request", {"type": "confirmation", "message": "Sure?"}, id=7)
        task = group.create_task(adapter.handle_message(question))
        await waits.wait()
        answer = {"requestId": 7, "responded": True, "value": True}
        told = await adapter.handle_message(message("elicitation/response", answer, id="r"))

    assert told == {"jsonrpc": "2.0", "id": "r", "result": {"accepted": True}}
    assert (task.result() or {})["result"]["value"] is True


async def test_an_incoming_cancel_withdraws_the_question() -> None:
    adapter = adapter_for(answered_elsewhere)
    waits = asyncio.Event()
    adapter.manager.on(ElicitationRequested, lambda _: waits.set())
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(adapter.manager.request(TextRequest("Name?", id="q")))
        await waits.wait()
        told = await adapter.handle_message(message("elicitation/cancel", {"requestId": "q", "reason": "Gone"}))

    assert told is None
    assert (task.result().cancelled, task.result().error) == (True, "Gone")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (5, -32600),
        ({}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "elicitation/request"}, -32600),
        (message("elicitation/request", {}, id=True), -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32601),
        (message("elicitation/whatever", {}, id=1), -32601),
        (message("tools/call", {}, id=1), -32601),
        (message("elicitation/request", [], id=1), -32602),
        (message("elicitation/request", {"type": "dream", "message": "?"}, id=1), -32602),
        (message("elicitation/request", {"type": "text"}, id=1), -32602),
        (message("elicitation/request", {"type": "select", "message": "?", "options": []}, id=1), -32602),
        (message("elicitation/request", {"type": "text", "message": "?", "timeout": -1}, id=1), -32602),
        (message("elicitation/create", {"requestedSchema": {}}, id=1), -32602),
        (message("elicitation/response", {"requestId": "nobody", "responded": True}, id=1), -32602),
        (message("elicitation/response", {}, id=1), -32602),
        (message("elicitation/cancel", {"requestId": "nobody"}, id=1), -32602),
    ],
)
async def test_what_is_not_understood_gets_a_json_rpc_error(sent: object, code: int) -> None:
    reply = await adapter_for(lambda _: True).handle_message(sent)

    assert reply is not None
    assert reply["error"]["code"] == code
    assert "result" not in reply


async def test_neither_notifications_nor_replies_get_a_reply() -> None:
    adapter = adapter_for(lambda _: True)

    assert await adapter.handle_message(message("elicitation/whatever", {})) is None
    assert await adapter.handle_message({"jsonrpc": "2.0", "id": "x", "result": {"action": "accept"}}) is None
    assert await adapter.handle_message({"jsonrpc": "2.0", "id": "x", "error": {"code": 1}}) is None


@pytest.mark.parametrize(
    ("kind", "reply", "value"),
    [
        ("text", {"result": {"action": "accept", "content": {"value": "Ana"}}}, "Ana"),
        ("text", {"result": {"responded": True, "value": "Ana"}}, "Ana"),
        ("text", {"result": {"action": "decline"}}, None),
        ("text", {"result": 5}, None),
        ("text", {"error": {"code": -32601, "message": "no"}}, None),
        ("secret", {"result": {"responded": True, "value": "hunter2"}}, "hunter2"),
    ],
)
async def test_somebody_else_can_be_asked_by_message(kind: str, reply: Json, value: object) -> None:
    manager = ElicitationManager()
    adapter = ElicitationProtocolAdapter(manager=manager)
    sent: list[Json] = []

    async def send(outgoing: Json) -> None:
        sent.append(json.loads(json.dumps(outgoing)))
        await adapter.handle_message({"jsonrpc": "2.0", "id": outgoing["id"], **reply})

    manager.register_handler(adapter.ask_via(send))
    async with asyncio.timeout(5):
        answer = await (manager.get_text("Name?") if kind == "text" else manager.get_secret("Key?"))

    assert (answer if answer is None or isinstance(answer, str) else answer.reveal()) == value
    assert [one["method"] for one in sent] == ["elicitation/create" if kind == "text" else "elicitation/request"]


@pytest.mark.parametrize(("kind", "method"), [("text", "notifications/cancelled"), ("secret", "elicitation/cancel")])
async def test_a_question_that_was_sent_and_is_over_is_withdrawn(kind: str, method: str) -> None:
    manager = ElicitationManager(default_timeout=0.01)
    adapter = ElicitationProtocolAdapter(manager=manager)
    sent: list[Json] = []

    async def send(outgoing: Json) -> None:
        sent.append(outgoing)

    manager.register_handler(adapter.ask_via(send))
    await (manager.get_text("Name?", id="q") if kind == "text" else manager.get_secret("Key?", id="q"))

    assert sent[1]["method"] == method
    assert sent[1]["params"]["requestId"] == "q"
    assert "id" not in sent[1]


async def test_a_handler_of_the_adapters_own_is_bound_by_the_same_rules() -> None:
    adapter = adapter_for(lambda _: "dev", custom_handler=always_moon)

    asked = create_select_request("Where?", [SelectOption("dev")], tool_name="deploy", id="q")
    reply = await adapter.handle_message(asked)

    assert reply is not None
    assert reply["result"]["responded"] is False
    assert "option" in reply["result"]["error"]


async def test_a_message_cannot_make_a_question_wait_for_ever() -> None:
    seconds: list[float | None] = []

    def handler(request: Elicitation) -> bool:
        seconds.append(request.timeout)
        return True

    adapter = adapter_for(handler, max_timeout=100.0, default_timeout=50.0)
    for timeout in (15000, 10**9, None):
        params = {"type": "confirmation", "message": "?", "timeout": timeout}
        await adapter.handle_message(message("elicitation/request", params, id=1))

    assert seconds == [15.0, 100.0, 50.0]


async def test_messages_are_logged_without_what_they_say(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    adapter = adapter_for(lambda _: "hunter2", enable_logging=True)

    await adapter.handle_message(message("elicitation/request", {"type": "secret", "message": "The key?"}, id="r1"))

    assert "elicitation/request" in caplog.text
    assert "r1" in caplog.text
    assert "hunter2" not in caplog.text
    assert "The key?" not in caplog.text


def test_messages_are_made_in_camel_case_and_milliseconds() -> None:
    asked = create_confirmation_request(
        "Are you sure?", tool_name="dropTable", confirm_label="Drop it", cancel_label="Keep", timeout=15, id="q"
    )

    assert is_elicitation_protocol_message(asked)
    assert asked["id"] == "q"
    assert asked["params"] == {
        "type": "confirmation",
        "message": "Are you sure?",
        "id": "q",
        "toolName": "dropTable",
        "timeout": 15000,
        "confirmLabel": "Drop it",
        "cancelLabel": "Keep",
        "fieldName": "confirmed",
    }


@pytest.mark.parametrize(
    "asked",
    [
        create_text_input_request("?", tool_name="t", min_length=0, pattern="^a", default_value="", server_id="s"),
        create_select_request("?", [SelectOption("a", "A", "first")], tool_name="t", context={"some_key": False}),
        create_form_request(
            "?", [FormField("snake_name", validation=FieldValidation(0, 1), default_value=0)], tool_name="t"
        ),
    ],
)
def test_a_message_can_be_read_back(asked: Json) -> None:
    params = json.loads(json.dumps(asked["params"]))

    request = read_request(params, id=asked["id"])

    assert write_request(request) == params
    assert request.tool_name == "t"


def test_the_default_of_a_secret_is_not_in_a_message() -> None:
    fields = [FormField("word", type="password", default_value="hunter2")]

    asked = create_form_request("?", fields, tool_name="t", default_value={"word": "hunter2"})

    assert "hunter2" not in json.dumps(asked)


@pytest.mark.parametrize(
    ("sent", "ours"),
    [
        (message("elicitation/create", {}), True),
        (message("elicitation/response", {}), True),
        (message("tools/call", {}), False),
        ({"method": "elicitation/request"}, False),
        ({"jsonrpc": "2.0", "method": ["elicitation/request"]}, False),
        (None, False),
    ],
)
def test_messages_about_questions_are_told_apart(sent: object, ours: bool) -> None:
    assert is_elicitation_protocol_message(sent) is ours


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="default_timeout"):
        ElicitationProtocolAdapter(default_timeout=0)
    assert global_elicitation_protocol.manager is global_elicitation_manager
