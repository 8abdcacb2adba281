"""Programs over tools through the hub: what they give, what they raise, and what ends them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import faulty, make_config, until
from tests.sandbox.shop import Shop, shop_hub
from trunkline import Config, Hub, MCPServerBase, ProgramError, Tool, ToolResult, open_hub
from trunkline.call.middleware.chain import CallNext, ToolContext
from trunkline.config.records import AuditSection
from trunkline.config.tenancy import LimitsSection
from trunkline.errors import BusyError, ConfigError, LimitReachedError, UnknownNameError
from trunkline.sandbox import pool as pool_module
from trunkline.sandbox.messages import raised
from trunkline.workers import in_thread

Scene = tuple[Hub, Shop]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Scene]:
    async with shop_hub(tmp_path_factory.mktemp("home"), processes=2, compute=1.0, calls=20) as opened:
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", 2),
        ("(await look(item=3))['price']", 30),
        ("import asyncio\n[x['item'] for x in await asyncio.gather(look(item=1), look(item=2))]", [1, 2]),
        ("async def main():\n    return (await look(item=4))['item']\nawait main()", 4),
        ("f = look\n(await f(**{'item': 5}))['item']", 5),
        ("await say_it(text='hello')", "hello"),
        ("await say_it(text='{\"a\": [1, 2]}')", {"a": [1, 2]}),
        ("try:\n    await fail()\nexcept RuntimeError as error:\n    x = str(error)\n'till' in x", True),
        ("try:\n    await look(item='x')\nexcept Exception as error:\n    x = type(error).__name__\nx", "RuntimeError"),
        ("import asyncio\nawait asyncio.sleep(0.001)\n(1, {2}, b'x', None)", [1, [2], "eA==", None]),
        ("", None),
    ],
)
async def test_a_program_gives_its_last_expression_and_calls_tools_as_functions(
    scene: Scene, code: str, value: object
) -> None:
    assert (await scene[0].run(code)).value == value


async def test_a_result_says_what_was_printed_how_many_calls_were_made_and_how_long_it_took(scene: Scene) -> None:
    result = await scene[0].run("for i in range(3):\n    print(await look(item=i))\n")

    assert result.printed == "".join(f"{{'item': {i}, 'price': {10 * i}}}\n" for i in range(3))
    assert (result.value, result.calls, result.duration > 0) == (None, 3, True)


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        ("x = 1\ny = x.foo", 2, "AttributeError"),
        ("x = 1\nyield x", 2, "Build a list"),
        ("class A(ValueError):\n    pass", 1, "without bases"),
        ("x = {}\ndel x", 2, ".pop()"),
        ("import statistics", 1, "sum(xs) / len(xs)"),
        ("import urllib.request", 1, "call a tool"),
        ("open('/etc/passwd')", 1, "no files"),
        ("import asyncio\nasyncio.create_task(look(item=1))", 2, "asyncio.gather"),
        (
            "import asyncio\nawait asyncio.gather(look(item=1), return_exceptions=True)",
            2,
            "Catch inside each coroutine",
        ),
        ("import time\ntime.sleep(1)", 2, "await asyncio.sleep"),
        ("x = look(item=1)\nx['price']", 2, "awaited"),
        ("await lok(item=1)", 1, "did you mean look?"),
        ("await look(1)", 1, "keyword arguments alone"),
        ("def f(:\n", 1, "SyntaxError"),
        ("x = 1\nawait fail()", 2, "the till is empty"),
        ("while True:\n    pass", 0, "Compute less"),
        ("x = []\nwhile True:\n    x.append('x' * 9999)", 0, "64 MiB"),
        ("look(item=1)\n5", 0, "await look("),
        ("for i in range(99):\n    await look(item=i)", 0, "more than 20 calls"),
        ("while True:\n    print('x' * 999)", 0, "printed more than"),
        ("'x' * 2_000_000", 0, "bytes of JSON"),
        (
            "import asyncio\nasync def f():\n    while True:\n        await asyncio.sleep(0)\n"
            "try:\n    await f()\nexcept BaseException:\n    pass\n'it went on'",
            4,
            "stopped too often",
        ),
    ],
)
async def test_an_error_names_the_line_and_says_what_to_write_instead(
    scene: Scene, code: str, line: int, words: str
) -> None:
    with pytest.raises(ProgramError) as raised:
        await scene[0].run(code)

    assert words in str(raised.value)
    assert raised.value.line == line


GUESSES = """
told = []
for number in range(40):
    try:
        eval(f"look{number}()")
    except NameError as error:
        told.append("did you mean look" in str(error))
