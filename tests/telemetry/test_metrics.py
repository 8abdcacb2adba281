"""Metrics: whatever tools are called, Prometheus reads them, there are only so many, and writing them is no burden."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.gateway.test_calls import ADMIN, get, house
from tests.storage.test_records import call
from trunkline.telemetry.metrics import OTHER, OWN, Counts, written

HOSTILE = [
    'quo"ted', "back\\slash", "ends\\", "\\n", "line\nline", "carriage\r", "tab\t", "nul\0", "\x85\u2028\u2029", "{}",
    "}", 'x",tool="y', "# HELP", "x 1", "\ud800", "\U0001f600", "\u202eabc", "e\u0301", " ", "a" * 10_000, "a" * 10_001,
    "", "a\n", "a\r", "a?",
]  # fmt: skip


def counted(names: list[str], *, tools: int = 500, server: str = "till") -> list[Sample]:
    """What Prometheus reads of calls of these tools, twice each."""
    counts = Counts(tools)
    for _ in range(2):
        counts.read([call(0, tool=name, server=server) for name in names])
    text = b"".join(written(counts.families())).decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def each_once(samples: list[Sample]) -> bool:
    """Prometheus refuses all that it is given when something is in it twice."""
    return max(Counter((one.name, *sorted(one.labels.items())) for one in samples).values()) == 1


def test_hostile_names_of_tools_are_read_as_names_and_each_series_is_there_once() -> None:
    samples = counted(HOSTILE)

    calls = {one.labels["tool"]: one.value for one in samples if one.name == "trunkline_calls_total"}
    assert each_once(samples)
    assert sum(calls.values()) == 2 * len(HOSTILE)
    assert {'quo"ted', "back\\slash", "ends\\", "\\n", 'x",tool="y', "a" * 200} <= calls.keys()
    assert (calls["a" * 200], calls["a?"]) == (4, 6)  # what would be written alike is one
    assert max(map(len, calls)) == 200


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), min_size=1, max_size=8))
def test_any_names_are_read_and_no_call_is_counted_twice_or_lost(names: list[str]) -> None:
    samples = counted(names)

    assert each_once(samples)
    assert sum(one.value for one in samples if one.name == "trunkline_calls_total") == 2 * len(names)


def test_of_very_many_tools_and_servers_only_so_many_are_told_apart() -> None:
    tools = counted([f"tool{number}" for number in range(1500)], tools=100)
    counts = Counts(100)
    counts.read([call(0, server=f"{owner}{number}") for owner in ("ana/s", "s") for number in range(1500)])
    text = b"".join(written(counts.families())).decode()
    served = [one for family in text_string_to_metric_families(text) for one in family.samples]

    named = {one.labels["tool"]: one.value for one in tools if one.name == "trunkline_calls_total"}
    servers = {one.labels["server"]: one.value for one in served if one.name == "trunkline_calls_total"}
    assert len(named) == 101
    assert named[OTHER] == 2 * 1400
    assert (len(servers), servers[OWN], servers[OTHER]) == (1002, 1500, 500)


async def longest_turn(turns: list[float]) -> None:
    """Note how long this thread computes between two turns of the loop; what else the machine does is not counted."""
    last = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append(now - last)
        last = now


async def test_ten_thousand_series_are_written_without_holding_up_the_loop(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    turns: list[float] = []
    async with house(tmp_path, http, metrics={"tools": 5000}) as at:
        counts = at.hub.relay.recording.counts
        assert counts is not None
        counts.read([call(0, tool=f"tool{number}", server="till") for number in range(700)])
        watching = asyncio.create_task(longest_turn(turns))
        text = await get(at, "/metrics", ADMIN)
        watching.cancel()

    series = sum(not line.startswith("#") for line in text.splitlines())
    assert series > 10_000
    assert max(turns) < 0.02
    assert len(turns) > series // 200  # others had a turn between any two slices
