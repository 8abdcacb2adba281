"""Which answers count: each kind of question has its rules, and what breaks them is named without the value."""

from __future__ import annotations

import math
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath
from typing import Any, cast

from trunkline.questions.fields import FileReference, FormField, Secret
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    UrlRequest,
    sole_field,
)
from trunkline.tools.patterns import has_format, is_checkable, matches


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer as it may be used, or why it may not."""

    value: Any = None
    problems: tuple[str, ...] = ()


def read_answer(request: Elicitation, given: object) -> ElicitationResponse:
    """The response that an answer makes, in whichever form a handler or a console gave it."""
    if given is None:
        return ElicitationResponse(request.id, error="No answer was given.")
    response = _as_response(request, given)
    if response is None:
        return answered(request, _bare_value(request, given))
    if response.request_id not in ("", request.id):
        return ElicitationResponse(request.id, error="The answer is for another question.")
    if response.responded and not (response.cancelled or response.timed_out):
        return answered(request, response.value, declined=response.declined, timestamp=response.timestamp)
    return ElicitationResponse(
        request.id,
        cancelled=response.cancelled,
        timed_out=response.timed_out,
        error=response.error or "No answer was given.",
        declined=response.declined,
        timestamp=response.timestamp,
    )


def answered(request: Elicitation, value: Any, **more: Any) -> ElicitationResponse:
    """The response that a bare value makes: an answer if it fits the question, else the problems."""
    checked = check_answer(request, value)
    if checked.problems:
        return ElicitationResponse(request.id, error=" ".join(checked.problems))
    return ElicitationResponse(request.id, responded=True, value=checked.value, **more)


def response_of(members: Mapping[str, Any]) -> ElicitationResponse:
    """The response that a mapping says, in snake_case or camelCase; nothing in it is checked yet."""
    return ElicitationResponse(
        str(members.get("request_id", members.get("requestId", ""))),
        responded=members.get("responded") is True,
        value=members.get("value"),
        cancelled=bool(members.get("cancelled", False)),
        timed_out=bool(members.get("timed_out", members.get("timedOut", False))),
        error=str(members.get("error") or ""),
        declined=bool(members.get("declined", False)),
    )


def check_question(request: Elicitation) -> tuple[str, ...]:
    """Why no answer to a question could ever be checked; empty when it may be asked."""
    sole = sole_field(request)
    fields = request.fields if isinstance(request, FormRequest) else (sole,) if sole else ()
    return tuple(
        f"{_subject(field, request)} has a pattern that cannot be matched safely."
        for field in fields
        if not is_checkable(field.validation.pattern)
    )


def check_answer(request: Elicitation, value: Any) -> Checked:
    """The value in its proper form, or what is wrong with it."""
    if value is None and request.optional:
        return Checked()
    if isinstance(request, FormRequest):
        return _check_form(request, value)
    if isinstance(request, FileRequest):
        files = read_files(value)
        problems = file_problems(request, files)
        return Checked(problems=problems) if problems else Checked(files)
    if isinstance(request, UrlRequest):
        return Checked(value) if isinstance(value, bool) else Checked(problems=("The answer must be yes or no.",))
    field = sole_field(request)
    if field is None:
        return Checked(problems=(f"Nobody knows how to answer a question of type {request.type!r}.",))
    return check_field(field, value, "The answer")


def check_field(field: FormField, value: Any, subject: str = "") -> Checked:
    """The value of one field in its proper form, or what is wrong with it."""
    subject = subject or f"Field {field.name!r}"
    if value is None:
        return Checked(problems=(f"{subject} is required.",)) if field.required else Checked()
    match field.type:
        case "boolean":
            # A text or a number is not taken for a yes.
            return Checked(value) if isinstance(value, bool) else Checked(problems=(f"{subject} must be yes or no.",))
        case "number" | "integer":
            return _check_number(field, value, subject)
        case "select":
            return Checked(value) if _chosen(field, value) else Checked(problems=(f"{subject} must be an option.",))
        case "multiselect":
            return _check_choices(field, value, subject)
        case "date":
            return _check_date(value, subject)
        case "password":
            checked = _check_text(field, value.reveal() if isinstance(value, Secret) else value, subject)
            return checked if checked.problems else Checked(Secret(checked.value))
        case "text":
            return _check_text(field, value, subject)


def default_of(request: Elicitation) -> Checked:
    """The default that may stand in for an answer: of a confirmation none, since nobody said yes."""
    if request.default_value is None or isinstance(request, ConfirmationRequest | UrlRequest):
        return Checked(problems=("There is no default.",))
    return check_answer(request, request.default_value)


def _subject(field: FormField, request: Elicitation) -> str:
    return f"Field {field.name!r}" if isinstance(request, FormRequest) else f"Question {request.id!r}"


def _as_response(request: Elicitation, given: object) -> ElicitationResponse | None:
    """A response, or a mapping that is written like one."""
    if isinstance(given, ElicitationResponse):
        return given
    if not isinstance(given, Mapping) or "responded" not in given or _has_field(request, "responded"):
        return None
    return response_of(cast("Mapping[str, Any]", given))


def _bare_value(request: Elicitation, given: object) -> Any:
    """The value inside `{"value": ...}` or `{"confirmed": ...}`; a form's own fields come first."""
    if not isinstance(given, Mapping):
        return given
    found = cast("Mapping[str, Any]", given)
    if isinstance(request, ConfirmationRequest | UrlRequest) and set(found) == {"confirmed"}:
        return found["confirmed"]
    if set(found) == {"value"} and not _has_field(request, "value"):
        return found["value"]
    return found


