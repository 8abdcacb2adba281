"""A call goes to the next server where that does no harm."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.balance.clock import Clock
from trunkline.balance.balancer import Balancer
from trunkline.balance.budget import RetryBudget
from trunkline.balance.failover import failover, safe_to_repeat
from trunkline.balance.health import HealthOptions
from trunkline.balance.member import MemberOptions
from trunkline.errors import (
    BusyError,
    NoServerError,
    ServerRefusedError,
    TrunklineError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from trunkline.tool import Annotations


class Servers:
    """Three servers, of which some fail."""

    def __init__(self, **failures: TrunklineError) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.circle = Balancer({name: MemberOptions() for name in "abc"}, strategy="failover-only", clock=Clock())
        self.budget = RetryBudget(clock=Clock())

    async def attempt(self, server: str) -> str:
        self.calls.append(server)
        if server in self.failures:
            raise self.failures[server]
        return server

    async def call(self, *, repeatable: bool = False, max_retries: int = 3) -> str:
        return await failover(
            lambda tried: self.circle.take(exclude=tried),
            self.attempt,
            repeatable=repeatable,
            max_retries=max_retries,
            budget=self.budget,
        )


@pytest.mark.parametrize("error", [UnreachableError("gone"), BusyError("full")])
async def test_a_call_that_did_not_happen_goes_to_the_next_server(error: TrunklineError) -> None:
    servers = Servers(a=error)

    assert await servers.call() == "b"
    assert servers.calls == ["a", "b"]


@pytest.mark.parametrize("error", [UpstreamError("broke"), UpstreamTimeoutError("late")])
async def test_a_call_that_may_have_happened_is_made_once(error: TrunklineError) -> None:
    servers = Servers(a=error)

    with pytest.raises(type(error)):
        await servers.call()

    assert servers.calls == ["a"]


@pytest.mark.parametrize("error", [UpstreamError("broke"), UpstreamTimeoutError("late")])
async def test_a_call_that_does_no_harm_is_repeated(error: TrunklineError) -> None:
    servers = Servers(a=error, b=error)

    assert await servers.call(repeatable=True) == "c"


async def test_an_answer_is_final() -> None:
    servers = Servers(a=ServerRefusedError("no", code=-32602))

    with pytest.raises(ServerRefusedError):
        await servers.call(repeatable=True)

    assert servers.calls == ["a"]


async def test_the_last_error_is_raised_when_all_have_failed() -> None:
    servers = Servers(a=UnreachableError("1"), b=UnreachableError("2"), c=UnreachableError("3"))

    with pytest.raises(UnreachableError, match="3"):
        await servers.call()

    assert servers.calls == ["a", "b", "c"]
    assert all(state.load == 0 for state in servers.circle.states().values())


async def test_retries_are_counted() -> None:
    servers = Servers(a=UnreachableError("1"), b=UnreachableError("2"))

    with pytest.raises(UnreachableError, match="2"):
        await servers.call(max_retries=1)
    with pytest.raises(UnreachableError, match="1"):
        await servers.call(max_retries=0)


async def test_without_servers_there_is_no_call() -> None:
    servers = Servers()
    for name in "abc":
        servers.circle.set_healthy(name, False)

    with pytest.raises(NoServerError):
        await servers.call()

    assert servers.calls == []


async def test_retries_stay_within_the_budget_when_a_third_of_the_calls_fail() -> None:
    random, calls = Random(5), Counter[str]()
    circle = Balancer(
        {name: MemberOptions() for name in "abcde"}, clock=Clock(), health=HealthOptions(consecutive_errors=0)
    )
    budget = RetryBudget(clock=Clock())

    async def attempt(server: str) -> str:
        calls["attempts"] += 1
        if random.random() < 0.3:
            raise UnreachableError("gone")
        return server

    for _ in range(5_000):
        calls["calls"] += 1
        try:
            await failover(
                lambda tried: circle.take(exclude=tried), attempt, repeatable=True, max_retries=3, budget=budget
            )
        except UnreachableError:
            calls["failed"] += 1

    assert calls["attempts"] - calls["calls"] <= 0.2 * calls["calls"] + 3
    assert calls["failed"] > 0


@pytest.mark.parametrize(
    ("annotations", "safe"),
    [
        (Annotations(), False),
        (Annotations(read_only_hint=True), True),
        (Annotations(idempotent_hint=True), True),
        (Annotations(idempotent_hint=True, destructive_hint=True), False),
        (Annotations(read_only_hint=True, destructive_hint=True), False),
        (Annotations(destructive_hint=False), False),
    ],
)
def test_what_is_safe_to_repeat(annotations: Annotations, safe: bool) -> None:
    assert safe_to_repeat(annotations) is safe
