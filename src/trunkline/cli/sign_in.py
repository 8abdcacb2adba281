"""`trunkline login`, `logout`, `connections`: sign-ins at remote servers, begun here and finished in a browser."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from trunkline.cli.console import agrees, can_ask, print_list, say, shown_time
from trunkline.cli.main import OK, UNREACHABLE, Commands
from trunkline.cli.open import config_to_look_at, only, run, running_gateway
from trunkline.cli.screen import quiet_keys, restore_keys
from trunkline.config.options import Config
from trunkline.errors import AddressTakenError, NotFoundError, TrunklineError
from trunkline.untrusted import printable
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from trunkline.cli.running import Running

Json = dict[str, Any]
CALLBACK = "/oauth/callback"
OPENS = 2.0
"""Seconds after which a browser that says nothing is taken to have opened."""
NEW = 3.0
"""Seconds that a gateway may take to know a server that was just written into its file."""


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
    browser, wait = not options.no_browser, options.wait
    return run(lambda: _sign_in(config_to_look_at(options), options.server, options.user, browser=browser, wait=wait))


def offer_sign_ins(load: Callable[[], Config], names: Sequence[str], *, asks: bool) -> None:
    """Sign in to servers, one after another, as far as the person agrees; where nobody can be asked, say how."""
    later = list(names)
    try:
        for name in names if asks and can_ask() else ():
            if agrees(printable(f"Sign in to {name} now?")) and _signed_in(load(), name):
                later.remove(name)
    except KeyboardInterrupt:
        say()  # what was written before stays
    for name in later:
        say(printable(f"Sign in: trunkline login {name}"))


def _signed_in(config: Config, server: str) -> bool:
    try:
        return run(lambda: _sign_in(config, server, None)) == OK
    except TrunklineError as error:
        say(printable(f"Not signed in to {server!r}: {error}"))
        return False


async def _sign_in(config: Config, server: str, user: str | None, *, browser: bool = True, wait: float = 300.0) -> int:
    async with _gateway(config, server) as gateway:
        begun = await _begin(gateway, server, user)
        if "url" not in begun:
            say(f"You are signed in to {server!r} already.")
            return OK
        await _show(begun["url"], browser=browser)
        problem = await _wait(gateway, server, user, begun["attempt"], wait)
        if problem:
            say(f"Not signed in to {server!r}: {problem}")
            return UNREACHABLE
        say(f"Signed in to {server!r}{_until(await _held(gateway, server, user))}.")
        return OK


async def _begin(gateway: Running, server: str, user: str | None) -> Json:
    until = time.monotonic() + NEW
    while True:
        try:
            return await _ask(gateway, "POST", f"servers/{quote(server, safe='')}/login", user=user)
        except NotFoundError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(0.2)  # it may have been written into the file that the gateway watches just now


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
    print_list(
        options.format,
        {"connections": found},
        [one["server"] for one in found],
        ("server", "state", "as", "at", "lasts"),
        [[one["server"], one["state"], one.get("account", ""), one["issuer"], _lasts(one)] for one in found],
        empty="Nobody is signed in to a server. Sign in: `trunkline login SERVER`.",
    )
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


async def _show(url: str, *, browser: bool) -> None:
    if browser:
        import webbrowser

        # In a thread: some stay until the person is done, which takes a gateway that answers meanwhile.
        opening = in_thread(partial(webbrowser.open, url))
        await asyncio.wait([opening], timeout=OPENS)
        if not opening.done() or opening.result():
            say(f"Sign in with the browser that opened. If none did, open: {url}")
            return
        say("Open this address in a browser:")
    print(url, flush=True)
    if sys.stdin.isatty():
        say("If that browser is on another machine, paste here the address of the page that it ends at.")


async def _wait(gateway: Running, server: str, user: str | None, attempt: str, wait: float) -> str:
    """Wait until the person is done; why it did not work, or nothing."""
    path, until = f"servers/{quote(server, safe='')}/login", time.monotonic() + wait
    with _pasted(gateway, attempt):
        while time.monotonic() < until:
            told = await _ask(gateway, "GET", path, attempt=attempt, user=user)
            if told["state"] != "waiting":
                return str(told.get("reason", ""))
    return f"nobody signed in within {wait:g} seconds."


@contextmanager
def _pasted(gateway: Running, attempt: str) -> Generator[None]:
    """Take the address that a browser elsewhere ended at, where somebody can paste it."""
    if not sys.stdin.isatty():
        yield
        return
    loop, sent, line = asyncio.get_running_loop(), list[asyncio.Future[int]](), bytearray()

    def take() -> None:
        line.extend(os.read(sys.stdin.fileno(), 65536))
        *whole, rest = bytes(line).replace(b"\r", b"\n").split(b"\n")
        line[:] = rest
        for one in filter(bytes.strip, whole):
            query = urlsplit(one.decode("utf-8", "replace").strip()).query
            if parse_qs(query).get("state") == [attempt]:
                sent.append(in_thread(partial(gateway.page, f"{CALLBACK}?{query}")))
            else:
                other = " It is of another one." if "state=" in query else ""
                say(f"That is not the address that this sign-in ends at.{other}")

    modes = quiet_keys(sys.stdin, at_once=True, shown=True)  # an address may be longer than a line
    loop.add_reader(sys.stdin, take)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)
        restore_keys(sys.stdin, modes)


async def _held(gateway: Running, server: str, user: str | None) -> Json:
    found = (await _ask(gateway, "GET", "connections", user=user))["connections"]
    return next((one for one in found if one["server"] == server), Json())


def _until(held: Json) -> str:
    who = f" as {held['account']}" if held.get("account") else ""
    return f"{who} at {held['issuer']}; {_lasts(held)}" if held else ""


def _lasts(held: Json) -> str:
    if held.get("reason"):
        return str(held["reason"])
    if held.get("renewable"):
        return "renewed by itself"
    ends = held.get("expires", 0.0)
    return f"until {shown_time(ends)}" if ends else "until it is ended there"
