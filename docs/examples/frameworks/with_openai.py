"""A model of OpenAI's uses the tools of every server: `python with_openai.py "What do my notes say?"`."""

import asyncio
import sys
from typing import Any

from openai import AsyncOpenAI

from trunkline import open_hub


async def main(question: str) -> None:
    openai = AsyncOpenAI()
    items: list[Any] = [{"role": "user", "content": question}]
    async with open_hub() as hub:
        await hub.ready(30)
        tools: Any = await hub.tools(format="openai")
        while True:
            reply = await openai.responses.create(model="gpt-5.4", input=items, tools=tools)
            items += reply.output
            asked = [item for item in reply.output if item.type == "function_call"]
            if not asked:
                break
            print("calls:", *(f"{item.name} {item.arguments}" for item in asked))
            items += await asyncio.gather(*(hub.answer(item, format="openai") for item in asked))
    print(reply.output_text)


asyncio.run(main(sys.argv[1]))
