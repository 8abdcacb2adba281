"""Passive health: ejection, probation, return."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.balance.circle import Circle
from tests.balance.clock import Clock
from trunkline.balance.balancer import Lease
from trunkline.balance.health import (
    NEVER_OUT,
    HealthOptions,
    HealthState,
    Phase,
    Record,
    ejected,
    is_sick,
    may_eject,
    returned,
    share,
)
from trunkline.balance.strategies import STRATEGIES, Strategy
from trunkline.errors import ConfigError

OPTIONS = HealthOptions()


def circle(size: int, clock: Clock, strategy: Strategy = "round-robin") -> Circle:
    return Circle([f"s{index}" for index in range(size)], strategy=strategy, clock=clock, random=Random(3))


def fail(chosen: Circle, server: str, times: int = 5) -> None:
    for _ in range(times):
        chosen.choose(only=[server]).done(False)


def phase(chosen: Circle, server: str) -> Phase:
    return chosen.states()[server].phase


@pytest.mark.parametrize(
    ("results", "sick"),
    [
        ("", False),
        ("xxxx", False),
        ("xxxxx", True),
        ("xxxx.xxxx", False),
        ("x.x.x.x.x", False),
        ("x.x.x.x.x.", True),
        (".x.x.x.x.x", True),
        ("......xxxx", False),
        (".....x.xxxx", False),
        ("xxx.xxx.......", False),
    ],
)
def test_five_failures_in_a_row_or_half_of_ten_calls_make_sick(results: str, sick: bool) -> None:
    record = Record(OPTIONS.window)
    for result in results:
        record.note(result == ".", 0.0)

    assert is_sick(record, OPTIONS) is sick


def test_old_results_are_forgotten() -> None:
    record = Record(30.0)
    for second in range(6):
        record.note(False, float(second))

    record.note(True, 29.0)
    assert (record.calls, record.errors) == (7, 6)
    record.note(True, 31.0)
    assert (record.calls, record.errors) == (5, 3)
    record.note(True, 500.0)
    assert (record.calls, record.errors) == (1, 0)


def test_ejections_in_close_succession_last_longer_up_to_five_minutes() -> None:
    state, now, lasted = NEVER_OUT, 0.0, list[float]()

    for _ in range(6):
        state = ejected(state, OPTIONS, now)
        lasted.append(state.until - now)
        now = state.until
        state = returned(state, OPTIONS, now)

    assert lasted == [30, 60, 120, 240, 300, 300]
    later = ejected(state, OPTIONS, now + 301)
    assert later.until - (now + 301) == 30


@pytest.mark.parametrize(
    ("members", "out", "well", "may"),
    [(1, 0, 1, False), (2, 0, 2, True), (2, 1, 1, False), (3, 1, 2, False), (4, 1, 3, True), (4, 1, 1, False)],
)
def test_half_may_go_and_one_must_stay(members: int, out: int, well: int, may: bool) -> None:
    assert may_eject(members, out, well, OPTIONS) is may


@pytest.mark.parametrize(("seconds", "part"), [(0, 0.1), (1, 0.1), (15, 0.5), (30, 1.0), (90, 1.0)])
def test_the_share_grows_for_thirty_seconds(seconds: float, part: float) -> None:
    state = HealthState(Phase.WARMING, until=130.0, since=100.0)

    assert share(state, OPTIONS, 100.0 + seconds) == pytest.approx(part)


def test_a_sick_server_is_left_out_for_thirty_seconds() -> None:
    clock = Clock()
    chosen = circle(3, clock)

    fail(chosen, "s1")

    assert phase(chosen, "s1") is Phase.EJECTED
    assert "s1" not in {chosen.choose().server for _ in range(20)}
    clock.pass_by(29.9)
    assert phase(chosen, "s1") is Phase.EJECTED
    clock.pass_by(0.2)
    assert phase(chosen, "s1") is Phase.HALF_OPEN


def test_exactly_one_probe_is_sent_at_a_time() -> None:
    clock = Clock()
    chosen = circle(3, clock)
    fail(chosen, "s1")
    clock.pass_by(30)

    leases = [chosen.choose() for _ in range(30)]

    probes = [lease for lease in leases if lease.server == "s1"]
    assert len(probes) == 1
    assert probes[0].probe


def test_a_good_probe_brings_a_server_back_slowly() -> None:
    clock = Clock()
    chosen = circle(2, clock)
    fail(chosen, "s1")
    clock.pass_by(30)
    probe = next(lease for lease in iter(chosen.choose, None) if lease.probe)

    probe.done(True)

    assert phase(chosen, "s1") is Phase.WARMING
    clock.pass_by(6)
    early = Counter(chosen.choose().server for _ in range(1000))
    clock.pass_by(12)
    later = Counter(chosen.choose().server for _ in range(1000))
    clock.pass_by(12)
    at_last = Counter(chosen.choose().server for _ in range(1000))
    assert 100 < early["s1"] < 250
    assert 250 < later["s1"] < 450
    assert at_last["s1"] == 500
    assert phase(chosen, "s1") is Phase.WELL


def test_a_bad_probe_ejects_for_twice_as_long() -> None:
    clock = Clock()
    chosen = circle(2, clock)
    fail(chosen, "s1")
    clock.pass_by(30)

    next(lease for lease in iter(chosen.choose, None) if lease.probe).done(False)

    clock.pass_by(59)
    assert phase(chosen, "s1") is Phase.EJECTED
    clock.pass_by(1)
    assert phase(chosen, "s1") is Phase.HALF_OPEN


def test_a_probe_that_shows_nothing_is_sent_again() -> None:
    clock = Clock()
    chosen = circle(2, clock)
    fail(chosen, "s1")
    clock.pass_by(30)

    next(lease for lease in iter(chosen.choose, None) if lease.probe).cancel()

    assert next(lease for lease in iter(chosen.choose, None) if lease.probe).server == "s1"


def test_failures_from_before_the_ejection_do_not_lengthen_it() -> None:
    clock = Clock()
    chosen = circle(2, clock)
    late = [chosen.choose(only=["s1"]) for _ in range(10)]

    for lease in late:
        lease.done(False)

    assert chosen.states()["s1"].ejections == 1


def test_the_last_candidate_is_used_though_it_is_ejected() -> None:
    chosen = circle(4, Clock())
    fail(chosen, "s0")
    fail(chosen, "s1")

    lease = chosen.choose(only=["s0", "s1"])

    assert lease.server in ("s0", "s1")
    lease.done(True)
    assert phase(chosen, lease.server) is Phase.WARMING


def test_calls_for_want_of_anybody_else_go_where_no_probe_is_under_way() -> None:
    chosen = circle(4, Clock())
    fail(chosen, "s0")
    fail(chosen, "s1")

    leases = [chosen.choose(only=["s0", "s1"]) for _ in range(2)]

    assert {lease.server for lease in leases} == {"s0", "s1"}
    assert all(lease.probe for lease in leases)
    assert not chosen.choose(only=["s0", "s1"]).probe


def test_calls_for_want_of_anybody_else_do_not_lengthen_an_ejection() -> None:
    clock = Clock()
    chosen = circle(2, clock)

    fail(chosen, "s1", 50)

    assert chosen.states()["s1"].ejections == 1
    clock.pass_by(30)
    assert phase(chosen, "s1") is Phase.HALF_OPEN


def test_a_flag_that_says_unhealthy_is_never_overruled() -> None:
    chosen = circle(2, Clock())

    chosen.set_healthy("s0", False)
    chosen.set_healthy("s1", False)

    assert chosen.find() is None


def test_an_ejected_server_comes_back_when_the_others_go() -> None:
    chosen = circle(2, Clock())
    fail(chosen, "s0")

    chosen.set_healthy("s1", False)

    assert chosen.is_well("s0")
    assert chosen.choose().server == "s0"


def test_a_flag_that_says_healthy_again_ends_an_ejection() -> None:
    chosen = circle(4, Clock())
    fail(chosen, "s0")
    chosen.set_healthy("s0", False)

    chosen.set_healthy("s0", True)

    assert phase(chosen, "s0") is Phase.WARMING


def test_every_change_is_told_once() -> None:
    clock, told = Clock(), list[tuple[str, bool]]()

    def hear(server: str, well: bool) -> None:
        told.append((server, well))

    chosen = Circle("ab", clock=clock, on_health=hear)

    fail(chosen, "a", 20)
    clock.pass_by(30)
    next(lease for lease in iter(chosen.choose, None) if lease.probe).done()
    chosen.set_healthy("a", False)
    chosen.set_healthy("a", False)
    chosen.set_healthy("a", True)

    assert told == [("a", False), ("a", True), ("a", False), ("a", True)]


def test_calls_without_a_lease_count_too() -> None:
    clock = Clock()
    chosen = circle(2, clock)

    for _ in range(5):
        chosen.report("s0", False)
    assert phase(chosen, "s0") is Phase.EJECTED

    clock.pass_by(30)
    assert phase(chosen, "s0") is Phase.HALF_OPEN
    chosen.report("s0", True)
    assert phase(chosen, "s0") is Phase.WARMING
    chosen.report("nobody", False)


def test_a_probe_that_was_overtaken_by_a_report_decides_nothing() -> None:
    clock = Clock()
    chosen = circle(2, clock)
    fail(chosen, "s0")
    clock.pass_by(30)
    overtaken = next(lease for lease in iter(chosen.choose, None) if lease.probe)
    chosen.report("s0", False)
    clock.pass_by(60)
    probe = next(lease for lease in iter(chosen.choose, None) if lease.probe)

    overtaken.done(True)

    assert phase(chosen, "s0") is Phase.PROBING
    probe.done(True)
    assert phase(chosen, "s0") is Phase.WARMING


def test_passive_health_can_be_switched_off() -> None:
    chosen = Circle("ab", health=HealthOptions(consecutive_errors=0))

    fail(chosen, "a", 100)

    assert chosen.is_well("a")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("ok"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("burst"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("sick"), st.integers(0, 9)),
        st.tuples(st.just("well"), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("add"), st.integers(0, 9)),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(1, 7), st.sampled_from(STRATEGIES))
def test_whatever_happens_never_too_many_are_out_and_one_probe_is_under_way(
    steps: list[tuple[str, int]], size: int, strategy: Strategy
) -> None:
    clock = Clock()
    chosen = circle(size, clock, strategy)
    open_leases: list[Lease] = []

    for step, number in steps:
        names = chosen.names()
        server = names[number % len(names)] if names else ""
        match step:
            case "wait":
                clock.pass_by(number)
            case "sick" | "well":
                chosen.set_healthy(server, step == "well")
            case "remove":
                chosen.remove(server)
                open_leases = [lease for lease in open_leases if lease.server != server]
            case "add":
                chosen.add(f"s{number}")
            case "burst":
                for _ in range(6):
                    chosen.report(server, False)
            case "take":
                if any(state.healthy for state in chosen.states().values()):
                    lease = chosen.choose()
                    assert chosen.states()[lease.server].healthy
                    open_leases.append(lease)
                else:
                    assert chosen.find() is None
            case _ if open_leases:
                lease = open_leases.pop(number % len(open_leases))
                lease.cancel() if step == "cancel" else lease.done(step == "ok")
            case _:
                pass
        check(chosen, open_leases)


def check(chosen: Circle, open_leases: list[Lease]) -> None:
    states = chosen.states()
    out = [state for state in states.values() if state.phase in (Phase.EJECTED, Phase.HALF_OPEN, Phase.PROBING)]
    flagged = [state for state in states.values() if state.healthy]
    loads = Counter(lease.server for lease in open_leases)
    assert len(out) <= len(states) / 2
    assert not flagged or any(chosen.is_well(state.server) for state in flagged)
    assert {name: state.load for name, state in states.items()} == {name: loads[name] for name in states}
    for name, state in states.items():
        probes = [lease for lease in open_leases if lease.server == name and lease.probe]
        assert len(probes) <= (state.phase is Phase.PROBING)
        expected = state.healthy and state.phase not in (Phase.EJECTED, Phase.PROBING)
        assert state.available is expected
        assert (name in chosen.subset().ranked()) is expected


@pytest.mark.parametrize(
    "options",
    [
        {"consecutive_errors": -1},
        {"error_rate": 0},
        {"error_rate": 1.5},
        {"min_calls": 0},
        {"window": 0},
        {"ejection": 0},
        {"max_ejection": 1},
        {"slow_start": -1},
        {"max_ejected": 2},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        HealthOptions(**options)  # pyright: ignore[reportArgumentType] one is a whole number
