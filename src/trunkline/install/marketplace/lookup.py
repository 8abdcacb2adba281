"""Looks up the address of a host without making anybody wait who has given up."""

from __future__ import annotations

import asyncio
import socket
import threading

from trunkline.errors import UnreachableError


async def look_up(host: str, port: int) -> None:
    """Return once the host has an address; UnreachableError when it has none.

    A lookup cannot be called off. The event loop's own would keep the program from ending for as long as it takes,
    which is many seconds where no name server answers; a thread that nobody owns keeps nobody.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[str] = loop.create_future()

    def finish(problem: str) -> None:
        if not found.done():
            found.set_result(problem)

    def work() -> None:
        problem = ""
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        try:
            loop.call_soon_threadsafe(finish, problem)
        except RuntimeError:
            pass  # the loop has ended in the meantime

    threading.Thread(target=work, name="look up", daemon=True).start()
    problem = await found
    if problem:
        raise UnreachableError(f"{host} cannot be reached: {problem}")
