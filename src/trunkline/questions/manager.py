"""Puts questions to a person and waits: for the handler, for an answer from elsewhere, or for the time to run out."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from trunkline.errors import ConfigError
from trunkline.events import Emitter
from trunkline.foreign import Raised, attempt
from trunkline.questions.answers import check_question, default_of, read_answer
from trunkline.questions.events import KINDS_OF_END, ElicitationRequested, end_of, without_secrets
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
from trunkline.tasks import Tasks

DISABLED = "Elicitation is disabled"
NO_HANDLER = "No elicitation handler configured"
GRACE = 1.0
"""Seconds that a handler gets to end after it was cancelled."""


@dataclass(frozen=True)
class ElicitationManagerConfig:
    """How questions are put."""

    default_timeout: float = 60.0
    """Seconds to answer a question that says nothing of its own."""
    enabled: bool = True
    """`False` asks nobody."""
    fallback_behavior: Literal["timeout", "default", "error"] = "timeout"
    """What stands in for an answer when there is none in time, or when nobody may be asked."""
    handler: ElicitationHandler | None = None
    """Who asks the person."""
    max_pending: int = 1000
    """Questions that may wait at once; further ones are refused."""

    def __post_init__(self) -> None:
        if not 0 < self.default_timeout < math.inf:
            raise ConfigError("`default_timeout` must be above 0.", hint="Give it in seconds.")
        if self.fallback_behavior not in ("timeout", "default", "error"):
            raise ConfigError("`fallback_behavior` is unknown.", hint="Take `timeout`, `default` or `error`.")
        if self.max_pending < 1:
            raise ConfigError("`max_pending` must be at least 1.", hint="Set `enabled` to false to ask nobody.")


class ConfigOptions(TypedDict, total=False):
    """The options of the configuration, as keywords."""

    default_timeout: float
    enabled: bool
    fallback_behavior: Literal["timeout", "default", "error"]
    handler: ElicitationHandler | None
    max_pending: int


@dataclass(frozen=True, slots=True)
class _Pending:
    request: Elicitation
    end: asyncio.Future[ElicitationResponse]


class ElicitationManager:
    """Puts questions and knows which wait; `request` never raises for what a person, handler or clock does."""

    def __init__(self, config: ElicitationManagerConfig | None = None, **options: Unpack[ConfigOptions]) -> None:
        self.config = config or ElicitationManagerConfig(**options)
        self._enabled = self.config.enabled
        self._handler = self.config.handler
        self._pending: dict[str, _Pending] = {}
        self._tasks = Tasks()
        self._events = Emitter(ElicitationRequested, *KINDS_OF_END)
        self.on, self.off = self._events.on, self._events.off
        asks = ElicitationContext(self)
        self.confirm = asks.confirm
        self.get_text = asks.get_text
        self.select = asks.select
        self.multi_select = asks.multi_select
        self.form = asks.form
        self.get_secret = asks.get_secret
        self.file = asks.file

    def register_handler(self, handler: ElicitationHandler | None) -> None:
        """Let another handler ask from now on."""
        self._handler = handler

    @property
    def has_handler(self) -> bool:
        """Whether anybody asks the person."""
        return self._handler is not None

    async def request(self, request: Elicitation, *, handler: ElicitationHandler | None = None) -> ElicitationResponse:
        """Put one question, by `handler` if given, and return what came of it."""
        if not self._enabled:
            return self._when_disabled(request)
        if problem := self._refusal(request):
            return ElicitationResponse(request.id, error=problem)
        pending = _Pending(request, asyncio.get_running_loop().create_future())
        self._pending[request.id] = pending
        asking: asyncio.Task[Any] | None = None
        try:
            if self._events.hears(ElicitationRequested):
                self._events.emit(ElicitationRequested(without_secrets(request)))
            if not pending.end.done():
                asking = self._tasks.start(_ask(handler or self._handler or _nobody, pending, self._end))
                await asyncio.wait([pending.end], timeout=request.timeout or self.config.default_timeout)
            if not pending.end.done():
                self._end(pending, self._when_late(request))
            return pending.end.result()
        finally:
            if not pending.end.done():
                self._end(pending, ElicitationResponse(request.id, cancelled=True, error="The asker went away."))
            del self._pending[request.id]
            if asking is not None and not asking.done():
                asking.cancel()
                await asyncio.wait([asking], timeout=GRACE)

    def respond(self, request_id: str, value: object) -> ElicitationResponse | None:
        """Answer a waiting question from elsewhere in the same loop; `None` when no such question waits."""
        pending = self._waiting(request_id)
        if pending is None:
            return None
        self._end(pending, read_answer(pending.request, value))
        return pending.end.result()

    def cancel(self, request_id: str, reason: str = "Cancelled") -> bool:
        """Withdraw a waiting question; `False` when no such question waits."""
        pending = self._waiting(request_id)
        if pending is None:
            return False
        return self._end(pending, ElicitationResponse(request_id, cancelled=True, error=reason))

    def clear_pending(self, reason: str = "Cleared") -> None:
        """Withdraw all waiting questions."""
        for request_id in tuple(self._pending):
            self.cancel(request_id, reason)

    def set_enabled(self, enabled: bool) -> None:
        """Ask people, or nobody: what waits then ends as `fallback_behavior` says."""
        self._enabled = enabled
        for pending in () if enabled else tuple(self._pending.values()):
            self._end(pending, self._when_disabled(pending.request))

    def is_enabled(self) -> bool:
        """Whether people are asked."""
        return self._enabled

    def get_pending_count(self) -> int:
        """How many questions wait."""
        return len(self.get_pending_requests())

    def get_pending_requests(self) -> list[Elicitation]:
        """The questions that wait, without secrets."""
        return [without_secrets(one.request) for one in self._pending.values() if not one.end.done()]

    def _waiting(self, request_id: str) -> _Pending | None:
        pending = self._pending.get(request_id)
        return pending if pending is not None and not pending.end.done() else None

    def _refusal(self, request: Elicitation) -> str:
        if request.id in self._pending:
            return f"Question {request.id!r} is already being asked."
        if len(self._pending) >= self.config.max_pending:
            return f"{self.config.max_pending} questions wait already."
        return " ".join(check_question(request))

    def _end(self, pending: _Pending, response: ElicitationResponse) -> bool:
        """End a question, unless it has ended before."""
        if pending.end.done():
            return False
        pending.end.set_result(response)
        if any(self._events.hears(kind) for kind in KINDS_OF_END):
            self._events.emit(end_of(pending.request, response))
        return True

    def _when_late(self, request: Elicitation) -> ElicitationResponse:
        default = default_of(request).value if self.config.fallback_behavior == "default" else None
        seconds = request.timeout or self.config.default_timeout
        error = f"Question {request.id!r} was not answered within {seconds:g}s."
        return ElicitationResponse(request.id, value=default, timed_out=True, error=error)

    def _when_disabled(self, request: Elicitation) -> ElicitationResponse:
        if self.config.fallback_behavior == "timeout":
            return ElicitationResponse(request.id, timed_out=True, error=DISABLED)
        if self.config.fallback_behavior == "default" and not (default := default_of(request)).problems:
            return ElicitationResponse(request.id, responded=True, value=default.value)
        return ElicitationResponse(request.id, error=DISABLED)


class QuestionOptions(TypedDict, total=False):
    """What every question takes."""

    id: str
    server_id: str
    timeout: float | None
    optional: bool
    default_value: Any
    context: Mapping[str, Any]


class TextOptions(QuestionOptions, total=False):
    """What a question for a text takes besides."""

    placeholder: str
    min_length: int | None
    max_length: int | None
    pattern: str
    multiline: bool


class AskOptions(QuestionOptions, total=False):
    """What is asked for whom; `handler` asks this one question in place of the manager's."""

    tool_name: str
    handler: ElicitationHandler | None


