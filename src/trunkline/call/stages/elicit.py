"""The stage that has questions answered: by whoever the call says, while its place at the server is kept."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from trunkline.call.stage import Handler
from trunkline.call.suspended import Suspended
from trunkline.errors import AuthorizationNeededError, TrunklineError
from trunkline.identity import unit_name
from trunkline.model import Answer, Call, Parked, Question, Reply
from trunkline.questions.mcp import flag_secrets
from trunkline.tasks import Tasks
from trunkline.tools.check.checker import checker_for
from trunkline.wire.envelope import INVALID_PARAMS, error_object
from trunkline.wire.members import decode_object, encode, is_object, write_members
from trunkline.wire.questions import accepted, may_ask, not_asked, read_input_required

log = logging.getLogger("trunkline")

SignedIn = Callable[[str], Awaitable[str]]
"""Waits until a sign-in is done; says why it failed, or nothing."""

ROUNDS = 10
"""How often a server may ask in one call."""


class ElicitStage:
    """For calls that name who answers (`call.ask`), no question leaves this stage; others pass theirs to the edge."""

    def __init__(self, withdraw: Callable[[Parked | None], None], signed_in: SignedIn, tasks: Tasks) -> None:
        self._withdraw, self._signed_in, self._tasks = withdraw, signed_in, tasks

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        if call.ask is None and not _names_elicitation(call.caller.capabilities):
            return call_next(call)  # nobody can be asked anything
        return self._passed(call, call_next)

    async def _passed(self, call: Call, call_next: Handler) -> Reply:
        try:
            reply = await call_next(call)
        except AuthorizationNeededError as error:
            question = _where_to_sign_in(call, error)
            if not error.url or not may_ask(question, call.caller.capabilities):
                raise
            if call.ask is not None:
                return await self._sign_in(call, question, error, call_next)
            own = msgspec.structs.replace(call)  # the caller's goes on changing with every answer it brings
            suspended = Suspended(own)
            own.ask = suspended.ask
            return await suspended.run(self._sign_in(own, question, error, call_next), self._tasks)
        return reply if call.ask is None else await self._answered(call, reply, call_next)

    async def _sign_in(
        self, call: Call, question: Question, error: AuthorizationNeededError, call_next: Handler
    ) -> Reply:
        """Send the caller's person to sign in; the call, which its server has not seen, goes on when they are done."""
        assert call.ask is not None
        id = str(decode_object(question.params)["elicitationId"])
        call.note("elicit", "sign in")
        answer = (await call.ask({id: question})).get(id)
        if answer is None or not accepted(answer):
            raise error
        problem = await self._signed_in(error.attempt)
        if not call.caller.modern:
            call.listener.notify("notifications/elicitation/complete", encode({"elicitationId": id}))
        if problem:
            raise AuthorizationNeededError(f"Nobody is signed in to server {unit_name(call.server)!r}: {problem}")
        return await self._answered(call, await call_next(call), call_next)

    async def _answered(self, call: Call, reply: Reply, call_next: Handler) -> Reply:
        original = call.params
        for rounds in range(ROUNDS + 1):
            if reply.questions and reply.parked is not None:
                if rounds == ROUNDS:
                    break
                answers = _checked(reply.questions, await self._answers(call, reply))
                reply = await call_next(msgspec.structs.replace(call, parked=reply.parked, answers=answers))
                continue
            asked = read_input_required(reply.result) if reply.modern else None
            if asked is None:
                reply.asked = rounds > 0
                return reply
            if rounds == ROUNDS:
                break
            questions, state = asked
            answers = await self._ask(call, questions)
            wrong = [one.error for key, one in _checked(questions, answers).items() if one is not answers[key]]
            if wrong:
                return Reply(error=wrong[0])
            failed = [one.error for key, one in answers.items() if one.error and not _may_be_cancelled(questions[key])]
            if failed:
                return Reply(error=failed[0])
            given = {key: one.result or b'{"action":"cancel"}' for key, one in answers.items()}
            params = {**original, "inputResponses": write_members(given), **({"requestState": state} if state else {})}
            reply = await call_next(msgspec.structs.replace(call, params=params, raw_params=b"", parked=None))
        self._withdraw(reply.parked)
        raise TrunklineError(f"Server {call.server!r} asked more than {ROUNDS} times.")

    async def _answers(self, call: Call, reply: Reply) -> Mapping[str, Answer]:
        try:
            return await self._ask(call, reply.questions)
        except (TrunklineError, asyncio.CancelledError):
            self._withdraw(reply.parked)
            raise

    async def _ask(self, call: Call, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Only what the caller declared to answer is put to it."""
        assert call.ask is not None
        warn_of_secrets(call.server, questions.values())
        allowed = {key: one for key, one in questions.items() if may_ask(one, call.caller.capabilities)}
        refused = {key: not_asked(one) for key, one in questions.items() if key not in allowed}
        call.note("elicit", f"{len(allowed)} asked")
        answers: Mapping[str, Answer] = await call.ask(allowed) if allowed else {}
        call.note("elicit", f"{len(answers)} answered")
        return {**answers, **refused}


@lru_cache(maxsize=256)
def _names_elicitation(capabilities: bytes) -> bool:
    # A name can be spelt with escapes, so that bytes alone decide only when there are none.
    return b"elicitation" in capabilities or b"\\" in capabilities


def _where_to_sign_in(call: Call, error: AuthorizationNeededError) -> Question:
    asked = {
        "mode": "url",
        "message": f"Sign in to {unit_name(call.server)!r}, so that {call.name or 'the call'} can be done.",
        "url": error.url,
        "elicitationId": hashlib.sha256(error.attempt.encode()).hexdigest()[:32],
    }
    return Question("elicitation/create", encode(asked))


def wrong_answer(question: Question, answer: Answer) -> str:
    """Why an answer is none to its question, naming fields and never their values; empty when it is one."""
    if answer.error:
        return ""
    if not is_object(answer.result):
        return "it is not an object"
    if question.method != "elicitation/create":
        return ""
    said, asked = decode_object(answer.result), decode_object(question.params)
    if said.get("action") not in ("accept", "decline", "cancel"):
        return "its `action` is none of accept, decline and cancel"
    schema = asked.get("requestedSchema")
    if said["action"] != "accept" or asked.get("mode") == "url" or not isinstance(schema, dict):
        return ""
    content = said.get("content", {})
    if not isinstance(content, dict):
        return "its `content` is not an object"
    checker = checker_for(cast("dict[str, Any]", schema))
    return "; ".join(checker.problems(cast("dict[str, Any]", content)))


def _checked(questions: Mapping[str, Question], answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """The answers; in the place of one that does not fit its question, an error that says so."""
    found = {key: wrong_answer(questions[key], one) if key in questions else "" for key, one in answers.items()}
    return {
        key: Answer(error=error_object(INVALID_PARAMS, f"The client's answer does not fit the question: {found[key]}."))
        if found[key]
        else one
        for key, one in answers.items()
    }


def warn_of_secrets(server: str, questions: Iterable[Question]) -> None:
    """Tell the operator of a server that asks for secrets in a form, which it must not; the caller decides."""
    asked = [decode_object(one.params) for one in questions if one.method == "elicitation/create"]
    fields = [field for params in asked for field in flag_secrets(params)]
    if fields:
        log.warning(
            "Server %r asks for %s in a form. Secrets do not belong there: it should give an address to open.",
            server,
            ", ".join(fields),
            extra={"server": server},
        )


def _may_be_cancelled(question: Question) -> bool:
    """Whether a question that failed may pass for one that was cancelled: a person's may, a model's may not."""
    return question.method == "elicitation/create"
