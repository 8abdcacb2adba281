"""A server of one's own as a program, with tools that print, hang and ask; `python noisy_server.py stdio|http`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from trunkline import ToolServer, ask


class Noisy(ToolServer):
    async def on_stop(self) -> None:
        Path(sys.argv[2]).write_text("stopped", encoding="utf-8")  # noqa: ASYNC240 - a program that ends


server = Noisy("noisy", "Makes noise.")


@server.tool
def shout() -> str:
    """Prints, and has a child that prints."""
    print("to standard output")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return "done"


@server.tool
def listen() -> str:
    """Reads standard input, where nothing is for a tool."""
    return repr(sys.stdin.read())


@server.tool
def hang() -> None:
    """Never ends, and does not look whether it should."""
    threading.Event().wait()


@server.tool
async def greet() -> str:
    """Asks for a name."""
    return f"Hello {(await ask('Who are you?', name=str)).get('name')}."


if __name__ == "__main__":
    server.run("http" if sys.argv[1] == "http" else "stdio", port=0)
