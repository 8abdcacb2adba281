"""Answers in calls that are made in Python: what code that uses the hub can be asked, it says by giving handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from trunkline.model import Answer, Call, Caller, Question
from trunkline.questions.bridge import answer_here
from trunkline.questions.manager import ElicitationManager
from trunkline.wire.envelope import error_object
from trunkline.wire.members import decode, encode
from trunkline.wire.questions import CAPABILITY

AnswerHandler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the params of a request, and gives its result."""


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
            return await answer_here(self.elicitation, question, call)
        try:
            return Answer(result=encode(await handler(decode(question.params or b"{}"))))
        except Exception as error:  # noqa: BLE001  a handler is somebody else's code, and a server waits for an answer
            # Its words may hold what the handler knows and the server should not.
            return Answer(error=error_object(-32603, f"The handler failed: {type(error).__name__}."))
