"""What a manager tells its listeners: every question that was put, and its one end, without secrets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from trunkline.events import Event
from trunkline.questions.fields import Secret
from trunkline.questions.kinds import Elicitation, ElicitationResponse, FormRequest, SecretRequest

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class ElicitationRequested(Event):
    """A person is about to be asked."""

    request: Elicitation


@dataclass(frozen=True, slots=True)
class ElicitationResponded(Event):
    """A person answered, or declined."""

    response: ElicitationResponse


@dataclass(frozen=True, slots=True)
class ElicitationFailed(Event):
    """There is no answer: the handler failed or gave none, or the answer does not fit."""

    event: ClassVar[str] = "elicitation_error"
    request: Elicitation
    error: str


@dataclass(frozen=True, slots=True)
class ElicitationTimedOut(Event):
    """Nobody answered in time."""

    event: ClassVar[str] = "elicitation_timeout"
    request: Elicitation


@dataclass(frozen=True, slots=True)
class ElicitationCancelled(Event):
    """The question was withdrawn, or the person left it."""

    request_id: str
    reason: str


KINDS_OF_END = (ElicitationResponded, ElicitationFailed, ElicitationTimedOut, ElicitationCancelled)


def end_of(request: Elicitation, response: ElicitationResponse) -> Event:
    """The event that tells how a question ended."""
    if response.cancelled:
        return ElicitationCancelled(request.id, response.error)
    if response.timed_out:
        return ElicitationTimedOut(without_secrets(request))
    if response.responded or response.declined:
        return ElicitationResponded(dataclasses.replace(response, value=hidden(response.value)))
    return ElicitationFailed(without_secrets(request), response.error)


def without_secrets(request: Elicitation) -> Elicitation:
    """A copy without the defaults of passwords."""
    if isinstance(request, SecretRequest):
        return dataclasses.replace(request, default_value=None)
    if isinstance(request, FormRequest) and any(field.type == "password" for field in request.fields):
        fields = tuple(
            dataclasses.replace(field, default_value=None) if field.type == "password" else field
            for field in request.fields
        )
        return dataclasses.replace(request, fields=fields, default_value=None)
    return request


def hidden(value: Any) -> Any:
    """The value with stars in place of secrets."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Mapping):
        return {name: hidden(one) for name, one in cast("Mapping[str, Any]", value).items()}
    return value
