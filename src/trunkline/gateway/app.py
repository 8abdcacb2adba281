"""The ASGI application: guards every request, then hands it to the edge of its caller's era."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trunkline.config import GatewayConfig
from trunkline.errors import RefusedError, TrunklineError
from trunkline.gateway.asgi import JSON, Headers, Receive, Scope, Send, answer, read_body
from trunkline.gateway.audience import Audience
from trunkline.gateway.guard import Guard
from trunkline.gateway.legacy import LegacyEdge
from trunkline.gateway.lists import Lists
from trunkline.gateway.modern import ModernEdge
from trunkline.gateway.refusals import error_of, status_of
from trunkline.hub import Hub
from trunkline.model import State
from trunkline.tasks import Tasks, open_tasks
from trunkline.wire.envelope import Message, error_object, read_caller_message, write_error
from trunkline.wire.era import LEGACY_VERSIONS
from trunkline.wire.headers import read_headers
from trunkline.wire.members import encode
from trunkline.wire.meta import looks_modern

log = logging.getLogger("trunkline")

_LEGACY = frozenset(version.encode() for version in LEGACY_VERSIONS)


class App:
    """Serves one hub."""

    def __init__(self, hub: Hub, gateway: GatewayConfig, tasks: Tasks) -> None:
        self._hub = hub
        self._limit = gateway.body_limit
        self._guard = Guard(gateway)
        self._audience = Audience(hub)
        lists = Lists(gateway.page_size)
        self._modern = ModernEdge(hub, lists, tasks, self._audience)
        self.legacy = LegacyEdge(hub, gateway, lists, tasks, self._audience)
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"Trunkline does not serve {scope['type']!r}.")
        try:
            headers = read_headers(scope["headers"])
            self._guard.check(headers)
            if scope["path"] == "/mcp":
                await self._mcp(headers, scope, receive, send)
            else:
                await self._other(headers, scope, send)
        except RefusedError as error:
            await _refuse(send, error, b"")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.uncancel() == 0:
                return  # the caller hung up; there is nobody to tell
            raise
        except Exception:  # noqa: BLE001 - the outermost handler: a caller never sees our traceback
            log.exception("A request failed")
            await answer(send, 500, error_object(-32603, "Trunkline failed; its log says why."), [JSON])

    def drain(self) -> None:
        """Take no new requests, and end the streams that never end by themselves."""
        self.draining = True
        self.legacy.drain()
        self._audience.close()

    async def _mcp(self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send) -> None:
        if not self._guard.authorize(headers):
            challenge: Headers = [(b"www-authenticate", b"Bearer"), JSON]
            await answer(send, 401, error_object(-32001, "A valid bearer token is needed."), challenge)
            return
        if self.draining:
            await answer(send, 503, b"", [(b"retry-after", b"1"), (b"connection", b"close")])
            return
        method = scope["method"]
        version = headers.get(b"mcp-protocol-version", b"")
        if method == "POST":
            await self._post(headers, version, scope, receive, send)
        elif version and version not in _LEGACY:
            raise RefusedError(f"This era has no {method}.", status=405)
        elif method == "GET":
            await self.legacy.get(headers, scope, receive, send)
        elif method == "DELETE":
            await self.legacy.delete(headers, send)
        else:
            raise RefusedError(f"There is nothing to {method} here.", status=405)

    async def _post(self, headers: dict[bytes, bytes], version: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            raise RefusedError("A message is sent as application/json.", status=415)
        if int(headers.get(b"content-length", b"0") or b"0") > self._limit:
            raise RefusedError(f"The body has more than {self._limit} bytes.", status=413)
        message = Message()
        try:
            message = read_caller_message(await read_body(receive, self._limit))
            modern = (version and version not in _LEGACY) or looks_modern(message.params)
            edge = self._modern if modern else self.legacy
            await edge.post(message, headers, scope, receive, send)
        except TrunklineError as error:
            await _refuse(send, error, message.id)

    async def _other(self, headers: dict[bytes, bytes], scope: Scope, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path not in ("/healthz", "/readyz"):
            raise RefusedError("There is nothing here.", status=404, hint="MCP is at /mcp.")
        if method not in ("GET", "HEAD"):
            raise RefusedError(f"There is nothing to {method} here.", status=405)
        if path == "/healthz":
            await answer(send, 200, b'{"status":"ok"}', [JSON])
            return
        views = self._hub.servers()
        ready = not self.draining and not (views and all(view.state is State.STARTING for view in views))
        body: dict[str, object] = {"status": "ready" if ready else "draining" if self.draining else "starting"}
        if self._guard.authorize(headers):
            body["servers"] = {view.name: {"state": view.state.value, "reason": view.reason} for view in views}
        await answer(send, 200 if ready else 503, encode(body), [JSON])


@asynccontextmanager
async def open_app(hub: Hub, gateway: GatewayConfig) -> AsyncGenerator[App]:
    """The application over a hub, with the tasks it needs."""
    async with open_tasks() as tasks:
        yield App(hub, gateway, tasks)


async def _refuse(send: Send, error: TrunklineError, id: bytes) -> None:
    status, headers = status_of(error)
    await answer(send, status, write_error(id, error_of(error, modern=True)), [JSON, *headers])
