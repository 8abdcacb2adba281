"""How often a server may ask in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from trunkline.call.stages.elicit import ROUNDS, ElicitStage
from trunkline.errors import TrunklineError
from trunkline.model import Answer, Call, Caller, Parked, Question, Reply
from trunkline.tasks import open_tasks

QUESTION = Question("elicitation/create", b'{"message":"Sure?"}')
YES = Answer(result=b'{"action":"accept"}')


@dataclass
class Waiting:
    """A call that waits at its server."""

    server: str = "shop"
    questions: Mapping[str, Question] = field(default_factory=lambda: {"q": QUESTION})


async def nobody(attempt: str) -> str:
    raise AssertionError("nobody signs in here")


async def asked(times: int) -> tuple[int, list[Parked | None], Reply | None]:
    """A server that asks so often: how often somebody answered, what was withdrawn, and the reply if one came."""
    answered, withdrawn, waiting = 0, list[Parked | None](), Waiting()

    async def server(call: Call) -> Reply:
        done = answered >= times
        return Reply(result=b"{}", modern=False) if done else Reply(questions=waiting.questions, parked=waiting)

    async def answer(questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        nonlocal answered
        answered += 1
        return dict.fromkeys(questions, YES)

    call = Call("tools/call", "order", {}, caller=Caller(capabilities=b'{"elicitation":{}}'), ask=answer)
    try:
        async with open_tasks() as tasks:
            return answered, withdrawn, await ElicitStage(withdrawn.append, nobody, tasks)(call, server)
    except TrunklineError:
        return answered, withdrawn, None


@pytest.mark.parametrize("times", [0, 1, ROUNDS])
async def test_every_question_up_to_the_limit_is_answered_and_the_call_goes_on(times: int) -> None:
    _, withdrawn, reply = await asked(times)

    assert reply is not None
    assert reply.asked is (times > 0)
    assert withdrawn == []


async def test_a_server_that_never_stops_asking_loses_the_call() -> None:
    answered, withdrawn, reply = await asked(ROUNDS + 1)

    assert (answered, reply) == (ROUNDS, None)
    assert withdrawn == [Waiting()]
