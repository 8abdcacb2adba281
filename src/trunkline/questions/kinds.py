"""The kinds of questions that a person can be asked, and what comes back."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

from trunkline.questions.fields import (
    FieldValidation,
    FormField,
    SelectOption,
    TextFormat,
    check,
    check_bounds,
    check_options,
)

ElicitationType = Literal["confirmation", "text", "select", "multiselect", "form", "file", "secret", "url"]


def _new_id() -> str:
    return str(uuid.uuid4())


# The kinds inherit, for once: a handler takes any of them, and eight fields are the same in all.
@dataclass(frozen=True)
class Elicitation:
    """A question to a person; the kinds below say what is asked."""

    type: ClassVar[ElicitationType]

    message: str
    _: KW_ONLY
    id: str = field(default_factory=_new_id)
    tool_name: str = "unknown"
    server_id: str = ""
    timeout: float | None = None
    """Seconds to answer; `None` takes the manager's."""
    optional: bool = False
    """The person may answer with nothing (`None`)."""
    default_value: Any = field(default=None, repr=False)
    context: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """Whatever else a handler may want to show."""

    def __post_init__(self) -> None:
        check(bool(self.id), "A question needs an id.")
        timeout = self.timeout
        check(timeout is None or 0 < timeout < math.inf, f"The timeout of question {self.id!r} must be above 0.")


@dataclass(frozen=True, kw_only=True)
class ConfirmationRequest(Elicitation):
    """Yes or no: answered by `True` or `False`; its default is what a person sees chosen, and never an answer."""

    type = "confirmation"
    confirm_label: str = "Confirm"
    cancel_label: str = "Cancel"
    field_name: str = "confirmed"
    """What MCP calls the answer; empty where agreeing is the whole answer."""


@dataclass(frozen=True, kw_only=True)
class TextRequest(Elicitation):
    """A text."""

    type = "text"
    placeholder: str = ""
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    """A regular expression that the text must match somewhere; no lookaround and no back references."""
    multiline: bool = False
    format: TextFormat = ""
    field_name: str = "value"

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        check_bounds(self.min_length, self.max_length, f"Question {self.id!r}")


@dataclass(frozen=True, kw_only=True)
class SelectRequest(Elicitation):
    """One of several options: answered by its value."""

    type = "select"
    options: tuple[SelectOption, ...]
    field_name: str = "value"

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        check_options(self.options, f"Question {self.id!r}")


@dataclass(frozen=True, kw_only=True)
class MultiselectRequest(Elicitation):
    """Some of several options: answered by a list of their values."""

    type = "multiselect"
    options: tuple[SelectOption, ...]
    min_selections: int | None = None
    max_selections: int | None = None
    field_name: str = "value"

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        check_options(self.options, f"Question {self.id!r}")
        check_bounds(self.min_selections, self.max_selections, f"Question {self.id!r}")


@dataclass(frozen=True, kw_only=True)
class FormRequest(Elicitation):
    """Several fields: answered by a dict, in which passwords are `Secret`."""

    type = "form"
    fields: tuple[FormField, ...]
    submit_label: str = "Submit"

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        names = [one.name for one in self.fields]
        check(all(names), f"Form {self.id!r} has a field without a name.")
        check(len(names) == len(set(names)), f"Form {self.id!r} has two fields of one name.")


@dataclass(frozen=True, kw_only=True)
class FileRequest(Elicitation):
    """A file: answered by a tuple of `FileReference`, of one unless `multiple`."""

    type = "file"
    accept: tuple[str, ...] = ()
    """Extensions (`.csv`) and media types (`text/csv`, `image/*`); empty takes any."""
    multiple: bool = False
    max_size: int | None = None
    """Bytes that each file may have."""

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        check(self.max_size is None or self.max_size > 0, f"The max_size of question {self.id!r} must be above 0.")


@dataclass(frozen=True, kw_only=True)
class SecretRequest(Elicitation):
    """A password or the like: answered by a `Secret`."""

    type = "secret"
    hint: str = ""
    field_name: str = "value"


@dataclass(frozen=True, kw_only=True)
class UrlRequest(Elicitation):
    """An address to visit, for what must not pass through us: answered by whether the person agreed to go there."""

    type = "url"
    url: str
    elicitation_id: str = ""
    """The server's own name for it."""

    def __post_init__(self) -> None:
        Elicitation.__post_init__(self)
        ours = self.url.startswith(("https://", "http://"))
        check(ours and self.url.isprintable(), f"The address of question {self.id!r} is not one of the web.")


KINDS: Mapping[str, type[Elicitation]] = {kind.type: kind for kind in Elicitation.__subclasses__()}

ElicitationHandler = Callable[[Elicitation], object]
"""Asks the person. It returns, or is awaited for, the answer: a response, the bare value, or `None` for no answer."""


@dataclass(frozen=True, slots=True)
class ElicitationResponse:
    """What came of a question."""

    request_id: str
    responded: bool = False
    value: Any = None
    """The answer; or the default, where it stands in for one."""
    cancelled: bool = False
    timed_out: bool = False
    error: str = ""
    """Why there is no answer."""
    declined: bool = False
    """The person saw the question, and refused."""
    timestamp: float = field(default_factory=time.time)
    """Seconds since the epoch."""

    @property
    def confirmed(self) -> bool:
        """Whether a person said yes: a timeout, a cancellation or a default never does."""
        return self.responded and not self.timed_out and not self.cancelled and self.value is True


def sole_field(request: Elicitation) -> FormField | None:
    """A question of one value as the one field of a form; `None` for the kinds that are not like that."""
    wanted = not request.optional
    match request:
        case ConfirmationRequest():
            return FormField(request.field_name, request.confirm_label, "boolean", wanted)
        case TextRequest():
            return FormField(
                request.field_name,
                required=wanted,
                default_value=request.default_value,
                validation=FieldValidation(request.min_length, request.max_length, request.pattern),
                placeholder=request.placeholder,
                format=request.format,
            )
        case SelectRequest():
            return FormField(
                request.field_name, "", "select", wanted, default_value=request.default_value, options=request.options
            )
        case MultiselectRequest():
            return FormField(
                request.field_name,
                type="multiselect",
                required=wanted,
                default_value=request.default_value,
                options=request.options,
                validation=FieldValidation(request.min_selections, request.max_selections),
            )
        case SecretRequest():
            return FormField(request.field_name, "", "password", wanted, description=request.hint)
        case _:
            return None
