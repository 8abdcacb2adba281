"""Questions over JSON-RPC: `elicitation/request` and its kin, and MCP's own `elicitation/create`."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, cast

import msgspec

from trunkline.errors import ConfigError, RefusedError
from trunkline.questions.answers import response_of
from trunkline.questions.events import without_secrets
from trunkline.questions.fields import FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    KINDS,
    ConfirmationRequest,
    Elicitation,
    ElicitationHandler,
    ElicitationResponse,
    FormRequest,
    SelectRequest,
    TextRequest,
)
from trunkline.questions.manager import (
    ElicitationManager,
    QuestionOptions,
    TextOptions,
    answered_elsewhere,
    global_elicitation_manager,
)
from trunkline.questions.mcp import OnlyByUrl, answer_from_mcp, answer_to_mcp, from_mcp, to_mcp
from trunkline.untrusted import as_object
from trunkline.wire.envelope import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

log = logging.getLogger("trunkline")

ElicitationProtocolMessage = dict[str, Any]
"""A JSON-RPC message about a question."""
ElicitationProtocolPayload = dict[str, Any]
"""A question or an answer as JSON."""

REQUEST = "elicitation/request"
RESPONSE = "elicitation/response"
CANCEL = "elicitation/cancel"
CREATE = "elicitation/create"
CANCELLED = "notifications/cancelled"
METHODS = frozenset((REQUEST, RESPONSE, CANCEL, CREATE))

# What these hold is somebody else's: its names are left as they are.
_FOREIGN = frozenset(("default_value", "defaultValue", "context", "value"))
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")


@dataclass(frozen=True)
class ElicitationProtocolConfig:
    """How messages are answered."""

    default_timeout: float = 60.0
    """Seconds to answer a question that says nothing of its own."""
    max_timeout: float = 3600.0
    """Seconds that a question from outside may wait at most."""
    enable_logging: bool = False
    """Log each message by its method and id; what it says is never logged."""
    custom_handler: ElicitationHandler | None = None
    """Who asks the person, in place of the manager's handler."""

    def __post_init__(self) -> None:
        if not 0 < self.default_timeout <= self.max_timeout < math.inf:
            raise ConfigError(
                "`default_timeout` must be above 0, and not above `max_timeout`.", hint="Give both in seconds."
            )


class ConfigOptions(TypedDict, total=False):
    """The options of the configuration, as keywords."""

    default_timeout: float
    max_timeout: float
    enable_logging: bool
    custom_handler: ElicitationHandler | None


class ElicitationProtocolAdapter:
    """Puts questions that come as messages, and takes answers that do."""

    def __init__(
        self,
        config: ElicitationProtocolConfig | None = None,
        *,
        manager: ElicitationManager | None = None,
        **options: Unpack[ConfigOptions],
    ) -> None:
        self.config = config or ElicitationProtocolConfig(**options)
        self.manager = manager or global_elicitation_manager
        self._sent: dict[str, Elicitation] = {}

    async def handle_message(self, message: object) -> ElicitationProtocolMessage | None:
        """The reply to a message: a JSON-RPC result or error; `None` to what wants no reply.

        The reply to a question holds the answer, secrets included: it is for the one who asked.
        """
        found = as_object(message)
        id, silent = found.get("id"), "method" in found and "id" not in found
        try:
            if found.get("jsonrpc") != "2.0" or isinstance(id, bool) or not isinstance(id, str | int | None):
                raise RefusedError("The message is not JSON-RPC 2.0.", code=INVALID_REQUEST)
            if self.config.enable_logging:
                log.info("Question message %r, id %r.", found.get("method", "(reply)"), id)
            if "result" in found or "error" in found:
                self._take_reply(str(id), found)
                return None
            reply: dict[str, Any] = {"result": await self._result(found)}
        except RefusedError as error:
            reply = {"error": {"code": error.code, "message": error.message}}
        return None if silent else {"jsonrpc": "2.0", "id": id if isinstance(id, str | int) else None, **reply}

    def ask_via(self, send: Callable[[ElicitationProtocolMessage], Awaitable[object]]) -> ElicitationHandler:
        """A handler that sends each question as a message; the replies must come to `handle_message`.

        What MCP's forms cannot carry goes as `elicitation/request`. A question that ends otherwise is withdrawn.
        """

        async def ask(request: Elicitation) -> None:
            params = to_mcp(request)
            create = not isinstance(params, OnlyByUrl)
            self._sent[request.id] = request
            try:
                await send(_envelope(request.id, CREATE, params) if create else _message(request))
                await answered_elsewhere(request)
            except asyncio.CancelledError:
                if request.id in self._sent:
                    await send({"jsonrpc": "2.0", "method": CANCELLED if create else CANCEL, **_withdrawn(request)})
                raise
            finally:
                self._sent.pop(request.id, None)

        return ask

    async def _result(self, found: Mapping[str, Any]) -> dict[str, Any]:
        params: Any = found.get("params", {})
        if not isinstance(params, dict):
            raise RefusedError("The params must be an object.", code=INVALID_PARAMS)
        given = cast("dict[str, Any]", params)
        match found.get("method"):
            case "elicitation/create":
                request = from_mcp(given, timeout=self.config.default_timeout)
                return answer_to_mcp(await self._ask(request), request)
            case "elicitation/request":
                own = _text_of_id(given.get("id", found.get("id"))) or str(uuid.uuid4())
                return write_response(await self._ask(read_request(given, id=own)))
            case "elicitation/response":
                return {"accepted": self._answer(_request_id(given), response_of(given))}
            case "elicitation/cancel":
                reason = given.get("reason")
                if not self.manager.cancel(_request_id(given), reason if isinstance(reason, str) else "Cancelled"):
                    raise RefusedError("No such question waits.", code=INVALID_PARAMS)
                return {"cancelled": True}
            case _:
                raise RefusedError("There is no such method.", code=METHOD_NOT_FOUND)

    async def _ask(self, request: Elicitation) -> ElicitationResponse:
        seconds = min(request.timeout or self.config.default_timeout, self.config.max_timeout)
        return await self.manager.request(replace(request, timeout=seconds), handler=self.config.custom_handler)

    def _answer(self, request_id: str, given: ElicitationResponse) -> bool:
        """Whether the answer fits its question."""
        self._sent.pop(request_id, None)
        response = self.manager.respond(request_id, given)
        if response is None:
            raise RefusedError("No such question waits.", code=INVALID_PARAMS)
        return not response.error

    def _take_reply(self, id: str, reply: Mapping[str, Any]) -> None:
        """The reply to a question that we sent; one to nothing is dropped, since a reply gets no reply."""
        request = self._sent.pop(id, None)
        if request is None:
            return
        result: Any = reply.get("result")
        if not isinstance(result, dict):
            response = ElicitationResponse(id, error="The question was refused.")
        else:
            given = cast("dict[str, Any]", result)
            response = answer_from_mcp(given, request) if "action" in given else response_of(given)
        self.manager.respond(id, response)