[told[0], sum(told) < 10, len(told)]
"""


async def test_who_guesses_many_names_is_not_told_of_each_what_is_spelt_alike(scene: Scene) -> None:
    assert (await scene[0].run(GUESSES)).value == [True, True, 40]


async def test_half_of_a_character_is_refused_in_a_program(scene: Scene) -> None:
    with pytest.raises(ProgramError, match="half of a character"):
        await scene[0].run("'\ud83d'")


async def test_half_of_a_character_is_replaced_in_what_a_call_raises() -> None:
    assert raised("RuntimeError", "half \ud83d").message == "half ?"


async def test_what_was_printed_before_a_failure_is_not_lost(scene: Scene) -> None:
    with pytest.raises(ProgramError) as raised:
        await scene[0].run("print('so far')\nawait fail()")

    assert raised.value.printed == "so far\n"


async def test_a_program_that_is_cancelled_takes_its_tools_with_it(scene: Scene) -> None:
    hub, shop = scene
    shop.begun.clear()
    shop.left.clear()
    running = asyncio.ensure_future(hub.run("import asyncio\nawait asyncio.gather(wait(), look(item=1))"))
    await asyncio.wait_for(shop.begun.wait(), 5)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    await asyncio.wait_for(shop.left.wait(), 5)
    assert hub.relay.programs.pool.busy == 0


async def test_a_deadline_ends_a_program_that_waits_for_a_tool_and_the_tool_as_well(scene: Scene) -> None:
    hub, shop = scene
    shop.left.clear()

    with pytest.raises(ProgramError, match=r"more than 0\.3 s"):
        await hub.run("await wait()", timeout=0.3)

    await asyncio.wait_for(shop.left.wait(), 5)


async def test_when_one_of_several_calls_fails_the_others_do_not_outlive_the_program(scene: Scene) -> None:
    hub, shop = scene
    shop.begun.clear()
    shop.left.clear()

    with pytest.raises(ProgramError, match="till"):
        await hub.run("import asyncio\nawait asyncio.gather(wait(), fail_beside())")

    await asyncio.wait_for(shop.left.wait(), 5)  # the server is told; it has its own tasks


class Panic(BaseException):
    """What native code may raise, and `except Exception` passes over."""


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Panic()])
async def test_a_call_that_somebody_else_cancels_or_that_panics_fails_in_the_program_alone(
    scene: Scene, error: BaseException
) -> None:
    hub, _ = scene

    async def broken(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        if params.get("text") == "panic":
            raise error
        return await call_next(params)

    hub.use(broken)
    caught = "try:\n    x = await say_it(text='panic')\nexcept RuntimeError as error:\n    x = str(error)\nx"

    assert "the call was ended" in (await hub.run(caught)).value
    with pytest.raises(ProgramError, match="the call was ended"):
        await hub.run("await say_it(text='panic')")
    hub.relay.middlewares.remove(broken)


@pytest.mark.parametrize("error", [asyncio.CancelledError, Panic])
async def test_what_is_no_exception_in_a_thread_is_one_for_whoever_waits(error: type[BaseException]) -> None:
    def work() -> None:
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        await in_thread(work)


async def test_a_program_whose_task_somebody_else_cancels_failed_and_did_not_cancel_who_runs_it(scene: Scene) -> None:
    hub, shop = scene
    shop.begun.clear()
    running = asyncio.ensure_future(hub.run("await wait()"))
    await asyncio.wait_for(shop.begun.wait(), 5)

    next(iter(hub.relay.programs.running())).task.cancel()

    with pytest.raises(ProgramError, match="ended from outside"):
        await running


async def test_nothing_of_one_program_is_there_for_the_next_in_the_same_worker(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, processes=1) as (hub, _):
        await hub.run("left = 5")

        with pytest.raises(ProgramError, match="'left' is not defined"):
            await hub.run("left")


@pytest.mark.parametrize("does", ["while True:\n    pass", "import asyncio\nawait asyncio.sleep(50)"])
@pytest.mark.parametrize("left", [True, False])
async def test_a_hub_closes_whatever_its_programs_do_and_while_they_are_being_ended(
    tmp_path: Path, does: str, *, left: bool
) -> None:
    async with shop_hub(tmp_path, processes=1, compute=30.0) as (hub, _):
        running = asyncio.ensure_future(hub.run(f"print('go')\n{does}"))
        await until(lambda: [one for one in hub.relay.programs.running() if one.run.printed], 20)
        if left:
            running.cancel()
            for _ in range(5):
                await asyncio.sleep(0)  # it is in the middle of its end

    [ended] = await asyncio.gather(running, return_exceptions=True)

    assert isinstance(ended, ProgramError | asyncio.CancelledError)


SPINS = """
import asyncio
async def spin():
    await look(item=1)
    print('go')
    while True:
        pass
