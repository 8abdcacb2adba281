"""Calls in batches: gathered by server, run side by side, equal reads run once."""

from __future__ import annotations

import asyncio

from trunkline import BatchRequest, BatchResult, RequestBatcher, ToolCallBatcher
from trunkline.call.batcher import BatchCompleted, FlushTriggered


async def run_batch(requests: list[BatchRequest]) -> list[BatchResult]:
    """Answers a whole batch in one go: say, one query for many users."""
    await asyncio.sleep(0.01)
    return [BatchResult(True, f"{request.tool} {request.args['id']}") for request in requests]


async def main() -> None:
    async with RequestBatcher(executor=run_batch, max_batch_size=10) as batcher:
        batcher.on(FlushTriggered, lambda event: print(f"  {event.server_id}: {event.reason}"))
        batcher.on(BatchCompleted, lambda event: print(f"  {event.batch_id}: {len(event.results)} results"))

        print("Two servers, three calls, two batches side by side:")
        print(
            *await asyncio.gather(
                batcher.add("user", {"id": 1}, "db"),
                batcher.add("user", {"id": 2}, "db"),
                batcher.add("order", {"id": 99}, "shop"),
            ),
            sep=", ",
        )

        print("Equal reads run once:")
        reads = (batcher.add("user", {"id": 7}, "db", read_only=True) for _ in range(5))
        print(*await asyncio.gather(*reads), sep=", ")

    async def call_tool(tool: str, args: object, server_id: str) -> str:
        return f"{tool} on {server_id}"

    async with ToolCallBatcher(tool_executor=call_tool) as tools:
        print("One call, at once:", await tools.execute("read_file", {"path": "/data.json"}, "files"))


asyncio.run(main())