def is_elicitation_protocol_message(message: object) -> bool:
    """Whether a message asks, answers or withdraws a question, in either spelling."""
    if not isinstance(message, dict):
        return False
    found = cast("dict[str, Any]", message)
    method = found.get("method")
    return found.get("jsonrpc") == "2.0" and isinstance(method, str) and method in METHODS


def create_confirmation_request(
    message: str,
    *,
    tool_name: str,
    confirm_label: str = "Confirm",
    cancel_label: str = "Cancel",
    **options: Unpack[QuestionOptions],
) -> ElicitationProtocolMessage:
    """The message that asks yes or no."""
    asked = ConfirmationRequest(
        message, tool_name=tool_name, confirm_label=confirm_label, cancel_label=cancel_label, **options
    )
    return _message(asked)


def create_text_input_request(
    message: str, *, tool_name: str, **options: Unpack[TextOptions]
) -> ElicitationProtocolMessage:
    """The message that asks for a text."""
    return _message(TextRequest(message, tool_name=tool_name, **options))


def create_select_request(
    message: str, choices: Iterable[SelectOption], *, tool_name: str, **options: Unpack[QuestionOptions]
) -> ElicitationProtocolMessage:
    """The message that asks for one of several choices."""
    return _message(SelectRequest(message, tool_name=tool_name, options=tuple(choices), **options))


def create_form_request(
    message: str,
    fields: Iterable[FormField],
    *,
    tool_name: str,
    submit_label: str = "Submit",
    **options: Unpack[QuestionOptions],
) -> ElicitationProtocolMessage:
    """The message that asks for a form."""
    return _message(
        FormRequest(message, tool_name=tool_name, fields=tuple(fields), submit_label=submit_label, **options)
    )


def _message(request: Elicitation) -> ElicitationProtocolMessage:
    return _envelope(request.id, REQUEST, write_request(request))


def _envelope(id: str, method: str, params: dict[str, Any]) -> ElicitationProtocolMessage:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _withdrawn(request: Elicitation) -> dict[str, Any]:
    return {"params": {"requestId": request.id, "reason": "The question is over."}}


def _request_id(params: Mapping[str, Any]) -> str:
    if found := _text_of_id(params.get("requestId")):
        return found
    raise RefusedError("`requestId` must name a question.", code=INVALID_PARAMS)


def _text_of_id(id: object) -> str:
    return str(id) if isinstance(id, str | int) and not isinstance(id, bool) else ""


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


global_elicitation_protocol = ElicitationProtocolAdapter()
"""One for programs that need no other, for the one manager."""