await asyncio.gather(wait(), spin())
"""


async def test_tools_are_let_go_at_once_also_where_a_worker_does_not_answer(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, processes=1, compute=30.0) as (hub, shop):
        running = asyncio.ensure_future(hub.run(SPINS))
        await until(lambda: [one for one in hub.relay.programs.running() if one.run.printed], 20)
        os.kill(keeper_of(hub), signal.SIGSTOP)

        running.cancel()

        await asyncio.wait_for(shop.left.wait(), 5)
        assert hub.relay.programs.pool.busy == 1  # what is waited for is the worker, and not before the tools
        await asyncio.gather(running, return_exceptions=True)
        assert (await hub.run("1 + 1")).value == 2


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
async def test_keepers_and_workers_know_nothing_of_our_environment_and_come_after_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_OURS", "canary-5f20")
    async with shop_hub(tmp_path, processes=1) as (hub, shop):
        running = asyncio.ensure_future(hub.run("await wait()"))
        await asyncio.wait_for(shop.begun.wait(), 10)
        family = [keeper_of(hub), _child(keeper_of(hub))]

        said = "".join(_read(f"/proc/{one}/{file}") for one in family for file in ("environ", "cmdline"))
        places = [os.getpriority(os.PRIO_PROCESS, one) for one in family]
        sessions = [os.getsid(one) for one in family]

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "canary" not in said
    assert min(places) > os.getpriority(os.PRIO_PROCESS, 0)
    assert [os.getsid(0) in sessions, len(set(sessions))] == [False, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
@pytest.mark.parametrize("whole", [True, False])
async def test_a_worker_that_is_killed_with_its_keeper_or_alone_fails_its_program_and_another_takes_its_place(
    tmp_path: Path, *, whole: bool
) -> None:
    async with shop_hub(tmp_path, processes=1, compute=30.0) as (hub, _):
        running = asyncio.ensure_future(hub.run("print('go')\nwhile True:\n    pass"))
        await until(lambda: [one for one in hub.relay.programs.running() if one.run.printed], 20)

        os.kill(keeper_of(hub) if whole else _child(keeper_of(hub)), signal.SIGKILL)

        with pytest.raises(ProgramError, match="sandbox was ended"):
            await running
        assert (await hub.run("1 + 1")).value == 2


async def test_a_keeper_that_was_killed_while_nobody_needed_it_is_replaced(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, processes=1) as (hub, _):
        await hub.run("1")
        [keeper] = hub.relay.programs.pool._idle  # pyright: ignore[reportPrivateUsage] - as a kernel would
        os.kill(keeper.pid, signal.SIGKILL)
        await until(lambda: not keeper.lives)

        assert (await hub.run("1 + 1")).value == 2


async def test_what_breaks_in_the_interpreters_library_is_logged_and_the_next_program_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop_hub(tmp_path, processes=1) as (hub, _):
        launcher = (await hub.relay.programs.pool.check()).launcher
        works = launcher.read_text()
        launcher.write_text("#!/bin/sh\nexit 3\n")
        for _ in range(2):
            with pytest.raises(ProgramError, match="Its sandbox failed"):
                await hub.run("1")

        launcher.write_text(works)

        assert (await hub.run("1 + 1")).value == 2
    assert "Traceback" in caplog.text


PANICS = """
class Panic(BaseException):
    pass
class Monty:
    def __init__(self, **named):
        pass
    def __enter__(self):
        raise Panic("failed to wake I/O driver")
