"""Tools by name, and what becomes of their answers and failures."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, Person, Recorder, tool
from trunkline.call.middleware.confirm import confirmation_middleware
from trunkline.call.middleware.integration import ToolIntegrationManager, global_tool_integration_manager
from trunkline.call.middleware.logs import logging_middleware
from trunkline.call.middleware.validate import validation_middleware
from trunkline.errors import ConfigError, InvalidArgumentsError, UnknownNameError, UnreachableError
from trunkline.questions.kinds import Elicitation
from trunkline.tool import Annotations, Tool, ToolResult


async def answer(execute: Any, params: dict[str, Any] | None = None) -> ToolResult:
    return await ToolIntegrationManager().register_tool(tool(execute)).execute_tool("t", params)


async def test_a_middleware_added_later_is_further_inside() -> None:
    manager = ToolIntegrationManager()

    assert manager.use(logging_middleware).use(confirmation_middleware) is manager
    assert manager.middlewares == (logging_middleware, confirmation_middleware)


async def test_a_name_that_is_taken_is_not_taken_over_by_accident() -> None:
    manager = ToolIntegrationManager().register_tool(tool(Recorder("first")))

    with pytest.raises(ConfigError, match="already"):
        manager.register_tool(tool(Recorder("second")))
    assert (await manager.execute_tool("t")).text == "first"

    manager.register_tool(tool(Recorder("second")), replace=True)
    assert (await manager.execute_tool("t")).text == "second"


def test_tools_come_and_go() -> None:
    manager = ToolIntegrationManager().register_tools([Tool("a", execute=Recorder()), Tool("b", execute=Recorder())])

    assert [one.name for one in manager.get_tools()] == ["a", "b"]
    assert manager.unregister_tool("a")
    assert not manager.unregister_tool("a")
    assert manager.get_tool("a") is None
    assert manager.get_tool("b") is not None


@pytest.mark.parametrize("broken", [Tool("t"), Tool("", execute=Recorder())])
def test_a_tool_without_a_name_or_a_function_is_refused(broken: Tool) -> None:
    with pytest.raises(ConfigError):
        ToolIntegrationManager().register_tool(broken)


async def test_an_unknown_name_brings_the_names_that_are_like_it() -> None:
    manager = ToolIntegrationManager().register_tool(Tool("read_file", execute=Recorder()))

    with pytest.raises(UnknownNameError, match="no tool 'readfile'") as caught:
        await manager.execute_tool("readfile")

    assert caught.value.hint == "Did you mean 'read_file'?"


async def test_arguments_without_names_are_refused() -> None:
    manager = ToolIntegrationManager().register_tool(tool(Recorder()))

    for params in ([1], "x", 7):
        with pytest.raises(InvalidArgumentsError):
            await manager.execute_tool("t", params)  # pyright: ignore[reportArgumentType] - what untyped callers do


async def test_async_functions_run_in_the_loop_and_others_in_a_thread() -> None:
    seen: list[threading.Thread] = []

    def plain(params: dict[str, Any]) -> str:
        seen.append(threading.current_thread())
        return f"plain {params['a']}"

    async def coroutine(params: dict[str, Any], prefix: str = "") -> str:
        seen.append(threading.current_thread())
        return f"{prefix} {params['a']}"

    def later(params: dict[str, Any]) -> Awaitable[str]:
        return coroutine(params, "later")

    assert (await answer(plain, {"a": 1})).text == "plain 1"
    assert (await answer(functools.partial(coroutine, prefix="async"), {"a": 1})).text == "async 1"
    assert (await answer(later, {"a": 1})).text == "later 1"
    assert [thread is threading.main_thread() for thread in seen] == [False, True, True]


async def test_the_loop_lives_while_a_plain_function_blocks() -> None:
    release = threading.Event()

    def block(params: dict[str, Any]) -> bool:
        return release.wait(5)

    manager = ToolIntegrationManager().register_tool(tool(block))

    call = asyncio.create_task(manager.execute_tool("t"))
    await asyncio.sleep(0)
    release.set()

    async with asyncio.timeout(5):
        assert (await call).structured is True


async def test_answers_become_results() -> None:
    assert (await answer(Recorder({"a": 1}))).structured == {"a": 1}
    assert (await answer(Recorder(ToolResult.failed("no")))).is_error
    assert (await answer(Recorder("text"))).text == "text"


@pytest.mark.parametrize(
    ("error", "text"),
    [(ValueError("no such city"), "no such city"), (KeyError(), "KeyError"), (OSError(2, "no"), "no")],
)
async def test_what_a_function_raises_becomes_a_failed_result_without_a_traceback(error: Exception, text: str) -> None:
    def plain(params: dict[str, Any]) -> None:
        raise error

    for execute in (plain, Recorder(error)):
        result = await answer(execute)

        assert result.is_error
        assert text in result.text
        assert "Traceback" not in result.text
        assert result.meta == {"tool_name": "t", "error": type(error).__name__}


async def test_a_function_that_stops_an_iteration_fails_and_does_not_hang() -> None:
    def stop(params: dict[str, Any]) -> None:
        raise StopIteration

    async with asyncio.timeout(5):
        assert (await answer(stop)).is_error


async def test_an_answer_that_cannot_be_written_is_a_failure() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert (await answer(Recorder(endless))).is_error


async def test_our_own_errors_are_raised_so_that_callers_can_tell() -> None:
    with pytest.raises(UnreachableError):
        await answer(Recorder(UnreachableError("gone")))


async def test_a_destructive_tool_asks_even_without_any_middleware() -> None:
    run = Recorder()
    manager = ToolIntegrationManager().register_tool(tool(run, DESTROYER))

    assert (await manager.execute_tool("t")).meta["cancelled"] is True
    assert run.calls == []

    asked: list[Elicitation] = []

    def agree(request: Elicitation) -> bool:
        asked.append(request)
        return True

    manager.set_elicitation_handler(agree)
    assert (await manager.execute_tool("t")).text == "done"
    assert len(asked) == 1


async def test_a_handler_replaces_the_one_before_it() -> None:
    run = Recorder()
    manager = ToolIntegrationManager(elicitation=Person(False).elicitation).register_tool(tool(run, DESTROYER))

    manager.set_elicitation_handler(Person(True).handle)
    await manager.execute_tool("t")

    assert len(run.calls) == 1
    assert manager.elicitation is not None


async def test_the_global_manager_logs_checks_and_asks_from_the_start() -> None:
    run = Recorder()
    manager = global_tool_integration_manager
    assert manager.middlewares == (logging_middleware, validation_middleware, confirmation_middleware)

    schema = {"required": ["path"]}
    manager.register_tool(Tool("global_delete", execute=run, annotations=DESTROYER, input_schema=schema))
    try:
        with pytest.raises(InvalidArgumentsError):
            await manager.execute_tool("global_delete")
        assert (await manager.execute_tool("global_delete", {"path": "/"})).meta["cancelled"] is True
    finally:
        manager.unregister_tool("global_delete")

    assert run.calls == []


async def test_calls_at_the_same_time_do_not_share_agreements() -> None:
    async def only_first(request: Elicitation) -> bool:
        asked.append(request.id)
        await asyncio.sleep(0)
        return len(asked) == 1

    asked: list[str] = []
    run = Recorder()
    manager = ToolIntegrationManager([confirmation_middleware]).set_elicitation_handler(only_first)
    manager.register_tool(tool(run, Annotations(requires_confirmation=True)))

    results = await asyncio.gather(*(manager.execute_tool("t") for _ in range(3)))

    assert len(asked) == 3
    assert len(run.calls) == sum(not result.is_error for result in results)
