"""How calls are counted: by server and tool, apart for every user, and by how long they took."""

from __future__ import annotations

import pytest

from trunkline.telemetry.tally import BOUNDS, Tallies, Tally


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def took(
    tallies: Tallies, clock: Clock, seconds: float, *, server: str = "one", tool: str = "echo", **how: str
) -> None:
    since = tallies.now()
    clock.time += seconds
    tallies.count(server, tool, since, failed="failed" in how, tool_error="wrong" in how, user=how.get("user", ""))


@pytest.mark.parametrize(
    ("durations", "share", "least", "most"),
    [
        ([], 0.95, 0.0, 0.0),
        ([0.004], 0.5, 0.0028, 0.0041),
        ([0.001] * 94 + [2.0] * 6, 0.5, 0.0007, 0.0012),
        ([0.001] * 94 + [2.0] * 6, 0.95, 1.4, 2.3),
        ([1000.0] * 3, 0.95, BOUNDS[-1], BOUNDS[-1]),
        ([0.0] * 3, 0.95, 0.0, 0.0001),
    ],
)
def test_the_time_in_which_most_calls_end_is_about_right(
    durations: list[float], share: float, least: float, most: float
) -> None:
    clock = Clock()
    tallies = Tallies(clock)
    for seconds in durations:
        took(tallies, clock, seconds)

    assert least <= tallies.total().within(share) <= most


def test_the_calls_of_a_server_that_is_gone_still_count_in_the_total() -> None:
    clock = Clock()
    tallies = Tallies(clock)
    took(tallies, clock, 1.0)
    took(tallies, clock, 1.0, server="two", failed="yes")

    tallies.forget("two")
    total = tallies.total()

    assert list(tallies.servers) == ["one"]
    assert list(tallies.tools) == [("one", "echo")]
    assert (total.calls, total.failures, total.seconds) == (2, 1, 2.0)
    assert sum(total.slots) == 2


def test_a_user_is_told_of_their_own_calls_alone() -> None:
    clock = Clock()
    tallies = Tallies(clock)
    took(tallies, clock, 1.0, tool="hers", user="ana")
    took(tallies, clock, 1.0, tool="his", user="bob")
    took(tallies, clock, 1.0, tool="nobody's")

    assert [tool for _, tool, _ in tallies.of("ana").busiest(10)] == ["hers"]
    assert tallies.of("ana").total().calls == 1
    assert tallies.of("eve").total().calls == 0
    assert tallies.of("").total().calls == 3


def test_the_busiest_tools_come_first() -> None:
    clock = Clock()
    tallies = Tallies(clock)
    for tool in ("a", "b", "b", "c", "c", "c"):
        took(tallies, clock, 0.1, tool=tool)

    assert [(tool, tally.calls) for _, tool, tally in tallies.busiest(2)] == [("c", 3), ("b", 2)]


def test_users_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tallies, "MOST_USERS", 2)
    clock = Clock()
    tallies = Tallies(clock)
    for number in range(5):
        took(tallies, clock, 0.1, user=f"user {number}")

    assert [tallies.of(f"user {number}").total().calls for number in range(5)] == [1, 1, 0, 0, 0]
    assert tallies.total().calls == 5


def test_a_tally_of_no_calls_has_no_times() -> None:
    assert (Tally().within(0.95), Tally().average, Tally().success_rate) == (0.0, 0.0, 1.0)
