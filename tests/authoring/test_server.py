"""Servers to derive from: options, life, tools, and what is told of them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from trunkline import Annotations, MCPServerBase, MCPServerBaseConfig, Tool, ToolResult, ToolServer
from trunkline.authoring.context import Notice, Progress, ask, report_progress, was_cancelled
from trunkline.authoring.events import ServerReady, ServerStopped, ToolExecuted, ToolFailed, ToolRegistered, ToolRemoved
from trunkline.authoring.questions import Question
from trunkline.errors import ConfigError

SKU = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}


class Inventory(MCPServerBase):
    def __init__(self, **options: Any) -> None:
        super().__init__(id="inventory", name="Inventory Server", description="Products.", **options)
        self.life: list[str] = []
        self.register_tool(Tool("get_product", "Get a product by its SKU.", SKU, execute=lambda given: dict(given)))
        self.register_tool(Tool("delete_product", "Delete a product for good.", SKU, execute=lambda given: "gone"))

    async def on_init(self) -> None:
        await asyncio.sleep(0)
        self.life.append("init")

    async def on_start(self) -> None:
        await asyncio.sleep(0)
        self.life.append("start")

    async def on_stop(self) -> None:
        self.life.append("stop")


def server_of(*tools: Any, **options: Any) -> MCPServerBase:
    server = MCPServerBase(id="test", **options)
    server.register_tools(tools)
    return server


def outcomes(server: MCPServerBase) -> list[bool]:
    heard: list[bool] = []
    server.on(ToolExecuted, lambda event: heard.append(event.success))
    return heard


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "two words"},
        {"id": "a/b"},
        {"id": "x", "version": ""},
        {"id": "x", "transport": "carrier pigeon"},
        {"id": "x", "default_timeout": 0},
        {"id": "x", "default_timeout": float("nan")},
        {"id": "x", "default_annotations": Annotations(read_only_hint=True, destructive_hint=True)},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        MCPServerBaseConfig(**wrong)


def test_a_server_without_a_name_has_its_id_for_one() -> None:
    assert MCPServerBaseConfig("shop").name == "shop"


async def test_however_many_start_it_the_hooks_run_once() -> None:
    server = Inventory()

    await asyncio.gather(server.start(), server.init(), server.start(), server.start())

    assert server.life == ["init", "start"]
    assert server.running


async def test_a_stopped_server_starts_again_without_a_second_init() -> None:
    server = Inventory()
    await server.start()

    await asyncio.gather(server.stop(), server.stop())
    await server.start()

    assert server.life == ["init", "start", "stop", "start"]


async def test_a_start_that_fails_is_told_and_can_be_repeated() -> None:
    class Shy(Inventory):
        async def on_start(self) -> None:
            self.life.append("start")
            if self.life.count("start") == 1:
                raise OSError("not yet")

    server = Shy()
    with pytest.raises(OSError, match="not yet"):
        await server.start()
    assert not server.running
    await server.start()

    assert server.life == ["init", "start", "start"]


async def test_stopping_what_does_not_run_does_nothing() -> None:
    server = Inventory()
    heard: list[ServerStopped] = []
    server.on(ServerStopped, heard.append)

    await server.stop()

    assert server.life == []
    assert heard == []


async def test_its_life_is_told() -> None:
    server = Inventory()
    heard: list[Any] = []
    for kind in (ServerReady, ServerStopped, ToolRegistered, ToolRemoved):
        server.on(kind, heard.append)

    await server.start()
    server.register_tool(lambda: 1, name="one")
    server.remove_tool("one")
    await server.stop("enough")

    assert [event.event for event in heard] == ["server_ready", "tool_registered", "tool_removed", "server_stopped"]
    assert heard[0].tools == ("get_product", "delete_product")
    assert heard[-1].reason == "enough"


async def test_a_tool_can_be_called_before_the_start() -> None:
    result = await Inventory().execute_tool("get_product", {"sku": "W-100"})

    assert result.structured == {"sku": "W-100"}
    assert (result.meta["tool"], result.meta["server"]) == ("get_product", "inventory")


def test_two_tools_of_one_name_are_refused() -> None:
    server = Inventory()

    with pytest.raises(ConfigError, match="already has a tool 'get_product'"):
        server.register_tool(Tool("get_product", execute=lambda given: 1))


@pytest.mark.parametrize(
    "tool",
    [
        Tool("a b", execute=lambda given: 1),
        Tool("x" * 129, execute=lambda given: 1),
        Tool("idle"),
        Tool("list", input_schema={"type": "array"}, execute=lambda given: 1),
        Tool("broken", input_schema={"type": "object", "properties": {"a": {"type": 7}}}, execute=lambda given: 1),
        Tool("far", input_schema={"type": "object", "$ref": "https://example.org/x"}, execute=lambda given: 1),
    ],
    ids=lambda tool: tool.name[:10],
)
def test_tools_that_cannot_be_offered_are_refused(tool: Tool) -> None:
    with pytest.raises(ConfigError):
        server_of(tool)


async def test_arguments_that_do_not_fit_never_reach_the_tool() -> None:
    calls: list[Any] = []
    server = server_of(Tool("get", "", SKU, execute=calls.append))
    heard = outcomes(server)

    missing = await server.execute_tool("get", {})
    wrong = await server.execute_tool("get", {"sku": 7})

    assert missing.is_error
    assert "'sku' is missing" in missing.text
    assert "'sku' must be of type string" in wrong.text
    assert (calls, heard) == ([], [False, False])


async def test_an_unknown_tool_is_a_failure_and_no_exception() -> None:
    result = await Inventory().execute_tool("fly")

    assert result.is_error
    assert "no tool 'fly'" in result.text


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "error": "out of stock"},
        {"content": [{"type": "text", "text": "out of stock"}], "isError": True},
        ToolResult.failed("out of stock"),
    ],
    ids=["success is false", "isError", "a failed result"],
)
async def test_what_says_that_it_failed_is_a_failure(answer: Any) -> None:
    server = server_of(Tool("order", execute=lambda given: answer))
    heard, failures = outcomes(server), list[str]()
    server.on(ToolFailed, lambda event: failures.append(event.error))

    result = await server.execute_tool("order")

    assert result.is_error
    assert (heard, failures) == ([False], ["out of stock"])


async def test_a_tool_that_says_it_succeeded_keeps_its_answer() -> None:
    server = server_of(Tool("order", execute=lambda given: {"success": True, "data": 7}))
    heard = outcomes(server)

    result = await server.execute_tool("order")

    assert result.structured == {"success": True, "data": 7}
    assert heard == [True]


class Panic(BaseException):
    """As extensions in Rust raise it, past everything that catches exceptions."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("There is no such note."), "There is no such note."),
        (KeyError("note"), "KeyError: 'note'"),
        (SystemExit(3), "It wanted to end the program."),
        (StopIteration(), "It raised StopIteration."),
        (Panic("index out of bounds"), "It failed with Panic: index out of bounds"),
        (asyncio.CancelledError(), "It failed with CancelledError: "),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_tool_raises_is_an_answer(error: BaseException, told: str) -> None:
    def fail() -> None:
        raise error

    server = server_of(fail)
    heard = outcomes(server)

    result = await server.execute_tool("fail")

    assert result.is_error
    assert (result.text, heard) == (told, [False])


