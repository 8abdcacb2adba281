"""Claude uses the tools of every server: `python with_anthropic.py "What do my notes say?"`."""

import asyncio
import sys
from typing import Any

from anthropic import AsyncAnthropic

from trunkline import open_hub


async def main(question: str) -> None:
    claude = AsyncAnthropic()
    messages: list[Any] = [{"role": "user", "content": question}]
    async with open_hub() as hub:
        await hub.ready(30)
        tools: Any = await hub.tools(format="anthropic")
        while True:
            reply = await claude.messages.create(
                model="claude-sonnet-5-5", max_tokens=4096, messages=messages, tools=tools
            )
            messages.append({"role": "assistant", "content": reply.content})
            asked = [block for block in reply.content if block.type == "tool_use"]
            if not asked:
                break
            print("calls:", *(f"{block.name} {block.input}" for block in asked))
            answers = await asyncio.gather(*(hub.answer(block, format="anthropic") for block in asked))
            messages.append({"role": "user", "content": answers})
    print("".join(block.text for block in reply.content if block.type == "text"))


asyncio.run(main(sys.argv[1]))
