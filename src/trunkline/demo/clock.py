"""A clock: what time it is, how long until then, and a countdown that reports its progress."""

from __future__ import annotations

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("clock", instructions="Tells the time.", version="1.0.0")
READS = ToolAnnotations(read_only_hint=True)


def _now(zone: str) -> datetime:
    try:
        return datetime.now(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        raise ToolError(f"There is no time zone {zone!r}. Write it like Europe/Oslo.") from None


@server.tool(annotations=READS)
def now(zone: str = "UTC") -> str:
    """The time in a time zone."""
    return _now(zone).isoformat(timespec="seconds")


@server.tool(annotations=READS)
def until(moment: str, zone: str = "UTC") -> str:
    """How long it is until a moment, such as 2030-01-01T00:00."""
    then = datetime.fromisoformat(moment)
    if then.tzinfo is None:
        then = then.replace(tzinfo=ZoneInfo(zone))
    return str(then - _now(zone)).partition(".")[0]


@server.tool(annotations=READS)
async def countdown(seconds: int, ctx: Context) -> str:
    """Count down, at most a minute, and report every step."""
    seconds = max(0, min(seconds, 60))
    for passed in range(seconds):
        await ctx.report_progress(passed, seconds, f"{seconds - passed} left")
        await asyncio.sleep(1)
    return "Lift-off."


if __name__ == "__main__":
    server.run("stdio")
