"""Connections for one call at a time: whose they are, when they serve again, and when they end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.harness import until
from trunkline.config.server import ServerSpec
from trunkline.errors import BusyError
from trunkline.tasks import open_tasks
from trunkline.upstream.connection import Connection
from trunkline.upstream.connection_key import ConnectionKey
from trunkline.upstream.leases import SPARE_IDLE, Leases

SPEC = ServerSpec("till", command="till", processes=2)
IDLE = 100.0


def key(user: str = "ana", client: bytes = b"{}") -> ConnectionKey:
    return ConnectionKey("till", "f", "legacy", "lease", b'{"elicitation":{}}', user=user, client=client)


@dataclass(eq=False)
class Line:
    """A connection to a process, as far as a lease looks at it."""

    alive: bool = True
    last_used: float = 0.0
    closed: bool = False

    async def close(self) -> None:
        self.closed, self.alive = True, False


@dataclass
class Scene:
    leases: Leases
    lines: list[Line] = field(default_factory=list[Line])
    ended: list[ConnectionKey] = field(default_factory=list[ConnectionKey])

    async def take(self, of: ConnectionKey) -> Line:
        return cast("Line", await self.leases.take(SPEC, of, IDLE))

    def give_back(self, line: Line, *, clean: bool = True) -> None:
        self.leases.give_back(cast("Connection", line), clean=clean)


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    async with open_tasks() as tasks:

        async def connect(spec: ServerSpec, of: ConnectionKey) -> Connection:
            made.lines.append(Line())
            return cast("Connection", made.lines[-1])

        ended: list[ConnectionKey] = []
        made = Scene(Leases(connect, ended.append, tasks), ended=ended)
        yield made
        await made.leases.close()


async def test_what_a_caller_did_is_still_so_at_its_next_call_and_no_other_caller_gets_there() -> None:
    async with scene() as at:
        first = await at.take(key())
        at.give_back(first)
        again = await at.take(key())
        others = [await at.take(key("bob")), await at.take(key(client=b'{"name":"other"}'))]

        assert again is first
        assert len({id(line) for line in (first, *others)}) == 3


@pytest.mark.parametrize("dies", [False, True])
async def test_a_connection_whose_call_failed_serves_nobody_any_more(dies: bool) -> None:
    async with scene() as at:
        failed = await at.take(key())
        failed.alive = not dies
        at.give_back(failed, clean=dies)
        await until(lambda: failed.closed)
        fresh = await at.take(key())

        assert fresh is not failed
        assert at.leases.first(key()) is cast("Any", fresh)
        assert at.ended == [key()]


async def test_two_calls_at_once_have_a_connection_each_and_a_third_is_refused() -> None:
    async with scene() as at:
        one, two = await at.take(key()), await at.take(key())
        with pytest.raises(BusyError, match="already has 2 connections"):
            await at.take(key(client=b'{"name":"third"}'))
        at.give_back(two)
        third = await at.take(key(client=b'{"name":"third"}'))

        assert one is not two
        assert two.closed or third is not two
        assert len(at.leases) == 2


@pytest.mark.parametrize(
    ("seconds", "left"), [(SPARE_IDLE - 1, 2), (SPARE_IDLE + 1, 1), (IDLE - 1, 1), (IDLE + 1, 0)], ids=str
)
async def test_an_idle_one_ends_after_its_time_and_a_spare_one_sooner(seconds: float, left: int) -> None:
    async with scene() as at:
        lines = [await at.take(key()), await at.take(key())]
        now = time.monotonic()
        for line in lines:
            line.last_used = now
            at.give_back(line)
        at.leases.sweep(now + seconds)

        assert len(list(at.leases)) == left
        assert at.leases.first(key()) is (cast("Any", lines[0]) if left else None)


async def test_one_that_is_taken_or_listened_on_is_never_idle() -> None:
    async with scene() as at:
        taken, pinned = await at.take(key()), await at.take(key("bob"))
        at.give_back(pinned)
        at.leases.pinned[key("bob")] += 1
        at.leases.sweep(time.monotonic() + 1e6)
        kept = list(at.leases)
        idle = [at.leases.is_idle(cast("Connection", line)) for line in (taken, pinned)]
        at.leases.pinned[key("bob")] -= 1
        at.give_back(taken)
        at.leases.sweep(time.monotonic() + 1e6)

        assert len(kept) == 2
        assert idle == [False, False]
        assert not list(at.leases)


async def test_those_of_a_user_who_left_end_and_no_others() -> None:
    async with scene() as at:
        ana, bob = await at.take(key()), await at.take(key("bob"))
        at.leases.remove_user("ana")
        await until(lambda: ana.closed)

        assert not bob.closed
        assert [lease.key.user for lease in at.leases] == ["bob"]