class AskTextOptions(AskOptions, TextOptions, total=False):
    """Both."""


class ElicitationContext:
    """Questions of one call: each knows the tool, the server and the handler of the call."""

    def __init__(self, manager: ElicitationManager, **common: Unpack[AskOptions]) -> None:
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
        response = await self._ask(
            ConfirmationRequest, options, message, confirm_label=confirm_label, cancel_label=cancel_label
        )
        return response.confirmed

    async def get_text(self, message: str, **options: Unpack[AskTextOptions]) -> str | None:
        """A text; `None` when there is no answer."""
        return (await self._ask(TextRequest, options, message)).value

    async def select(
        self, message: str, choices: Iterable[SelectOption | str], **options: Unpack[AskOptions]
    ) -> str | None:
        """The value of one choice; `None` when there is no answer."""
        return (await self._ask(SelectRequest, options, message, options=_listed(choices))).value

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
        response = await self._ask(
            MultiselectRequest,
            options,
            message,
            options=_listed(choices),
            min_selections=min_selections,
            max_selections=max_selections,
        )
        return response.value

    async def form(
        self,
        message: str,
        fields: Iterable[FormField],
        *,
        submit_label: str = "Submit",
        **options: Unpack[AskOptions],
    ) -> dict[str, Any] | None:
        """The fields of a form by name, passwords as `Secret`; `None` when there is no answer."""
        response = await self._ask(FormRequest, options, message, fields=tuple(fields), submit_label=submit_label)
        return response.value

    async def get_secret(self, message: str, *, hint: str = "", **options: Unpack[AskOptions]) -> Secret | None:
        """A password or the like; `None` when there is no answer."""
        return (await self._ask(SecretRequest, options, message, hint=hint)).value

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
        response = await self._ask(
            FileRequest, options, message, accept=tuple(accept), multiple=multiple, max_size=max_size
        )
        return response.value or ()

    async def _ask(
        self, kind: Callable[..., Elicitation], options: AskOptions, message: str, /, **own: Any
    ) -> ElicitationResponse:
        together: dict[str, Any] = {**self._common, **options, **own}
        handler = together.pop("handler", None)
        return await self._manager.request(kind(message, **together), handler=handler)