"""


async def test_a_panic_of_the_interpreters_library_is_told_and_the_next_program_has_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pydantic_monty.py").write_text(PANICS)
    async with shop_hub(tmp_path / "home", processes=1) as (hub, _):
        with monkeypatch.context() as changed:
            changed.setattr(sys, "path", [str(tmp_path), *sys.path])
            with pytest.raises(ProgramError, match="Its sandbox failed"):
                await hub.run("1")

        assert (await hub.run("1 + 1")).value == 2
    assert "failed to wake I/O driver" in caplog.text


def keeper_of(hub: Hub) -> int:
    """The process of the only keeper that is busy."""
    [session] = hub.relay.programs.pool._sessions  # pyright: ignore[reportPrivateUsage] - as a kernel would
    assert session.keeper is not None
    return session.keeper.pid


def _child(process: int) -> int:
    return int(_read(f"/proc/{process}/task/{process}/children").split()[0])


def _read(file: str) -> str:
    return Path(file).read_text()


async def test_a_program_that_computes_is_ended_when_it_is_cancelled(scene: Scene) -> None:
    hub, _ = scene
    running = asyncio.ensure_future(hub.run("print('go')\nwhile True:\n    pass"))
    await until(lambda: hub.relay.programs.pool.busy)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await hub.run("2 + 3")).value == 5


async def test_who_waits_for_tools_holds_no_worker_while_others_want_one(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, processes=1) as (hub, shop):
        waiting = [asyncio.ensure_future(hub.run("await wait()")) for _ in range(3)]
        await asyncio.wait_for(shop.begun.wait(), 5)

        assert (await asyncio.wait_for(hub.run("(await look(item=1))['item']"), 10)).value == 1

        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_one_user_runs_only_so_many_programs_at_once(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, running_per_user=1) as (hub, shop):
        first = asyncio.ensure_future(hub.run("await wait()"))
        await asyncio.wait_for(shop.begun.wait(), 5)

        with pytest.raises(BusyError):
            await hub.run("1")

        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_calls_of_a_program_count_and_are_recorded_as_its_users_like_any_other(tmp_path: Path) -> None:
    config = Config(limits=LimitsSection(calls_per_hour=3), audit=AuditSection(enabled=True))
    refused = "try:\n    await look(item=9)\nexcept RuntimeError as error:\n    x = str(error)\nx"
    async with shop_hub(tmp_path, config) as (hub, _):
        told = await hub.run(f"for i in range(3):\n    await look(item=i)\n{refused}", user="ana")
        with pytest.raises(LimitReachedError):
            await hub.call("look", {"item": 1}, user="ana")

    written = "".join(file.read_text() for file in (tmp_path / "audit").rglob("*.jsonl"))
    calls = [one for line in written.splitlines() if (one := json.loads(line)).get("tool") == "look"]
    assert "limit" in told.value.lower()
    assert [bool(one.get("program")) for one in calls] == [True] * 4 + [False], calls
    assert {one["who"]["user"] for one in calls} == {"ana"}
    assert len({one["program"] for one in calls[:4]}) == 1


KINDS = """
async def kind(call):
    try:
        return await call()
    except Exception as error:
        return type(error).__name__
[await kind(call) for call in (lambda: echo(text=5), hang, crash, lambda: echo(text='well'))]
"""


async def test_what_a_call_raises_tells_why_it_failed_and_the_program_goes_on(tmp_path: Path) -> None:
    sections = {"middleware": {"validate": True}}
    async with open_hub(make_config(tmp_path, {"bad": faulty(timeout=1.0)}, sections=sections)) as hub:
        await hub.ready(10)
        result = await hub.run(KINDS)

    assert result.value == ["ValueError", "TimeoutError", "RuntimeError", "well"]


async def test_types_are_checked_before_anything_runs_where_that_is_wanted(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, type_check=True) as (hub, _):
        with pytest.raises(ProgramError, match="types do not fit"):
            await hub.run("print('never')\nawait look(item='x')")

        assert (await hub.run("(await look(item=2))['price']")).value == 20


async def test_a_tool_that_programs_may_not_call_does_not_exist_for_them(scene: Scene) -> None:
    hub, _ = scene
    server = MCPServerBase(id="office", name="office")
    for name, callers in (
        ("desk", ["direct"]),
        ("nobody", []),
        ("odd", "all"),
        ("theirs", ["code_execution_20250825"]),
    ):
        server.register_tool(Tool(name, "Do it", meta={"allowed_callers": callers}, execute=lambda _: "done"))
    server.register_tool(Tool("ours", "Do it", meta={"allowed_callers": ["run_code"]}, execute=lambda _: "done"))
    await hub.mount(server)
    try:
        for name in ("desk", "nobody", "odd", "theirs", "none"):
            with pytest.raises(ProgramError, match=f"name 'office__{name}' is not defined"):
                await hub.run(f"await office__{name}()")
        assert (await hub.run("await office__ours()")).value == "done"
        with pytest.raises(UnknownNameError):
            await hub.call("office__ours")
    finally:
        await hub.unmount("office")


async def test_a_thread_can_have_no_programs_and_a_configuration_none_at_all(tmp_path: Path) -> None:
    async with shop_hub(tmp_path) as (hub, _):
        await hub.thread("t1").set_overrides(disable_programmatic_calling=True)
        with pytest.raises(ConfigError, match="in this thread"):
            await hub.run("1", thread="t1")
        assert (await hub.run("1", thread="t2")).value == 1
    async with shop_hub(tmp_path, enabled=False) as (hub, _):
        with pytest.raises(ConfigError, match="No programs are run here"):
            await hub.run("1")


async def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "is_installed", lambda: False)
    async with shop_hub(tmp_path) as (hub, _):
        with pytest.raises(ConfigError, match=r"pip install 'trunkline\[programs\]'"):
            await hub.run("1")
