"""The terminal of `trunkline up`: servers as they come up, then one line that says how it goes, below all the rest."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from trunkline.cli.console import say
from trunkline.cli.screen import (
    CLEAR_BELOW,
    Style,
    columns_of,
    fit,
    in_front,
    quiet_keys,
    restore_keys,
    size_of,
    write_whole,
)
from trunkline.cli.top_view import counted, mark_of, tokens_saved
from trunkline.hub import Hub
from trunkline.model import DOWNLOADING, EMPTY_SNAPSHOT, Kind, ServerView, State
from trunkline.untrusted import printable

INTERVAL = 0.2
MOST_STARTING = 6
"""Servers that are shown while they start; of more, only the number is."""
MOST_NEWS, MINUTE = 6, 60.0
"""Lines about one server in a minute; one that comes and goes more often is told of when the minute is over."""


class News:
    """Which servers have another state than was told last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, State] = {}
        self._when: dict[str, list[float]] = {}
        self.held_back = False
        """There is more to tell when a minute is over."""

    def of(self, views: Sequence[ServerView]) -> list[ServerView]:
        """Those to tell of now; they count as told."""
        names = {view.name for view in views}
        self._told = {name: state for name, state in self._told.items() if name in names}
        changed = [view for view in views if view.state is not self._told.get(view.name) and self._counts(view)]
        found = [view for view in changed if self._may_tell(view.name)]
        self.held_back = len(found) < len(changed)
        self._told |= {view.name: view.state for view in found}
        return found

    def _counts(self, view: ServerView) -> bool:
        """That a server starts is no news, unless the first time, and it will take long."""
        return view.state is not State.STARTING or (view.reason == DOWNLOADING and view.name not in self._told)

    def _may_tell(self, server: str) -> bool:
        now = self._clock()
        recent = [when for when in self._when.get(server, []) if now - when < MINUTE]
        may = len(recent) < MOST_NEWS
        self._when[server] = [*recent, now] if may else recent
        return may


