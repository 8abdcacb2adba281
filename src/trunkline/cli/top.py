"""`trunkline top`: servers, calls, errors and tokens saved of the running gateway, as they happen."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

from trunkline.cli.console import print_json
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file
from trunkline.cli.running import Running, find_running, running_at
from trunkline.cli.screen import FullScreen, Style, can_move, fit
from trunkline.cli.top_view import age, board, server_table, summary, tool_table
from trunkline.config.reading import load
from trunkline.errors import TrunklineError

INTERVAL = 1.0
UNBOUNDED = 10_000
_QUIT = (b"q", b"Q", b"\x04")
_SCROLL = {b"\x1b[A": -1, b"\x1b[B": 1, b"k": -1, b"j": 1, b"\x1b[5~": -10, b"\x1b[6~": 10, b" ": 10}
"""Lines that a key moves on: arrows, the keys of `vi`, whole pages."""

EXAMPLES = """examples:
  trunkline top                                    watch the gateway of this configuration; q quits
  trunkline top --once                             print how it stands now, and end
  trunkline top --url http://127.0.0.1:9000/mcp    watch the gateway at another address
  trunkline top --format json                      for programs

The gateway's token, if it has one, is taken from the configuration or TRUNKLINE_GATEWAY_TOKEN.
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    top = commands.add(
        "top",
        commands.formatted,
        description="Watch the running gateway: its servers, how calls go, and what searching saves of models' "
        "contexts. Without a terminal, or with --once, it is printed once.",
        examples=EXAMPLES,
    )
    top.add_argument("--once", action="store_true", help="print it once, and end")
    top.add_argument("--url", default="", metavar="URL", help="the gateway to watch (default: that of the file)")
    top.set_defaults(run=_top)


def _top(options: argparse.Namespace) -> int:
    config = load(config_file(options), env=os.environ)
    running = (find_running(config) if not options.url else None) or running_at(options.url, config.gateway)
    told = running.statistics()
    if options.format == "json":
        print_json(told)
    elif options.format == "compact":
        for one in told["servers"]:
            errors = one["failures"] + one["tool_errors"]
            print(f"{fit(one['name'], UNBOUNDED)} {one['state']} {one['calls']} {errors}")
    elif options.once or not can_move(sys.stdout, os.environ):
        _print(told, running)
    else:
        # Not on uvloop: it makes the terminal non-blocking, for the shell and for whatever runs next in it as well.
        return asyncio.run(Watch(running, told).run())
    return 0


def _print(told: dict[str, Any], running: Running) -> None:
    style = Style.of(sys.stdout, os.environ)
    lines = [
        _title(told, running),
        *summary(told, None, UNBOUNDED),
        "",
        *server_table(told["servers"], UNBOUNDED, style),
    ]
    tools = tool_table(told["tools"], UNBOUNDED, style)
    print("\n".join((*lines, *(["", *tools] if tools else []))))


def _title(told: dict[str, Any], running: Running) -> str:
    return f"Trunkline at {running.address}, up {age(told['seconds'])}"


class Watch:
    """Asks every second, and shows what was answered until somebody has seen enough."""

    def __init__(self, running: Running, told: dict[str, Any]) -> None:
        self._running, self._told = running, told
        self._rate: float | None = None
        self._trouble = ""
        self._scroll = 0
        self._screen = FullScreen()
        self._style = Style.of(sys.stdout, os.environ)
        self._done = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Show it; the exit code."""
        loop = asyncio.get_running_loop()
        with self._screen:
            loop.add_signal_handler(signal.SIGWINCH, self._paint)
            loop.add_signal_handler(signal.SIGTSTP, self._pause)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._end, 128 + number)
            if sys.stdin.isatty():
                loop.add_reader(sys.stdin.fileno(), self._key)
            try:
                self._paint()
                while not await self._ended(INTERVAL):
                    await self._ask()
                    self._paint()
            finally:
                if sys.stdin.isatty():
                    loop.remove_reader(sys.stdin.fileno())
        return self._code

    async def _ended(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._done.wait()
        except TimeoutError:
            return False

    async def _ask(self) -> None:
        try:
            told = await asyncio.to_thread(self._running.statistics)
        except TrunklineError as error:
            self._trouble, self._rate = str(error.args[0]), None
            return
        passed = told["seconds"] - self._told["seconds"]
        self._rate = max(told["calls"] - self._told["calls"], 0) / passed if passed > 0 else None
        self._told, self._trouble = told, ""

    def _paint(self) -> None:
        width, height = self._screen.size()
        # The last column stays free: a full line would move the cursor on some terminals, and not on others.
        where = f"{self._trouble} Last seen:" if self._trouble else _title(self._told, self._running)
        lines = board(self._told, self._rate, where, width - 1, height, self._style, scroll=self._scroll)
        self._screen.paint(lines)

    def _key(self) -> None:
        typed = os.read(sys.stdin.fileno(), 1024)
        if not typed or any(key in typed for key in _QUIT):
            self._end(0)
        for key, step in _SCROLL.items():
            self._scroll += step * typed.count(key)
        self._scroll = min(max(self._scroll, 0), 2 * len(self._told["servers"]) + len(self._told["tools"]))
        self._paint()

    def _end(self, code: int) -> None:
        self._code = code
        self._done.set()

    def _pause(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, until we are called back."""
        self._screen.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._screen.enter()
        self._paint()