def create_elicitation_context(manager: ElicitationManager, **common: Unpack[AskOptions]) -> ElicitationContext:
    """What a tool or a stage asks by: `common` is the call's tool, server, timeout or handler."""
    return ElicitationContext(manager, **common)


async def answered_elsewhere(request: Elicitation) -> None:
    """A handler that asks nobody, but waits: for questions that `respond` answers."""
    await asyncio.get_running_loop().create_future()


async def _ask(
    handler: ElicitationHandler, pending: _Pending, end: Callable[[_Pending, ElicitationResponse], object]
) -> None:
    request = pending.request

    async def answer() -> ElicitationResponse:
        given = handler(request)
        return read_answer(request, await given if inspect.isawaitable(given) else given)

    try:
        # Nothing is returned from here: a finished task shows its result in logs, and that may be a secret.
        outcome = await attempt(answer)
    except asyncio.CancelledError:
        end(pending, ElicitationResponse(request.id, cancelled=True, error="The handler was cancelled."))
        raise
    if isinstance(outcome, Raised):
        outcome = ElicitationResponse(request.id, error=_failure(request, outcome.error))
    end(pending, outcome)


def _listed(choices: Iterable[SelectOption | str]) -> tuple[SelectOption, ...]:
    return tuple(SelectOption(choice) if isinstance(choice, str) else choice for choice in choices)


def _failure(request: Elicitation, error: Exception) -> str:
    passwords = isinstance(request, FormRequest) and any(field.type == "password" for field in request.fields)
    if passwords or isinstance(request, SecretRequest):
        return f"The handler failed: {type(error).__name__}."  # its words may hold what was typed
    return f"The handler failed: {type(error).__name__}: {error}"


def _nobody(request: Elicitation) -> ElicitationResponse:
    default = default_of(request)
    if default.problems:
        return ElicitationResponse(request.id, error=NO_HANDLER)
    return ElicitationResponse(request.id, responded=True, value=default.value)


global_elicitation_manager = ElicitationManager()
"""One for programs that need no other."""
