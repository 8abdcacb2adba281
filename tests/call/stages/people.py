"""People who are asked: whoever calls for them, in either era or in Python, they answer alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.call.stages.till import FORMS, Json, Till
from tests.questions.scene import Talker
from trunkline.errors import TrunklineError
from trunkline.questions.kinds import ConfirmationRequest, Elicitation, ElicitationResponse, FormRequest

CALLERS = ("modern", "legacy", "python")


@dataclass
class Person:
    """Says yes (`yes`), no (`no`), declines (`decline`) or leaves (`cancel`), and knows what else is asked."""

    agrees: str = "yes"
    knows: Json = field(default_factory=dict[str, Any])
    """Answers by the name of what is asked, or by the question; without one, it is declined."""
    heard: list[str] = field(default_factory=list[str])
    """What the person was asked, in order."""

    def mcp(self, question: Json) -> Json:
        """The answer to a question as MCP puts it."""
        params = question["params"]
        self.heard.append(params["message"])
        names = list(params["requestedSchema"]["properties"])
        if names == ["confirmed"]:
            if self.agrees in ("decline", "cancel"):
                return {"action": self.agrees}
            return {"action": "accept", "content": {"confirmed": self.agrees == "yes"}}
        known = {**self.knows, "value": self.knows.get(params["message"])}
        content = {name: known[name] for name in names if known.get(name) is not None}
        return {"action": "accept", "content": content} if content else {"action": "decline"}

    def here(self, request: Elicitation) -> object:
        """The answer to a question in Python."""
        self.heard.append(request.message)
        if isinstance(request, ConfirmationRequest):
            if self.agrees in ("yes", "no"):
                return self.agrees == "yes"
            return ElicitationResponse(request.id, declined=self.agrees == "decline", cancelled=self.agrees == "cancel")
        if isinstance(request, FormRequest):
            return {one.name: self.knows[one.name] for one in request.fields if one.name in self.knows}
        known = self.knows.get(getattr(request, "field_name", ""), self.knows.get(request.message))
        return ElicitationResponse(request.id, declined=True) if known is None else known


@dataclass(frozen=True)
class End:
    """How a call ended for its caller."""

    text: str = ""
    """What the tool said."""
    error: str = ""
    """Why there was no result at all."""
    failed: bool = False


async def use(at: Till, caller: str, person: Person | None, tool: str, arguments: Json, *, user: str = "") -> End:
    """Call a tool for a person; `None` is a caller that cannot be asked."""
    if caller == "python":
        at.hub.elicitation.register_handler(person.here if person is not None else None)
        try:
            result = await at.hub.call(tool, arguments, user=user)
        except TrunklineError as error:
            return End(error=str(error))
        return End(result.text, failed=result.is_error)
    able: Json = FORMS if person is not None else {}
    made = at.modern(user) if caller == "modern" else await at.legacy(able)
    answer = (person or Person()).mcp
    told = await Talker(made, able).call(tool, arguments, answer)
    if "error" in told.message:
        return End(error=told.error["message"])
    return End(told.text, failed=told.message["result"].get("isError", False))
