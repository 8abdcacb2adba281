"""A request's time is up when it has none left, whoever shares its clock; a server that does not read gets no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness import until
from trunkline.config.server import ServerSpec
from trunkline.errors import UnreachableError, UpstreamError
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.exchange import Clock, Exchange
from trunkline.upstream.stream import UNSENT_LIMIT, StreamConnection


def exchange(name: str, rung: list[str], *, timeout: float = 0.02, max_timeout: float = 10.0) -> Exchange:
    made = Exchange("till", "tools/call", b"{}", name=name, timeout=timeout, max_timeout=max_timeout)
    made.abort = lambda error: rung.append(name)
    return made


@pytest.mark.parametrize("clock", [None, Clock()], ids=["alone", "shared"])
async def test_the_clock_rings_once_for_whoever_still_waits_and_in_order(clock: Clock | None) -> None:
    rung: list[str] = []
    waiting = [exchange(name, rung) for name in ("one", "two", "three")]
    for one in waiting:
        one.start_clock(clock)
        if one.name == "two":
            one.stop_clock()
        await asyncio.sleep(0.005)  # so that each is due at a time of its own
    await until(lambda: len(rung) == 2)
    late = exchange("late", rung)
    late.start_clock(clock)
    await until(lambda: len(rung) == 3)

    assert rung == ["one", "three", "late"]
    assert [one.expired is not None for one in waiting] == [True, False, True]
    assert "within 0.02 s" in str(late.expired)


async def test_a_sign_of_life_gives_more_time_up_to_the_maximum() -> None:
    rung: list[str] = []
    clock = Clock()
    silent, lively = (exchange(name, rung, timeout=0.04, max_timeout=0.06) for name in ("silent", "lively"))
    silent.abort = lambda error: (rung.append("silent"), lively.sign_of_life())
    began = asyncio.get_running_loop().time()
    for one in (silent, lively):
        one.start_clock(clock)
    await until(lambda: len(rung) == 2)

    assert rung == ["silent", "lively"]
    assert asyncio.get_running_loop().time() - began >= 0.059
    assert "within 0.04 s" in str(silent.expired)


async def test_one_clock_serves_many_lengths_of_time_and_rings_for_all() -> None:
    rung: list[str] = []
    clock = Clock()
    waiting = [exchange(f"{number}", rung, timeout=0.01 + number / 1000) for number in range(Clock.MOST * 2)]
    for one in waiting:
        one.start_clock(clock)
    waiting[-1].stop_clock()
    await until(lambda: len(rung) == len(waiting) - 1)

    assert sorted(rung, key=int) == [f"{number}" for number in range(len(waiting) - 1)]


@pytest.mark.parametrize(("unread", "taken"), [(0, True), (UNSENT_LIMIT, True), (UNSENT_LIMIT + 1, False)])
async def test_a_server_that_does_not_read_what_it_is_sent_is_sent_no_more(unread: int, taken: bool) -> None:
    def nothing(*said: Any) -> None: ...

    sent: list[bytes] = []
    connection = StreamConnection(ServerSpec("till", command="till"), ConnectionEvents(nothing, nothing))
    connection.send, connection.unsent = sent.append, lambda: unread
    asking = asyncio.ensure_future(connection.request(Exchange("till", "tools/call", b"{}")))
    await asyncio.sleep(0)
    connection.end("is done with us")
    with pytest.raises(UpstreamError) as caught:
        await asking

    assert bool(sent) is taken
    assert isinstance(caught.value, UnreachableError) is not taken
