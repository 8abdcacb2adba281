"""Runs the gateway: from the first listening socket to a graceful end, following the configuration meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trunkline.config.exposure import check_exposure
from trunkline.config.options import Config
from trunkline.config.reading import load
from trunkline.config.secrets import Secrets
from trunkline.errors import AddressTakenError, TrunklineError
from trunkline.gateway.announcement import announced, digest_of
from trunkline.gateway.app import App, Doors, open_app
from trunkline.gateway.http import Server
from trunkline.hub import Hub, open_hub
from trunkline.tasks import open_tasks
from trunkline.tenancy.tenancy import Tenancy, open_tenancy

log = logging.getLogger("trunkline")

Started = Callable[[Hub, str], None]
"""Called once with the hub and the URL when the gateway listens."""

Stopping = Callable[[Hub, bool], None]
"""Called when the gateway is told to stop, and with `True` when it is told so again and ends at once."""

Beside = Callable[[Hub], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Gateway:
    """A gateway that listens."""

    url: str
    hub: Hub
    app: App
    server: Server
    stop: asyncio.Event
    """Set it to end the gateway gracefully."""
    key: str = field(default="", repr=False)
    """Lets in commands of whoever runs it."""


async def serve(
    config: Config,
    *,
    started: Started,
    follow: Path,
    flags: dict[str, Any] | None = None,
    stopping: Stopping | None = None,
    beside: Beside | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then let calls in flight finish; the file to follow need not exist yet.

    Ctrl-C while it stops ends the process at once. `beside` runs until the gateway is told to stop.
    """
    loop = asyncio.get_running_loop()
    async with (
        open_gateway(config) as gateway,
        announced(config.home, follow, gateway.url.removesuffix("/mcp"), gateway.key) as took_on,
        open_tasks() as tasks,
    ):

        def stop(number: int) -> None:
            again = gateway.stop.is_set()
            if again and number != signal.SIGINT:
                return
            gateway.stop.set()
            try:
                if stopping is not None:
                    stopping(gateway.hub, again)
            finally:
                if again:
                    os._exit(128 + number)  # the servers' processes end with us: their warden sees to it

        tasks.start(follow_file(gateway.hub, follow, flags or {}, took_on), name="configuration")
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        started(gateway.hub, gateway.url)
        if beside is not None:
            tasks.start(beside(gateway.hub), name="terminal")
        await gateway.stop.wait()


@asynccontextmanager
async def open_gateway(config: Config) -> AsyncGenerator[Gateway]:
    """A gateway for the body; when it ends, calls in flight get `drain` seconds to finish."""
    async with open_tenancy(config.store, config.home, watch=True) as tenancy:
        check_exposure(config.gateway, people=tenancy.people.anybody or bool(config.issuers))
        async with _open_gateway(config, tenancy) as gateway:
            yield gateway


@asynccontextmanager
async def _open_gateway(config: Config, tenancy: Tenancy) -> AsyncGenerator[Gateway]:
    listening = _listen(config.gateway.host, config.gateway.port)
    port = listening.getsockname()[1]
    host = f"[{config.gateway.host}]" if ":" in config.gateway.host else config.gateway.host
    stop = asyncio.Event()
    address = f"http://{host}:{port}"
    doors = Doors(config, address, tenancy)
    async with (
        open_hub(config, edge=doors.edge, tenancy=tenancy) as hub,
        open_app(hub.relay, config.gateway, doors) as app,
        open_tasks() as tasks,
    ):
        server = Server(app, config.gateway)
        serving = tasks.start(server.serve(listening, stop), name="http")
        try:
            yield Gateway(f"{address}/mcp", hub, app, server, stop, doors.guard.key)
        finally:
            app.drain()
            stop.set()
            await serving


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=False)
    except OSError as error:
        hint = "Is Trunkline running already? Choose another with --port." if port else ""
        raise AddressTakenError(f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint=hint) from error


async def follow_file(hub: Hub, path: Path, flags: dict[str, Any], took_on: Callable[[str], None]) -> None:
    """Take on the file whenever it, or a secret, changes; a broken one is reported, and changes nothing."""
    from watchfiles import awatch  # type: ignore[reportUnknownVariableType] - its stub names trio, which is not here

    # The folder is watched, not the file: editors replace files, and the file may come later.
    folder = Path(os.path.abspath(path)).parent  # noqa: ASYNC240 - no I/O
    if not folder.is_dir():
        return
    secrets = Secrets(hub.config.home).file
    watched = {folder}
    try:
        secrets.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        watched.add(secrets.parent)
    except OSError:
        pass  # where no home can be, no secret will be set
    names = (path.name, secrets.name)
    async for _ in awatch(
        *watched,
        recursive=False,
        debounce=100,
        step=50,
        watch_filter=lambda _, changed: Path(changed).name in names,
    ):
        digest = digest_of(path)
        try:
            config = load(path, env=os.environ, flags=flags)
            news = await hub.apply(config)
            took_on(digest)
        except TrunklineError as error:
            log.error("%s was changed, but not taken on: %s", path, error)
            continue
        if news:
            log.info("%s: %s", path, ", ".join(news))
