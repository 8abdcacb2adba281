"""Calls that may ask something, for callers who hold nothing open: what is asked is a result with a sealed state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from trunkline.call.stages.elicit import warn_of_secrets, wrong_answer
from trunkline.call.stages.entry import resolve, unknown
from trunkline.call.suspended import Suspended
from trunkline.errors import RefusedError, TrunklineError
from trunkline.gateway.mcp.errors import error_of
from trunkline.gateway.mcp.open_questions import OpenQuestions
from trunkline.gateway.mcp.parking import Parking, is_ours, is_program
from trunkline.model import Answer, Call, Parked, Question, Reply
from trunkline.relay import Relay
from trunkline.tasks import Tasks
from trunkline.wire.envelope import INVALID_PARAMS, error_object, read_string
from trunkline.wire.members import decode_object, encode, read_members, write_members
from trunkline.wire.questions import (
    accepted,
    capability_missing,
    input_required,
    may_ask,
    not_asked,
    read_answers,
    read_input_required,
    url_questions,
)

_RETRY = frozenset(("requestState", "inputResponses"))


class Asking:
    """Takes calls through the relay, and keeps those that wait for answers, wherever they came from."""

    def __init__(self, relay: Relay, tasks: Tasks, questions: OpenQuestions) -> None:
        self._relay, self._tasks, self._questions = relay, tasks, questions
        gateway = relay.config.gateway
        self._parking = Parking(most=gateway.max_parked, seconds=gateway.question_timeout, withdraw=relay.withdraw)
        self._parking.left = self._left
        self._ids: dict[bytes, list[str]] = {}
        """The questions of each parked call that a person can answer."""

    @property
    def parked(self) -> int:
        """How many calls wait for answers."""
        return len(self._parking)

    def knows(self, state: str, call: Call) -> bool:
        """Whether a state was given out for this call, to this user; a server's own may be any."""
        if is_program(state):
            return True  # which is found out where programs wait
        return self._parking.opens(state, call) if is_ours(state) else not call.scope.user

    def forget_user(self, user: str) -> None:
        """Somebody is gone: their calls wait no longer."""
        self._parking.close(user)

    async def reply(self, call: Call) -> Reply:
        """The call's outcome in this era: what a legacy server asks meanwhile becomes a result that asks the caller."""
        state, parked, answers = "", None, {}
        if "requestState" in call.params:
            state, answers = read_string(call.params["requestState"]), read_answers(call.params)
            if not state:
                raise RefusedError("`requestState` is not one that was given out.", code=INVALID_PARAMS)
            if is_program(state):
                return await self._relay.handle(call)  # it is data in the store, and knows whose it is
            if not is_ours(state) and (call.scope.user or self._goes_to_legacy(call)):
                raise RefusedError("`requestState` does not belong to this request.", code=INVALID_PARAMS)
        if state and is_ours(state):
            found = self._parking.claim(state, call, partial(self._check_answers, call, answers))
            if isinstance(found, bytes):
                return self._bound(call, await self._relay.handle(_with_state(call, found)))
            if isinstance(found, asyncio.Task):
                return await asyncio.shield(found)  # its person answered elsewhere, and this is what came of it
            parked = found
            if parked is None and not may_ask(_ADDRESS, call.caller.capabilities):
                raise _undeclared([_ADDRESS])
            call.params = {name: value for name, value in call.params.items() if name not in _RETRY}
            call.raw_params = b""
            if parked is None and not all(accepted(answer) for answer in answers.values()):
                return Reply(error=error_object(-32603, "What the server wants opened was not opened."))
        reply = await (self._relay.resume(call, parked, answers) if parked is not None else self._relay.handle(call))
        return await self.answer_of(call, reply)

    async def answer_of(self, call: Call, reply: Reply) -> Reply:
        """What its caller is told: the reply, or what is asked, as far as the caller can be."""
        missing: list[Question] = []
        while reply.questions and reply.parked is not None:
            asked = {key: one for key, one in reply.questions.items() if may_ask(one, call.caller.capabilities)}
            if len(asked) == len(reply.questions):
                warn_of_secrets(call.server, asked.values())
                state = self._parking.park(call, reply.parked, partial(self._note, call, asked))
                return Reply(result=input_required(asked, state), modern=True)
            refused = {key: not_asked(one) for key, one in reply.questions.items() if key not in asked}
            missing += [reply.questions[key] for key in refused]
            reply = await self._relay.resume(call, reply.parked, refused)
        missing += reply.refused
        if missing and reply.error:
            return Reply(error=capability_missing(missing), modern=True)
        urls = {} if reply.modern or not reply.error else url_questions(reply.error)
        if urls and all(may_ask(one, call.caller.capabilities) for one in urls.values()):
            # The server did nothing yet: it wants to be called again when the person has been there.
            return Reply(result=input_required(urls, self._parking.again(call)), modern=True)
        return self._bound(call, reply)

    # Answers of somebody else than the caller.

    def _note(self, call: Call, asked: Mapping[str, Question], key: bytes) -> None:
        """Let a call's questions be answered elsewhere; it goes on with the last answer that is missing."""
        again = _again(call)
        given: dict[str, Answer] = {}

        def answer(name: str, said: Answer) -> str:
            problem = wrong_answer(asked[name], said)
            if problem:
                return problem
            given[name] = said
            if len(given) == len(asked):
                self._parking.take(key, lambda parked: self._go_on(again, parked, given))
            return ""

        add, server, seconds = self._questions.add, call.server, self._parking.seconds
        ids = [add(again, server, one, seconds, partial(answer, name)) for name, one in asked.items()]
        if all(ids):
            self._ids[key] = ids
        else:  # some of it is for the caller itself, who alone can go on
            for id in ids:
                self._questions.remove(id)

    def _go_on(self, call: Call, parked: Parked, answers: Mapping[str, Answer]) -> asyncio.Task[Reply]:
        async def go_on() -> Reply:
            try:
                return await self.answer_of(call, await self._relay.resume(call, parked, answers))
            except TrunklineError as error:  # nobody waits for it now; its caller hears of it when it comes back
                return Reply(error=error_of(error, modern=True))

        return self._tasks.start(go_on(), name=f"answered {call.name}")

    def _left(self, key: bytes) -> None:
        for id in self._ids.pop(key, ()):
            self._questions.remove(id)

    def _bound(self, call: Call, reply: Reply) -> Reply:
        """A modern server's state works only for the user it was made for, and is never taken for one of ours."""
        asked = read_input_required(reply.result) if reply.modern else None
        if asked is None or is_program(read_string(asked[1])):
            return reply
        questions, state = asked
        warn_of_secrets(call.server, questions.values())
        if state and (call.scope.user or is_ours(read_string(state))):
            wrapped = encode(self._parking.wrap(call, state))
            reply.result = write_members({**read_members(reply.result), "requestState": wrapped})
        return reply

    def _check_answers(self, call: Call, answers: Mapping[str, Answer], parked: Parked) -> None:
        """Refuse who no longer has what asks, and answers that do not fit; the question stays open."""
        snapshot = self._relay.view_for(call.scope, call.caller).snapshot
        if call.method in ("tools/call", "prompts/get") and not snapshot.bare and resolve(call, snapshot) is None:
            raise unknown(call, snapshot)
        _check_answers(call, answers, parked)

    def _goes_to_legacy(self, call: Call) -> bool:
        """Whether the call's server is a legacy one, which has no states of its own."""
        snapshot = self._relay.view_for(call.scope, call.caller).snapshot
        entry = resolve(call, snapshot)
        view = snapshot.servers.get((entry.members or (entry.server,))[0] if entry is not None else snapshot.bare)
        return view is not None and view.introduction is not None and not view.introduction.modern


