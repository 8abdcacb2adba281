"""Questions that wait for whoever asks, in the admin API: of their own calls, made through whichever client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from trunkline.call.stages.entry import resolve
from trunkline.errors import NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.identity import unit_name
from trunkline.model import Answer
from trunkline.wire.members import decode_object, encode

if TYPE_CHECKING:
    from trunkline.gateway.mcp.open_questions import OpenQuestion, OpenQuestions
    from trunkline.relay import Relay


class WantedAnswer(Body, frozen=True):
    """What a person says to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    """The values of the form, where it is one and they accept."""


class ShownQuestion(TypedDict):
    """A question, with the call that it belongs to."""

    id: str
    tool: str
    server: str
    user: str
    client: str
    """What the client calls itself that made the call."""
    asked: float
    expires: float
    """When its time is up."""
    params: dict[str, Any]
    """As MCP has it in `elicitation/create`: `message`, and `requestedSchema` for a form, or `url` to be opened."""


class Answered(TypedDict):
    """What was said."""

    id: str
    action: str


def routes(relay: Relay, questions: OpenQuestions) -> list[Route]:
    """What can be done with questions."""
    api = _Questions(relay, questions)
    return [
        Route(
            "GET",
            "questions",
            "What waits for you to answer it: asked in calls of yours, wherever they were made",
            api.list,
            gives=ShownQuestion,
            pages="questions",
        ),
        Route(
            "POST",
            "questions/{id}",
            "Answer a question; its call goes on, once, and whoever made the call gets the result",
            api.answer,
            WantedAnswer,
            Answered,
            needs="any key",
        ),
    ]


class _Questions:
    def __init__(self, relay: Relay, questions: OpenQuestions) -> None:
        self._relay, self._questions = relay, questions

    async def list(self, ask: Ask) -> Given:
        await self._relay.welcome(ask.scope)
        own = [one for one in self._questions.of(ask.scope.person) if self._exists(ask, one)]
        return Given({"questions": [_shown(one) for one in own]})

    async def answer(self, ask: Ask) -> Given:
        await self._relay.welcome(ask.scope)
        found = self._questions.get(ask.names["id"])
        if found is None or found.call.scope.person != ask.scope.person or not self._exists(ask, found):
            hint = "It was answered, perhaps by the client that made the call, or its time is up."
            raise NotFoundError("No such question waits for you.", hint=hint)
        body: WantedAnswer = ask.body
        said = {"action": body.action}
        if body.action == "accept" and body.content is not None:
            said |= {"content": body.content}  # type: ignore[dict-item] - JSON
        problem = found.answer(Answer(encode(said)))
        if problem:
            raise RefusedError(f"The answer does not fit: {problem}.", status=422, hint="The question is still open.")
        return Given({"id": found.id, "action": body.action})

    def _exists(self, ask: Ask, one: OpenQuestion) -> bool:
        """Whether a key may have to do with the call: with one that may do less, only what exists for that."""
        call, scope = one.call, ask.scope
        if not scope.rules and (not scope.profile or scope.profile == call.scope.profile):
            return True
        return call.method == "tools/call" and resolve(call, self._relay.view(scope).snapshot) is not None


def _shown(one: OpenQuestion) -> ShownQuestion:
    call = one.call
    return {
        "id": one.id,
        "tool": call.name,
        "server": unit_name(one.server),
        "user": call.scope.user,
        "client": str(decode_object(call.caller.client_info or b"{}").get("name", "")),
        "asked": one.since,
        "expires": one.until,
        "params": decode_object(one.question.params),
    }
