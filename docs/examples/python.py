"""The hub in Python: servers, calls, middleware of one's own, and questions answered by a handler."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from trunkline import (
    CallNext,
    Config,
    Elicitation,
    MiddlewareSection,
    ServerSpec,
    Tool,
    ToolContext,
    ToolResult,
    open_hub,
)


async def count(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
    result = await call_next()
    print(f"{tool.name} for {context.user or 'everyone'}: {'failed' if result.is_error else 'done'}")
    return result


async def agree(question: Elicitation) -> bool:
    print(f"asked: {question.message}")
    return True


async def main() -> None:
    folder = tempfile.mkdtemp()
    notes = ServerSpec("notes", command=sys.executable, args=("-m", "trunkline.demo.notes"), env={"DEMO_HOME": folder})
    config = Config(
        servers={"notes": notes}, middleware=MiddlewareSection(confirm="destructive"), home=Path(folder) / "home"
    )
    async with open_hub(config) as hub:
        await hub.ready(30)
        hub.use(count)
        hub.elicitation.register_handler(agree)
        print(", ".join(sorted(tool.shown for tool in await hub.tools())))
        await hub.call("add_note", {"title": "milk", "text": "two bottles"}, user="ana")
        print((await hub.call("read_note", {"title": "milk"}, user="ana")).text)
        await hub.call("delete_note", {"title": "milk"}, user="ana")


asyncio.run(main())
