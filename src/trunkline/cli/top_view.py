"""What `trunkline top` shows: a gateway's statistics as lines that fit a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trunkline.cli.console import counted
from trunkline.cli.screen import Style, columns_of, fit, pad
from trunkline.cli.show import MARKS
from trunkline.model import State

Json = Mapping[str, Any]
NARROWEST = 8
"""Columns that are left to a name, whatever must go for it."""


@dataclass(frozen=True)
class Column:
    """One column of a table; those with the highest `rank` go first where there is no room."""

    head: str
    cells: Sequence[str]
    rank: int = 0

    @property
    def width(self) -> int:
        """What its widest cell takes."""
        return max(map(columns_of, (self.head, *self.cells)))


def board(
    told: Json, rate: float | None, where: str, width: int, height: int, style: Style, *, scroll: int = 0
) -> list[str]:
    """Everything in a window, or of the long tables what there is room for: their beginnings, or from a line on."""
    top = [style.head(fit(where, width)), *(fit(line, width) for line in summary(told, rate, width)), ""]
    top = top[: max(height - 1, 0)]
    room = max(height - len(top) - 1, 0)
    servers = server_table(told["servers"], width, style)
    tools = tool_table(told["tools"], width, style)
    every = [*servers, *(["", *tools] if tools else [])]
    hint = "q quits, ↑ ↓ scroll" if len(every) > room else "q quits"
    from_line = min(scroll, max(len(every) - room, 0))
    if from_line:
        body = every[from_line : from_line + room]
        return [*top, *body, *[""] * (room - len(body)), style.faint(fit(hint, width))]
    share = room - min(len(tools) + 1, room // 2) if tools else room
    upper = shortened(servers, share, width, style)
    lower = shortened(tools, room - len(upper) - 1, width, style) if tools else []
    body = [*upper, *(["", *lower] if lower else [])][:room]
    return [*top, *body, *[""] * (room - len(body)), style.faint(fit(hint, width))]


def summary(told: Json, rate: float | None, width: int) -> list[str]:
    """The sums, in lines of their own where the window is narrow."""
    errors = told["failures"] + told["tool_errors"]
    calls = [counted(told["calls"], "call"), counted(errors, "error")]
    if rate is not None:
        calls.append(f"{rate:.1f}/s")
    now = [f"{told['in_flight']} under way", f"{told['waiting']} waiting"]
    times = [f"p50 {duration(told['p50_seconds'])}", f"p95 {duration(told['p95_seconds'])}"] if told["calls"] else []
    tokens = told["tokens"]
    saved = tokens_saved(tokens["saved"])
    why = [counted(tokens["lists"], "short list"), counted(tokens["searches"], "search", "searches")]
    why += [counted(tokens[f"{one}s"], one) for one in ("program", "preview") if tokens[f"{one}s"]]
    counts = any(tokens[one] for one in ("lists", "searches", "programs", "previews"))
    one = " · ".join((*calls, *now, *times))
    lines = [one] if columns_of(one) <= width else [" · ".join(calls), " · ".join((*now, *times))]
    whole = " · ".join((saved, *why)) if counts else saved
    return [*lines, whole if columns_of(whole) <= width else saved]


def server_table(servers: Sequence[Json], width: int, style: Style) -> list[str]:
    """Those that need somebody first, then those with the most calls."""
    order = sorted(servers, key=lambda one: (one["state"] == State.READY, -one["calls"], one["name"]))
    names = [f"{mark_of(one['state'])} {one['name']}" for one in order]
    lines = table(
        Column("  SERVER", names),
        [
            Column("STATE", [str(one["state"]) for one in order], 3),
            Column("TOOLS", [f"{one['tools']:,}" for one in order], 5),
            *_counts(order),
            Column("NOW", [now_of(one) for one in order], 4),
        ],
        width,
    )
    made = [style.head(lines[0])]
    for one, line in zip(order, lines[1:], strict=True):
        made.append(style.state(one["state"], line))
        if one["reason"] and one["state"] != State.READY:
            made.append(style.faint(fit(f"    {one['reason']}", width)))
    return made


def tool_table(tools: Sequence[Json], width: int, style: Style) -> list[str]:
    """The tools with the most calls; nothing while there are none."""
    if not tools:
        return []
    names = [f"  {one['tool']}" for one in tools]
    lines = table(
        Column("  TOOL", names), [Column("SERVER", [str(one["server"]) for one in tools], 3), *_counts(tools)], width
    )
    return [style.head(lines[0]), *lines[1:]]


def _counts(told: Sequence[Json]) -> list[Column]:
    return [
        Column("CALLS", [f"{one['calls']:,}" for one in told]),
        Column("ERRORS", [f"{one['failures'] + one['tool_errors']:,}" for one in told], 1),
        Column("P50", [duration(one["p50_seconds"]) if one["calls"] else "-" for one in told], 4),
        Column("P95", [duration(one["p95_seconds"]) if one["calls"] else "-" for one in told], 2),
    ]


def table(name: Column, columns: Sequence[Column], width: int) -> list[str]:
    """A head and its rows; columns go, the least important first, until names have room."""
    kept = list(columns)
    while kept and _taken(kept) + min(name.width, 2 * NARROWEST) > width:
        kept.remove(max(kept, key=lambda column: column.rank))
    first = max(min(name.width, width - _taken(kept)), 1)
    rows = [[name.head, *(column.head for column in kept)]]
    rows += [[name.cells[at], *(column.cells[at] for column in kept)] for at in range(len(name.cells))]
    text = {"STATE", "SERVER"}
    return [
        fit(
            "  ".join(
                (
                    pad(row[0], first),
                    *(pad(c, k.width, right=k.head not in text) for c, k in zip(row[1:], kept, strict=True)),
                )
            ).rstrip(),
            width,
        )
        for row in rows
    ]


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + 2 for column in columns)


def shortened(lines: Sequence[str], room: int, width: int, style: Style) -> list[str]:
    """As many lines as there is room for; the last says how many more there are."""
    if len(lines) <= room:
        return list(lines)
    if room < 2:
        return list(lines[: max(room, 0)])
    return [*lines[: room - 1], style.faint(fit(f"  … {len(lines) - room + 1} more", width))]


def mark_of(state: str) -> str:
    """One sign for how a server fares."""
    return _MARKS.get(state, "✗")


def now_of(one: Json) -> str:
    """The calls of a server under way, and those that wait."""
    return f"{one['in_flight']}+{one['waiting']}" if one["waiting"] else f"{one['in_flight']}"


def tokens_saved(tokens: int) -> str:
    """What searching, programs and previews saved; it is an estimate."""
    return f"about {tokens:,} tokens saved" if tokens else "no tokens saved yet"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def age(seconds: float) -> str:
    """How long something has been so."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{whole} s"


_MARKS: Mapping[str, str] = {**MARKS}
