"""What `trunkline top` makes of statistics: lines that fit, what matters first, and nothing that moves the cursor."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.cli.screen import Style, columns_of, fit, pad
from trunkline.cli.top_view import age, board, duration, server_table, summary, tool_table

Json = dict[str, Any]
PLAIN = Style()
COUNTS: Json = {"calls": 1204, "failures": 2, "tool_errors": 3, "p50_seconds": 0.004, "p95_seconds": 1.25}
NOW: Json = {"in_flight": 2, "waiting": 1}


def server(name: str, state: str = "ready", **more: Any) -> Json:
    return {"name": name, "state": state, "reason": "", "tools": 40, **COUNTS, **NOW, **more}


def told(servers: list[Json], tools: int = 0) -> Json:
    tokens = {"saved": 48200, "lists": 12, "searches": 8, "programs": 1, "previews": 2}
    listed = [{"server": "one", "tool": f"tool_{number}", **COUNTS} for number in range(tools)]
    return {**COUNTS, **NOW, "seconds": 60.0, "tokens": tokens, "servers": servers, "tools": listed}


@pytest.mark.parametrize("width", [1, 8, 20, 39, 79, 200])
@pytest.mark.parametrize("height", [1, 5, 24, 60])
def test_everything_fits_the_window(width: int, height: int) -> None:
    servers = [server(f"a server with a long name {number}") for number in range(30)]
    servers.append(server("weiß 天気予報サーバー", "unreachable", reason="it said\nno, and then\tno again"))

    lines = board(told(servers, 40), 2.5, "Trunkline at http://127.0.0.1:7420", width, height, PLAIN)

    assert max(map(columns_of, lines)) <= width
    assert len(lines) == height
    assert not any(not letter.isprintable() for line in lines for letter in line)


def test_a_name_cannot_move_the_cursor() -> None:
    servers = [server("evil\x1b[2J\u202e", "unreachable", reason="bad \x1b]0;title\x07")]

    text = "\n".join(
        server_table(servers, 80, PLAIN) + tool_table([{"server": "x", "tool": "\x1b[H", **COUNTS}], 80, PLAIN)
    )

    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_servers_in_trouble_come_first_with_the_reason() -> None:
    servers = [server("idle", calls=0), server("busy"), server("gone", "unreachable", reason="No such program.")]

    lines = server_table(servers, 100, PLAIN)

    assert [line.split()[1] for line in lines[1:] if line[0] != " "] == ["gone", "busy", "idle"]
    assert lines[2].strip() == "No such program."


def test_columns_go_in_the_order_of_what_matters_least() -> None:
    heads = {width: server_table([server("github")], width, PLAIN)[0].split() for width in (100, 40, 34, 20)}

    assert heads[100] == ["SERVER", "STATE", "TOOLS", "CALLS", "ERRORS", "P50", "P95", "NOW"]
    assert heads[40] == ["SERVER", "STATE", "CALLS", "ERRORS", "P95"]
    assert heads[34] == ["SERVER", "CALLS", "ERRORS", "P95"]
    assert heads[20] == ["SERVER", "CALLS"]


def test_what_does_not_fit_is_counted() -> None:
    lines = board(told([server(f"s{number}") for number in range(50)], 50), None, "here", 80, 24, PLAIN)

    assert sum("more" in line for line in lines) == 2
    assert lines[-1] == "q quits, ↑ ↓ scroll"
    assert len(lines) == 24


def test_sums_take_two_lines_where_one_is_too_narrow() -> None:
    wide, narrow = summary(told([]), 1.0, 200), summary(told([]), 1.0, 40)

    assert wide == [
        "1,204 calls · 5 errors · 1.0/s · 2 under way · 1 waiting · p50 4.0 ms · p95 1.2 s",
        "about 48,200 tokens saved · 12 short lists · 8 searches · 1 program · 2 previews",
    ]
    assert narrow[0] == "1,204 calls · 5 errors · 1.0/s"
    assert narrow[-1] == "about 48,200 tokens saved"


@pytest.mark.parametrize(("seconds", "text"), [(0.0004, "0.4 ms"), (0.042, "42 ms"), (1.26, "1.3 s"), (90, "1.5 min")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (61, "1 min"), (7400, "2 h 3 min"), (90000, "1 d 1 h")])
def test_ages_are_short(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("text", "width", "fitted"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("天気予報", 5, "天気…"),
        ("天気予報", 4, "天…"),
        ("abc", 0, ""),
        ("a\nb", 9, "a b"),
    ],
)
def test_a_text_is_cut_by_columns(text: str, width: int, fitted: str) -> None:
    assert fit(text, width) == fitted
    assert columns_of(pad(text, 12)) == 12
