"""Runs the gateway: uvicorn with limits it does not have by itself, hot reload, and a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trunkline.config import Config, load
from trunkline.errors import ConfigError, TrunklineError
from trunkline.gateway.app import App, open_app
from trunkline.gateway.asgi import GONE
from trunkline.gateway.guard import check_exposure
from trunkline.hub import Hub, open_hub
from trunkline.tasks import open_tasks

log = logging.getLogger("trunkline")

Started = Callable[[Hub, str], None]
"""Called once with the hub and the URL when the gateway listens."""


async def serve(config: Config, *, started: Started, flags: dict[str, Any] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C, then let calls in flight finish."""
    check_exposure(config.gateway)
    listening = _listen(config.gateway.host, config.gateway.port)
    port = listening.getsockname()[1]
    host = f"[{config.gateway.host}]" if ":" in config.gateway.host else config.gateway.host
    async with open_hub(config) as hub, open_app(hub, config.gateway) as app, open_tasks() as tasks:
        server = _Server(_uvicorn_config(app, config), app)
        if config.source is not None:
            tasks.start(_follow(hub, config.source, flags or {}), name="configuration")
        started(hub, f"http://{host}:{port}/mcp")
        await server.serve(sockets=[listening])


def _uvicorn_config(app: App, config: Config) -> uvicorn.Config:
    gateway = config.gateway
    settings = uvicorn.Config(
        cast("Any", app),
        http=_protocol(gateway.header_timeout),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=cast("Any", gateway.keep_alive),
        timeout_graceful_shutdown=cast("Any", gateway.drain),
        limit_concurrency=gateway.max_connections,
    )
    return settings


class _Server(uvicorn.Server):
    """Tells the application to drain as soon as it is asked to stop."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.drain()
        await super().shutdown(sockets=sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn raises the signal again after its end; ours is a clean end, with exit code 0.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            await self._serve(sockets)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def _protocol(header_timeout: float) -> type[asyncio.Protocol]:
    class Protocol(HttpToolsProtocol):
        """A connection whose request must arrive in time, and whose end is told at once."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = self.loop.call_later(header_timeout, self._too_slow)

        def data_received(self, data: bytes) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(header_timeout, self._too_slow)
            super().data_received(data)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope[GONE] = []  # type: ignore[typeddict-unknown-key]

        def on_message_complete(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            super().on_message_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            super().connection_lost(exc)
            if self.cycle is not None and not self.cycle.response_complete:
                for callback in list(cast("Any", self.cycle.scope)[GONE]):
                    callback()

        def _too_slow(self) -> None:
            self._deadline = None
            if not self.transport.is_closing():
                self.transport.close()

    return Protocol


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=False)
    except OSError as error:
        hint = "Is Trunkline running already? Choose another with --port." if port else ""
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint=hint) from error


async def _follow(hub: Hub, path: Path, flags: dict[str, Any]) -> None:
    """Take on the file whenever it changes; a broken one is reported, and changes nothing."""
    from watchfiles import awatch

    # The folder is watched, not the file: editors replace files.
    folder = path.resolve().parent
    async for _ in awatch(folder, recursive=False, debounce=100, step=50, watch_filter=lambda _, p: Path(p).name == path.name):
        try:
            config = load(path, env=os.environ, flags=flags)
            news = await hub.apply(config)
        except TrunklineError as error:
            log.error("%s was changed, but not taken on: %s", path, error)
            continue
        if news:
            log.info("%s: %s", path, ", ".join(news))
