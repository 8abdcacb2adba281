"""What a person is asked about a program: all that one step of it wants, call by call, and what its servers ask."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from trunkline.call.stages.elicit import wrong_answer
from trunkline.errors import RefusedError
from trunkline.model import Answer, Entry, Question
from trunkline.questions.fields import FormField
from trunkline.questions.kinds import ElicitationResponse, FormRequest
from trunkline.questions.mcp import looks_secret
from trunkline.sandbox.messages import Wanted
from trunkline.sandbox.run import AskedCall
from trunkline.untrusted import as_object, printable
from trunkline.wire.envelope import INVALID_PARAMS
from trunkline.wire.members import decode_bounded, decode_object

KEY = "calls"
"""What the one question of a program is called."""
_LONGEST_VALUE = 200
_LONGEST_CALL = 1500
_MASKED = "***"


def question(wanted: Sequence[tuple[Wanted, Entry]], timeout: float) -> FormRequest:
    """One form for all calls that wait: a box to tick for each, with the tool and its arguments."""
    number = len(wanted)
    many = f"{number} calls that need" if number > 1 else "a call that needs"
    return FormRequest(
        f"A program wants to make {many} your agreement. Nothing was done yet. Tick what may be done; "
        "what is not ticked is refused, and the program goes on without it.",
        fields=tuple(
            FormField(
                _field(call),
                printable(f"{entry.shown}{_cost(entry)}"),
                "boolean",
                required=False,
                description=_arguments(call, entry),
            )
            for call, entry in wanted
        ),
        id=KEY,
        tool_name="run_code",
        timeout=timeout,
    )


def agreed(wanted: Sequence[Wanted], response: ElicitationResponse) -> set[int]:
    """The calls that a person agreed to: those ticked by somebody who answered, and none besides."""
    if not response.responded or response.cancelled or response.declined or response.timed_out:
        return set()
    value: Any = response.value
    said = as_object(value)
    if isinstance(value, bool) and len(wanted) == 1:  # the only box of a form may be asked as yes or no
        said = {_field(wanted[0]): value}
    return {call.id for call in wanted if said.get(_field(call)) is True}


def of_servers(asked: Sequence[AskedCall]) -> dict[str, Question]:
    """What servers ask in calls of a program, each question under a name of its own."""
    return {_key(one, key): question for one in asked for key, question in one.questions.items()}


def answers_for(asked: AskedCall, given: Mapping[str, Answer]) -> dict[str, Answer]:
    """What was said to one of them, as its server named the questions; RefusedError leaves them open."""
    answers = {key: given.get(_key(asked, key), Answer()) for key in asked.questions}
    for key, question in asked.questions.items():
        problem = wrong_answer(question, answers[key]) if answers[key].result else "there is none"
        if problem:
            raise misfit(_key(asked, key), problem)
    return answers


def misfit(key: str, problem: str) -> RefusedError:
    """An answer that is none leaves its question open."""
    return RefusedError(
        f"The answer to {key!r} does not fit the question: {problem}",
        code=INVALID_PARAMS,
        hint="The question is still open: send the request again with another answer.",
    )


def _key(asked: AskedCall, key: str) -> str:
    return f"{_field(asked.call)}.{key}"


def _field(call: Wanted) -> str:
    return f"call_{call.id + 1}"


def _cost(entry: Entry) -> str:
    cost = entry.annotations.cost_hint
    return f" (costs {cost:g})" if cost else ""


def _arguments(call: Wanted, entry: Entry) -> str:
    """The arguments as a person reads them: secrets hidden, long values cut and said to be."""
    schema = as_object(decode_bounded(entry.definition).get("inputSchema"))
    properties = as_object(schema.get("properties"))
    given = decode_object(call.arguments)
    parts = [f"{printable(name)}={_value(name, value, properties.get(name))}" for name, value in given.items()]
    text = ", ".join(parts) or "without arguments"
    return text if len(text) <= _LONGEST_CALL else f"{text[:_LONGEST_CALL]} … ({len(text)} characters in all)"


def _value(name: str, value: Any, schema: Any) -> str:
    if value not in (None, "", True, False) and looks_secret(name, {"type": "string", **_said(schema)}):
        return _MASKED
    text = printable(json.dumps(_without_secrets(value), ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} … ({len(text)} characters)"


def _said(schema: Any) -> dict[str, Any]:
    """What of a schema tells a secret: of whatever type, a value under a secret's name is hidden."""
    return {key: value for key, value in as_object(schema).items() if key in ("format", "writeOnly", "title")}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return {
            key: _MASKED if looks_secret(key, {"type": "string"}) else _without_secrets(one)
            for key, one in found.items()
        }
    return [_without_secrets(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value
