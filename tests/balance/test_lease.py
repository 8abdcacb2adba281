"""Load is given back however a call ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from trunkline.balance.balancer import Balancer
from trunkline.balance.lease import Lease, Outcome, verdict
from trunkline.balance.member import MemberOptions
from trunkline.errors import (
    AuthorizationNeededError,
    BusyError,
    NoServerError,
    ServerRefusedError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)


def circle(ended: list[Outcome] | None = None) -> Balancer:
    def end(lease: Lease, outcome: Outcome) -> None:
        if ended is not None:
            ended.append(outcome)

    return Balancer({"a": MemberOptions()}, on_end=end)


def test_a_lease_counts_while_it_is_open() -> None:
    chosen = circle()

    with chosen.take() as lease:
        assert chosen.load("a") == 1
        assert lease.open

    assert chosen.load("a") == 0
    assert not lease.open


def test_done_counts_once() -> None:
    ended: list[Outcome] = []
    chosen = circle(ended)
    lease = chosen.take()
    chosen.take()

    lease.done()
    lease.done(False)
    lease.cancel()

    assert chosen.load("a") == 0
    assert ended == ["unused", "ok"]


def test_a_dropped_lease_gives_its_load_back() -> None:
    ended: list[Outcome] = []
    chosen = circle(ended)

    chosen.take()
    gc.collect()

    assert chosen.load("a") == 0
    assert ended == ["unused"]


async def test_a_cancelled_call_gives_its_load_back_and_says_nothing_about_the_server() -> None:
    ended: list[Outcome] = []
    chosen = circle(ended)
    begun = asyncio.Event()

    async def call() -> None:
        with chosen.take():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(call())
    async with asyncio.timeout(5):
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert chosen.load("a") == 0
    assert ended == ["unclear"]


def test_a_lease_may_outlive_its_server() -> None:
    chosen = circle()
    lease = chosen.take()

    chosen.remove("a")
    chosen.add("a")
    lease.done(False)

    assert chosen.load("a") == 0
    assert chosen.states()["a"].errors == 0


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (UpstreamError("x"), False),
        (UnreachableError("x"), False),
        (UpstreamTimeoutError("x"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
        (ServerRefusedError("x", code=-32602), True),
        (AuthorizationNeededError("x"), None),
        (SessionLostError("x"), None),
        (NoServerError("x"), None),
        (BusyError("x"), None),
        (ValueError(), None),
        (asyncio.CancelledError(), None),
    ],
)
def test_what_an_error_says_about_the_server(error: BaseException, says: bool | None) -> None:
    assert verdict(error) is says
