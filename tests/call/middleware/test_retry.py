"""What is tried again, when, and how often."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, READER, WRITER, Person, Recorder, tool
from trunkline.balance.failover import RetryBudget
from trunkline.call.middleware.chain import CallNext, ToolContext
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.call.middleware.retry import create_retry_middleware
from trunkline.errors import (
    AuthorizationNeededError,
    BusyError,
    ConfigError,
    InvalidArgumentsError,
    NoServerError,
    ProtocolError,
    ServerRefusedError,
    SessionLostError,
    TrunklineError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from trunkline.tool import Annotations, Tool, ToolResult


class Pauses(list[float]):
    """A sleep that takes no time, but is remembered."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


class Highest(Random):
    """Always the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        return b


async def attempts(annotations: Annotations, error: Exception, *, sleep: Pauses | None = None, **options: Any) -> int:
    run = Recorder(*[error] * 10)
    manager = ToolIntegrationManager([create_retry_middleware(sleep=Pauses() if sleep is None else sleep, **options)])
    manager.register_tool(tool(run, annotations))
    with suppress(TrunklineError):
        await manager.execute_tool("t", context=ToolContext(confirmed=True))
    return len(run.calls)


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("gone"),
        NoServerError("none"),
        SessionLostError("lost"),
        UpstreamError("failed"),
        UpstreamTimeoutError("late"),
        BusyError("busy"),
    ],
)
async def test_what_passes_is_tried_again_for_tools_that_may_be_called_twice(error: TrunklineError) -> None:
    assert await attempts(READER, error) == 4
    assert await attempts(Annotations(idempotent_hint=True), error) == 4


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("not MCP"),
        AuthorizationNeededError("who are you"),
        ServerRefusedError("404", code=404),
        InvalidArgumentsError("no"),
        ConfigError("no"),
        ValueError("404"),
    ],
)
async def test_what_lasts_is_not_tried_again(error: Exception) -> None:
    assert await attempts(READER, error) == 1


@pytest.mark.parametrize(
    "annotations",
    [
        WRITER,
        DESTROYER,
        Annotations(),
        Annotations(read_only_hint=True, destructive_hint=True),
        Annotations(idempotent_hint=True, destructive_hint=True),
    ],
)
@pytest.mark.parametrize("error", [UnreachableError("gone"), UpstreamTimeoutError("late")])
async def test_a_tool_that_may_not_be_called_twice_is_called_once(
    annotations: Annotations, error: TrunklineError
) -> None:
    assert await attempts(annotations, error) == 1


async def test_a_destructive_tool_that_says_it_reads_is_asked_about_once_and_run_once() -> None:
    run, person = Recorder(UnreachableError("gone")), Person()
    both = Annotations(read_only_hint=True, destructive_hint=True)
    manager = ToolIntegrationManager([create_retry_middleware(sleep=Pauses())], elicitation=person.elicitation)

    with pytest.raises(UnreachableError):
        await manager.register_tool(tool(run, both)).execute_tool("t")

    assert (len(run.calls), len(person.asked)) == (1, 1)


async def test_a_failed_result_is_an_answer_and_not_tried_again() -> None:
    run = Recorder(ToolResult.failed("no such file"))
    manager = ToolIntegrationManager([create_retry_middleware(sleep=Pauses())]).register_tool(tool(run))

    assert (await manager.execute_tool("t")).text == "no such file"
    assert len(run.calls) == 1


async def test_pauses_double_up_to_the_longest() -> None:
    pauses = Pauses()

    await attempts(READER, UnreachableError("gone"), max_retries=5, max_delay=5.0, sleep=pauses, random=Highest())

    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_pauses_are_a_random_part_of_that() -> None:
    pauses = Pauses()

    await attempts(READER, UnreachableError("gone"), max_retries=9, sleep=pauses, random=Random(1))

    assert len(set(pauses)) == 9
    assert all(0 <= pause <= min(30, 2**n) for n, pause in enumerate(pauses))


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    busy = BusyError("busy")
    busy.retry_after = 7
    pauses = Pauses()

    await attempts(READER, busy, max_retries=2, sleep=pauses)

    assert pauses == [7.0, 7.0]


async def test_a_server_that_wants_more_time_than_we_wait_is_left_alone() -> None:
    busy = BusyError("busy")
    busy.retry_after = 31

    assert await attempts(READER, busy) == 1


async def test_retries_stay_within_the_budget() -> None:
    budget = RetryBudget(ratio=0.2, floor=0.0, clock=lambda: 0.0)
    runs = [await attempts(READER, UnreachableError("gone"), budget=budget) for _ in range(100)]

    assert sum(runs) <= 120


async def test_middleware_inside_know_which_attempt_it_is() -> None:
    seen: list[int] = []

    async def look(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        seen.append(context.attempt)
        return await call_next()

    run = Recorder(UnreachableError("gone"), UnreachableError("gone"))
    manager = ToolIntegrationManager([create_retry_middleware(sleep=Pauses()), look]).register_tool(tool(run))

    await manager.execute_tool("t")

    assert seen == [1, 2, 3]


async def test_no_retries_are_wanted_when_there_are_none() -> None:
    assert await attempts(READER, UnreachableError("gone"), max_retries=0) == 1


@pytest.mark.parametrize(
    "options", [{"max_retries": -1}, {"delay": -1.0}, {"delay": float("nan")}, {"delay": 2.0, "max_delay": 1.0}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max_retries|delay"):
        create_retry_middleware(**options)
