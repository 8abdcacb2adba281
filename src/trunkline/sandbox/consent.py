"""What a person is asked about a program: everything that one step of it wants, each call to be agreed to by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from trunkline.model import Entry
from trunkline.questions.fields import FormField
from trunkline.questions.kinds import ElicitationResponse, FormRequest
from trunkline.questions.mcp import looks_secret
from trunkline.sandbox.turns import Wanted
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
                _shown(f"{entry.shown}{_cost(entry)}"),
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
    said = _object(value)
    if isinstance(value, bool) and len(wanted) == 1:  # the only box of a form may be asked as yes or no
        said = {_field(wanted[0]): value}
    return {call.id for call in wanted if said.get(_field(call)) is True}


def _field(call: Wanted) -> str:
    return f"call_{call.id + 1}"


def _cost(entry: Entry) -> str:
    cost = entry.annotations.cost_hint
    return f" (costs {cost:g})" if cost else ""


def _arguments(call: Wanted, entry: Entry) -> str:
    """The arguments as a person reads them: secrets hidden, long values cut and said to be."""
    schema = _object(decode_bounded(entry.definition).get("inputSchema"))
    properties = _object(schema.get("properties"))
    given = decode_object(call.arguments)
    parts = [f"{_shown(name)}={_value(name, value, properties.get(name))}" for name, value in given.items()]
    text = ", ".join(parts) or "without arguments"
    return text if len(text) <= _LONGEST_CALL else f"{text[:_LONGEST_CALL]} … ({len(text)} characters in all)"


def _value(name: str, value: Any, schema: Any) -> str:
    if value not in (None, "", True, False) and looks_secret(name, {"type": "string", **_said(schema)}):
        return _MASKED
    text = _shown(json.dumps(_without_secrets(value), ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} … ({len(text)} characters)"


def _said(schema: Any) -> dict[str, Any]:
    """What of a schema tells a secret: of whatever type, a value under a secret's name is hidden."""
    return {key: value for key, value in _object(schema).items() if key in ("format", "writeOnly", "title")}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return {
            key: _MASKED if looks_secret(key, {"type": "string"}) else _without_secrets(one)
            for key, one in found.items()
        }
    return [_without_secrets(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _shown(text: str) -> str:
    """A text that writes nothing but itself on a person's screen."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
