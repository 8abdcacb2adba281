"""Any model behind Chat Completions uses the tools of every server: `python with_openai_chat.py "Any notes?"`."""

import asyncio
import sys
from typing import Any

from openai import AsyncOpenAI

from trunkline import open_hub


async def main(question: str) -> None:
    openai = AsyncOpenAI()
    messages: list[Any] = [{"role": "user", "content": question}]
    async with open_hub() as hub:
        await hub.ready(30)
        tools: Any = await hub.tools(format="openai-chat")
        while True:
            reply = await openai.chat.completions.create(model="gpt-5.4", messages=messages, tools=tools)
            said = reply.choices[0].message
            messages.append(said)
            if not said.tool_calls:
                break
            print("calls:", *(f"{call.function.name} {call.function.arguments}" for call in said.tool_calls))
            messages += await asyncio.gather(*(hub.answer(call, format="openai-chat") for call in said.tool_calls))
    print(said.content)


asyncio.run(main(sys.argv[1]))
