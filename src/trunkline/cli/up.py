"""`trunkline up`: start the gateway."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from trunkline.cli.console import counted, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file, run
from trunkline.config.options import Config, GatewayConfig, default_home
from trunkline.config.options import options as options_of
from trunkline.config.reading import load, user_file
from trunkline.config.server import ServerSpec
from trunkline.telemetry.logs import is_json, use_format

if TYPE_CHECKING:
    from trunkline.cli.live import Live
    from trunkline.hub import Hub

NOT_FLAGS = ("token", "users")
"""A secret does not belong on a command line, where everyone on the machine can read it."""


def add_commands(commands: Commands) -> None:
    """Add `up`, with one flag for each option of `[gateway]`."""
    up = commands.add(
        "up",
        commands.common,
        description="Start the gateway: all configured servers behind one URL. Without a configuration, demo servers.",
    )
    for option, document in options_of(GatewayConfig):
        if option.name in NOT_FLAGS:
            continue
        flag = "--" + option.name.replace("_", "-")
        shown = option.default if option.default not in ((), "") else "none"
        up.add_argument(flag, metavar="VALUE", help=f"{document.replace('%', '%%')} (default: {shown})")
    up.add_argument(
        "--store",
        metavar="URL",
        help="where users, keys and threads are kept (default: as [store] says, or in the home)",
    )
    up.set_defaults(run=_up)


def _up(options: argparse.Namespace) -> int:
    from trunkline.gateway.serve import serve

    names = [option.name for option, _ in options_of(GatewayConfig) if option.name not in NOT_FLAGS]
    flags = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.store:
        flags["store.url"] = options.store
    path = config_file(options)
    config = load(path, env=os.environ, flags=flags)
    use_format(config.gateway.log_format)
    demo = path is None
    if demo:
        config = demo_config(config)

    def started(hub: Hub, url: str) -> None:
        # What exists now lives as long as we do: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(
            5_000, 100, 100
        )  # seldom for what lasts; for what is new little at a time, so that nobody waits
        _greet(config, url, demo)

    follow = path or user_file(os.environ)
    if demo:
        follow.parent.mkdir(parents=True, exist_ok=True)
    live = _live(options)

    def stopping(hub: Hub, again: bool) -> None:
        with contextlib.suppress(OSError):  # Ctrl-C ends a `tee` as well, and then nobody reads this
            _tell_stop(hub, config, again=again)
        if live is not None:
            live.end()

    beside = None if options.quiet else partial(_beside, live=live)
    run(lambda: serve(config, started=started, follow=follow, flags=flags, stopping=stopping, beside=beside))
    return 0


def _live(options: argparse.Namespace) -> Live | None:
    """What shows on a terminal how it goes; it is not even loaded where nobody looks."""
    from trunkline.cli.screen import can_move, in_front

    if options.quiet or is_json() or not can_move(sys.stderr, os.environ) or not in_front(sys.stderr):
        return None
    from trunkline.cli.live import Live

    return Live(sys.stderr)


async def _beside(hub: Hub, *, live: Live | None) -> None:
    from trunkline.cli.live import follow, follow_plainly

    await (follow(hub, live) if live is not None else follow_plainly(hub))


def _tell_stop(hub: Hub, config: Config, *, again: bool) -> None:
    if again:
        say("Ended at once.")
        return
    busy = sum(hub.relay.lane(view.name).inside for view in hub.servers())
    if not busy:
        say("Stopping.")
        return
    calls = f"{busy} {'call' if busy == 1 else 'calls'} under way"
    say(f"Stopping: {calls} may finish within {config.gateway.drain:g} s. Ctrl-C again ends at once.")


def demo_config(config: Config) -> Config:
    """The servers one gets to play with when nothing is configured."""
    home = str(default_home(os.environ) / "demo")
    servers = {
        name: ServerSpec(
            name=name, command=sys.executable, args=("-P", "-m", f"trunkline.demo.{name}"), env={"DEMO_HOME": home}
        )
        for name in ("notes", "clock")
    }
    return dataclasses.replace(config, servers=servers, source=None)


def _greet(config: Config, url: str, demo: bool) -> None:
    print(f"Trunkline listens at {url}", flush=True)
    if demo:
        say("Nothing is configured yet, so two demo servers are there to play with: notes and clock.")
        say("Add your own, it takes effect at once:  trunkline add time uvx mcp-server-time")
    else:
        say(
            f"{counted(len(config.servers), 'server')} from {config.source}. A change of the file takes effect at once."
        )
    if is_json():
        return
    token = ' --header "Authorization: Bearer $TOKEN"' if config.gateway.token else ""
    say(f"The console, to see and steer it: {url.removesuffix('/mcp')}/")
    say("\nConnect a client:")
    say(f"  Claude Code   claude mcp add --transport http trunkline {url}{token}")
    say(f'  Cursor        ~/.cursor/mcp.json:   {{"mcpServers": {{"trunkline": {{"url": "{url}"}}}}}}')
    say(f'  VS Code       .vscode/mcp.json:     {{"servers": {{"trunkline": {{"type": "http", "url": "{url}"}}}}}}')
    say("Stop with Ctrl-C.")
