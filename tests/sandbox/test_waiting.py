"""Programs that wait are kept alike by both engines: for their owner, for their time, and to be taken up once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from trunkline.config.programs import ProgramsSection
from trunkline.config.tenancy import StoreConfig
from trunkline.errors import BusyError, NotFoundError, RefusedError
from trunkline.identity import Scope
from trunkline.model import Call
from trunkline.sandbox.messages import Wanted
from trunkline.sandbox.run import Kept
from trunkline.sandbox.waiting import Waiting
from trunkline.storage.store import Place
from trunkline.tenancy.tenancy import open_tenancy

SECRET = b"canary-of-a-program"
KEPT = Kept("1" * 24, SECRET * 100, (Wanted(3, "buy", b'{"item":1}'),), "so far\n", 4, 5, 0.5)
ANA = Call("tools/call", "run_code", {"arguments": b'{"code":"1"}'}, scope=Scope(user="ana"))
BOB = msgspec.structs.replace(ANA, scope=Scope(user="bob"))
ANOTHER = msgspec.structs.replace(ANA, params={"arguments": b'{"code":"2"}'})


@asynccontextmanager
async def open_waiting(place: Place, home: Path, **said: float) -> AsyncGenerator[Waiting]:
    """What one gateway keeps in the store."""
    url = "" if place.file is not None else place.url
    async with open_tenancy(StoreConfig(url=url), home) as tenancy:
        yield Waiting(tenancy, lambda: ProgramsSection(**said))  # type: ignore[arg-type]


async def test_a_program_is_taken_up_once_by_its_owner_with_its_request_at_any_gateway(
    place: Place, tmp_path: Path
) -> None:
    async with open_waiting(place, tmp_path) as first, open_waiting(place, tmp_path) as second:
        token = await first.keep(ANA, KEPT, ["buy"])
        for stranger in (BOB, ANOTHER):
            with pytest.raises(RefusedError):
                await second.look(token, stranger)
            with pytest.raises(RefusedError):
                await second.take(token, stranger)
        seen = await second.look(token, ANA)

        taken = await asyncio.gather(*(one.take(token, ANA) for one in (first, second) * 4), return_exceptions=True)

        assert seen == KEPT
        assert [one for one in taken if not isinstance(one, RefusedError)] == [KEPT]
        assert await first.listed(None, after="", limit=9) == []


async def test_what_waits_is_bounded_listed_for_its_owner_dropped_and_forgotten(place: Place, tmp_path: Path) -> None:
    async with open_waiting(place, tmp_path, waiting_per_user=2) as waiting:
        tokens = [await waiting.keep(call, KEPT, ["buy", "sell"]) for call in (ANA, ANA, BOB)]
        with pytest.raises(BusyError, match="2 programs wait"):
            await waiting.keep(ANA, KEPT, ["buy"])
        mine = await waiting.listed("ana", after="", limit=9)
        with pytest.raises(NotFoundError):
            await waiting.remove(mine[0].id, "bob")

        assert await waiting.remove(mine[0].id, "ana") == "ana"
        await waiting.forget("bob")

        left = await waiting.listed(None, after="", limit=9)
        assert (len(mine), [one.owner for one in left], left[0].tools) == (2, ["ana"], "buy,sell")
        assert not any(token in repr(mine) for token in tokens)


async def test_a_program_whose_time_is_up_is_gone_with_what_it_held(place: Place, tmp_path: Path) -> None:
    async with open_waiting(place, tmp_path, keep=0.001) as brief, open_waiting(place, tmp_path) as waiting:
        token = await brief.keep(ANA, KEPT, ["buy"])
        async with asyncio.timeout(5):
            while await waiting.listed(None, after="", limit=9):
                pass
        with pytest.raises(RefusedError, match="its time is up"):
            await waiting.take(token, ANA)

        await waiting.keep(BOB, KEPT, ["buy"])

        store = await waiting._tenancy.store()  # pyright: ignore[reportPrivateUsage] - what is kept is seen there alone
        rows = await store.fetch("SELECT record FROM credentials WHERE field = 'program'")
        assert len(rows) == 1
        assert SECRET not in bytes(rows[0][0])


async def test_what_somebody_changed_in_the_store_is_not_run(place: Place, tmp_path: Path) -> None:
    async with open_waiting(place, tmp_path) as waiting:
        token = await waiting.keep(ANA, KEPT, ["buy"])
        store = await waiting._tenancy.store()  # pyright: ignore[reportPrivateUsage] - nobody else writes there
        [[record]] = await store.fetch("SELECT record FROM credentials WHERE field = 'program'")
        changed = bytes([*bytes(record)[:-1], bytes(record)[-1] ^ 1])
        await store.fetch("UPDATE credentials SET record = ? WHERE field = 'program'", changed)

        with pytest.raises(RefusedError, match="cannot be opened"):
            await waiting.take(token, ANA)
