"""Gemini uses the tools of every server: `python with_google.py "What do my notes say?"`."""

import asyncio
import sys
from typing import Any

from google import genai

from trunkline import open_hub


async def main(question: str) -> None:
    contents: list[Any] = [{"role": "user", "parts": [{"text": question}]}]
    async with open_hub() as hub, genai.Client().aio as gemini:
        await hub.ready(30)
        config: Any = {"tools": [{"function_declarations": await hub.tools(format="gemini")}]}
        while True:
            reply = await gemini.models.generate_content(model="gemini-3.8-flash", contents=contents, config=config)
            asked = reply.function_calls
            if not asked:
                break
            print("calls:", *(f"{call.name} {call.args}" for call in asked))
            contents.append(reply.candidates[0].content)
            answers = await asyncio.gather(*(hub.answer(call, format="gemini") for call in asked))
            contents.append({"role": "user", "parts": answers})
    print(reply.text)


asyncio.run(main(sys.argv[1]))
