"""What a stage is, and how stages are joined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from trunkline.model import Call, Reply
from trunkline.wire.members import encode, write_members

Handler = Callable[[Call], Awaitable[Reply]]
Stage = Callable[[Call, Handler], Awaitable[Reply]]
"""Takes a call, and the rest of the way. Where it has nothing to do it gives back `call_next(call)` as it is, and so
costs the call no frame to wait in."""

REPEATABLE = frozenset(
    ("resources/read", "prompts/get", "completion/complete", "resources/templates/list", "tasks/get")
)
"""Methods that change nothing, whatever the server says of itself."""


def failed(text: str) -> Reply:
    """A tool of our own that could not do what it was asked for, as a server's would say it."""
    content = encode([{"type": "text", "text": text}])
    return Reply(result=write_members({"resultType": b'"complete"', "content": content, "isError": b"true"}))


def join(stages: Sequence[Stage]) -> Handler:
    """One handler that passes a call through the stages in their order."""

    async def end(call: Call) -> Reply:
        raise AssertionError("the last stage answers every call")

    handler: Handler = end
    for stage in reversed(stages):
        handler = _bound(stage, handler)
    return handler


def _bound(stage: Stage, call_next: Handler) -> Handler:
    run: Stage = stage.__call__  # looked up once, not in every call
    return lambda call: run(call, call_next)
