"""Questions are put, and each has one end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from trunkline.errors import ConfigError
from trunkline.events import Event
from trunkline.questions.events import (
    ElicitationCancelled,
    ElicitationFailed,
    ElicitationRequested,
    ElicitationResponded,
    ElicitationTimedOut,
)
from trunkline.questions.fields import FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FormRequest,
    SecretRequest,
    SelectRequest,
    TextRequest,
)
from trunkline.questions.manager import (
    ElicitationManager,
    ElicitationManagerConfig,
    answered_elsewhere,
    create_elicitation_context,
    global_elicitation_manager,
)

EVENTS = (ElicitationRequested, ElicitationResponded, ElicitationFailed, ElicitationTimedOut, ElicitationCancelled)
SOON = 0.01


def heard(manager: ElicitationManager) -> list[Event]:
    """Everything that the manager tells, as it happens."""
    events: list[Event] = []
    for kind in EVENTS:
        manager.on(kind, events.append)
    return events


async def asked(manager: ElicitationManager) -> None:
    """Return when the next question waits."""
    waits = asyncio.Event()
    stop = manager.on(ElicitationRequested, lambda _: waits.set())
    async with asyncio.timeout(5):
        await waits.wait()
    stop()


async def test_a_persons_yes_confirms() -> None:
    async def handler(request: Elicitation) -> ElicitationResponse:
        assert isinstance(request, ConfirmationRequest)
        assert (request.message, request.tool_name, request.confirm_label) == ("Delete?", "delete", "Yes, delete")
        return ElicitationResponse(request.id, responded=True, value=True)

    manager = ElicitationManager(handler=handler)

    assert await manager.confirm("Delete?", tool_name="delete", confirm_label="Yes, delete")


@pytest.mark.parametrize(
    "answer", [None, False, 1, "yes", {}, [], {"value": "yes"}, {"responded": False, "value": True}]
)
async def test_anything_but_yes_does_not_confirm(answer: object) -> None:
    manager = ElicitationManager(handler=lambda _: answer)

    assert await manager.confirm("Delete?") is False


@pytest.mark.parametrize("fallback", ["timeout", "default", "error"])
async def test_a_timeout_never_confirms_whatever_the_default(fallback: Any) -> None:
    manager = ElicitationManager(handler=answered_elsewhere, fallback_behavior=fallback, default_timeout=SOON)
    events = heard(manager)

    response = await manager.request(ConfirmationRequest("Delete?", default_value=True))

    assert (response.responded, response.timed_out, response.value) == (False, True, None)
    assert not await manager.confirm("Delete?", default_value=True)
    assert [type(event) for event in events] == [ElicitationRequested, ElicitationTimedOut] * 2


@pytest.mark.parametrize(("fallback", "value"), [("timeout", None), ("default", "untitled"), ("error", None)])
async def test_after_a_timeout_a_default_stands_in_only_if_that_was_chosen(fallback: Any, value: object) -> None:
    manager = ElicitationManager(handler=answered_elsewhere, fallback_behavior=fallback)

    response = await manager.request(TextRequest("Name?", default_value="untitled", timeout=SOON))

    assert (response.responded, response.timed_out, response.value) == (False, True, value)
    assert response.error


async def test_a_handler_is_cancelled_when_the_time_is_over() -> None:
    ended: list[str] = []

    async def handler(request: Elicitation) -> None:
        try:
            await answered_elsewhere(request)
        finally:
            ended.append(request.message)

    manager = ElicitationManager(handler=handler)

    await manager.request(TextRequest("Name?", timeout=SOON))

    assert ended == ["Name?"]


async def test_a_handler_that_fails_is_an_answer_that_is_missing() -> None:
    def handler(request: Elicitation) -> None:
        raise RuntimeError("no screen")

    manager = ElicitationManager(handler=handler)
    events = heard(manager)

    response = await manager.request(TextRequest("Name?"))

    assert not response.responded
    assert "no screen" in response.error
    assert isinstance(events[-1], ElicitationFailed)
    assert events[-1].error == response.error


async def test_a_handler_that_ends_by_cancelling_itself_leaves_nobody_waiting() -> None:
    async def handler(request: Elicitation) -> None:
        raise asyncio.CancelledError

    async with asyncio.timeout(5):
        response = await ElicitationManager(handler=handler).request(TextRequest("Name?"))

    assert response.cancelled


@pytest.mark.parametrize(
    ("fallback", "default", "expected"),
    [
        ("timeout", "x", (False, True, None, True)),
        ("default", "x", (True, False, "x", False)),
        ("default", None, (False, False, None, True)),
        ("error", "x", (False, False, None, True)),
    ],
)
async def test_when_disabled_nobody_is_asked_and_the_fallback_says_what_comes(
    fallback: Any, default: Any, expected: tuple[Any, ...]
) -> None:
    manager = ElicitationManager(enabled=False, fallback_behavior=fallback, handler=lambda _: "asked")

    response = await manager.request(TextRequest("Name?", default_value=default))

    assert (response.responded, response.timed_out, response.value, bool(response.error)) == expected
    assert not await manager.confirm("Delete?", default_value=True)


async def test_without_a_handler_a_default_answers_but_never_confirms() -> None:
    manager = ElicitationManager()

    assert await manager.get_text("Name?", default_value="untitled") == "untitled"
    response = await manager.request(TextRequest("Name?"))
    assert (response.responded, response.error) == (False, "No elicitation handler configured")
    assert not await manager.confirm("Delete?", default_value=True)


async def test_an_option_that_is_not_listed_is_no_answer() -> None:
    options = (SelectOption("dev"), SelectOption("prod", disabled=True))
    manager = ElicitationManager(handler=lambda _: "prod")
    events = heard(manager)

    response = await manager.request(SelectRequest("Where?", options=options))

    assert (response.responded, response.value) == (False, None)
    assert "option" in response.error
    assert isinstance(events[-1], ElicitationFailed)


async def test_a_question_asked_twice_at_once_is_refused_and_the_first_goes_on() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(manager.request(TextRequest("Name?", id="q")))
        await asked(manager)
        second = await manager.request(TextRequest("Name?", id="q"))
        manager.respond("q", "Ana")

    assert "already" in second.error
    assert first.result().value == "Ana"
    assert (await manager.request(TextRequest("Name?", id="q", timeout=SOON))).timed_out


async def test_more_questions_than_may_wait_are_refused() -> None:
    manager = ElicitationManager(handler=answered_elsewhere, max_pending=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.request(TextRequest("Name?", id="q")))
        await asked(manager)
        second = await manager.request(TextRequest("Name?"))
        manager.clear_pending()

    assert "wait" in second.error
    assert manager.get_pending_count() == 0


async def test_a_waiting_question_can_be_answered_from_elsewhere() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.request(ConfirmationRequest("Delete?", id="q")))
        await asked(manager)
        waiting = [request.id for request in manager.get_pending_requests()]
        told = manager.respond("q", True)
        again = manager.respond("q", False)

    assert waiting == ["q"]
    assert told is not None
    assert told.confirmed
    assert again is None
    assert task.result().confirmed
    assert manager.respond("nobody", True) is None


async def test_a_listener_may_answer_at_once() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    manager.on(ElicitationRequested, lambda event: manager.respond(event.request.id, "Ana"))

    assert await manager.get_text("Name?") == "Ana"


async def test_a_wrong_answer_from_elsewhere_ends_the_question_without_one() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    manager.on(ElicitationRequested, lambda event: manager.respond(event.request.id, 5))

    response = await manager.request(TextRequest("Name?"))

    assert not response.responded
    assert "text" in response.error


async def test_a_waiting_question_can_be_cancelled() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    events = heard(manager)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.request(TextRequest("Name?", id="q")))
        await asked(manager)
        assert manager.cancel("q", "User navigated away")
        assert not manager.cancel("q")

    response = task.result()
    assert (response.responded, response.cancelled, response.error) == (False, True, "User navigated away")
    assert events[-1] == ElicitationCancelled("q", "User navigated away")


async def test_clearing_cancels_all_that_waits() -> None:
    manager = ElicitationManager(handler=answered_elsewhere)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.request(TextRequest("Name?")))
        await asked(manager)
        manager.clear_pending()

    assert (task.result().cancelled, task.result().error) == (True, "Cleared")


@pytest.mark.parametrize(("fallback", "responded"), [("timeout", False), ("default", True), ("error", False)])
async def test_disabling_ends_what_waits_by_the_fallback(fallback: Any, responded: bool) -> None:
    manager = ElicitationManager(handler=answered_elsewhere, fallback_behavior=fallback)
    async with asyncio.TaskGroup() as group:
        text = group.create_task(manager.request(TextRequest("Name?", default_value="x")))
        await asked(manager)
        yes = group.create_task(manager.request(ConfirmationRequest("Delete?", default_value=True)))
        await asked(manager)
        manager.set_enabled(False)

    assert text.result().responded is responded
    assert not yes.result().confirmed
    assert not manager.is_enabled()
    assert manager.get_pending_count() == 0


async def test_when_the_asker_goes_away_so_does_the_question() -> None:
    ended = asyncio.Event()

    async def handler(request: Elicitation) -> None:
        try:
            await answered_elsewhere(request)
        finally:
            ended.set()

    manager = ElicitationManager(handler=handler)
    events = heard(manager)
    started = asyncio.Event()
    manager.on(ElicitationRequested, lambda _: asyncio.get_running_loop().call_soon(started.set))
    task = asyncio.create_task(manager.request(TextRequest("Name?")))
    await started.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert manager.get_pending_count() == 0
    assert isinstance(events[-1], ElicitationCancelled)


async def test_a_handler_that_clings_to_life_holds_the_asker_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trunkline.questions.manager.GRACE", SOON)
    release = asyncio.Event()
    gone = asyncio.Event()

    async def handler(request: Elicitation) -> None:
        try:
            await answered_elsewhere(request)
        finally:
            await release.wait()
            gone.set()

    async with asyncio.timeout(5):
        response = await ElicitationManager(handler=handler).request(TextRequest("Name?", timeout=SOON))
        release.set()
        await gone.wait()

    assert response.timed_out


async def test_secrets_are_in_no_event_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().slow_callback_duration = 0.0
    asyncio.get_running_loop().set_debug(True)
    fields = [FormField("user"), FormField("password", type="password", default_value="hunter2")]
    answers: dict[str, object] = {"secret": "hunter2", "form": {"user": "ana", "password": "hunter2"}}
    manager = ElicitationManager(handler=lambda request: answers[request.type])
    events = heard(manager)

    secret = await manager.get_secret("Key?", default_value="hunter2")
    form = await manager.form("Log in", fields)
    asyncio.get_running_loop().set_debug(False)

    assert secret == Secret("hunter2")
    assert form == {"user": "ana", "password": Secret("hunter2")}
    assert "hunter2" not in f"{events!r} {form!r} {caplog.text}"
    responded = [event.response.value for event in events if isinstance(event, ElicitationResponded)]
    assert responded == ["***", {"user": "ana", "password": "***"}]
    for event in events:
        if isinstance(event, ElicitationRequested):
            assert event.request.default_value is None
            if isinstance(event.request, FormRequest):
                assert event.request.fields[1].default_value is None


async def test_what_a_handler_says_of_a_secret_when_it_fails_goes_nowhere() -> None:
    def handler(request: Elicitation) -> None:
        raise ValueError("hunter2 is too weak")

    manager = ElicitationManager(handler=handler)
    events = heard(manager)

    response = await manager.request(SecretRequest("Key?"))

    assert "hunter2" not in f"{response!r} {events!r}"
    assert "ValueError" in response.error


async def test_a_question_whose_pattern_cannot_be_bounded_is_asked_of_nobody() -> None:
    manager = ElicitationManager(handler=lambda _: "aa")
    events = heard(manager)

    response = await manager.request(TextRequest("Name?", pattern=r"(a)\1"))

    assert "pattern" in response.error
    assert events == []


async def test_every_kind_can_be_asked_in_one_line_and_keeps_its_server() -> None:
    answers: dict[str, object] = {
        "confirmation": True,
        "text": "Ana",
        "select": "dev",
        "multiselect": ["dev"],
        "form": {"a": "b"},
        "secret": "k",
        "file": "a.csv",
    }
    servers: list[str] = []

    def handler(request: Elicitation) -> object:
        servers.append(f"{request.tool_name}@{request.server_id}")
        return answers[request.type]

    ask = create_elicitation_context(ElicitationManager(), tool_name="t", server_id="s", handler=handler)

    assert await ask.confirm("?")
    assert await ask.get_text("?") == "Ana"
    assert await ask.select("?", ["dev", SelectOption("prod")]) == "dev"
    assert await ask.multi_select("?", ["dev", "prod"], max_selections=1) == ["dev"]
    assert await ask.form("?", [FormField("a")]) == {"a": "b"}
    assert await ask.get_secret("?") == Secret("k")
    assert [file.path for file in await ask.file("?", accept=[".csv"])] == ["a.csv"]
    assert servers == ["t@s"] * 7


async def test_the_handler_of_one_call_does_not_ask_for_another() -> None:
    manager = ElicitationManager(handler=lambda _: "everyone's")

    assert await manager.get_text("Name?", handler=lambda _: "mine") == "mine"
    assert await manager.get_text("Name?", server_id="s") == "everyone's"
    manager.register_handler(lambda _: "new")
    assert await manager.get_text("Name?") == "new"


async def test_listeners_can_be_named_by_text_and_leave() -> None:
    manager = ElicitationManager(handler=lambda _: "x")
    seen: list[ElicitationRequested] = []
    manager.on("elicitation_requested", seen.append)
    await manager.get_text("Name?")
    manager.off("elicitation_requested", seen.append)
    await manager.get_text("Name?")

    assert len(seen) == 1
    with pytest.raises(ValueError, match="no event"):
        manager.on("elicitation_vanished", seen.append)


@pytest.mark.parametrize(
    "options",
    [{"default_timeout": 0}, {"default_timeout": float("nan")}, {"fallback_behavior": "hope"}, {"max_pending": 0}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ElicitationManager(**options)


def test_the_defaults_are_those_of_the_documents() -> None:
    config = ElicitationManagerConfig()

    assert (config.default_timeout, config.enabled, config.fallback_behavior) == (60.0, True, "timeout")
    assert config.handler is None
    assert global_elicitation_manager.is_enabled()
