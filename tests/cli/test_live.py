"""How `up` tells of servers where nobody looks at a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.harness import faulty, trunkline_up
from trunkline.cli.live import News
from trunkline.model import ServerView, State


def test_up_away_from_a_terminal_has_a_line_for_each_change_of_a_server(tmp_path: Path) -> None:
    servers = {"good": faulty(), "bad": faulty("--start", "exit"), "needs": {"command": "x", "env": {"A": "${env:NO}"}}}
    with trunkline_up(tmp_path, {"servers": servers}) as (_, process):
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        first: dict[str, str] = {}
        while len(first) < 3:
            line = next(lines)
            first |= {name: line for name in servers if f" {name} " in line}

    assert first["good"].startswith("● good ready, ")
    assert "bad unreachable: Server 'bad' exited with code 3" in first["bad"]
    assert "needs unreachable: Server 'needs' cannot be used" in first["needs"]
    assert "NO" in first["needs"]


def view(state: State, reason: str = "") -> list[ServerView]:
    return [ServerView("one", state, reason)]


def test_a_state_is_told_once_and_that_a_server_starts_only_where_that_takes_long() -> None:
    news = News()
    states = [
        (State.STARTING, ""),
        (State.STARTING, "Starting; what it offered last time is shown."),
        (State.STARTING, "being downloaded"),
        (State.UNREACHABLE, "It exited."),
        (State.STARTING, "being downloaded"),
        (State.UNREACHABLE, "It exited. It failed 2 times in a row."),
        (State.READY, ""),
        (State.READY, "Asleep; it starts with the next call."),
    ]

    told = [(one.state, one.reason) for state in states for one in news.of(view(*state))]

    assert told == [states[2], states[3], states[6]]


def test_a_server_that_comes_and_goes_is_no_flood_and_its_last_state_is_told() -> None:
    now = 0.0
    news = News(lambda: now)
    told = [one for number in range(101) for one in news.of(view(State.READY if number % 2 else State.DEGRADED))]
    assert len(told) == 6
    assert not news.of(view(State.DEGRADED))
    assert news.held_back

    now = 60.0

    assert [one.state for one in news.of(view(State.DEGRADED))] == [State.DEGRADED]
    assert not news.held_back


def test_a_server_that_was_taken_away_is_told_of_anew() -> None:
    news = News()

    told = [one for views in (view(State.READY), [], view(State.READY)) for one in news.of(views)]

    assert len(told) == 2
