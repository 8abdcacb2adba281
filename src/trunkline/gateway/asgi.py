"""The few pieces of ASGI that we need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from trunkline.errors import RefusedError
from trunkline.tasks import Tasks

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

GONE = "trunkline.gone"
"""Where our server keeps what to call when the caller hangs up."""

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")
STREAM: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body, unless it is too long."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                break
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise asyncio.CancelledError
    if len(body) > limit:
        raise RefusedError(f"The body has more than {limit} bytes.", status=413)
    return body


async def answer(send: Send, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
    """One answer, at once."""
    lines = [*(headers or ()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def on_gone(scope: Scope, receive: Receive, tasks: Tasks, callback: Callable[[], object]) -> Callable[[], None]:
    """Have `callback` called when the caller hangs up; call what is returned when it no longer matters."""
    listeners: list[Callable[[], object]] | None = scope.get(GONE)
    if listeners is not None:
        listeners.append(callback)
        return lambda: listeners.remove(callback) if callback in listeners else None

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        callback()

    watching = tasks.start(watch(), name="waits for the caller to hang up")
    return lambda: watching.cancel() and None
