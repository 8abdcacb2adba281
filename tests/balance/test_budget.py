"""Retries cost, and calls pay for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balance.clock import Clock
from trunkline.balance.budget import RetryBudget
from trunkline.errors import ConfigError


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
