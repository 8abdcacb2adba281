"""Runs the gateway: from the first listening socket to a graceful end, following the configuration meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trunkline.config import Config, load
from trunkline.errors import ConfigError, TrunklineError
from trunkline.gateway.app import open_app
from trunkline.gateway.guard import check_exposure
from trunkline.gateway.http import Server
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
        if config.source is not None:
            tasks.start(_follow(hub, config.source, flags or {}), name="configuration")
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: (app.drain(), stop.set()))
        started(hub, f"http://{host}:{port}/mcp")
        await Server(app, config.gateway).serve(listening, stop)


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
    async for _ in awatch(
        folder, recursive=False, debounce=100, step=50, watch_filter=lambda _, p: Path(p).name == path.name
    ):
        try:
            config = load(path, env=os.environ, flags=flags)
            news = await hub.apply(config)
        except TrunklineError as error:
            log.error("%s was changed, but not taken on: %s", path, error)
            continue
        if news:
            log.info("%s: %s", path, ", ".join(news))
