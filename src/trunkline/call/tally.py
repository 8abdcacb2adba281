"""How calls went: counted for each server and each tool, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """The calls of one server or tool since the start."""

    calls: int = 0
    failures: int = 0
    """Calls that the server could not be had to answer."""
    tool_errors: int = 0
    """Answers that say the tool itself failed."""
    seconds: float = 0.0
    """Time spent on all of them."""
    latest: float = 0.0
    """Seconds that the last one took."""
    last_used: float = 0.0
    """On the clock of the one who counts."""

    @property
    def average(self) -> float:
        """Seconds for a call."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def success_rate(self) -> float:
        """Share of calls that ended well; 1 while there were none."""
        return 1 - (self.failures + self.tool_errors) / self.calls if self.calls else 1.0

    def count(self, seconds: float, now: float, *, failed: bool, tool_error: bool) -> None:
        """One more."""
        self.calls += 1
        self.seconds += seconds
        self.latest = seconds
        self.last_used = now
        if failed:
            self.failures += 1
        elif tool_error:
            self.tool_errors += 1


class Tallies:
    """Tallies by server, and by server and tool."""

    MOST_TOOLS = 100_000

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.servers: dict[str, Tally] = {}
        self.tools: dict[tuple[str, str], Tally] = {}

    def now(self) -> float:
        """The time, to be given back to `count`."""
        return self._clock()

    def count(self, server: str, tool: str, since: float, *, failed: bool, tool_error: bool) -> None:
        """A call to a server ended; `tool` is empty for what is no tool."""
        now = self._clock()
        tally = self.servers.get(server)
        if tally is None:
            tally = self.servers[server] = Tally()
        tally.count(now - since, now, failed=failed, tool_error=tool_error)
        if tool:
            key = server, tool
            tally = self.tools.get(key)
            if tally is None:
                if len(self.tools) >= self.MOST_TOOLS:
                    return
                tally = self.tools[key] = Tally()
            tally.count(now - since, now, failed=failed, tool_error=tool_error)

    def forget(self, server: str) -> None:
        """The server is gone."""
        self.servers.pop(server, None)
        for key in [key for key in self.tools if key[0] == server]:
            del self.tools[key]

    def tools_of(self, server: str) -> Mapping[str, Tally]:
        """The tallies of one server's tools."""
        return {tool: tally for (owner, tool), tally in self.tools.items() if owner == server}
