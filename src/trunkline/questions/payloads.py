"""Questions and answers as JSON in the spelling of `elicitation/request`: camelCase, and times in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from trunkline.errors import RefusedError
from trunkline.questions.events import without_secrets
from trunkline.questions.fields import Secret
from trunkline.questions.kinds import KINDS, Elicitation, ElicitationResponse
from trunkline.wire.envelope import INVALID_PARAMS

ElicitationProtocolPayload = dict[str, Any]
"""A question or an answer as JSON."""

# What these hold is somebody else's: its names are left as they are.
_FOREIGN = frozenset(("default_value", "defaultValue", "context", "value"))
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")


def write_request(request: Elicitation) -> ElicitationProtocolPayload:
    """A question as JSON; the defaults of secrets are left out."""
    members: dict[str, Any] = msgspec.to_builtins(without_secrets(request), enc_hook=str)
    members["timeout"] = None if request.timeout is None else request.timeout * 1000
    return {"type": request.type, **_renamed(_filled(members), _camel)}


def read_request(payload: Mapping[str, Any], *, id: str) -> Elicitation:
    """The question in a payload; `RefusedError` when it is not one."""
    members: dict[str, Any] = {**_renamed(dict(payload), _snake), "id": id}
    kind = KINDS.get(str(members.pop("type", "")))
    if kind is None:
        raise RefusedError(f"There is no such type of question; there are: {', '.join(KINDS)}.", code=INVALID_PARAMS)
    timeout = members.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        members["timeout"] = timeout / 1000
    try:
        return msgspec.convert(members, kind)
    except msgspec.ValidationError as error:
        raise RefusedError(f"The question is not understood: {str(error).rstrip('.')}.", code=INVALID_PARAMS) from None


def write_response(response: ElicitationResponse) -> ElicitationProtocolPayload:
    """An answer as JSON, secrets in the clear: it is for the one who asked, and for no log."""
    members: dict[str, Any] = msgspec.to_builtins(response, enc_hook=_reveal)
    members["timestamp"] = round(response.timestamp * 1000)
    return {"responded": response.responded, **_renamed(_filled(members), _camel), "value": members["value"]}


def _reveal(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    return str(value)


def _filled(value: Any) -> Any:
    """Without members that say nothing."""
    if isinstance(value, list | tuple):
        return [_filled(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    kept = {name: one if name in _FOREIGN else _filled(one) for name, one in members.items()}
    return {name: one for name, one in kept.items() if _says(name, one)}


def _says(name: str, value: Any) -> bool:
    if name in ("default_value", "value"):
        return value is not None
    return bool(value) or (value is not False and isinstance(value, int | float))


def _renamed(value: Any, rename: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(one, rename) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    return {rename(name): one if name in _FOREIGN else _renamed(one, rename) for name, one in members.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)
