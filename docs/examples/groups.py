"""Two databases as one group, one list of tools, and a call that survives a server's end."""

from __future__ import annotations

import asyncio
from collections import Counter

from trunkline import Annotations, MultiServerManager, ServerGroup, ServerInfo, ServerWeight, Tool
from trunkline.errors import UnreachableError

QUERY = Tool("query", "Ask the database", annotations=Annotations(read_only_hint=True))


async def main() -> None:
    manager = MultiServerManager(conflict_resolution="namespace")
    manager.add_server(ServerInfo("db-1", "First database", tools=[QUERY, Tool("search")]))
    manager.add_server(ServerInfo("db-2", "Second database", tools=[QUERY]))
    manager.add_server(ServerInfo("web", "The web", tools=[Tool("search")]))
    manager.create_group(
        ServerGroup(
            "databases",
            ["db-1", "db-2"],
            strategy="weighted",
            weights=[ServerWeight("db-1", 70), ServerWeight("db-2", 30)],
        )
    )
    print("tools:", [tool.name for tool in manager.get_unified_tools()])

    calls: Counter[str] = Counter()
    for _ in range(100):
        selection = manager.select_server("query", "databases")
        assert selection is not None
        with selection:
            calls[selection.server_id] += 1
    print("calls:", dict(calls))

    async def attempt(server_id: str) -> str:
        if server_id == "db-1":
            raise UnreachableError(f"Server {server_id!r} is down.")
        return f"answered by {server_id}"

    print([await manager.execute_tool("query", attempt, "databases") for _ in range(3)])

    print("healthy:", await manager.check_health(is_up))
    print("db-1:", manager.get_server_metrics("db-1"))


async def is_up(server_id: str) -> bool:
    return server_id != "db-1"


if __name__ == "__main__":
    asyncio.run(main())