def _has_field(request: Elicitation, name: str) -> bool:
    return isinstance(request, FormRequest) and any(field.name == name for field in request.fields)


def _check_form(request: FormRequest, value: Any) -> Checked:
    if not isinstance(value, Mapping):
        return Checked(problems=("The answer must have the form's fields.",))
    given = cast("Mapping[str, Any]", value)
    if not {field.name for field in request.fields}.issuperset(given):
        return Checked(problems=("The answer has a field that was not asked for.",))
    answer: dict[str, Any] = {}
    problems: list[str] = []
    for field in request.fields:
        checked = check_field(field, given.get(field.name, field.default_value))
        problems += checked.problems
        if checked.value is not None:
            answer[field.name] = checked.value
    return Checked(problems=tuple(problems)) if problems else Checked(answer)


def _check_text(field: FormField, value: Any, subject: str) -> Checked:
    rule = field.validation
    if not isinstance(value, str):
        return Checked(problems=(f"{subject} must be a text.",))
    problem = ""
    if rule.min is not None and len(value) < rule.min:
        problem = f"must have at least {rule.min:g} characters."
    elif rule.max is not None and len(value) > rule.max:
        problem = f"must have at most {rule.max:g} characters."
    elif rule.pattern and not matches(rule.pattern, value):
        problem = "does not match its pattern."
    elif field.format and not has_format(field.format, value):
        problem = f"is not of format {field.format!r}."
    return _judged(value, problem, field, subject)


def _check_number(field: FormField, value: Any, subject: str) -> Checked:
    rule = field.validation
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        return Checked(problems=(f"{subject} must be a number.",))
    problem = ""
    if field.type == "integer" and value != int(value):
        problem = "must be a whole number."
    elif rule.min is not None and value < rule.min:
        problem = f"must be at least {rule.min:g}."
    elif rule.max is not None and value > rule.max:
        problem = f"must be at most {rule.max:g}."
    return _judged(int(value) if field.type == "integer" else value, problem, field, subject)


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _chosen(field: FormField, value: Any) -> bool:
    return any(option.value == value and not option.disabled for option in field.options)


def _check_choices(field: FormField, value: Any, subject: str) -> Checked:
    rule = field.validation
    if not isinstance(value, list | tuple):
        return Checked(problems=(f"{subject} must be a list of options.",))
    chosen = list(cast("list[Any]", value))
    problem = ""
    if not all(_chosen(field, one) for one in chosen):
        problem = "must name options only."
    elif len(set(chosen)) != len(chosen):
        problem = "names an option twice."
    elif rule.min is not None and len(chosen) < rule.min:
        problem = f"must name at least {rule.min:g}."
    elif rule.max is not None and len(chosen) > rule.max:
        problem = f"must name at most {rule.max:g}."
    return _judged(chosen, problem, field, subject)


def _check_date(value: Any, subject: str) -> Checked:
    text = value.isoformat()[:10] if isinstance(value, date) else value
    if isinstance(text, str) and has_format("date", text):
        return Checked(text)
    return Checked(problems=(f"{subject} must be a date like 2025-12-31.",))


def _judged(value: Any, problem: str, field: FormField, subject: str) -> Checked:
    if not problem:
        return Checked(value)
    return Checked(problems=(f"{subject} {problem} {field.validation.message}".rstrip(),))


def read_files(value: Any) -> tuple[FileReference, ...]:
    """The files that an answer names, by path, by mapping or by reference; empty when it is not such an answer."""
    given = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
    files = [_file(one) for one in given]
    return tuple(file for file in files if file) if None not in files else ()


def file_problems(request: FileRequest, files: tuple[FileReference, ...]) -> tuple[str, ...]:
    """Why these files are no answer; a size that is limited must be known."""
    if not files:
        return ("The answer must name a file.",)
    if len(files) > 1 and not request.multiple:
        return ("The answer must name one file only.",)
    problems: list[str] = []
    if request.accept and not all(any(_accepted(wanted, file) for wanted in request.accept) for file in files):
        problems.append(f"The file must be one of: {', '.join(request.accept)}.")
    if request.max_size is not None and any(file.size is None for file in files):
        problems.append("The file's size must be known.")
    elif request.max_size is not None and any(not 0 <= (file.size or 0) <= request.max_size for file in files):
        problems.append(f"The file may have at most {request.max_size} bytes.")
    return tuple(problems)


def _file(given: Any) -> FileReference | None:
    if isinstance(given, FileReference):
        return given
    if isinstance(given, str | PurePath):
        return FileReference(PurePath(given).name, path=str(given)) if str(given) else None
    if not isinstance(given, Mapping):
        return None
    found = cast("Mapping[str, Any]", given)
    path, uri, name = found.get("path", ""), found.get("uri", ""), found.get("name", "")
    media_type, size = found.get("media_type", found.get("mediaType", "")), found.get("size")
    if not all(isinstance(text, str) for text in (path, uri, name, media_type)) or not (path or uri or name):
        return None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        return None
    # The file's own name is judged, not one that is given beside it.
    return FileReference(PurePath(path or uri).name or name, path, uri, size, media_type)


def _accepted(wanted: str, file: FileReference) -> bool:
    wanted = wanted.strip().lower()
    if wanted.startswith("."):
        return file.name.lower().endswith(wanted)
    kind = (file.media_type or mimetypes.guess_type(file.name)[0] or "").lower()
    return wanted in ("*/*", kind) or (wanted.endswith("/*") and kind.startswith(wanted[:-1]))