async def test_an_async_tool_cannot_end_the_program_either() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    assert (await server_of(leave).execute_tool("leave")).is_error


async def test_an_async_tool_whose_own_work_was_cancelled_answers_that_it_failed() -> None:
    async def stray() -> None:
        work = asyncio.ensure_future(asyncio.Event().wait())
        work.cancel()
        await work

    assert (await server_of(stray).execute_tool("stray")).is_error


async def test_a_tool_that_takes_too_long_fails_and_is_cancelled() -> None:
    ended: list[str] = []

    async def sleep() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    server = server_of(sleep, default_timeout=0.01)

    result = await server.execute_tool("sleep")

    assert "took longer than 0.01 s" in result.text
    assert ended == ["cancelled"]


async def test_a_tool_in_a_thread_can_see_that_nobody_waits() -> None:
    begun, seen = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        while not was_cancelled():
            pass
        seen.set()

    result = await server_of(work, default_timeout=0.05).execute_tool("work")

    assert result.is_error
    assert await asyncio.to_thread(seen.wait, 5)


async def test_a_tool_may_have_a_time_limit_of_its_own() -> None:
    async def sleep() -> None:
        await asyncio.Event().wait()

    server = MCPServerBase(id="test", default_timeout=60)
    server.register_tool(sleep, timeout=0.01)

    assert "0.01 s" in (await server.execute_tool("sleep")).text


async def test_a_tools_own_time_out_is_not_taken_for_ours() -> None:
    async def impatient() -> None:
        raise TimeoutError("the database slept")

    assert (await server_of(impatient).execute_tool("impatient")).text == "the database slept"


async def test_cancelling_a_call_cancels_the_tool_and_is_told() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    server = server_of(wait)
    heard = outcomes(server)
    task = asyncio.ensure_future(server.execute_tool("wait"))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == [False]


async def test_plain_functions_run_in_threads_and_async_ones_on_the_loop() -> None:
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def quick() -> bool:
        return threading.current_thread() is threading.main_thread()

    server = server_of(plain, quick)

    assert (await server.execute_tool("plain")).structured is False
    assert (await server.execute_tool("quick")).structured is True


async def test_a_plain_function_does_not_keep_others_waiting() -> None:
    gate = threading.Event()

    def slow() -> str:
        gate.wait(5)
        return "done"

    async def release() -> str:
        gate.set()
        return "released"

    server = server_of(slow, release)

    slow_one, quick_one = await asyncio.gather(server.execute_tool("slow"), server.execute_tool("release"))

    assert (slow_one.text, quick_one.text) == ("done", "released")


@dataclass
class Product:
    sku: str
    stock: int = 0