class Live(io.TextIOBase):
    """A stream that writes above the lines it keeps at the bottom."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._style = Style.of(stream, os.environ)
        self._shown: list[str] = []
        self._partial = ""
        self._news = News()
        self._modes: list[Any] | None = None
        self._closed = True

    def open(self) -> None:
        """Begin; what is typed meanwhile is not shown."""
        self._modes = quiet_keys(sys.stdin)
        self._closed = False

    def end(self) -> None:
        """Take the lines away, and have the terminal as it was; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        self.write("\n" if self._partial else "")
        self._give_back()

    def pause(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, until we are called back."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    # A stream, for all that is said meanwhile.

    def write(self, text: str) -> int:
        whole, newline, self._partial = (self._partial + text).rpartition("\n")
        if newline:
            self._put(f"{whole}\n", self._shown)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[reportIncompatibleVariableOverride] - a property will do
        return self._stream.encoding

    def fileno(self) -> int:
        return self._stream.fileno()

    # The lines below.

    def show(self, hub: Hub) -> None:
        """Tell of servers that settled, and bring the lines up to date."""
        if self._closed:
            return
        views = hub.servers()
        width = size_of(self._stream)[0] - 1
        news = "".join(
            f"{self._style.state(view.state, fit(described(view), width))}\n"
            for view in self._news.of(views)
            if view.state is not State.STARTING
        )
        lines = [self._style.state(State.STARTING, fit(line, width)) for line in starting(views)]
        lines.append(self._style.faint(status(hub, views, width)))
        if news or lines != self._shown:
            self._put(news, lines)

    def show_again(self, hub: Hub) -> None:
        """The window has another size, or is ours again: everything is painted anew."""
        self._shown = []
        self.show(hub)

    def _put(self, above: str, lines: list[str]) -> None:
        # The cursor waits where the lines begin, not where they end: wherever a window that is made narrower breaks
        # them, what lies below the cursor is ours.
        if self._closed or not in_front(self._stream):
            write_whole(self._stream, above)
            self._shown = []
            return
        if not self._shown:
            quiet_keys(sys.stdin)  # a shell that called us back may have had them shown
        back = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        block = "\n".join(lines) + f"{back}\r" if lines else ""
        write_whole(self._stream, f"\r{CLEAR_BELOW}{above}{block}")
        self._shown = lines

    def _give_back(self) -> None:
        if self._shown and in_front(self._stream):
            write_whole(self._stream, "\r" + CLEAR_BELOW)
        self._shown = []
        restore_keys(sys.stdin, self._modes)


def described(view: ServerView) -> str:
    """A server that settled, in a line."""
    number = len(view.lists[Kind.TOOL].items) if Kind.TOOL in view.lists else 0
    tools = f", {counted(number, 'tool')}" if view.state in (State.READY, State.DEGRADED) else ""
    return f"{mark_of(view.state)} {view.name} {view.state.value}{tools}{f': {view.reason}' if view.reason else ''}"


def starting(views: Sequence[ServerView]) -> list[str]:
    """A line for each server that is not up yet."""
    coming = [view for view in views if view.state is State.STARTING]
    if len(coming) > MOST_STARTING:
        downloads = sum(view.reason == DOWNLOADING for view in coming)
        more = f", {downloads} of them {DOWNLOADING}" if downloads else ""
        return [f"{mark_of(State.STARTING)} {len(coming)} servers starting{more}"]
    return [
        f"{mark_of(State.STARTING)} {view.name} starting{f': {DOWNLOADING}' if view.reason == DOWNLOADING else ''}"
        for view in coming
    ]


def status(hub: Hub, views: Sequence[ServerView], width: int) -> str:
    """How it goes, in one line; in a narrow window in fewer words."""
    total, saved = hub.relay.tallies.total(), hub.relay.savings.total().tokens
    ready, errors = (
        sum(view.state in (State.READY, State.DEGRADED) for view in views),
        total.failures + total.tool_errors,
    )
    long = [
        f"{ready} of {counted(len(views), 'server')} ready",
        counted(total.calls, "call"),
        counted(errors, "error"),
        *([tokens_saved(saved)] if saved else []),
    ]
    short = [f"{ready}/{len(views)} ready", *long[1:3], *([f"{saved:,} saved"] if saved else [])]
    text = " · ".join(long)
    return text if columns_of(text) <= width else fit(" · ".join(short), width)


async def follow(hub: Hub, live: Live) -> None:
    """Keep the lines up to date until this is cancelled; all that is said meanwhile goes above them."""
    loop = asyncio.get_running_loop()
    handlers: list[Any] = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
    before: list[Any] = [handler.setStream(live) for handler in handlers]
    loop.add_signal_handler(signal.SIGWINCH, live.show_again, hub)
    loop.add_signal_handler(signal.SIGCONT, live.show_again, hub)
    loop.add_signal_handler(signal.SIGTSTP, live.pause)
    try:
        with contextlib.redirect_stderr(live):
            live.open()
            while True:
                live.show(hub)
                await asyncio.sleep(INTERVAL)
    finally:
        live.end()
        for handler, stream in zip(handlers, before, strict=True):
            handler.setStream(stream or sys.stderr)
        for number in (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP):
            loop.remove_signal_handler(number)


async def follow_plainly(hub: Hub) -> None:
    """Where nobody looks: a line for each change of a server's state, until this is cancelled."""
    news, seen = News(), EMPTY_SNAPSHOT
    while True:
        if hub.snapshot is not seen or news.held_back:
            seen = hub.snapshot
            for view in news.of(hub.servers()):
                with contextlib.suppress(OSError):  # whoever read this is gone, but the gateway stays
                    say(printable(described(view)), server=view.name, state=view.state.value)
        await asyncio.sleep(INTERVAL)
