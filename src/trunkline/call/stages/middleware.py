"""The stage that runs middleware around calls of tools; calls that none concerns pass through untouched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import msgspec

from trunkline.call.middleware.chain import ToolContext, ToolMiddleware, create_tool_middleware_chain
from trunkline.call.stage import Handler
from trunkline.call.suspended import Suspended
from trunkline.errors import ServerRefusedError
from trunkline.model import Call, Entry, Reply
from trunkline.questions.bridge import OpenPage, asks_caller, may_be_asked
from trunkline.questions.manager import ElicitationManager
from trunkline.tasks import Tasks
from trunkline.tool import Annotations, Tool, ToolResult
from trunkline.tools.convert.definition import tool_from
from trunkline.tools.guidance import OWN
from trunkline.wire.members import decode, decode_object, encode, write_members

Choose = Callable[[Entry], Sequence[ToolMiddleware]]
"""Says which middleware concerns a tool: none, for most."""


class MiddlewareStage:
    """A call that somebody may be asked about runs in a task of its own, and waits there for the answer."""

    def __init__(self, choose: Choose, tasks: Tasks, open_page: OpenPage | None) -> None:
        self._choose, self._tasks, self._open_page = choose, tasks, open_page

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        if call.parked is not None:
            return call.parked.resume(call) if isinstance(call.parked, Suspended) else call_next(call)
        if call.entry is None or call.method != "tools/call":
            return call_next(call)
        middleware = self._choose(call.entry)
        if not middleware:
            return call_next(call)
        call.note("middleware", f"{len(middleware)} around")
        own = msgspec.structs.replace(call)  # the caller's goes on changing with every answer it brings
        run = _Run(own, call.entry, call_next, create_tool_middleware_chain(middleware), self._open_page)
        if call.ask is not None:
            return run()
        suspended = Suspended(own)
        own.ask = suspended.ask
        return suspended.run(run(), self._tasks)


class _Run:
    """One call on its way through its middleware."""

    def __init__(
        self, call: Call, entry: Entry, call_next: Handler, chain: ToolMiddleware, open_page: OpenPage | None
    ) -> None:
        self._call, self._entry, self._next, self._chain, self._open_page = call, entry, call_next, chain, open_page
        self._given: dict[str, Any] = decode_object(call.params.get("arguments", b"{}"))
        self._replies: list[tuple[ToolResult | ServerRefusedError, Reply]] = []
        self._sent = False

    async def __call__(self) -> Reply:
        with ExitStack() as ended:
            try:
                result = await self._chain(tool_of(self._entry), self._given, self._context(ended), self._send)
            except ServerRefusedError as error:
                untouched = self._as_sent(error)
                if untouched is None:
                    raise
                return untouched
            return self._as_sent(result) or Reply(result=_written(result))

    def _context(self, ended: ExitStack) -> ToolContext:
        call = self._call
        asker = ElicitationManager(handler=asks_caller(call, self._open_page, ended)) if may_be_asked(call) else None
        return ToolContext(
            user=call.scope.user,
            thread=call.scope.thread,
            session=call.scope.session,
            server=self._entry.server,
            elicitation=asker,
            confirmed=call.agreed,
        )

    def _as_sent(self, outcome: ToolResult | ServerRefusedError) -> Reply | None:
        """What no middleware touched goes on exactly as the server sent it."""
        return next((reply for found, reply in self._replies if found is outcome), None)

    async def _send(self, params: Mapping[str, Any] | None = None, /) -> ToolResult:
        sent = self._call
        if self._sent:
            sent.note("middleware", "again")
        self._sent = True
        if params is not None and params != self._given:
            changed = {**self._call.params, "arguments": encode(params)}
            sent = msgspec.structs.replace(self._call, params=changed, raw_params=b"", parked=None)
        reply = await self._next(sent)
        if reply.error:
            said = decode_object(reply.error)
            error = ServerRefusedError(str(said.get("message", "")), code=said.get("code", 0), data=said.get("data"))
            self._replies.append((error, reply))
            raise error
        result = result_of(reply.result)
        self._replies.append((result, reply))
        return result


def tool_of(entry: Entry) -> Tool:
    """An entry as middleware sees it."""
    return _tool(entry.shown, entry.server, entry.definition, entry.annotations, entry.options.category)


@lru_cache(maxsize=10_000)
def _tool(shown: str, server: str, text: bytes, annotations: Annotations, category: str) -> Tool:
    return tool_from(decode_object(text), shown, annotations, server=server, category=category)


def outcome_of(reply: Reply) -> ToolResult:
    """How a call ended, for whoever made it here; ServerRefusedError for one that was answered with an error."""
    if reply.error:
        error = decode_object(reply.error)
        raise ServerRefusedError(str(error.get("message", "")), code=error.get("code", 0), data=error.get("data"))
    return result_of(reply.result)


def result_of(result: bytes) -> ToolResult:
    """A tool's answer, decoded."""
    decoded = decode(result)
    return ToolResult(
        content=decoded.get("content", []),
        structured=decoded.get("structuredContent"),
        is_error=decoded.get("isError") is True,
        meta=decoded.get("_meta", {}),
        raw=result,
    )


def _written(result: ToolResult) -> bytes:
    """A result that a middleware made or changed."""
    members = {"resultType": b'"complete"', "content": encode(result.content)}
    if result.structured is not None:
        members["structuredContent"] = encode(result.structured)
    if result.is_error:
        members["isError"] = b"true"
    if result.meta:
        members["_meta"] = encode({name if "/" in name else OWN + name: value for name, value in result.meta.items()})
    return write_members(members)
