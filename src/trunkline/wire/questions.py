"""Questions on their way to a person: whether the caller may be asked, and how either era writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trunkline.model import Answer, Question
from trunkline.untrusted import as_list, as_object
from trunkline.wire.envelope import METHOD_NOT_FOUND, error_object, read_string
from trunkline.wire.era import MISSING_CAPABILITY
from trunkline.wire.members import Members, decode_object, encode, is_object, read_members, write_members

CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def may_ask(question: Question, capabilities: bytes) -> bool:
    """Whether the caller declared that it answers such questions."""
    needed = CAPABILITY.get(question.method, "")
    if needed not in decode_object(capabilities):
        return False
    kinds = decode_object(read_members(capabilities)[needed])
    kind = _kind(question)
    if kind == "form":
        return not kinds or kind in kinds  # one that names no kind knows forms, as all did at first
    return not kind or kind in kinds


def _kind(question: Question) -> str:
    """What the caller must have declared beyond the capability itself."""
    asked = decode_object(question.params)
    if question.method == "elicitation/create":
        return "url" if asked.get("mode") == "url" else "form"
    if question.method == "sampling/createMessage" and ("tools" in asked or "toolChoice" in asked):
        return "tools"
    return ""


def not_asked(question: Question) -> Answer:
    """What a legacy server gets for a question that its caller cannot be asked."""
    return Answer(error=error_object(METHOD_NOT_FOUND, f"The client does not answer {question.method!r}."))


def capability_missing(questions: Iterable[Question]) -> bytes:
    """What a modern caller gets when a server could not go on without asking it what it does not answer."""
    needed: dict[str, dict[str, dict[str, str]]] = {}
    for question in questions:
        if question.method in CAPABILITY:
            kinds = needed.setdefault(CAPABILITY[question.method], {})
            if _kind(question) in ("url", "tools"):
                kinds[_kind(question)] = {}
    text = f"The server needs to ask what the client did not declare: {', '.join(needed)}."
    return error_object(MISSING_CAPABILITY, text, {"requiredCapabilities": needed})


def input_required(questions: Mapping[str, Question], state: str) -> bytes:
    """A modern result that asks the caller."""
    requests = {
        key: write_members({"method": encode(question.method), "params": question.params or b"{}"})
        for key, question in questions.items()
    }
    return write_members(
        {
            "resultType": b'"input_required"',
            "inputRequests": write_members(requests),
            "requestState": encode(state),
        }
    )


def read_answers(params: Members) -> dict[str, Answer]:
    """The answers that a modern caller sends with its retry."""
    text = params.get("inputResponses", b"")
    return {key: Answer(result=value) for key, value in read_members(text).items()} if is_object(text) else {}


def read_input_required(result: bytes) -> tuple[dict[str, Question], bytes] | None:
    """The questions of a modern server's result, and its state; `None` when it asks nothing."""
    if not result.partition(b"input_required")[1]:
        return None
    members = read_members(result)
    if read_string(members.get("resultType", b"")) != "input_required":
        return None
    requests = members.get("inputRequests", b"")
    questions: dict[str, Question] = {}
    for key, text in (read_members(requests) if is_object(requests) else {}).items():
        request = read_members(text) if is_object(text) else {}
        questions[key] = Question(read_string(request.get("method", b"")), request.get("params", b"{}"))
    return questions, members.get("requestState", b"")


def url_questions(error: bytes) -> dict[str, Question]:
    """The addresses that a legacy server's error -32042 wants opened, as questions."""
    found = decode_object(error)
    if found.get("code") != -32042:
        return {}
    listed = as_list(as_object(found.get("data")).get("elicitations"))
    return {f"url{at}": Question("elicitation/create", encode(one)) for at, one in enumerate(listed)}


def accepted(answer: Answer) -> bool:
    """Whether a person agreed."""
    return decode_object(answer.result).get("action") == "accept"