async def test_schemas_come_from_types_and_are_kept_by_the_answer() -> None:
    def stock(product: Product, more: int = 1) -> Product:
        """Count a product.

        Args:
            more: How many came.
        """
        return Product(product.sku, product.stock + more)

    server = server_of(stock)
    tool = server.get_tool("stock")
    assert tool is not None

    assert tool.input_schema["properties"]["more"] == {"type": "integer", "description": "How many came.", "default": 1}
    assert tool.output_schema is not None
    assert (await server.execute_tool("stock", {"product": {"sku": "a"}})).structured == {"sku": "a", "stock": 1}


async def test_an_answer_that_breaks_its_own_promise_is_a_failure() -> None:
    promise = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = server_of(Tool("count", execute=lambda given: {"n": "many"}, output_schema=promise))

    assert "not as it promises" in (await server.execute_tool("count")).text


def test_what_was_given_wins_over_words_and_words_over_the_servers_defaults() -> None:
    defaults = Annotations(security_level="internal", read_only_hint=True, open_world_hint=True, idempotent_hint=False)
    server = MCPServerBase(id="test", default_annotations=defaults)
    run = dict[str, Any](execute=dict)

    deleted = server.register_tool(Tool("delete_all", "Delete everything.", **run)).annotations
    mild = server.register_tool(Tool("remove_hat", annotations=Annotations(destructive_hint=False), **run)).annotations
    unclear = server.register_tool(Tool("frobnicate", **run)).annotations
    reads = server.register_tool(Tool("get_hat", "Get a hat.", **run)).annotations

    assert (deleted.destructive_hint, deleted.read_only_hint, deleted.security_level) == (True, False, "internal")
    assert mild.destructive_hint is False
    assert (reads.idempotent_hint, unclear.idempotent_hint) == (True, False)
    assert (unclear.read_only_hint, unclear.open_world_hint) == (True, True)


def test_a_server_can_be_asked_what_it_has() -> None:
    server = Inventory()

    assert [tool.name for tool in server.list_tools()] == ["get_product", "delete_product"]
    assert server.get_tools() == server.list_tools()
    assert [tool.name for tool in server.get_read_only_tools()] == ["get_product"]
    assert [tool.name for tool in server.get_destructive_tools()] == ["delete_product"]
    assert [tool.name for tool in server.get_tools_requiring_confirmation()] == ["delete_product"]
    assert [tool.name for tool in server.get_idempotent_tools()] == ["get_product"]
    assert server.has_tool("get_product")
    assert server.get_tool("fly") is None


def test_tools_are_found_by_any_of_their_tags() -> None:
    server = server_of(
        Tool("a", annotations=Annotations(tags=("red", "big")), execute=lambda given: 1),
        Tool("b", annotations=Annotations(tags=("blue",)), execute=lambda given: 1),
    )

    assert [tool.name for tool in server.get_tools_by_annotation("tags", ["red", "green"])] == ["a"]


def test_the_list_that_is_handed_out_is_nobodys_but_the_askers() -> None:
    server = Inventory()

    server.get_tools().clear()

    assert len(server.get_tools()) == 2


async def test_the_server_info_keeps_annotations_and_output_schemas() -> None:
    promise = {"type": "object", "properties": {"n": {"type": "integer"}}}
    server = server_of(Tool("get_count", execute=lambda given: {"n": 1}, output_schema=promise))

    stopped = server.to_server_info()
    await server.start()
    running = server.to_server_info()

    assert (stopped.status, running.status) == ("stopped", "connected")
    assert running.tools[0].output_schema == promise
    assert running.tools[0].annotations.read_only_hint is True
    assert running.tools[0].server == "test"


async def test_progress_and_questions_work_in_a_call_from_python() -> None:
    async def order() -> str:
        report_progress(1, 3, "asking")
        report_progress(1, 3, "again")
        answer = await ask("How many?", count=int)
        report_progress(3, 3)
        return f"{answer['count']} ordered"

    heard: list[Notice] = []

    def three(question: Question) -> dict[str, Any]:
        return {"action": "accept", "content": {"count": 3}}

    server = server_of(order)
    result = await server.execute_tool("order", tell=heard.append, answer=three)
    alone = await server.execute_tool("order")

    assert result.text == "3 ordered"
    assert heard == [Progress(1, 3, "asking"), Progress(3, 3)]
    assert "cannot be asked" in alone.text


async def test_both_doors_lead_to_the_same_server() -> None:
    server = ToolServer("shop", "Sells.", version="2.0.0")

    @server.tool
    def price(sku: str) -> float:
        """The price of a product."""
        return 9.99

    @server.tool(name="sell", description="Sell a product.")
    async def _(sku: str) -> str:
        return sku

    assert isinstance(server, MCPServerBase)
    assert (server.config.id, server.config.version) == ("shop", "2.0.0")
    assert [tool.name for tool in server.get_tools()] == ["price", "sell"]
    assert price("x") == 9.99
    assert (await server.execute_tool("price", {"sku": "x"})).structured == 9.99
