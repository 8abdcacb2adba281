"""A call goes to the next server where that does no harm."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balance.circle import Circle
from tests.balance.clock import Clock
from trunkline.balance.balancer import Lease
from trunkline.balance.failover import RetryBudget, failover, safe_to_repeat
from trunkline.balance.health import HealthOptions
from trunkline.errors import (
    BusyError,
    ConfigError,
    NoServerError,
    ServerRefusedError,
    TrunklineError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from trunkline.tool import Annotations


def take(circle: Circle, tried: tuple[str, ...]) -> Lease:
    lease = circle.find(exclude=tried)
    if lease is None:
        raise NoServerError("Nobody is left.")
    return lease


class Servers:
    """Three servers, of which some fail."""

    def __init__(self, **failures: TrunklineError) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.circle = Circle("abc", strategy="failover-only", clock=Clock())
        self.budget = RetryBudget(clock=Clock())

    async def attempt(self, server: str) -> str:
        self.calls.append(server)
        if server in self.failures:
            raise self.failures[server]
        return server

    async def call(self, *, repeatable: bool = False, max_retries: int = 3) -> str:
        return await failover(
            lambda tried: take(self.circle, tried),
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
    circle = Circle("abcde", clock=Clock(), health=HealthOptions(consecutive_errors=0))
    budget = RetryBudget(clock=Clock())

    async def attempt(server: str) -> str:
        calls["attempts"] += 1
        if random.random() < 0.3:
            raise UnreachableError("gone")
        return server

    for _ in range(5_000):
        calls["calls"] += 1
        try:
            await failover(lambda tried: take(circle, tried), attempt, repeatable=True, max_retries=3, budget=budget)
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


def test_a_quiet_system_may_retry() -> None:
    clock = Clock()
    budget = RetryBudget(clock=clock)

    budget.deposit()
    assert [budget.withdraw() for _ in range(4)] == [True, True, True, False]

    clock.pass_by(10)
    assert budget.withdraw()


@given(st.lists(st.integers(0, 3), max_size=400))
def test_retries_stay_within_a_fifth_of_the_calls_and_the_floor(wanted: list[int]) -> None:
    budget = RetryBudget(clock=Clock())
    retries = 0

    for count in wanted:
        budget.deposit()
        retries += sum(budget.withdraw() for _ in range(count))

    assert retries <= 0.2 * len(wanted) + 3 + 1e-6


def test_what_is_saved_up_is_bounded() -> None:
    budget = RetryBudget(clock=Clock(), saved=5)
    for _ in range(10_000):
        budget.deposit()

    assert sum(budget.withdraw() for _ in range(100)) == 5


def test_the_floor_grows_back_slowly_and_not_beyond_itself() -> None:
    clock = Clock()
    budget = RetryBudget(clock=clock)
    while budget.withdraw():
        pass

    clock.pass_by(5)
    assert budget.balance == pytest.approx(1.5)

    clock.pass_by(1000)
    assert budget.balance == 3


def test_a_budget_can_be_shut() -> None:
    budget = RetryBudget(ratio=0, floor=0)

    budget.deposit()

    assert not budget.withdraw()


@pytest.mark.parametrize("options", [{"ratio": -0.1}, {"ratio": 1.1}, {"floor": -1}, {"floor": 60}])
def test_a_budget_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        RetryBudget(**options)  # pyright: ignore[reportArgumentType] the clock is not among them
