"""`trunkline login`, `logout`, `connections`: sign-ins at remote servers, begun here and finished in a browser."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from trunkline.cli.console import print_json, print_table, say
from trunkline.cli.main import OK, UNREACHABLE, Commands
from trunkline.cli.open import config_to_look_at, only, run, running_gateway
from trunkline.config.options import Config
from trunkline.errors import AddressTakenError
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from trunkline.cli.running import Running

Json = dict[str, Any]
CALLBACK = "/oauth/callback"


def add_commands(commands: Commands) -> None:
    """Add the commands about sign-ins."""
    login = commands.add(
        "login",
        commands.common,
        description="Sign in to a remote server. A browser opens; it may also be one on another machine: open the "
        "address there, and paste here the address that it ends at.",
    )
    login.add_argument("server", help="the server, as it is configured")
    login.add_argument("--user", metavar="NAME", help="for whom, where there are users and it is not shared")
    login.add_argument("--no-browser", action="store_true", help="print the address, alone on one line, and wait")
    login.add_argument(
        "--wait", type=float, default=300.0, metavar="SECONDS", help="how long to wait for it (default: %(default)s)"
    )
    login.set_defaults(run=_login)
    logout = commands.add("logout", commands.common, description="Sign out: tokens are forgotten, and revoked.")
    logout.add_argument("server", help="the server, as it is configured")
    logout.add_argument("--user", metavar="NAME", help="of whom, where there are users")
    logout.set_defaults(run=_logout)
    connections = commands.add("connections", commands.formatted, description="List who is signed in where.")
    connections.add_argument("--user", metavar="NAME", help="of whom, where there are users")
    connections.set_defaults(run=_connections)


def _login(options: argparse.Namespace) -> int:
    async def sign_in() -> int:
        async with _gateway(config_to_look_at(options), options.server) as gateway:
            begun = await _ask(gateway, "POST", f"servers/{quote(options.server, safe='')}/login", user=options.user)
            if "url" not in begun:
                say(f"You are signed in to {options.server!r} already.")
                return OK
            _show(begun["url"], browser=not options.no_browser)
            problem = await _wait(gateway, options, begun["attempt"])
            if problem:
                say(f"Not signed in to {options.server!r}: {problem}")
                return UNREACHABLE
            held = await _held(gateway, options)
            say(f"Signed in to {options.server!r}{_until(held)}.")
            return OK

    return run(sign_in)


def _logout(options: argparse.Namespace) -> int:
    async def sign_out() -> int:
        async with _gateway(config_to_look_at(options), options.server) as gateway:
            await _ask(gateway, "DELETE", f"connections/{quote(options.server, safe='')}", user=options.user)
        say(f"Signed out of {options.server!r}.")
        return OK

    return run(sign_out)


def _connections(options: argparse.Namespace) -> int:
    async def look() -> list[Json]:
        async with _gateway(config_to_look_at(options)) as gateway:
            return (await _ask(gateway, "GET", "connections", user=options.user))["connections"]

    found = run(look)
    if options.format == "json":
        print_json({"connections": found})
    elif options.format == "compact":
        for one in found:
            print(one["server"])
    else:
        rows = [[one["server"], one["state"], one.get("account", ""), one["issuer"], _lasts(one)] for one in found]
        print_table(("server", "state", "as", "at", "lasts"), rows)
        if not found:
            say("Nobody is signed in to a server. Sign in: `trunkline login SERVER`.")
    return OK


@asynccontextmanager
async def _gateway(config: Config, server: str = "") -> AsyncGenerator[Running]:
    """The gateway that runs; or one of our own, with this server alone, for as long as it takes."""
    found = running_gateway(config)
    if found is not None:
        yield found
        return
    from trunkline.cli.running import Running
    from trunkline.gateway.serve import open_gateway

    alone = only(config, server) if server in config.servers else dataclasses.replace(config, servers={}, groups={})

    def at(port: int) -> Config:
        here = dataclasses.replace(alone.gateway, host="127.0.0.1", port=port, public_url="")
        return dataclasses.replace(alone, gateway=here)

    async with AsyncExitStack() as stack:
        try:
            # Where the gateway would be: authorization servers know a client by the address it is sent back to.
            opened = await stack.enter_async_context(open_gateway(at(config.gateway.port)))
        except AddressTakenError:
            opened = await stack.enter_async_context(open_gateway(at(0)))
        yield Running(opened.url.removesuffix("/mcp"), opened.key, local=True)


async def _ask(gateway: Running, method: str, path: str, **query: Any) -> Json:
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    # In a thread, since the gateway may be one of our own.
    return await in_thread(partial(gateway.request, method, f"{path}?{asked}" if asked else path))


def _show(url: str, *, browser: bool) -> None:
    if browser:
        import webbrowser

        if webbrowser.open(url):
            say(f"Sign in with the browser that opened. If none did, open: {url}")
            return
        say("Open this address in a browser:")
    print(url, flush=True)
    if sys.stdin.isatty():
        say("If that browser is on another machine, paste here the address of the page that it ends at.")


async def _wait(gateway: Running, options: argparse.Namespace, attempt: str) -> str:
    """Wait until the person is done; why it did not work, or nothing."""
    path, until = f"servers/{quote(options.server, safe='')}/login", time.monotonic() + options.wait
    with _pasted(gateway):
        while time.monotonic() < until:
            told = await _ask(gateway, "GET", path, attempt=attempt, user=options.user)
            if told["state"] != "waiting":
                return str(told.get("reason", ""))
    return f"nobody signed in within {options.wait:g} seconds."


@contextmanager
def _pasted(gateway: Running) -> Generator[None]:
    """Take the address that a browser elsewhere ended at, where somebody can paste it."""
    if not sys.stdin.isatty():
        yield
        return
    loop, sent = asyncio.get_running_loop(), list[asyncio.Future[int]]()

    def take() -> None:
        query = urlsplit(sys.stdin.readline().strip()).query
        if "state=" in query:
            sent.append(in_thread(partial(gateway.page, f"{CALLBACK}?{query}")))
        elif query:
            say("That is not the address that a sign-in ends at.")

    loop.add_reader(sys.stdin, take)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)


async def _held(gateway: Running, options: argparse.Namespace) -> Json:
    found = (await _ask(gateway, "GET", "connections", user=options.user))["connections"]
    return next((one for one in found if one["server"] == options.server), Json())


def _until(held: Json) -> str:
    who = f" as {held['account']}" if held.get("account") else ""
    return f"{who} at {held['issuer']}; {_lasts(held)}" if held else ""


def _lasts(held: Json) -> str:
    if held.get("reason"):
        return str(held["reason"])
    if held.get("renewable"):
        return "renewed by itself"
    ends = held.get("expires", 0.0)
    return time.strftime("until %Y-%m-%d %H:%M", time.localtime(ends)) if ends else "until it is ended there"