def is_final(reply: Reply) -> bool:
    """Whether a reply is its caller's answer as it is."""
    return not (reply.error or reply.questions or reply.result.partition(b"input_required")[1])


_ADDRESS = Question("elicitation/create", b'{"mode":"url"}')


def _check_answers(call: Call, answers: Mapping[str, Answer], parked: Parked) -> None:
    """Refuse answers that their caller no longer says it gives, or that do not fit; the question stays open."""
    asked = {key: (parked.questions[key], one) for key, one in answers.items() if key in parked.questions}
    undeclared = [question for question, _ in asked.values() if not may_ask(question, call.caller.capabilities)]
    if undeclared:
        raise _undeclared(undeclared)
    if isinstance(parked, Suspended):
        return  # a stage asks again by itself
    for key, (question, answer) in asked.items():
        problem = wrong_answer(question, answer)
        if problem:
            raise RefusedError(
                f"The answer to {key!r} does not fit the question: {problem}.",
                code=INVALID_PARAMS,
                hint="The question is still open: send the request again with another answer.",
            )


def _undeclared(questions: Sequence[Question]) -> RefusedError:
    error = decode_object(capability_missing(questions))
    return RefusedError(
        "The request answers what it does not declare.", code=error["code"], data=error["data"],
        hint="Declare in every request what you can be asked.",
    )  # fmt: skip


def _again(call: Call) -> Call:
    """The same call for whoever goes on with it: nobody listens to it now."""
    params = {name: value for name, value in call.params.items() if name not in _RETRY}
    return Call(call.method, call.name, params, scope=call.scope, caller=call.caller, timeout=call.timeout,
                headers=call.headers, token=call.token, whole=call.whole)  # fmt: skip


def _with_state(call: Call, state: bytes) -> Call:
    call.params = {**call.params, "requestState": state}
    call.raw_params = b""
    return call
