"""A parked call is given back once, to the user and for the request that it was parked for, before its time is up."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from trunkline.errors import BusyError, RefusedError
from trunkline.gateway.mcp import parking as parkings
from trunkline.gateway.mcp.parking import Parking, is_ours
from trunkline.identity import Scope
from trunkline.model import Call, Parked, Question

SECONDS = 100.0


class Waiting:
    """A call that waits."""

    server = "one"
    questions: Mapping[str, Question] = {}


def call(
    user: str = "ann", profile: str = "", method: str = "tools/call", name: str = "order", **params: bytes
) -> Call:
    arguments = {"arguments": b'{"a":1,"b":2}', **params}
    return Call(method, name, arguments, scope=Scope(user=user, profile=profile))


def fits(_: Parked) -> None:
    """What was answered is what was asked."""


@pytest.fixture
def withdrawn() -> list[Any]:
    return []


@pytest.fixture
async def parking(withdrawn: list[Any]) -> Parking:
    return Parking(most=2, seconds=SECONDS, withdraw=withdrawn.append)


async def test_what_was_parked_is_claimed_once(parking: Parking, withdrawn: list[Any]) -> None:
    waiting = Waiting()
    state = parking.park(call(), waiting)

    assert is_ours(state)
    assert len(parking) == 1
    assert parking.claim(state, call(arguments=b'{ "b": 2, "a": 1 }'), fits) is waiting
    assert len(parking) == 0
    with pytest.raises(RefusedError, match="answered already"):
        parking.claim(state, call(), fits)
    assert withdrawn == []


async def test_a_call_whose_answers_do_not_fit_stays_for_others(parking: Parking, withdrawn: list[Any]) -> None:
    waiting, checked = Waiting(), list[Parked]()
    state = parking.park(call(), waiting)

    def misfits(parked: Parked) -> None:
        checked.append(parked)
        raise RefusedError("It does not fit.")

    with pytest.raises(RefusedError, match="does not fit"):
        parking.claim(state, call(), misfits)
    assert checked == [waiting]
    assert len(parking) == 1
    assert parking.claim(state, call(), fits) is waiting
    assert withdrawn == []


OTHERS = [
    call(user="bob"),
    call(user=""),
    call(profile="work"),
    call(method="prompts/get"),
    call(name="cancel"),
    call(arguments=b'{"a":1}'),
    call(arguments=b'{"a":1,"b":"2"}'),
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", ["parked", "again", "wrapped"])
async def test_a_state_is_bound_to_its_user_its_profile_and_its_request(
    parking: Parking, other: Call, kind: str
) -> None:
    makers = {
        "parked": lambda: parking.park(call(), Waiting()),
        "again": lambda: parking.again(call()),
        "wrapped": lambda: parking.wrap(call(), b"own"),
    }
    state = makers[kind]()

    with pytest.raises(RefusedError, match="does not belong"):
        parking.claim(state, other, fits)
    parking.claim(state, call(), fits)
    parking.close()


async def test_states_of_servers_and_of_calls_to_be_sent_anew_come_back(parking: Parking) -> None:
    assert parking.claim(parking.again(call()), call(), fits) is None
    assert parking.claim(parking.wrap(call(), b'"again"'), call(), fits) == b'"again"'
    assert parking.claim(parking.wrap(call(), b""), call(), fits) == b""


@pytest.mark.parametrize("kind", ["parked", "again", "wrapped"])
async def test_a_state_is_good_until_its_time_is_up(
    parking: Parking, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(parkings.time, "time", lambda: now[0])
    states = [
        parking.park(call(), Waiting())
        if kind == "parked"
        else parking.again(call())
        if kind == "again"
        else parking.wrap(call(), b"own")
        for _ in range(2)
    ]
    now[0] += SECONDS
    parking.claim(states[0], call(), fits)
    now[0] += 0.002

    with pytest.raises(RefusedError, match="time to answer is up"):
        parking.claim(states[1], call(), fits)
    parking.close()


async def test_nobody_waits_longer_than_the_time_to_answer(withdrawn: list[Any]) -> None:
    parking, waiting = Parking(most=2, seconds=0.0, withdraw=withdrawn.append), Waiting()
    parking.park(call(), waiting)
    async with asyncio.timeout(5):
        while not withdrawn:  # noqa: ASYNC110 - a timer that is due already
            await asyncio.sleep(0)

    assert withdrawn == [waiting]
    assert len(parking) == 0


async def test_beyond_the_most_a_call_is_refused_and_withdrawn(parking: Parking, withdrawn: list[Any]) -> None:
    first, second, third = Waiting(), Waiting(), Waiting()
    parking.park(call(), first)
    parking.park(call(), second)

    with pytest.raises(BusyError, match=r"^2 calls of user 'ann' wait"):
        parking.park(call(), third)
    assert withdrawn == [third]
    parking.close()
    parking.close()
    assert withdrawn == [third, first, second]


async def test_states_of_another_gateway_and_forged_ones_are_refused(parking: Parking) -> None:
    other = Parking(most=2, seconds=SECONDS, withdraw=lambda _: None)

    for state in (other.again(call()), "tl1.", "tl1.AAAA", parking.again(call())[:-1], "x"):
        with pytest.raises(RefusedError, match="does not belong"):
            parking.claim(state, call(), fits)


async def test_a_state_opens_for_the_user_and_the_request_that_it_was_made_for_alone(parking: Parking) -> None:
    state = parking.again(call())

    assert parking.opens(state, call())
    assert not parking.opens(state, call("bob"))
    assert not parking.opens(state, call(name="another"))


async def test_what_somebody_else_answered_is_given_to_the_caller_once(parking: Parking) -> None:
    waiting, asked, left = Waiting(), list[bytes](), list[bytes]()
    parking.left = left.append
    state = parking.park(call(), waiting, asked.append)
    resumed: list[Parked] = []

    def resume(parked: Parked) -> asyncio.Task[Any]:
        resumed.append(parked)
        return asyncio.ensure_future(asyncio.sleep(0, "the answer"))

    assert parking.take(asked[0], resume)
    assert not parking.take(asked[0], resume)
    assert (resumed, left) == ([waiting], asked)
    outcome = parking.claim(state, call(), fits)
    assert isinstance(outcome, asyncio.Task)
    assert str(await outcome) == "the answer"
    with pytest.raises(RefusedError, match="answered already"):
        parking.claim(state, call(), fits)


async def test_an_outcome_that_nobody_comes_for_is_let_go_when_the_time_is_up() -> None:
    parking, asked = Parking(most=2, seconds=0.01, withdraw=lambda _: None), list[bytes]()
    parking.park(call(), Waiting(), asked.append)
    outcomes: list[weakref.ref[asyncio.Task[Any]]] = []

    def resume(parked: Parked) -> asyncio.Task[Any]:
        made = asyncio.ensure_future(asyncio.sleep(0, "the answer"))
        outcomes.append(weakref.ref(made))
        return made

    assert parking.take(asked[0], resume)
    async with asyncio.timeout(20):
        while outcomes[0]() is not None:
            await asyncio.sleep(0.01)
            gc.collect()


async def test_one_users_calls_are_let_go_and_no_others(parking: Parking, withdrawn: list[Any]) -> None:
    ann, anna, bob = Waiting(), Waiting(), Waiting()
    for user, waiting in (("ann", ann), ("anna", anna), ("bob", bob)):
        parking.park(call(user), waiting)

    parking.close("anna")
    assert withdrawn == [anna]

    parking.close()
    assert withdrawn == [anna, ann, bob]


async def test_a_call_that_was_answered_makes_room_for_one_more_and_no_two(parking: Parking) -> None:
    state, _ = parking.park(call(), Waiting()), parking.park(call(), Waiting())
    parking.claim(state, call(), fits)

    parking.park(call(), Waiting())
    with pytest.raises(BusyError):
        parking.park(call(), Waiting())
