"""What processes must agree on while somebody signs in, or a sign-in is renewed."""

from __future__ import annotations

import asyncio

from trunkline.storage.sign_ins import SignInRow, begin, end, end_lease, find, take_lease, use
from trunkline.storage.store import Place, now, open_store


async def test_of_all_processes_one_has_a_lease(place: Place) -> None:
    async with open_store(place) as store:
        taken = [await take_lease(store, "x", holder, 30.0) for holder in ("a", "b")]
        await end_lease(store, "x", "b")  # not its own to end
        still = await take_lease(store, "x", "b", 30.0)
        await end_lease(store, "x", "a")
        free = await take_lease(store, "x", "b", -1.0)
        over = await take_lease(store, "x", "c", 30.0)

    assert (taken, still, free, over) == ([True, False], False, True, True)


async def test_a_sign_in_is_used_once_and_in_time(place: Place) -> None:
    async with open_store(place) as store:
        await begin(store, SignInRow("s", "ana", "git", "i", now() + 60_000))
        await begin(store, SignInRow("late", "ana", "git", "i", now() - 1))
        used = await asyncio.gather(*(use(store, "s") for _ in range(5)))
        late = await use(store, "late")
        await end(store, "s", "signed-in")
        found = await find(store, "s")

    assert sum(one is not None for one in used) == 1
    assert late is None
    assert found is not None
    assert found.outcome == "signed-in"
