"""What most commands begin with: the configuration, and a hub over it."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from trunkline.config import Config
from trunkline.errors import ConfigError
from trunkline.hub import Hub, open_hub
from trunkline.reading import find_file, load

T = TypeVar("T")


def config_file(options: argparse.Namespace) -> Path | None:
    """The file that was named, or the one that is found."""
    return Path(options.config).expanduser() if options.config else find_file(os.environ, Path.cwd())


def read_config(options: argparse.Namespace) -> Config:
    """The configuration of this command; without any there is nothing to work with."""
    path = config_file(options)
    if path is None:
        raise ConfigError(
            "There is no configuration yet.",
            hint="Begin with `trunkline add NAME COMMAND`, or name a file with --config.",
        )
    return load(path, env=os.environ)


@asynccontextmanager
async def opened(config: Config, seconds: float) -> AsyncGenerator[Hub]:
    """A hub whose servers had so long to start."""
    async with open_hub(config) as hub:
        await hub.ready(seconds)
        yield hub


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run asynchronous work to its end, on the fastest loop there is."""
    loops: dict[str, Any] = {}
    try:
        import uvloop

        loops["loop_factory"] = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(**loops) as runner:
        return runner.run(_awaited(work))


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
