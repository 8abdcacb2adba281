"""Asking in one line: a method for each kind of question, with what all questions of a call have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypedDict, Unpack

from trunkline.questions.fields import FileReference, FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationHandler,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    MultiselectRequest,
    SecretRequest,
    SelectRequest,
    TextRequest,
)


class AskOptions(TypedDict, total=False):
    """What every question takes; `handler` asks this one question in place of the manager's."""

    id: str
    tool_name: str
    server_id: str
    timeout: float | None
    optional: bool
    default_value: Any
    context: Mapping[str, Any]
    handler: ElicitationHandler | None


class Asks(Protocol):
    """Whoever puts a question."""

    async def request(self, request: Elicitation, *, handler: ElicitationHandler | None = None) -> ElicitationResponse:
        """Put it, and return what came of it."""
        ...


class ElicitationContext:
    """Questions of one call: each knows the tool, the server and the handler of the call."""

    def __init__(self, manager: Asks, **common: Unpack[AskOptions]) -> None:
        self._manager = manager
        self._common = common

    async def confirm(
        self,
        message: str,
        *,
        confirm_label: str = "Confirm",
        cancel_label: str = "Cancel",
        **options: Unpack[AskOptions],
    ) -> bool:
        """Whether a person said yes."""
        handler, more = self._with(options)
        asked = ConfirmationRequest(message, confirm_label=confirm_label, cancel_label=cancel_label, **more)
        return (await self._manager.request(asked, handler=handler)).confirmed

    async def get_text(
        self,
        message: str,
        *,
        placeholder: str = "",
        min_length: int | None = None,
        max_length: int | None = None,
        pattern: str = "",
        multiline: bool = False,
        **options: Unpack[AskOptions],
    ) -> str | None:
        """A text; `None` when there is no answer."""
        handler, more = self._with(options)
        asked = TextRequest(
            message,
            placeholder=placeholder,
            min_length=min_length,
            max_length=max_length,
            pattern=pattern,
            multiline=multiline,
            **more,
        )
        return (await self._manager.request(asked, handler=handler)).value

    async def select(
        self, message: str, choices: Iterable[SelectOption | str], **options: Unpack[AskOptions]
    ) -> str | None:
        """The value of one choice; `None` when there is no answer."""
        handler, more = self._with(options)
        asked = SelectRequest(message, options=_listed(choices), **more)
        return (await self._manager.request(asked, handler=handler)).value

    async def multi_select(
        self,
        message: str,
        choices: Iterable[SelectOption | str],
        *,
        min_selections: int | None = None,
        max_selections: int | None = None,
        **options: Unpack[AskOptions],
    ) -> list[str] | None:
        """The values of some choices; `None` when there is no answer."""
        handler, more = self._with(options)
        asked = MultiselectRequest(
            message,
            options=_listed(choices),
            min_selections=min_selections,
            max_selections=max_selections,
            **more,
        )
        return (await self._manager.request(asked, handler=handler)).value

    async def form(
        self,
        message: str,
        fields: Iterable[FormField],
        *,
        submit_label: str = "Submit",
        **options: Unpack[AskOptions],
    ) -> dict[str, Any] | None:
        """The fields of a form by name, passwords as `Secret`; `None` when there is no answer."""
        handler, more = self._with(options)
        asked = FormRequest(message, fields=tuple(fields), submit_label=submit_label, **more)
        return (await self._manager.request(asked, handler=handler)).value

    async def get_secret(self, message: str, *, hint: str = "", **options: Unpack[AskOptions]) -> Secret | None:
        """A password or the like; `None` when there is no answer."""
        handler, more = self._with(options)
        return (await self._manager.request(SecretRequest(message, hint=hint, **more), handler=handler)).value

    async def file(
        self,
        message: str,
        *,
        accept: Iterable[str] = (),
        multiple: bool = False,
        max_size: int | None = None,
        **options: Unpack[AskOptions],
    ) -> tuple[FileReference, ...]:
        """The files that a person named; empty when there is no answer."""
        handler, more = self._with(options)
        asked = FileRequest(message, accept=tuple(accept), multiple=multiple, max_size=max_size, **more)
        return (await self._manager.request(asked, handler=handler)).value or ()

    def _with(self, options: AskOptions) -> tuple[ElicitationHandler | None, dict[str, Any]]:
        together: dict[str, Any] = {**self._common, **options}
        return together.pop("handler", None), together


def _listed(choices: Iterable[SelectOption | str]) -> tuple[SelectOption, ...]:
    return tuple(SelectOption(choice) if isinstance(choice, str) else choice for choice in choices)
