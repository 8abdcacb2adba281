"""Joins questions of ours to calls: what a stage asks reaches the call's caller, what a server asks a handler here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

from trunkline.errors import RefusedError
from trunkline.foreign import Raised, attempt
from trunkline.model import Answer, Call, Caller, Question
from trunkline.questions.kinds import Elicitation, ElicitationHandler, ElicitationResponse, UrlRequest
from trunkline.questions.manager import ElicitationManager
from trunkline.questions.mcp import OnlyByUrl, answer_from_mcp, answer_to_mcp, from_mcp, to_mcp
from trunkline.wire.envelope import error_object
from trunkline.wire.members import decode, decode_object, encode
from trunkline.wire.questions import CAPABILITY, may_ask

OpenPage = Callable[[Elicitation, str, ExitStack], tuple[str, asyncio.Future[Any]]]
"""Opens a page where a user answers what must pass no model: its address, and the answer to come.

Files that the user sends are deleted with the stack.
"""

AnswerHandler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the params of a request, and gives its result."""


def asks_caller(call: Call, open_page: OpenPage | None, ended: ExitStack) -> ElicitationHandler:
    """A handler that puts questions of the stages to the caller, in whichever way it can be asked.

    What the answers leave behind is cleared away with `ended`.
    """

    async def handler(request: Elicitation) -> object:
        if call.answer_here is not None:
            return await call.answer_here(request)
        asked = to_mcp(request)
        if isinstance(asked, OnlyByUrl):
            return await _by_page(call, request, open_page, ended)
        return await _put(call, request, asked)

    return handler


def may_be_asked(call: Call) -> bool:
    """Whether there is anything that the caller can be asked."""
    return call.ask is not None and any(may_ask(question, call.caller.capabilities) for question in _ANY)


_ANY = (Question("elicitation/create", b"{}"), Question("elicitation/create", b'{"mode":"url"}'))


async def _put(call: Call, request: Elicitation, params: dict[str, Any]) -> ElicitationResponse:
    question = Question("elicitation/create", encode(params))
    if call.ask is None or not may_ask(question, call.caller.capabilities):
        return ElicitationResponse(request.id, error="The caller cannot be asked.")
    answer = (await call.ask({request.id: question})).get(request.id)
    if answer is None or answer.error:
        return ElicitationResponse(request.id, error="The caller did not answer.")
    return answer_from_mcp(decode_object(answer.result), request)


async def _by_page(call: Call, request: Elicitation, open_page: OpenPage | None, ended: ExitStack) -> object:
    """Secrets and files go from the person to us, and never through the caller."""
    if open_page is None:
        return ElicitationResponse(request.id, error="What is asked here must not pass the caller.")
    url, coming = open_page(request, call.scope.user, ended)
    try:
        page = UrlRequest(request.message, url=url, id=request.id)
        asked = to_mcp(page)
        assert isinstance(asked, dict)
        agreed = await _put(call, page, asked)
        if agreed.value is not True:
            return ElicitationResponse(
                request.id, cancelled=agreed.cancelled, declined=agreed.declined, error=agreed.error or "Not opened."
            )
        return ElicitationResponse(request.id, responded=True, value=await coming)
    finally:
        coming.cancel()


async def _answered_here(manager: ElicitationManager, question: Question, call: Call) -> Answer:
    """A server's question, answered by the handler that the manager has."""
    try:
        request = from_mcp(decode_object(question.params), tool_name=call.name, server_id=call.server)
    except RefusedError as error:
        return Answer(error=error_object(error.code, str(error)))
    response = await manager.request(request)
    return Answer(result=encode(answer_to_mcp(response, request)))


class LocalAnswers:
    """Questions to a person go to `elicitation`; what servers ask of a model or a client, to handlers of its own."""

    def __init__(self, question_timeout: float) -> None:
        self.elicitation = ElicitationManager(default_timeout=question_timeout)
        self._handlers: dict[str, AnswerHandler] = {}

    def on_request(self, method: str, handler: AnswerHandler) -> None:
        """Answer `sampling/createMessage` or `roots/list`."""
        if method not in CAPABILITY or method == "elicitation/create":
            raise ValueError(f"Servers do not ask {method!r} here; for questions to a person see `elicitation`.")
        self._handlers[method] = handler

    def caller(self) -> Caller:
        """What code here can be asked."""
        declared: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}} if self.elicitation.has_handler else {}
        declared |= {CAPABILITY[method]: {} for method in self._handlers}
        return Caller(capabilities=encode(declared))

    async def answer(self, call: Call, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Answer all questions, at once."""
        answers = await asyncio.gather(*(self._answer(call, question) for question in questions.values()))
        return dict(zip(questions, answers, strict=True))

    async def _answer(self, call: Call, question: Question) -> Answer:
        handler = self._handlers.get(question.method)
        if handler is None:
            return await _answered_here(self.elicitation, question, call)

        async def answer() -> bytes:
            return encode(await handler(decode(question.params or b"{}")))

        outcome = await attempt(answer)
        if isinstance(outcome, Raised):
            # Its words may hold what the handler knows and the server should not.
            return Answer(error=error_object(-32603, f"The handler failed: {type(outcome.error).__name__}."))
        return Answer(result=outcome)
