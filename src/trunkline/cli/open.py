"""What most commands begin with: the configuration, and a hub over it."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.config.options import Config
from trunkline.config.reading import find_file, load, user_file
from trunkline.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.cli.running import Running, Servers
    from trunkline.hub import Hub

T = TypeVar("T")


def config_file(options: argparse.Namespace) -> Path | None:
    """The file that was named, or the one that is found."""
    return Path(options.config).expanduser() if options.config else find_file(os.environ, Path.cwd())


def read_config(options: argparse.Namespace) -> Config:
    """The configuration of this command; without any there is nothing to work with."""
    path = config_file(options)
    if path is None:
        demo = _demo()
        if demo is not None:
            return demo
        raise ConfigError(
            "There is no configuration yet.",
            hint="Begin with `trunkline add NAME COMMAND`, or name a file with --config.",
        )
    return load(path, env=os.environ)


def config_to_look_at(options: argparse.Namespace) -> Config:
    """The configuration of a command that only looks: where there is none yet, there are no servers."""
    path = config_file(options)
    return (_demo() if path is None else None) or load(path, env=os.environ)


def _demo() -> Config | None:
    """The servers to play with, while a gateway has them."""
    from trunkline.gateway.announcement import find_announcement

    config = load(None, env=os.environ)
    if find_announcement(config.home, user_file(os.environ)) is None:
        return None
    from trunkline.cli.running import find_running
    from trunkline.cli.up import demo_config

    return demo_config(config) if find_running(config) is not None else None


def hint_to_begin(config: Config, wanted: str = "") -> str:
    """What to do next where no server is configured; else nothing."""
    if config.servers:
        return ""
    if wanted and _can_be_installed(wanted):
        return f"Begin with `trunkline install {wanted}`."
    return "Begin with `trunkline add NAME COMMAND`, or see `trunkline registry popular`."


def check_server(config: Config, name: str, *, looks: bool = False) -> None:
    """ConfigError when there is no such server or group, with those there are and one to install.

    A command that only looks has nothing to complain of where none is configured yet.
    """
    known = (*config.servers, *config.groups)
    if name in known or (looks and not known):
        return
    hints = [f"There are: {', '.join(known)}."] if known else []
    if _can_be_installed(name):
        hints.append(f"Install it with `trunkline install {name}`.")
    raise ConfigError(f"There is no server {name!r}.", hint=" ".join(hints) or hint_to_begin(config))


def _can_be_installed(name: str) -> bool:
    from trunkline.install.marketplace.server_json import get_well_known_server

    return get_well_known_server(name) is not None


def only(config: Config, name: str) -> Config:
    """The configuration with one server or group alone, so that no other is waited for; names are shown as before."""
    if not name:
        return config
    groups = {group.name: group for group in config.groups.values() if name == group.name or name in group.servers}
    members = [server for group in groups.values() for server in group.servers] or [name]
    servers = {server: config.servers[server] for server in config.servers if server in members}
    gateway = config.gateway
    if gateway.namespace == "auto" and _shown_as_several(config):
        gateway = dataclasses.replace(gateway, namespace="always")
    return dataclasses.replace(config, servers=servers, groups=groups, profiles={}, gateway=gateway)


def _shown_as_several(config: Config) -> bool:
    shown_as = {member: group.name for group in config.groups.values() for member in group.servers}
    return len({shown_as.get(spec.name, spec.name) for spec in config.servers.values() if spec.enabled}) > 1


def running_gateway(config: Config) -> Running | None:
    """The gateway that has the servers of this configuration already."""
    from trunkline.cli.running import find_running

    return find_running(config)


@asynccontextmanager
async def started(config: Config, seconds: float) -> AsyncGenerator[Hub]:
    """A hub whose servers had so long to start, those that must first be downloaded from then on; commands that start
    none do without loading it."""
    from trunkline.hub import open_hub

    async with open_hub(config) as hub:
        await hub.ready(seconds, downloads=True)
        yield hub


@asynccontextmanager
async def opened(config: Config, seconds: float) -> AsyncGenerator[Servers]:
    """The servers as the running gateway has them; where none runs, they are started, and ended afterwards."""
    found = running_gateway(config)
    if found is None:
        async with started(config, seconds) as hub:
            yield hub
        return
    from trunkline.cli.running import RunningHub

    servers = RunningHub(found, config)
    await servers.ready(seconds)
    yield servers


def ask_servers(config: Config, seconds: float, question: Callable[[Servers], Awaitable[T]]) -> T:
    """What is known of servers that run, or had so long to start."""

    async def ask() -> T:
        async with opened(config, seconds) as servers:
            return await question(servers)

    return run(ask)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run asynchronous work to its end, on the fastest loop there is."""
    import asyncio

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
